// The functions of the driver for memory: pools, pinned memory of the host, copies and fills.
#pragma once
#include "handles.hpp"

namespace {

struct PoolProperties {  // CUmemPoolProps
  int allocation_type, handle_types, location_type, location_id;
};

memory::Enqueue onto(const shared_ptr<Stream>& stream) {
  return [stream](streams::Action act) { streams::enqueue(*stream, std::move(act)); };
}

}  // namespace

API int cuMemPoolCreate(void** out, const PoolProperties* properties) {
  ENTER_UNSAFE("cuMemPoolCreate");
  if (properties->allocation_type != 1 || properties->location_type != 1 || !is_device(properties->location_id))
    return failed(INVALID_VALUE, "a pool holds pinned allocations (1) of a device (1) that exists");
  auto pool = std::make_shared<memory::Pool>();
  pool->device = properties->location_id;
  memory::device(pool->device).pools.insert(pool);
  *out = reinterpret_cast<void*>(keep(driver().pools, pool));
  return SUCCESS;
}

API int cuMemPoolDestroy(void* handle) {
  ENTER_UNSAFE("cuMemPoolDestroy");
  FIND(memory::Pool, pool, pools, handle, "pool");
  memory::close(pool);
  driver().pools.erase(uint64_t(handle));
  return SUCCESS;
}

API int cuMemPoolSetAttribute(void* handle, int attribute, void* value) {
  ENTER("cuMemPoolSetAttribute", CONTEXT);
  FIND(memory::Pool, pool, pools, handle, "pool");
  if (attribute == 4) memcpy(&pool->threshold, value, 8);
  else if (attribute < 1 || attribute > 8) return failed(INVALID_VALUE, "a pool has no such attribute");
  return SUCCESS;
}

API int cuMemPoolTrimTo(void* handle, size_t least) {
  ENTER_UNSAFE("cuMemPoolTrimTo");
  FIND(memory::Pool, pool, pools, handle, "pool");
  memory::trim(*pool, least);
  return SUCCESS;
}

API int cuMemAllocFromPoolAsync(uint64_t* out, size_t bytes, void* pool_handle, void* stream_handle) {
  ENTER("cuMemAllocFromPoolAsync", CONTEXT);
  FIND(memory::Pool, pool, pools, pool_handle, "pool");
  FIND(Stream, stream, streams, stream_handle, "stream");
  if (int error = streams::refuse_in_capture(*stream, "an allocation")) return error;
  return memory::allocate(out, bytes, pool, stream->handle, onto(stream));
}

API int cuMemFreeAsync(uint64_t address, void* stream_handle) {
  ENTER("cuMemFreeAsync", CONTEXT);
  FIND(Stream, stream, streams, stream_handle, "stream");
  if (int error = streams::refuse_in_capture(*stream, "freeing memory")) return error;
  return memory::free_block(address, stream->handle, onto(stream));
}

API int cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  ENTER_UNSAFE("cuMemHostAlloc");
  if (flags > 7) return failed(INVALID_VALUE, "pinned memory has no such flags");
  return memory::allocate_host(reinterpret_cast<uint64_t*>(out), bytes);
}

API int cuMemFreeHost(void* address) {
  ENTER_UNSAFE("cuMemFreeHost");
  return memory::free_host(uint64_t(address));
}

// Knows the memory type (2): 1 of pinned memory, 2 of a device's, 0 of what it has never heard of.
API int cuPointerGetAttributes(unsigned n, const int* attributes, void** places, uint64_t address) {
  ENTER("cuPointerGetAttributes", CONTEXT);
  for (unsigned i = 0; i < n; ++i) {
    if (attributes[i] != 2) return failed(INVALID_VALUE, "the emulated GPU knows only the type of memory");
    *static_cast<unsigned*>(places[i]) = memory::is_pinned(address, 1) ? 1 : memory::block_of(address, 1) ? 2 : 0;
  }
  return SUCCESS;
}

