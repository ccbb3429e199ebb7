// What tests ask and tell the GPU: see emulator.py.
#pragma once
#include "handles.hpp"

// 0, or -1 for a name that is no setting.
API int emulator_set(const char* name, long long value) {
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  auto found = state().settings.find(name);
  if (found == state().settings.end()) return -1;
  found->second = value;
  return 0;
}

// A setting, what is so now, or how often a function was called; 0 for what has never happened.
API long long emulator_get(const char* name) {
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  std::string wanted = name;
  if (state().settings.count(wanted)) return state().settings[wanted];
  if (wanted == "error") return state().poison;
  if (wanted == "blocks") return (long long)memory::state().live.size();
  if (wanted == "used" || wanted == "queued") {
    uint64_t sum = 0;
    if (wanted == "used")
      for (auto& [address, block] : memory::state().live) sum += block->bytes;
    else
      for (auto& [handle, stream] : driver().streams) sum += stream->queue.size();
    return (long long)sum;
  }
  auto found = state().counts.find(wanted);
  return found == state().counts.end() ? 0 : found->second;
}

// What went wrong last, in words; valid until the next call.
API const char* emulator_text() {
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  return state().text.c_str();
}

// Runs what is in a stream; unlike a synchronisation it is nobody's call and is not counted.
API void emulator_run(void* handle) {
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  if (auto stream = find(driver().streams, handle)) streams::run_all(*stream);
}

// Settings and counts as when the library was loaded; memory and handles stay.
API void emulator_clear() {
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  state().settings = defaults();
  state().counts.clear();
}

// Everything as when the library was loaded: memory, handles, settings and counts are gone.
API void emulator_reset() {
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  uint64_t handles = driver().handles;
  driver() = Driver{};
  driver().handles = handles;
  memory::reset();
  state().initialized = false;
  state().poison = 0;
  state().text.clear();
  state().settings = defaults();
  state().counts.clear();
}
