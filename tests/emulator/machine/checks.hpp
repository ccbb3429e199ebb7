// Looks at every access of a kernel that was compiled to be checked: is the memory there, and, in shared memory, do two
// threads use the same byte, one of them writing, with no barrier in between?
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "memory.hpp"

namespace checks {

struct Range {
  uint64_t start = 0, end = 0;
  bool holds(uint64_t address, uint64_t n) const { return address >= start && address + n <= end; }
};

struct Byte {  // who used it last; epochs count the barriers of the block, and those of the warp
  uint32_t written = 0, written_in_warp = 0, read = 0, read_in_warp = 0;
  uint16_t writer = 0, reader = 0;
  bool by_atomic = false, several = false, several_warps = false;
};

struct State {
  Range dynamic, beyond, fixed, last;  // of shared memory; of the block that was used last
  std::vector<Range> module;
  std::vector<Byte> bytes;
};

inline State state;

// Before a launch: where shared memory and the module's own variables are.
inline void watch(Range dynamic, Range all_dynamic, Range fixed, std::vector<Range> module) {
  state.dynamic = dynamic;
  state.beyond = {dynamic.end, all_dynamic.end};
  state.fixed = fixed;
  state.module = std::move(module);
  state.last = {};
  state.bytes.assign(dynamic.end - dynamic.start + fixed.end - fixed.start, Byte{});
}

[[noreturn]] inline void race(const char* does, unsigned other, const char* did) {
  char text[160];
  snprintf(text, sizeof text, "a race in shared memory: this thread %s what thread number %u of the block has %s since the last barrier",
           does, other, did);
  blocks::stop(719, text);
}

inline void touch(Byte& byte, int kind) {
  auto me = uint16_t(blocks::running.current);
  uint32_t epoch = blocks::running.epoch, in_warp = blocks::running.warp_epochs[me / 32];
  auto ordered = [&](uint16_t other, uint32_t then) { return other / 32 == me / 32 && then < in_warp; };
  bool writes = kind != ACCESS_READ;
  bool both_atomic = kind == ACCESS_ATOMIC && byte.by_atomic;
  if (byte.written == epoch && byte.writer != me && !both_atomic && !ordered(byte.writer, byte.written_in_warp))
    race(writes ? "writes" : "reads", byte.writer, "written");
  if (writes && byte.read == epoch) {
    bool by_others = byte.several_warps || ((byte.reader != me || byte.several) && !ordered(byte.reader, byte.read_in_warp));
    if (by_others) race("writes", byte.reader, "read");
  }
  if (writes) {
    byte.written = epoch;
    byte.written_in_warp = in_warp;
    byte.writer = me;
    byte.by_atomic = kind == ACCESS_ATOMIC;
    return;
  }
  bool first = byte.read != epoch;
  byte.several_warps = !first && (byte.several_warps || byte.reader / 32 != me / 32);
  byte.several = !first && byte.read_in_warp == in_warp && (byte.several || byte.reader != me);
  byte.read = epoch;
  byte.read_in_warp = in_warp;
  byte.reader = me;
}

inline void touch(uint64_t first, uint64_t n, int kind) {
  for (uint64_t i = 0; i < n; ++i) touch(state.bytes[first + i], kind);
}

inline bool is_allowed(uint64_t address, uint64_t n, int kind) {
  for (const Range& range : state.module)
    if (range.holds(address, n)) return true;
  if (auto block = memory::ready_block_of(address, n)) {
    state.last = {block->address, block->address + block->bytes};
    return true;
  }
  if (memory::is_pinned(address, n)) {
    if (kind == ACCESS_ATOMIC) ++gpu::state().counts["bus_atomics"];
    return true;
  }
  return gpu::setting("eager") != 0;  // then arrays of the host stand in for the GPU's
}

inline void access_hook(const void* pointer, unsigned long n, int kind) {
  if (!blocks::in_kernel) return;
  auto address = uint64_t(pointer);
  const blocks::Fiber* fiber = blocks::running.threads[blocks::running.current].fiber;
  auto stack = uint64_t(fiber->stack);
  if (state.last.holds(address, n) || Range{stack, stack + blocks::STACK_BYTES}.holds(address, n)) return;
  if (state.dynamic.holds(address, n)) return touch(address - state.dynamic.start, n, kind);
  if (state.fixed.holds(address, n)) return touch(address - state.fixed.start + state.dynamic.end - state.dynamic.start, n, kind);
  if (is_allowed(address, n, kind)) return;
  char text[200];
  const char* where = address >= state.beyond.start && address < state.beyond.end ? "behind the dynamic shared memory of the launch"
                                                                                  : "in no block that is there now";
  snprintf(text, sizeof text, "%s of %lu bytes at %p, %s", kind == ACCESS_READ ? "a read" : "a write", n, pointer, where);
  blocks::stop(700, text);
}

}  // namespace checks
