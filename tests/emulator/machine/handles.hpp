// What every function of the driver begins with: the lock, the count, the handles of everything that there is.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "checks.hpp"
#include "copies.hpp"
#include "cublas.hpp"
#include "cublas_lt.hpp"
#include "cudnn.hpp"
#include "launch.hpp"
#include "meetings.hpp"
#include "memory.hpp"
#include "modules.hpp"
#include "streams.hpp"
#include "teams.hpp"

using namespace gpu;
using modules::Function;
using modules::Module;
using std::shared_ptr;
using streams::Stream;

#define API extern "C" __attribute__((visibility("default")))

namespace {

struct Graph {
  std::shared_ptr<std::vector<streams::Captured>> nodes;  // shared with launches, which keep what was there when they were made
};

constexpr uint64_t FIRST_CONTEXT = 0x1000;
constexpr int MOST_SHARED = 227 << 10;  // bytes of shared memory that a block can have

struct Driver {
  uint64_t handles = 0x10000;
  std::map<int, int> contexts;  // device -> how often its primary context is retained
  std::map<uint64_t, shared_ptr<Stream>> streams;
  std::map<uint64_t, shared_ptr<streams::Event>> events;
  std::map<uint64_t, shared_ptr<memory::Pool>> pools;
  std::map<uint64_t, shared_ptr<Module>> modules;
  std::map<uint64_t, shared_ptr<Function>> functions;
  std::map<uint64_t, shared_ptr<Graph>> graphs, graph_execs;
  std::map<uint64_t, shared_ptr<cublas::Handle>> blas;
  std::map<uint64_t, shared_ptr<cublas_lt::Handle>> blas_lt;
  std::map<uint64_t, shared_ptr<cublas_lt::Layout>> layouts;
  std::map<uint64_t, shared_ptr<cublas_lt::Description>> descriptions;
  std::map<uint64_t, shared_ptr<cublas_lt::Preference>> preferences;
  std::map<uint64_t, shared_ptr<cudnn::Handle>> dnn;
  std::map<uint64_t, shared_ptr<cudnn::Descriptor>> backend;
  std::vector<char> dynamic_shared = std::vector<char>(MOST_SHARED + 2048);
  EmulatorHooks hooks = {};
};

Driver& driver() {
  static auto* all = new Driver;
  return *all;
}

thread_local int current_device = -1;

template <class T>
uint64_t keep(std::map<uint64_t, shared_ptr<T>>& all, shared_ptr<T> object) {
  uint64_t handle = driver().handles += 16;  // never given twice: a stale handle is always found out
  all[handle] = std::move(object);
  return handle;
}

template <class T>
shared_ptr<T> find(std::map<uint64_t, shared_ptr<T>>& all, void* handle) {
  auto found = all.find(uint64_t(handle));
  return found == all.end() ? nullptr : found->second;
}

int bad_handle(const char* what) { return failed(INVALID_HANDLE, std::string("this is no ") + what); }

enum Needs { NOTHING, INITIALIZED, CONTEXT };

// The process's default stream, and a thread's: nothing here works on them.
bool is_default(void* handle) { return handle == reinterpret_cast<void*>(1) || handle == reinterpret_cast<void*>(2); }

// What is prohibited while a stream is captured, unless the thread says otherwise: it spoils the capture.
int unsafe(const char* what) {
  int error = SUCCESS;
  for (auto& [handle, stream] : driver().streams)
    if (stream->capture && streams::minds(*stream->capture)) error = streams::refuse_in_capture(*stream, what);
  return error;
}

class Call {  // holds the lock, counts, and knows whether the call may go on
 public:
  Call(const char* name, Needs needs) : hold_(state().lock) {
    ++state().counts[name];
    if (needs == NOTHING) return;
    if (!state().initialized) error = failed(NOT_INITIALIZED, "cuInit was not called");
    else if (state().process != getpid()) {
      ++state().counts["after_fork"];
      error = failed(NOT_INITIALIZED, "this process was forked from the one that called cuInit");
    }
    else if (needs == CONTEXT && state().poison) error = state().poison;
    else if (needs == CONTEXT && (current_device < 0 || !driver().contexts[current_device]))
      error = failed(INVALID_CONTEXT, std::string(name) + " without a context on this thread");
  }
  int error = SUCCESS;

 private:
  std::lock_guard<std::recursive_mutex> hold_;
};

#define ENTER(name, needs) \
  Call call(name, needs);  \
  if (call.error) return call.error
// Begins what must not be done under a capture.
#define ENTER_UNSAFE(name)  \
  ENTER(name, CONTEXT);     \
  if (int error = unsafe(name)) return error
#define FIND(type, variable, all, handle, what)       \
  shared_ptr<type> variable = find(driver().all, handle); \
  if (!variable) return bad_handle(what)

bool is_device(int ordinal) { return ordinal >= 0 && ordinal < setting("devices"); }

int after_waiting() {
  memory::trim_pools();
  return state().poison;
}

}  // namespace
