// The emulated machine: settings and counts by name, the lock, the error that poisons everything.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace gpu {

// CUresult, as the CUDA driver API numbers it
enum Result : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_FAILED = 719,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906,
  CAPTURED_EVENT = 907,
};

struct Name {
  const char *symbol, *meaning;
};

inline const std::map<int, Name>& names() {
  static const std::map<int, Name> all = {
      {SUCCESS, {"CUDA_SUCCESS", "no error"}},
      {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
      {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
      {NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
      {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
      {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
      {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
      {NO_BINARY_FOR_GPU, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
      {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
      {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
      {NOT_READY, {"CUDA_ERROR_NOT_READY", "device not ready"}},
      {ILLEGAL_ADDRESS, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
      {LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
      {CAPTURE_UNSUPPORTED, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
      {CAPTURE_INVALIDATED, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
      {CAPTURE_UNJOINED, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}},
      {CAPTURE_ISOLATION, {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"}},
      {CAPTURE_IMPLICIT, {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"}},
      {CAPTURED_EVENT, {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"}},
  };
  return all;
}

inline const std::map<std::string, int64_t>& defaults() {
  static const std::map<std::string, int64_t> all = {
      {"devices", 1},
      {"no_device", 0},           // cuInit says that there is none
      {"driver_version", 12040},  // 1000 * major + 10 * minor
      {"compute_capability", 90},
      {"memory", int64_t(4) << 30},  // bytes of each device
      {"fail_allocation", 0},        // n: the n-th device allocation from now fails, once
      {"fail_capture", 0},           // the same for captures
      {"fail_captured_launch", 0},   // the same for launches while their stream is captured
      {"fail_update", 0},            // the same for changes of a graph's nodes
      {"fail_host_allocation", 0},   // the same for pinned host memory
      {"fail_copy_to_host", 0},      // n: the n-th copy to the host from now is refused, as after an illegal address
      {"launch_error", 0},           // a CUresult that the next launch ends with
      {"no_algorithm", 0},           // 1: cuBLASLt has no algorithm for any product
      {"no_plan", 0},                // 1: cuDNN has no plan for any convolution
      {"eager", 0},                  // 1: everything runs at once, as if the host waited after each call
      {"queue_limit", 4096},         // operations that a stream holds before it must run some
      {"schedule", 0},               // the order of blocks and threads: 0 forwards, 1 backwards, more: others, in turns
      {"resident", 3},               // the blocks of a launch that are on the card at once
  };
  return all;
}

struct State {
  std::recursive_mutex lock;
  bool initialized = false;
  int process = 0;   // that called cuInit: a child that it forks has no context
  int poison = 0;    // what every call answers since a kernel failed
  std::string text;  // what went wrong last, in words
  std::map<std::string, int64_t> settings = defaults();
  std::map<std::string, int64_t> counts;
};

inline State& state() {
  static auto* all = new State;  // never destroyed: threads may call until the process ends
  return *all;
}

inline int64_t setting(const char* name) { return state().settings.at(name); }

inline int failed(int code, std::string text) {
  state().text = std::move(text);
  return code;
}

inline void poison(int code, const std::string& text) {
  if (state().poison) return;
  state().poison = code;
  state().text = text;
}

// Counts down a setting: true when it gets to 0 now.
inline bool is_due(const char* name) {
  int64_t& left = state().settings.at(name);
  return left > 0 && --left == 0;
}

}  // namespace GPU
