// Memory of the devices and pinned host memory.  Every block lies between red zones, holds 0xA5 until it is written, and
// again when it has been freed; both happen when the stream gets there.  No address is given twice by different states of the
// machine, nor twice for pinned memory: what a machine of an earlier state frees late is no block of this state.
#pragma once
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>

#include <sys/mman.h>

#include "gpu.hpp"

namespace memory {

constexpr uint64_t ALIGNMENT = 512, ZONE = 512, PAGE = 4096, REGION = uint64_t(1) << 36, HOST_REGION = uint64_t(1) << 40;
constexpr unsigned char POISON = 0xA5, RED = 0x5C;

inline uint64_t rounded(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

inline bool holds(const void* from, unsigned char byte, uint64_t n) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  return n == 0 || (bytes[0] == byte && memcmp(bytes, bytes + 1, n - 1) == 0);
}

struct Pool {
  int device;
  uint64_t threshold = 0, used = 0, reserved = 0;  // bytes
  uint64_t going = 0;  // freed, but the stream is not there yet: only a later allocation on it may have them
  bool destroyed = false;
};

struct Block {  // of the device; `whole` counts the zones, `bytes` is what was asked for
  uint64_t address, bytes, whole;
  std::shared_ptr<Pool> pool;
  int device;
  bool ready;  // its stream has got to the allocation: the zones are there
  bool fresh;  // never used before
  uint64_t start() const { return address - ZONE; }
};

struct Free {
  uint64_t whole;
  uint64_t stream, ticket;  // until the freeing has run, only its stream may have it again; 0: it has run
  bool fresh;
};

struct Device {
  char* region = nullptr;
  uint64_t next = 0;               // what of the region was never used begins here
  std::map<uint64_t, Free> free;   // by address
  std::set<std::shared_ptr<Pool>> pools;
  uint64_t reserved() const {
    uint64_t sum = 0;
    for (auto& pool : pools) sum += pool->reserved;
    return sum;
  }
};

struct HostBlock {
  uint64_t bytes, whole;
  bool live;
};

struct State {
  std::map<int, Device> devices;
  std::map<uint64_t, std::shared_ptr<Block>> live;   // as the host sees it: allocated, not yet freed
  std::map<uint64_t, std::shared_ptr<Block>> ready;  // as the device sees it
  std::map<uint64_t, HostBlock> host;
  std::list<uint64_t> quarantine;
  uint64_t tickets = 0;
};

inline State& state() {
  static auto* all = new State;
  return *all;
}

// Addresses of so many bytes, which take memory when they are written; or null.
inline char* addresses(uint64_t bytes) {
  void* region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return region == MAP_FAILED ? nullptr : static_cast<char*>(region);
}

inline Device& device(int ordinal) {
  Device& found = state().devices[ordinal];
  if (!found.region) found.region = addresses(REGION);
  return found;
}

// The place of pinned memory of `whole` bytes, in pages that were never used before; 0: there is none.
inline uint64_t unused_pages(uint64_t whole) {
  static char* region = addresses(HOST_REGION);
  static uint64_t next = 0;
  if (!region || next + whole > HOST_REGION) return 0;
  next += whole;
  return uint64_t(region) + next - whole;
}

// Gives the memory of pages back; their addresses stay taken, and whoever uses them ends the process.
inline void give_back(uint64_t start, uint64_t whole) {
  madvise(reinterpret_cast<void*>(start), whole, MADV_DONTNEED);
  mprotect(reinterpret_cast<void*>(start), whole, PROT_NONE);
}

// The live block that [address, address + n) lies in, or null.
inline std::shared_ptr<Block> block_of(uint64_t address, uint64_t n) {
  auto after = state().live.upper_bound(address);
  if (after == state().live.begin()) return nullptr;
  auto& block = std::prev(after)->second;
  return address + n <= block->address + block->bytes && address + n >= address ? block : nullptr;
}

inline bool is_pinned(uint64_t address, uint64_t n) {
  auto after = state().host.upper_bound(address);
  if (after == state().host.begin()) return false;
  auto& [start, block] = *std::prev(after);
  return block.live && address + n <= start + block.bytes;
}

inline bool is_known(uint64_t address, uint64_t n) { return n == 0 || block_of(address, n) || is_pinned(address, n); }

// The block that [address, address + n) lies in, for what runs on the device now; or null.
inline const Block* ready_block_of(uint64_t address, uint64_t n) {
  auto after = state().ready.upper_bound(address);
  if (after == state().ready.begin()) return nullptr;
  auto& block = std::prev(after)->second;
  return address + n <= block->address + block->bytes && address + n >= address ? block.get() : nullptr;
}

inline bool is_ready(uint64_t address, uint64_t n) { return n == 0 || is_pinned(address, n) || ready_block_of(address, n); }

inline std::string described(uint64_t address, uint64_t bytes) {
  char text[80];
  snprintf(text, sizeof text, "the block of %llu bytes at 0x%llx", (unsigned long long)bytes, (unsigned long long)address);
  return text;
}

inline void mark_zones(const Block& block) {
  auto* start = reinterpret_cast<char*>(block.start());
  memset(start, RED, ZONE);
  memset(start + ZONE + block.bytes, RED, block.whole - ZONE - block.bytes);
}

inline bool zones_hold(const Block& block) {
  auto* start = reinterpret_cast<char*>(block.start());
  return holds(start, RED, ZONE) && holds(start + ZONE + block.bytes, RED, block.whole - ZONE - block.bytes);
}

// Finds writes outside of any block since the last look.  Poisons the machine, or does nothing.
inline void check_zones(const std::string& who) {
  for (auto& [address, block] : state().ready) {
    if (zones_hold(*block)) continue;
    gpu::poison(gpu::ILLEGAL_ADDRESS, who + ": a write outside of " + described(address, block->bytes));
    mark_zones(*block);
  }
}

inline void merge(Device& device) {  // neighbours whose freeing has run become one
  for (auto it = device.free.begin(); it != device.free.end();) {
    auto next = std::next(it);
    if (next != device.free.end() && it->first + it->second.whole == next->first && !it->second.ticket && !next->second.ticket) {
      it->second.whole += next->second.whole;
      device.free.erase(next);
    } else {
      ++it;
    }
  }
}

// A place for `whole` bytes that `stream` may use at once, or 0.
inline uint64_t take(Device& device, uint64_t whole, uint64_t stream) {
  auto best = device.free.end();
  for (auto it = device.free.begin(); it != device.free.end(); ++it) {
    bool usable = it->second.ticket == 0 || it->second.stream == stream;
    if (usable && it->second.whole >= whole && (best == device.free.end() || it->second.whole < best->second.whole)) best = it;
  }
  if (best != device.free.end()) {
    uint64_t address = best->first;
    Free rest = best->second;
    device.free.erase(best);
    rest.whole -= whole;
    if (rest.whole) device.free[address + whole] = rest;
    return address;
  }
  if (!device.region || device.next + whole > REGION) return 0;
  uint64_t address = uint64_t(device.region) + device.next;
  device.next += whole;
  return address;
}

using Enqueue = std::function<void(std::function<void()>)>;

inline void make_ready(const std::shared_ptr<Block>& block) {
  auto* start = reinterpret_cast<char*>(block->start());
  if (!block->fresh && !holds(start, POISON, block->whole))
    gpu::poison(gpu::ILLEGAL_ADDRESS, "a write to freed memory: where now is " + described(block->address, block->bytes));
  memset(start, POISON, block->whole);
  mark_zones(*block);
  block->ready = true;
  state().ready[block->address] = block;
}

inline int allocate(uint64_t* out, uint64_t bytes, const std::shared_ptr<Pool>& pool, uint64_t stream, const Enqueue& enqueue) {
  if (bytes == 0) return gpu::failed(gpu::INVALID_VALUE, "an allocation of 0 bytes");
  if (gpu::is_due("fail_allocation")) return gpu::failed(gpu::OUT_OF_MEMORY, "this allocation was to fail");
  Device& on = device(pool->device);
  uint64_t size = rounded(bytes), total = uint64_t(gpu::setting("memory"));
  uint64_t grown = std::max(pool->reserved, pool->used + size);
  if (size < bytes || size > total || on.reserved() - pool->reserved + grown > total)
    return gpu::failed(gpu::OUT_OF_MEMORY, "the device has no " + std::to_string(bytes) + " bytes left");
  uint64_t before = on.next, start = take(on, size + 2 * ZONE, stream);
  if (!start) return gpu::failed(gpu::OUT_OF_MEMORY, "the emulator's region is full");
  pool->used += size;
  pool->reserved = grown;
  bool fresh = on.next != before;
  auto block = std::make_shared<Block>(Block{start + ZONE, bytes, size + 2 * ZONE, pool, pool->device, false, fresh});
  state().live[block->address] = block;
  enqueue([block] { make_ready(block); });
  *out = block->address;
  return gpu::SUCCESS;
}

inline void release(const std::shared_ptr<Block>& block, uint64_t ticket) {
  block->pool->going -= rounded(block->bytes);
  auto* start = reinterpret_cast<char*>(block->start());
  if (block->ready && !zones_hold(*block))
    gpu::poison(gpu::ILLEGAL_ADDRESS, "a write outside of " + described(block->address, block->bytes));
  memset(start, POISON, block->whole);
  auto found = state().ready.find(block->address);
  if (found != state().ready.end() && found->second == block) state().ready.erase(found);
  Device& on = device(block->device);
  for (auto& [address, free] : on.free)
    if (free.ticket == ticket) free.ticket = 0;
  merge(on);
}

// A destroyed pool goes when the last of its blocks has been freed.
inline void close(const std::shared_ptr<Pool>& pool) {
  pool->destroyed = true;
  pool->reserved = pool->used;
  if (!pool->used) device(pool->device).pools.erase(pool);
}

inline int free_block(uint64_t address, uint64_t stream, const Enqueue& enqueue) {
  auto found = state().live.find(address);
  if (found == state().live.end()) return gpu::failed(gpu::INVALID_VALUE, "what is freed is no block");
  auto block = found->second;
  state().live.erase(found);
  uint64_t ticket = ++state().tickets;
  device(block->device).free[block->start()] = {block->whole, stream, ticket, false};
  block->pool->used -= rounded(block->bytes);
  block->pool->going += rounded(block->bytes);
  if (block->pool->destroyed) close(block->pool);
  enqueue([block, ticket] { release(block, ticket); });
  return gpu::SUCCESS;
}

// Gives back what a pool holds beyond so many bytes and does not need.
inline void trim(Pool& pool, uint64_t least) {
  pool.reserved = std::min(pool.reserved, std::max(pool.used + pool.going, least));
}

// A synchronisation lets pools give back what they hold beyond their threshold.
inline void trim_pools() {
  for (auto& [ordinal, device] : state().devices)
    for (auto& pool : device.pools) trim(*pool, pool->threshold);
}

inline int allocate_host(uint64_t* out, uint64_t bytes) {
  if (bytes == 0) return gpu::failed(gpu::INVALID_VALUE, "an allocation of 0 bytes");
  if (gpu::is_due("fail_host_allocation")) return gpu::failed(gpu::OUT_OF_MEMORY, "this allocation was to fail");
  uint64_t whole = (ZONE * 2 + rounded(bytes) + PAGE - 1) / PAGE * PAGE, start = unused_pages(whole);
  if (!start) return gpu::failed(gpu::OUT_OF_MEMORY, "the host has no memory left");
  memset(reinterpret_cast<void*>(start), RED, whole);
  *out = start + ZONE;
  memset(reinterpret_cast<void*>(*out), POISON, bytes);
  state().host[*out] = {bytes, whole, true};
  return gpu::SUCCESS;
}

// Freed host memory stays poisoned for a while, so that a late write does not end the process.
inline int free_host(uint64_t address) {
  auto found = state().host.find(address);
  if (found == state().host.end() || !found->second.live) return gpu::failed(gpu::INVALID_VALUE, "what is freed is no block");
  HostBlock& block = found->second;
  auto* start = reinterpret_cast<char*>(address - ZONE);
  if (!holds(start, RED, ZONE) || !holds(start + ZONE + block.bytes, RED, block.whole - ZONE - block.bytes))
    gpu::poison(gpu::ILLEGAL_ADDRESS, "a write outside of " + described(address, block.bytes) + " of the host");
  memset(start, POISON, block.whole);
  block.live = false;
  state().quarantine.push_back(address);
  while (state().quarantine.size() > 64) {
    uint64_t oldest = state().quarantine.front();
    state().quarantine.pop_front();
    give_back(oldest - ZONE, state().host[oldest].whole);
    state().host.erase(oldest);
  }
  return gpu::SUCCESS;
}

// Forgets all blocks.  The devices' addresses go on behind those that were given.
inline void reset() {
  std::map<int, Device> devices;
  for (auto& [ordinal, device] : state().devices) {
    if (!device.region) continue;
    uint64_t used = (device.next + PAGE - 1) / PAGE * PAGE;
    madvise(device.region, used, MADV_DONTNEED);
    if (used > REGION / 2) continue;  // the next state has another region
    devices[ordinal].region = device.region;
    devices[ordinal].next = used;
  }
  for (auto& [address, block] : state().host) give_back(address - ZONE, block.whole);
  state() = State{};
  state().devices = std::move(devices);
}

}  // namespace memory
