// Streams are queues that run only when somebody waits, and then only as far as needed; events are marks in them.
// A stream that is captured writes down its operations instead.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "gpu.hpp"
#include "memory.hpp"

namespace streams {

struct Stream;
using Action = std::function<void()>;

struct Mark {
  std::weak_ptr<Stream> stream;
  bool done = false;
  int64_t ns = 0;  // when it was passed
};

enum Kind { OTHER, KERNEL, EARLY_KERNEL };  // an early kernel may start before the kernel in front of it has ended

struct Operation {
  Action act;
  std::shared_ptr<Mark> wait;    // run after this
  std::shared_ptr<Mark> record;  // passed by this
  Kind kind = OTHER;
};

struct Captured {  // a node of a graph
  Action act;
  Kind kind;
  uint64_t node;
  int device;
};

inline uint64_t nodes = uint64_t(1) << 40;  // handles, never given twice

// The kernel in front of the early kernel that runs: it runs when a thread of that kernel waits for it.
inline Action before;

inline void run_kernels(Action first, const Action& early) {
  before = std::move(first);
  early();
  if (Action late = std::move(before); late) late();
  before = nullptr;
}

// Whether an early kernel starts before the kernel in front of it, this time.
inline bool starts_early(Kind first, Kind then) {
  if (first == OTHER || then != EARLY_KERNEL) return false;
  uint64_t chances = uint64_t(++gpu::state().counts["early_chances"] + gpu::setting("schedule"));
  if (chances * 0x9e3779b97f4a7c15u >> 63) return false;
  ++gpu::state().counts["early_starts"];
  return true;
}

enum Mode { GLOBAL, PER_THREAD, RELAXED };
// How much a thread minds captures, its own and others' (cuThreadExchangeStreamCaptureMode).
inline thread_local int thread_mode = GLOBAL;

using Seen = std::map<uint64_t, size_t>;  // stream -> how many of the capture's operations come before

struct Capture {
  uint64_t origin;
  int mode = GLOBAL;
  std::thread::id thread = std::this_thread::get_id();  // that began it
  bool invalid = false;
  std::vector<Captured> actions;
  std::map<uint64_t, Seen> seen;          // by stream that takes part
  std::map<uint64_t, size_t> last;        // the stream's last operation, counted from 1
};

struct Stream {
  uint64_t handle;
  int device;
  bool blocking = false;  // it and the process's default stream wait for each other
  std::deque<Operation> queue;
  Kind last = OTHER;  // the operation that came last
  std::shared_ptr<Capture> capture;
  std::vector<void*> front;  // what cuStreamGetCaptureInfo has said, until the next operation
};

struct Event {
  bool timing;
  std::shared_ptr<Mark> mark;        // of the last record
  std::shared_ptr<Capture> capture;  // it was recorded in
  Seen seen;
};

inline int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void run_until(const std::shared_ptr<Mark>& mark);

inline void run_first(Stream& stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.wait) run_until(operation.wait);
  if (operation.act && !gpu::state().poison) {
    if (!stream.queue.empty() && starts_early(operation.kind, stream.queue.front().kind)) {
      Operation early = std::move(stream.queue.front());
      stream.queue.pop_front();
      run_kernels(std::move(operation.act), early.act);
      ++gpu::state().counts["operations"];
    } else {
      operation.act();
    }
    ++gpu::state().counts["operations"];
  }
  if (operation.record) {
    operation.record->ns = now();
    operation.record->done = true;
  }
}

inline void run_until(const std::shared_ptr<Mark>& mark) {
  auto stream = mark->stream.lock();
  while (stream && !mark->done && !stream->queue.empty()) run_first(*stream);
}

inline void run_all(Stream& stream) {
  while (!stream.queue.empty()) run_first(stream);
}

// Returns a CUresult: a capture that has been made invalid takes nothing more.
inline int enqueue(Stream& stream, Operation operation) {
  Kind last = stream.last;
  stream.last = operation.kind;
  if (operation.kind == EARLY_KERNEL && last == OTHER)
    return gpu::failed(gpu::INVALID_VALUE, "a kernel that may start early is launched behind what is no kernel");
  if (auto& capture = stream.capture) {
    if (capture->invalid) return gpu::CAPTURE_INVALIDATED;
    for (auto& node : stream.front) node = nullptr;
    capture->actions.push_back({std::move(operation.act), operation.kind, nodes += 16, stream.device});
    capture->last[stream.handle] = capture->seen[stream.handle][stream.handle] = capture->actions.size();
    return gpu::SUCCESS;
  }
  stream.queue.push_back(std::move(operation));
  if (gpu::setting("eager")) run_all(stream);
  if (int64_t(stream.queue.size()) > gpu::setting("queue_limit"))
    for (size_t half = stream.queue.size() / 2; half && !stream.queue.empty(); --half) run_first(stream);
  return gpu::SUCCESS;
}

inline int enqueue(Stream& stream, Action act) { return enqueue(stream, Operation{std::move(act), nullptr, nullptr}); }

// What must not be done while `stream` is captured: makes the capture invalid.
inline int refuse_in_capture(Stream& stream, const char* what) {
  if (!stream.capture) return gpu::SUCCESS;
  stream.capture->invalid = true;
  return gpu::failed(gpu::CAPTURE_UNSUPPORTED, std::string(what) + " while the stream is captured");
}

// Would a potentially unsafe call of this thread spoil this capture?
inline bool minds(const Capture& capture) {
  if (thread_mode == RELAXED) return false;
  bool own = capture.thread == std::this_thread::get_id() && capture.mode != RELAXED;
  return own || (thread_mode == GLOBAL && capture.mode == GLOBAL);
}

inline void merge(Seen& into, const Seen& from) {
  for (auto [stream, count] : from) into[stream] = std::max(into[stream], count);
}

inline int record(Event& event, const std::shared_ptr<Stream>& stream) {
  stream->last = OTHER;
  event.capture = stream->capture;
  if (stream->capture) {
    event.mark = nullptr;
    event.seen = stream->capture->seen[stream->handle];
    return stream->capture->invalid ? gpu::CAPTURE_INVALIDATED : gpu::SUCCESS;
  }
  event.mark = std::make_shared<Mark>(Mark{stream});
  return enqueue(*stream, {nullptr, nullptr, event.mark});
}

inline int wait(const std::shared_ptr<Stream>& stream, Event& event) {
  stream->last = OTHER;
  if (event.capture) {  // the stream joins the capture
    if (stream->capture && stream->capture != event.capture) return refuse_in_capture(*stream, "waiting for another capture");
    stream->capture = event.capture;
    merge(stream->capture->seen[stream->handle], event.seen);
    return stream->capture->invalid ? gpu::CAPTURE_INVALIDATED : gpu::SUCCESS;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return gpu::failed(gpu::CAPTURE_ISOLATION, "a captured stream waits for an event from outside of the capture");
  }
  if (!event.mark || event.mark->done) return gpu::SUCCESS;
  return enqueue(*stream, {nullptr, event.mark, nullptr});
}

inline bool joined(const Capture& capture) {
  auto seen = capture.seen.find(capture.origin);
  for (auto [stream, last] : capture.last) {
    if (stream == capture.origin) continue;
    if (seen == capture.seen.end()) return false;
    auto found = seen->second.find(stream);
    if (found == seen->second.end() || found->second < last) return false;
  }
  return true;
}

}  // namespace streams
