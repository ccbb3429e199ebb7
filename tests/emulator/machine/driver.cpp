// The emulated CUDA driver: the functions of the driver API that the machine calls, with their real signatures.
// It is stricter than a real one where that finds mistakes: a stream is always named, memory is poisoned, nothing runs
// before somebody waits for it.
#include "cublas_calls.hpp"
#include "cublas_lt_calls.hpp"
#include "cudnn_calls.hpp"
#include "handles.hpp"
#include "kernel_calls.hpp"
#include "memory_calls.hpp"
#include "questions.hpp"

// ---- the driver and its devices ----

API int cuInit(unsigned flags) {
  ENTER("cuInit", NOTHING);
  if (state().initialized && state().process != getpid())
    return failed(NOT_INITIALIZED, "this process was forked from one that called cuInit");
  if (flags) return failed(INVALID_VALUE, "cuInit takes 0");
  if (setting("no_device") || setting("devices") < 1) return failed(NO_DEVICE, "there is no device");
  state().initialized = true;
  state().process = getpid();
  return SUCCESS;
}

API int cuDriverGetVersion(int* out) {
  ENTER("cuDriverGetVersion", NOTHING);
  *out = int(setting("driver_version"));
  return SUCCESS;
}

API int cuGetErrorName(int error, const char** out) {
  ENTER("cuGetErrorName", NOTHING);
  auto found = names().find(error);
  *out = found == names().end() ? nullptr : found->second.symbol;
  return *out ? SUCCESS : INVALID_VALUE;
}

API int cuGetErrorString(int error, const char** out) {
  ENTER("cuGetErrorString", NOTHING);
  auto found = names().find(error);
  *out = found == names().end() ? nullptr : found->second.meaning;
  return *out ? SUCCESS : INVALID_VALUE;
}

API int cuDeviceGetCount(int* out) {
  ENTER("cuDeviceGetCount", INITIALIZED);
  *out = int(setting("devices"));
  return SUCCESS;
}

API int cuDeviceGet(int* out, int ordinal) {
  ENTER("cuDeviceGet", INITIALIZED);
  if (!is_device(ordinal)) return failed(INVALID_DEVICE, "there is no such device");
  *out = ordinal;
  return SUCCESS;
}

API int cuDeviceGetName(char* chars, int length, int device) {
  ENTER("cuDeviceGetName", INITIALIZED);
  if (!is_device(device)) return failed(INVALID_DEVICE, "there is no such device");
  snprintf(chars, size_t(length), "emulated GPU %d", device);
  return SUCCESS;
}

API int cuDeviceGetAttribute(int* out, int attribute, int device) {
  ENTER("cuDeviceGetAttribute", INITIALIZED);
  if (!is_device(device)) return failed(INVALID_DEVICE, "there is no such device");
  static const std::map<int, int> values = {
      {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536},
      {10, 32}, {12, 65536}, {13, 1980000}, {15, 1}, {16, 132}, {17, 0}, {18, 0}, {19, 1}, {20, 0}, {31, 1}, {32, 0},
      {36, 2619000}, {37, 5120}, {38, 52428800}, {39, 2048}, {40, 3}, {41, 1}, {81, 233472}, {82, 65536}, {83, 1},
      {89, 1}, {97, 232448}, {106, 32}, {115, 1},
  };
  if (attribute == 75) *out = int(setting("compute_capability") / 10);
  else if (attribute == 76) *out = int(setting("compute_capability") % 10);
  else if (values.count(attribute)) *out = values.at(attribute);
  else return failed(INVALID_VALUE, "the emulated GPU does not know this attribute");
  return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t* out, int device) {
  ENTER("cuDeviceTotalMem", INITIALIZED);
  if (!is_device(device)) return failed(INVALID_DEVICE, "there is no such device");
  *out = size_t(setting("memory"));
  return SUCCESS;
}

// ---- contexts ----

API int cuDevicePrimaryCtxRetain(void** out, int device) {
  ENTER("cuDevicePrimaryCtxRetain", INITIALIZED);
  if (!is_device(device)) return failed(INVALID_DEVICE, "there is no such device");
  if (state().poison) return state().poison;
  ++driver().contexts[device];
  *out = reinterpret_cast<void*>(FIRST_CONTEXT + uint64_t(device) * 16);
  return SUCCESS;
}

API int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER("cuDevicePrimaryCtxRelease", INITIALIZED);
  if (!is_device(device) || driver().contexts[device] == 0) return failed(INVALID_CONTEXT, "the context is not retained");
  if (--driver().contexts[device] == 0)
    for (auto it = driver().streams.begin(); it != driver().streams.end();)
      it = it->second->device == device ? driver().streams.erase(it) : std::next(it);
  return SUCCESS;
}

API int cuCtxSetCurrent(void* context) {
  ENTER("cuCtxSetCurrent", INITIALIZED);
  if (!context) {
    current_device = -1;
    return SUCCESS;
  }
  int device = int((uint64_t(context) - FIRST_CONTEXT) / 16);
  if (!is_device(device) || !driver().contexts[device]) return failed(INVALID_CONTEXT, "this is no context");
  current_device = device;
  return SUCCESS;
}

API int cuCtxGetCurrent(void** out) {
  ENTER("cuCtxGetCurrent", INITIALIZED);
  *out = current_device < 0 ? nullptr : reinterpret_cast<void*>(FIRST_CONTEXT + uint64_t(current_device) * 16);
  return SUCCESS;
}

