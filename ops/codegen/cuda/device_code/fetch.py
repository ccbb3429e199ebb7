"""Requests that bring memory to the L2 cache before a kernel loads it: they hold no registers, and no thread waits for them."""

from __future__ import annotations

#: Bytes that a request brings.
SECTORS = 64

FETCH = """
DEVICE void fetch_to_l2(const void* at) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" :: "l"(at));
#endif
}
"""
