// Runs all blocks of a launch, and turns faults of the host's processor into faults of the kernel.
#pragma once
#include <csignal>

#include "blocks.hpp"

namespace blocks {

// ---- faults of the host's processor ----

inline struct sigaction old_actions[4];
constexpr int SIGNALS[4] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};  // the last: see -fsanitize=alignment in emulator.py

inline void on_signal(int signal, siginfo_t* info, void*) {
  if (!in_kernel) {  // another thread's: what was there before gets it when the instruction runs again
    for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &old_actions[i], nullptr);
    return;
  }
  char text[120];
  if (signal == SIGILL) snprintf(text, sizeof text, "an access to an address that is not aligned for its type");
  else if (signal == SIGFPE) snprintf(text, sizeof text, "an integer division by zero or out of range");
  else if (info->si_addr) snprintf(text, sizeof text, "an access to %p, which is no memory", info->si_addr);
  else snprintf(text, sizeof text, "an access to what is no memory");  // the processor does not always say where
  stop(700, text);
}

class Guard {  // while a kernel runs, a fault ends the kernel and not the process
 public:
  Guard() {
    static thread_local char space[64 << 10];
    stack_t stack = {};
    stack.ss_sp = space;
    stack.ss_size = sizeof space;
    sigaltstack(&stack, &old_stack_);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &action, &old_actions[i]);
    in_kernel = true;
  }
  ~Guard() {
    in_kernel = false;
    for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &old_actions[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  stack_t old_stack_ = {};
};

// ---- a launch ----

inline uint64_t greatest_common(uint64_t a, uint64_t b) { return b ? greatest_common(b, a % b) : a; }

struct Order {  // a permutation of 0..n-1: i -> i * step + offset
  uint64_t step = 1, offset = 0;
  Order(uint64_t n, int64_t schedule) {
    if (schedule == 0 || n < 2) return;
    if (schedule == 1) {
      step = offset = n - 1;
      return;
    }
    uint64_t wanted = uint64_t(schedule) * 0x9e3779b97f4a7c15u;
    step = wanted % n;
    offset = (wanted >> 20) % n;
    while (step == 0 || greatest_common(step, n) != 1) ++step;
    step %= n;
  }
};

inline std::string stuck() {
  unsigned counts[5] = {}, example = 0;
  for (unsigned i = 0; i < running.n; ++i) {
    ++counts[running.threads[i].state];
    if (running.threads[i].state != RETURNED) example = i;
  }
  be(example);
  char text[240];
  snprintf(text, sizeof text, "the block cannot go on: of %u threads %u wait at a barrier, %u in a warp operation, %u have returned",
           running.n, counts[AT_BARRIER], counts[IN_WARP], counts[RETURNED]);
  return place() + ": " + text;
}

inline void run_block() {
  running.started = running.returned = running.at_barrier = 0;
  ++running.epoch;
  running.runnable.clear();
  running.head = 0;
  for (auto& here : running.meetings) here.clear();
  emulator_switch(&running.outside, idle_fiber()->saved);
  if (!running.fault.code && running.returned != running.n) running.fault = {719, stuck()};
}

inline void start(const Launch& launch, int64_t schedule) {
  running.launch = &launch;
  running.n = launch.block.x * launch.block.y * launch.block.z;
  running.threads.assign(running.n, Thread{});
  running.meetings.resize((running.n + 31) / 32);
  running.warp_epochs.assign(running.meetings.size(), 0);
  running.fault = {};
  Order order(running.n, schedule);
  running.step = order.step;
  running.offset = order.offset;
  *launch.module->block_size = launch.block;
  *launch.module->grid_size = launch.grid;
}

// Runs all blocks.  `before_block` makes shared memory what it is before a block starts: anything.
// `schedule`: 0 runs blocks and threads in order, 1 backwards, more: other orders.
template <class F>
inline Fault run(const Launch& launch, int64_t schedule, F before_block) {
  start(launch, schedule);
  const EmulatorDim& grid = launch.grid;
  uint64_t n = uint64_t(grid.x) * grid.y * grid.z;
  Order order(n, schedule);
  Guard guard;
  for (uint64_t i = 0; i < n && !running.fault.code; ++i) {
    uint64_t b = uint64_t((unsigned __int128)i * order.step % n + order.offset) % n;
    *launch.module->block_index = {unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)};
    before_block();
    run_block();
  }
  if (running.fault.code) {  // fibers were left in the middle
    running.idle = running.all;
    for (Fiber* fiber : running.all) prepare(*fiber);
  }
  return running.fault;
}

}  // namespace blocks
