// The block that runs: its threads are fibers of the host thread that runs it.  A thread runs until it returns or meets
// others (see meetings.hpp), where it waits until all have come, or sleeps until another block has written.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "contract.hpp"
#include "fibers.hpp"

namespace blocks {

using Entry = void (*)(const uint64_t*);

enum State : uint8_t { NEW, RUNNING, AT_BARRIER, IN_WARP, RETURNED };

struct Copy {
  void* to;
  const void* from;
  int bytes;
};

struct TeamProduct {
  EmulatorTeamProduct of;
  std::vector<float> kept;  // the sums when it began
};

struct Thread {
  Fiber* fiber;
  State state;
  int argument;
  uint64_t value, result;
  std::vector<std::vector<Copy>> copies;          // by group; the last one is open
  std::vector<std::vector<TeamProduct>> products;  // the same
  bool is_fenced = false;                          // its sums may be used by products
  bool has_hidden_copies = false;                  // which products of teams need not see
};

struct Meeting {  // lanes of a warp that wait for the rest of their mask
  unsigned mask, arrived;
  int operation, width;
};

struct Fault {
  int code = 0;  // a CUresult
  std::string text;
};

struct Launch {
  const EmulatorModule* module;
  const char* name;
  Entry entry;
  const uint64_t* words;
  EmulatorDim grid, block;
  unsigned shared_bytes;
  bool early;  // it may start before the kernel in front of it has ended
};

// Why a block no longer runs: for AT_END no thread can go on; BEHIND waits for the kernel in front.
enum Left : uint8_t { AT_END, WAITING, IN_TURN, BEHIND };
constexpr int TURN_KERNELS = TURN_FENCE + 1;  // why a thread lets others run: it waits for the kernels in front (see emulator.py)

struct Progress {  // of one block
  unsigned started = 0, returned = 0, current = 0, at_barrier = 0, asleep = 0, waited = 0;
  int barrier_operation = 0;
  uint32_t epoch = 0;  // the number of the last barrier: see checks.hpp
  std::vector<uint32_t> warp_epochs;
  std::vector<Thread> threads;
  std::vector<std::vector<Meeting>> meetings;  // by warp
  std::vector<unsigned> at_team;               // threads that wait, by team
  std::vector<unsigned> runnable;              // a queue: from `head` on
  size_t head = 0;
};

struct Running : Progress {
  const Launch* launch = nullptr;
  unsigned n = 0;
  uint32_t epochs = 0;            // barriers of all blocks
  uint64_t step = 1, offset = 0;  // the order in which threads are started
  uint64_t chance = 0;            // decides where blocks take turns; 0: only where they wait
  Left left = AT_END;
  bool is_behind = false;  // the kernel in front has not run
  std::vector<Fiber*> all, idle;
  void* outside = nullptr;
  Fault fault;
};

inline Running running;
inline thread_local bool in_kernel = false;

inline void be(unsigned thread) {
  const EmulatorDim& block = running.launch->block;
  running.current = thread;
  *running.launch->module->thread_index = {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

inline std::string place() {
  const EmulatorDim &b = *running.launch->module->block_index, &t = *running.launch->module->thread_index;
  char text[160];
  snprintf(text, sizeof text, "%s, block (%u, %u, %u), thread (%u, %u, %u)", running.launch->name, b.x, b.y, b.z, t.x, t.y, t.z);
  return text;
}

[[noreturn]] inline void stop(int code, const std::string& why) {
  running.fault = {code, place() + ": " + why};
  void* abandoned;
  emulator_switch(&abandoned, running.outside);
  __builtin_unreachable();
}

inline Fiber* idle_fiber() {
  if (running.idle.empty()) {
    Fiber* fiber = new_fiber();
    if (!fiber) stop(2, "no memory for the stack of another thread");
    running.all.push_back(fiber);
    return fiber;
  }
  Fiber* fiber = running.idle.back();
  running.idle.pop_back();
  return fiber;
}

// Goes from one fiber, which is saved at `leave`, to a thread that can run, to one that has not started, or outside.
inline void go_on(void** leave) {
  if (running.head < running.runnable.size()) {
    unsigned next = running.runnable[running.head++];
    be(next);
    running.threads[next].state = RUNNING;
    emulator_switch(leave, running.threads[next].fiber->saved);
  } else if (running.started < running.n) {
    emulator_switch(leave, idle_fiber()->saved);
  } else {
    emulator_switch(leave, running.outside);
  }
}

inline void wait_as(State state) {
  unsigned me = running.current;
  running.threads[me].state = state;
  go_on(&running.threads[me].fiber->saved);
}

inline void wake(unsigned thread) {
  if (running.head == running.runnable.size()) running.runnable.clear(), running.head = 0;
  running.runnable.push_back(thread);
}

// Another block may run now; this thread goes on when its block does.
inline void leave_block(Left why) {
  unsigned me = running.current;
  wake(me);
  running.left = why;
  emulator_switch(&running.threads[me].fiber->saved, running.outside);
}

inline bool by_chance() {  // xorshift
  running.chance ^= running.chance << 13, running.chance ^= running.chance >> 7, running.chance ^= running.chance << 17;
  return running.chance >> 40 & 1;
}

inline void turn_hook(int why) {
  if (why == TURN_KERNELS) {
    ++running.waited;
    if (running.is_behind) leave_block(BEHIND);
    return;
  }
  if (why == TURN_FENCE) {
    if (by_chance()) leave_block(IN_TURN);
    return;
  }
  unsigned me = running.current;
  ++running.asleep;
  if (running.started == running.n && running.runnable.size() - running.head + 1 == running.asleep) {
    leave_block(WAITING);
  } else {
    wake(me);
    go_on(&running.threads[me].fiber->saved);
  }
  --running.asleep;
}

// Starts threads one after another; one that waits takes this fiber with it, and another fiber goes on here.
[[noreturn]] inline void fiber_main() {
  Fiber* self = nullptr;
  for (;;) {
    while (running.started < running.n) {
      unsigned thread = unsigned((running.started++ * running.step + running.offset) % running.n);
      if (!self) {
        char* here = static_cast<char*>(__builtin_frame_address(0));
        for (Fiber* fiber : running.all)
          if (here >= fiber->stack && here < fiber->stack + STACK_BYTES) self = fiber;
      }
      running.threads[thread].fiber = self;
      running.threads[thread].state = RUNNING;
      be(thread);
      running.launch->entry(running.launch->words);
      running.threads[running.current].state = RETURNED;
      ++running.returned;
    }
    running.idle.push_back(self);
    go_on(&self->saved);
  }
}

}  // namespace blocks
