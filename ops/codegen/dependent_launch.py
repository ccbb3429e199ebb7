"""Kernels that a GPU may start before the kernel in front of them has ended: CUDA's programmatic dependent launch, from sm_90 on.

Each thread of such a kernel begins with ``griddepcontrol.wait``, before any access to memory and before any return, and then
allows the kernel behind it to start with ``griddepcontrol.launch_dependents``.  So the order of memory is that of a stream:

* A kernel that waits touches memory only after the kernel in front of it has ended, and its writes are visible.
* A kernel that waits ends after all of its threads have waited, so after the kernel in front of it has ended.  By induction all
  work in front of it has ended, whether that kernel was started early or not.
* A kernel may start early only behind a kernel of this form: the machine never launches it so behind other work
  (``vm.devices.cuda.graphs.entries``), and work of another form waits for the end of all kernels.
* The blocks of a kernel start after all blocks of the kernel in front of it have started or ended.  So blocks that wait take no
  room from blocks that are to start, and a kernel whose blocks wait for one another goes on.

Data that is written while a kernel is starting is no constant for it: without ``__restrict__`` the compiler reads no memory
through the cache of constant data, which does not see writes.
"""

from __future__ import annotations

#: The oldest architecture.
FIRST_ARCHITECTURE = 90
_HEAD = """\
#define __restrict__
#ifndef AWAIT_KERNELS_BEFORE
#define AWAIT_KERNELS_BEFORE()
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#undef AWAIT_KERNELS_BEFORE
#define AWAIT_KERNELS_BEFORE() \\
  asm volatile("griddepcontrol.wait;" ::: "memory"); \\
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#endif
#endif
#undef BEGIN_KERNEL
#define BEGIN_KERNEL() AWAIT_KERNELS_BEFORE()
"""


def waiting(text: str) -> str:
    """CUDA C whose kernels wait for the kernels before them, where each begins (``BEGIN_KERNEL``).

    ``text`` is without the prelude, and may be empty.
    """
    assert text.count("BEGIN_KERNEL();") == text.count("__global__"), text
    return _HEAD + text if text else text