API int cuCtxSynchronize() {
  ENTER_UNSAFE("cuCtxSynchronize");
  for (auto& [handle, stream] : driver().streams)
    if (stream->device == current_device) streams::run_all(*stream);
  return after_waiting();
}

API int cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER("cuMemGetInfo", CONTEXT);
  *total = size_t(setting("memory"));
  uint64_t reserved = memory::device(current_device).reserved();
  *free = *total > reserved ? *total - reserved : 0;
  return SUCCESS;
}

// ---- streams and events ----

API int cuStreamCreate(void** out, unsigned flags) {
  ENTER("cuStreamCreate", CONTEXT);
  if (flags > 1) return failed(INVALID_VALUE, "a stream has no such flags");
  auto stream = std::make_shared<Stream>();
  stream->device = current_device;
  stream->blocking = flags == 0;
  stream->handle = keep(driver().streams, stream);
  *out = reinterpret_cast<void*>(stream->handle);
  return SUCCESS;
}

API int cuStreamDestroy_v2(void* handle) {
  ENTER("cuStreamDestroy", CONTEXT);
  FIND(Stream, stream, streams, handle, "stream");
  streams::run_all(*stream);
  driver().streams.erase(uint64_t(handle));
  return SUCCESS;
}

API int cuStreamSynchronize(void* handle) {
  ENTER_UNSAFE("cuStreamSynchronize");
  FIND(Stream, stream, streams, handle, "stream");
  if (int error = streams::refuse_in_capture(*stream, "a synchronisation")) return error;
  streams::run_all(*stream);
  return after_waiting();
}

API int cuStreamQuery(void* handle) {
  ENTER_UNSAFE("cuStreamQuery");
  FIND(Stream, stream, streams, handle, "stream");
  if (int error = streams::refuse_in_capture(*stream, "a query")) return error;
  return stream->queue.empty() ? SUCCESS : NOT_READY;
}

API int cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  ENTER("cuStreamWaitEvent", CONTEXT);
  if (is_default(handle)) return SUCCESS;
  FIND(Stream, stream, streams, handle, "stream");
  FIND(streams::Event, event, events, event_handle, "event");
  return streams::wait(stream, *event);
}

API int cuStreamIsCapturing(void* handle, int* out) {
  ENTER("cuStreamIsCapturing", CONTEXT);
  *out = 0;
  if (is_default(handle)) {
    for (auto& [other, stream] : driver().streams)
      if (stream->blocking && stream->capture && stream->capture->mode != streams::RELAXED)
        return failed(CAPTURE_IMPLICIT, "a blocking stream is captured");
    return SUCCESS;
  }
  FIND(Stream, stream, streams, handle, "stream");
  *out = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return SUCCESS;
}

API int cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode", INITIALIZED);
  if (*mode < 0 || *mode > 2) return failed(INVALID_VALUE, "there is no such capture mode");
  std::swap(*mode, streams::thread_mode);
  return SUCCESS;
}

API int cuEventCreate(void** out, unsigned flags) {
  ENTER("cuEventCreate", CONTEXT);
  if (flags > 3) return failed(INVALID_VALUE, "an event has no such flags");
  auto event = std::make_shared<streams::Event>();
  event->timing = !(flags & 2);
  *out = reinterpret_cast<void*>(keep(driver().events, event));
  return SUCCESS;
}

API int cuEventDestroy_v2(void* handle) {
  ENTER("cuEventDestroy", CONTEXT);
  return driver().events.erase(uint64_t(handle)) ? SUCCESS : bad_handle("event");
}

API int cuEventRecord(void* handle, void* stream_handle) {
  ENTER("cuEventRecord", CONTEXT);
  FIND(streams::Event, event, events, handle, "event");
  if (is_default(stream_handle)) {
    event->capture = nullptr;
    event->mark = nullptr;  // nothing to wait for
    return SUCCESS;
  }
  FIND(Stream, stream, streams, stream_handle, "stream");
  return streams::record(*event, stream);
}

API int cuEventSynchronize(void* handle) {
  ENTER_UNSAFE("cuEventSynchronize");
  FIND(streams::Event, event, events, handle, "event");
  if (event->capture) {
    event->capture->invalid = true;
    return failed(CAPTURED_EVENT, "a synchronisation with an event of a capture");
  }
  if (event->mark) streams::run_until(event->mark);
  return after_waiting();
}

API int cuEventQuery(void* handle) {
  ENTER_UNSAFE("cuEventQuery");
  FIND(streams::Event, event, events, handle, "event");
  if (event->capture) {
    event->capture->invalid = true;
    return failed(CAPTURED_EVENT, "a query of an event of a capture");
  }
  return !event->mark || event->mark->done ? SUCCESS : NOT_READY;
}

API int cuEventElapsedTime(float* out, void* start_handle, void* end_handle) {
  ENTER("cuEventElapsedTime", CONTEXT);
  FIND(streams::Event, start, events, start_handle, "event");
  FIND(streams::Event, end, events, end_handle, "event");
  if (!start->timing || !end->timing || !start->mark || !end->mark)
    return failed(INVALID_HANDLE, "an event was not recorded, or takes no time");
  if (!start->mark->done || !end->mark->done) return NOT_READY;
  *out = float(double(end->mark->ns - start->mark->ns) * 1e-6);
  return SUCCESS;
}