namespace {

int unknown_memory(const char* function, uint64_t address, size_t n) {
  char text[160];
  snprintf(text, sizeof text, "%s: %zu bytes at 0x%llx are not within one block of the device", function, n,
           (unsigned long long)address);
  return failed(INVALID_VALUE, text);
}

struct Span {
  uint64_t address;
  size_t bytes;
};

// Enqueues a copy or a fill, which runs if all that it touches is still (or already) there when its time has come.
int enqueue_move(Stream& stream, const char* what, std::vector<Span> spans, std::function<void()> act) {
  return streams::enqueue(stream, [=] {
    for (const Span& span : spans)
      if (!memory::is_ready(span.address, span.bytes))
        return poison(ILLEGAL_ADDRESS, std::string(what) + ": the memory is not there when the copy runs: freed before, or not yet allocated");
    act();
  });
}

}  // namespace

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* source, size_t n, void* stream_handle) {
  ENTER("cuMemcpyHtoDAsync", CONTEXT);
  FIND(Stream, stream, streams, stream_handle, "stream");
  if (!memory::is_known(to, n)) return unknown_memory("cuMemcpyHtoDAsync", to, n);
  if (n == 0) return SUCCESS;
  uint64_t from = uint64_t(source);
  auto* target = reinterpret_cast<void*>(to);
  if (memory::is_pinned(from, n))
    return enqueue_move(*stream, "cuMemcpyHtoDAsync", {{to, n}, {from, n}}, [=] { memcpy(target, source, n); });
  if (int error = streams::refuse_in_capture(*stream, "a copy from pageable memory")) return error;
  auto bytes = std::make_shared<std::string>(static_cast<const char*>(source), n);
  return enqueue_move(*stream, "cuMemcpyHtoDAsync", {{to, n}}, [=] { memcpy(target, bytes->data(), n); });
}

API int cuMemcpyDtoHAsync_v2(void* to, uint64_t source, size_t n, void* stream_handle) {
  ENTER("cuMemcpyDtoHAsync", CONTEXT);
  FIND(Stream, stream, streams, stream_handle, "stream");
  if (!memory::is_known(source, n)) return unknown_memory("cuMemcpyDtoHAsync", source, n);
  if (gpu::is_due("fail_copy_to_host")) {
    poison(ILLEGAL_ADDRESS, "this copy was to fail");
    return state().poison;
  }
  if (n == 0) return SUCCESS;
  std::vector<Span> spans = {{source, n}};
  if (memory::is_pinned(uint64_t(to), n)) spans.push_back({uint64_t(to), n});
  else if (int error = streams::refuse_in_capture(*stream, "a copy to pageable memory")) return error;
  return enqueue_move(*stream, "cuMemcpyDtoHAsync", spans, [=] { memcpy(to, reinterpret_cast<void*>(source), n); });
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t source, size_t n, void* stream_handle) {
  ENTER("cuMemcpyDtoDAsync", CONTEXT);
  FIND(Stream, stream, streams, stream_handle, "stream");
  if (!memory::is_known(to, n)) return unknown_memory("cuMemcpyDtoDAsync", to, n);
  if (!memory::is_known(source, n)) return unknown_memory("cuMemcpyDtoDAsync", source, n);
  if (n == 0) return SUCCESS;
  return enqueue_move(*stream, "cuMemcpyDtoDAsync", {{to, n}, {source, n}},
                      [=] { memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(source), n); });
}

API int cuMemsetD8Async(uint64_t address, unsigned char byte, size_t n, void* stream_handle) {
  ENTER("cuMemsetD8Async", CONTEXT);
  FIND(Stream, stream, streams, stream_handle, "stream");
  if (!memory::is_known(address, n)) return unknown_memory("cuMemsetD8Async", address, n);
  if (n == 0) return SUCCESS;
  return enqueue_move(*stream, "cuMemsetD8Async", {{address, n}}, [=] { memset(reinterpret_cast<void*>(address), byte, n); });
}
