// Runs all blocks of a launch, and turns faults of the host's processor into faults of the kernel.
#pragma once
#include <csignal>
#include <functional>
#include <optional>

#include "blocks.hpp"
#include "gpu.hpp"

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

// Runs the block until it ends, or until another should run.
inline void enter() {
  running.left = AT_END;
  if (running.started == 0) emulator_switch(&running.outside, idle_fiber()->saved);
  else go_on(&running.outside);
  if (!running.fault.code && running.left == AT_END && running.returned != running.n) running.fault = {719, stuck()};
}

inline void start(const Launch& launch, int64_t schedule) {
  running.launch = &launch;
  running.n = launch.block.x * launch.block.y * launch.block.z;
  running.fault = {};
  running.chance = schedule > 1 ? uint64_t(schedule) * 0x9e3779b97f4a7c15u : 0;
  Order order(running.n, schedule);
  running.step = order.step;
  running.offset = order.offset;
  *launch.module->block_size = launch.block;
  *launch.module->grid_size = launch.grid;
}

inline void start_block() {
  static_cast<Progress&>(running) = {};
  running.threads.assign(running.n, Thread{});
  running.meetings.resize((running.n + 31) / 32);
  running.at_team.assign((running.n + 127) / 128, 0);
  running.warp_epochs.assign(running.meetings.size(), 0);
  running.epoch = ++running.epochs;
}

constexpr int MOST_TURNS = 10000;  // that end with a wait, one after another, before nothing is expected any more

// The blocks of a launch: `resident` of them are on the card at once, and the next one starts when one of these ends.
// `Shared` keeps the shared memory of blocks that do not run.
// `schedule`: 0 runs blocks and threads in order, 1 backwards, more: other orders, where blocks take turns at barriers and fences.
template <class Shared>
class Grid {
 public:
  // `before` runs the kernel in front, if it has not run.
  Grid(const Launch& launch, int64_t schedule, int64_t resident, Shared& shared, std::function<void()> before)
      : launch_(launch), schedule_(schedule), resident_(size_t(resident)), shared_(shared), before_(std::move(before)),
        n_(uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z), order_(n_, schedule) {
    start(launch, schedule);
    running.is_behind = bool(before_);
  }

  Fault run() {
    std::optional<Guard> guard(std::in_place);
    while (!running.fault.code && (next_ < n_ || !away_.empty())) {
      if (starts()) {
        index_ = uint64_t((unsigned __int128)next_++ * order_.step % n_ + order_.offset) % n_;
        start_block();
        shared_.poison();
      } else {
        come_back();
      }
      const EmulatorDim& grid = launch_.grid;
      *launch_.module->block_index = {unsigned(index_ % grid.x), unsigned(index_ / grid.x % grid.y), unsigned(index_ / grid.x / grid.y)};
      enter();
      if (running.left == BEHIND && !running.fault.code) {
        go_away();
        guard.reset();
        run_before();
        guard.emplace();
        continue;
      }
      if (running.left == AT_END && launch_.early && !running.fault.code && running.waited != running.n)
        running.fault = {719, hasty()};
      waits_ = running.left == WAITING ? waits_ + 1 : 0;
      if (running.left != AT_END && !running.fault.code) go_away();
      if (waits_ > MOST_TURNS) running.fault = {719, endless()};
    }
    if (running.fault.code) {  // fibers were left in the middle
      running.idle = running.all;
      for (Fiber* fiber : running.all) prepare(*fiber);
    }
    return running.fault;
  }

 private:
  struct Away {
    Progress progress;
    uint64_t index;
    typename Shared::Kept kept;
  };

  bool starts() const { return next_ < n_ && away_.size() < resident_ && (away_.empty() || waits_ > 0 || by_chance()); }

  void go_away() {
    away_.push_back({std::move(static_cast<Progress&>(running)), index_, shared_.keep()});
  }

  void come_back() {
    size_t which = by_chance() ? away_.size() / 2 : 0;
    static_cast<Progress&>(running) = std::move(away_[which].progress);
    index_ = away_[which].index;
    shared_.restore(away_[which].kept);
    away_.erase(away_.begin() + long(which));
  }

  void run_before() {
    auto before = std::move(before_);
    before_ = nullptr;
    before();
    start(launch_, schedule_);
    running.is_behind = false;
    if (gpu::state().poison) running.fault = {gpu::state().poison, gpu::state().text};
  }

  std::string hasty() const {
    return std::string(launch_.name) + ": started early, and " + std::to_string(running.n - running.waited) + " of " +
           std::to_string(running.n) + " threads of a block end without waiting for the kernels in front";
  }

  std::string endless() const {
    return std::string(launch_.name) + ": " + std::to_string(away_.size()) + " blocks wait for others without end; " +
           std::to_string(n_ - next_) + " of " + std::to_string(n_) + " have not started, and start when one of these ends";
  }

  const Launch& launch_;
  int64_t schedule_;
  size_t resident_;
  Shared& shared_;
  std::function<void()> before_;
  uint64_t n_;
  Order order_;
  uint64_t next_ = 0, index_ = 0;
  int waits_ = 0;
  std::vector<Away> away_;
};

}  // namespace blocks
