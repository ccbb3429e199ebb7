// Where the threads of a block meet: barriers and the operations of a warp.  Who comes last works out what all are told.
#pragma once
#include "matrices.hpp"

namespace blocks {

inline int block_hook(int operation, int predicate) {
  unsigned me = running.current;
  running.threads[me].value = uint64_t(predicate);
  if (running.at_barrier++ == 0) running.barrier_operation = operation;
  if (running.barrier_operation != operation) stop(719, "threads of the block are at different kinds of barrier");
  if (running.at_barrier < running.n) {
    wait_as(AT_BARRIER);
    return int(running.threads[me].result);
  }
  unsigned count = 0;
  for (Thread& thread : running.threads) count += unsigned(thread.value);
  uint64_t result = operation == BLOCK_COUNT ? count : operation == BLOCK_AND ? count == running.n : count > 0;
  running.at_barrier = 0;
  running.epoch = ++running.epochs;
  for (unsigned i = 0; i < running.n; ++i) {
    unsigned other = unsigned((i * running.step + running.offset) % running.n);
    running.threads[other].result = result;
    if (other != me) wake(other);
  }
  if (by_chance()) leave_block(IN_TURN);
  return int(result);
}

inline uint64_t shuffled(const Meeting& meeting, unsigned first, int lane) {
  const Thread& thread = running.threads[first + unsigned(lane)];
  int argument = thread.argument, base = lane & ~(meeting.width - 1), top = base + meeting.width - 1, from = lane;
  switch (meeting.operation) {
    case WARP_SHUFFLE: from = base | (argument & (meeting.width - 1)); break;
    case WARP_SHUFFLE_UP: from = lane - argument < base ? lane : lane - argument; break;
    case WARP_SHUFFLE_DOWN: from = lane + argument > top ? lane : lane + argument; break;
    default: from = (lane ^ argument) > top ? lane : lane ^ argument;
  }
  if (from < 0 || from > 31 || !(meeting.mask >> from & 1)) stop(719, "a shuffle reads a lane that is not in the mask");
  return running.threads[first + unsigned(from)].value;
}

inline uint64_t combined(const Meeting& meeting, unsigned first) {
  uint64_t result = 0;
  bool empty = true;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(meeting.mask >> lane & 1)) continue;
    uint64_t value = running.threads[first + unsigned(lane)].value;
    if (meeting.operation == WARP_BALLOT) result |= value << lane;
    else if (empty) result = value;
    else switch (meeting.operation) {
      case WARP_ADD: result += value; break;
      case WARP_MIN: result = int64_t(value) < int64_t(result) ? value : result; break;
      case WARP_MAX: result = int64_t(value) > int64_t(result) ? value : result; break;
      case WARP_UMIN: result = value < result ? value : result; break;
      case WARP_UMAX: result = value > result ? value : result; break;
      case WARP_ALL: case WARP_AND: result &= value; break;
      case WARP_ANY: case WARP_OR: result |= value; break;
      case WARP_XOR: result ^= value; break;
    }
    empty = false;
  }
  return result;
}

inline uint64_t matched(const Meeting& meeting, unsigned first, int lane) {
  uint64_t result = 0;
  for (int other = 0; other < 32; ++other)
    if (meeting.mask >> other & 1 && running.threads[first + unsigned(other)].value == running.threads[first + unsigned(lane)].value)
      result |= uint64_t(1) << other;
  return result;
}

inline void conclude(const Meeting& meeting, unsigned first, unsigned me) {
  if (meeting.operation >= WARP_LOAD) {
    if (meeting.mask != ~0u) stop(719, "a matrix instruction is of all lanes of a warp");
    matrices::conclude(meeting.operation, first);
    for (unsigned thread = first; thread < first + 32; ++thread)
      if (thread != me) wake(thread);
    return;
  }
  bool shuffle = meeting.operation >= WARP_SHUFFLE && meeting.operation <= WARP_SHUFFLE_XOR;
  bool match = meeting.operation == WARP_MATCH_ANY;
  uint64_t common = shuffle || match ? 0 : combined(meeting, first);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(meeting.mask >> lane & 1)) continue;
    unsigned thread = first + unsigned(lane);
    running.threads[thread].result = shuffle ? shuffled(meeting, first, lane) : match ? matched(meeting, first, lane) : common;
    if (thread != me) wake(thread);
  }
}

inline Meeting& meeting_of(std::vector<Meeting>& here, unsigned mask, int operation, int width) {
  for (Meeting& meeting : here) {
    if (meeting.mask == mask) {
      if (meeting.operation != operation || meeting.width != width) stop(719, "lanes of a warp meet in different operations");
      return meeting;
    }
    if (meeting.mask & mask) stop(719, "lanes of a warp meet with different masks");
  }
  here.push_back({mask, 0, operation, width});
  return here.back();
}

inline unsigned long long warp_hook(int operation, unsigned mask, unsigned long long value, int argument, int width) {
  unsigned me = running.current, first = me & ~31u, lane = me & 31u, lanes = running.n - first;
  if (!(mask >> lane & 1)) stop(719, "a lane is not in the mask of its own warp operation");
  if (lanes < 32 && mask >> lanes) stop(719, "the mask of a warp operation names lanes that do not exist");
  if (width < 1 || width > 32 || width & (width - 1)) stop(719, "the width of a shuffle is not a power of two up to 32");
  running.threads[me].value = value;
  running.threads[me].argument = argument;
  std::vector<Meeting>& here = running.meetings[me / 32];
  Meeting& meeting = meeting_of(here, mask, operation, width);
  meeting.arrived |= 1u << lane;
  if (meeting.arrived != mask) {
    wait_as(IN_WARP);
  } else {
    Meeting whole = meeting;
    if (operation == WARP_SYNC) ++running.warp_epochs[me / 32];
    here.erase(here.begin() + (&meeting - here.data()));
    conclude(whole, first, me);
  }
  return running.threads[me].result;
}

inline void trap_hook(const char* why) { stop(719, why); }

}  // namespace blocks
