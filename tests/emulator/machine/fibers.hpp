// Fibers: stacks of their own, and a switch from one to another, for x86-64 and aarch64.
#pragma once
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace blocks {

extern "C" void emulator_switch(void** leave, void* enter);  // saves the registers a callee must keep, on the stack

#if defined(__x86_64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size emulator_switch, .-emulator_switch
)");
#else
#error "the emulated GPU knows how to switch fibers on x86-64 and aarch64 only"
#endif

constexpr size_t STACK_BYTES = 256 << 10;  // what is touched of it is committed
// Stacks begin at different cache lines of their pages, else all threads of a block would share a few sets of the caches.
constexpr size_t STACK_STEP = 17 * 64, STACK_STEPS = 60;

struct Fiber {
  char* stack;
  size_t unused;  // bytes at the top
  void* saved;
};

[[noreturn]] void fiber_main();

inline void prepare(Fiber& fiber) {
  auto* top = reinterpret_cast<uint64_t*>(fiber.stack + STACK_BYTES - fiber.unused);
#if defined(__x86_64__)
  *--top = 0;  // a caller's return address: the stack is aligned as after a call
  *--top = reinterpret_cast<uint64_t>(&fiber_main);
  for (int i = 0; i < 6; ++i) *--top = 0;
#else
  for (int i = 0; i < 20; ++i) *--top = 0;
  top[11] = reinterpret_cast<uint64_t>(&fiber_main);
#endif
  fiber.saved = top;
}

inline Fiber* new_fiber() {
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  void* stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return nullptr;
  mprotect(stack, page, PROT_NONE);  // an overflow is a fault, not a wild write
  static size_t made = 0;
  auto* fiber = new Fiber{static_cast<char*>(stack), made++ % STACK_STEPS * STACK_STEP, nullptr};
  prepare(*fiber);
  return fiber;
}

}  // namespace blocks
