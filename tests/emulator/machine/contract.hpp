// What a compiled text and the emulated driver know of one another.  The text's library exports
// `emulator_module`, and for every kernel NAME `emulator_entry_NAME` (takes the parameter words)
// and `emulator_words_NAME` (how many there are).
#pragma once

struct EmulatorDim {
  unsigned x, y, z;
};

enum EmulatorWarpOperation {
  WARP_SYNC,
  WARP_SHUFFLE,
  WARP_SHUFFLE_UP,
  WARP_SHUFFLE_DOWN,
  WARP_SHUFFLE_XOR,
  WARP_BALLOT,
  WARP_ANY,
  WARP_ALL,
  WARP_ADD,
  WARP_MIN,
  WARP_MAX,
  WARP_UMIN,
  WARP_UMAX,
  WARP_AND,
  WARP_OR,
  WARP_XOR,
  WARP_MATCH_ANY,
};

enum EmulatorBlockOperation { BLOCK_SYNC, BLOCK_COUNT, BLOCK_AND, BLOCK_OR };

// Why a thread lets others run: it waits for another block, or has fenced its writes.
enum EmulatorTurn { TURN_WAIT, TURN_FENCE };

enum EmulatorAccess { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };

// The driver's side: what the threads of a block do together.
struct EmulatorHooks {
  unsigned long long (*warp)(int operation, unsigned mask, unsigned long long value, int argument, int width);
  int (*block)(int operation, int predicate);
  void (*trap)(const char* why);  // does not return
  void (*access)(const void* address, unsigned long size, int kind);  // from texts that were compiled to be checked
  void (*turn)(int why);
  char* dynamic_shared;
};

// The text's side: the variables that tell a thread who it is.
struct EmulatorModule {
  unsigned long size;  // of this struct: a stale library is refused
  int architecture;    // 80, 90, ...
  int checked;         // does it call `access`?
  EmulatorDim *thread_index, *block_index, *block_size, *grid_size;
  const EmulatorHooks** hooks;
  const void* (*static_shared)();  // makes the calling thread's static shared memory exist; an address in it
};
