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
  WARP_LOAD,  // from here on `value` is the address of the lane's EmulatorMatrices
  WARP_LOAD_TRANSPOSED,
  WARP_PRODUCT_FLOAT16,
  WARP_PRODUCT_BFLOAT16,
};

// A lane's part of a matrix instruction: of a load the row, and `left` gets the elements; of a product `sums` += `left` * `right`.
struct EmulatorMatrices {
  const void* row;
  float sums[4];
  unsigned left[4], right[2];
};

enum EmulatorBlockOperation { BLOCK_SYNC, BLOCK_COUNT, BLOCK_AND, BLOCK_OR };

// Why a thread lets others run: it waits for another block, or has fenced its writes.
enum EmulatorTurn { TURN_WAIT, TURN_FENCE };

// Copies of 16 bytes to shared memory that a thread begins and waits for later.
enum EmulatorCopies { COPY_BEGIN, COPY_COMMIT, COPY_WAIT };

// What the four warps of a team do: products of matrices in shared memory, which run until the team has waited for them.
enum EmulatorTeam { TEAM_FENCE, TEAM_PRODUCT, TEAM_COMMIT, TEAM_WAIT, TEAM_SEE_COPIES };

// A matrix in shared memory by rows of 128 bytes: bits 4 to 6 of an address are those of the element, exclusive or bits 7 to 9.
struct EmulatorPlace {
  char* at;
  int leading;  // bytes from 64 columns to the next
};

// A thread's part of sums (64 x columns) += left (64 x 16) * right (16 x columns).
struct EmulatorTeamProduct {
  float* sums;
  int columns;
  bool adds, is_bfloat16, has_rows;  // sums begin at 0 unless it adds; right is stored by rows, else by columns
  bool is_left_shared;
  unsigned left[4];
  EmulatorPlace shared_left, right;
};

enum EmulatorAccess { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };

// The driver's side: what the threads of a block do together.
struct EmulatorHooks {
  unsigned long long (*warp)(int operation, unsigned mask, unsigned long long value, int argument, int width);
  int (*block)(int operation, int predicate);
  void (*trap)(const char* why);  // does not return
  void (*access)(const void* address, unsigned long size, int kind);  // from texts that were compiled to be checked
  void (*turn)(int why);
  void (*copies)(int what, void* to, const void* from, int n);  // n: bytes that are copied, the rest of 16 are 0; or groups
  void (*team)(int what, const EmulatorTeamProduct* product, int n);  // n: groups that may still run after a wait
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
