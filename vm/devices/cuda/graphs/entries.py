"""Launches of queue entries, as machine code.

A launch is encoded as an *entry* (see ``gpu_layout``): function, grid and every argument word, addresses included.

If the machine has a ``launch_config``, all its kernels wait for the kernels before them (``ops.codegen.dependent_launch``),
and a kernel directly behind another kernel is launched so that the GPU may start it early.  Everything else that works on the
stream (libraries, copies, events, graphs, memory, other programs between two runs) sets ``starts_early`` to 0.
"""

from __future__ import annotations

from .....ops.native.memory import native
from .....ops.native.status import OK
from ....state.gpu_layout import (
    CONVOLUTION_ENTRY,
    ENTRY_ARGS,
    ENTRY_GRID,
    KERNEL_ENTRY,
    PRODUCT_ENTRY,
    entry_at,
    gpu_at,
    launch_config_at,
    words_at,
)
from ..cudnn.calls import call_convolution
from ..driver_api.driver_calls import LAUNCH_KERNEL_EX, checked, drive_4, launch_on_grid
from ..driver_api.library_calls import call_library, call_product

#: CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE: arguments of cuLaunchKernel as a block of words.
_BUFFER, _SIZE = 1, 2


@native
def launch_entry(gpu: int, at: int) -> int:
    """Launch one entry; a status."""
    c = gpu_at(gpu)
    n = entry_at(at).n_args
    args = at + 8 * ENTRY_ARGS
    function = entry_at(at).function
    kind = entry_at(at).kind
    if kind == KERNEL_ENTRY:
        return launch_kernel(gpu, function, at)
    c.starts_early = 0
    if kind == PRODUCT_ENTRY:
        return call_product(gpu, function, args)
    if kind == CONVOLUTION_ENTRY:
        return call_convolution(gpu, function, args)
    return call_library(gpu, function, args, n)


@native
def store_extra(gpu: int, at: int) -> int:
    """Store the options by which the driver takes an entry's arguments as a block of words; their address."""
    out = gpu_at(gpu).out
    words = words_at(out)
    words.word[0] = 8 * entry_at(at).n_args
    words.word[1] = _BUFFER
    words.word[2] = at + 8 * ENTRY_ARGS
    words.word[3] = _SIZE
    words.word[4] = out
    words.word[5] = 0
    return out + 8


@native
def grid_and_block(at: int, number: int) -> int:
    """Of the six sizes of an entry's grid and block two, as numbers of 32 bits in a word."""
    sizes = words_at(at + 8 * ENTRY_GRID)
    return sizes.word[2 * number] | sizes.word[2 * number + 1] << 32


@native
def launch_kernel(gpu: int, function: int, at: int) -> int:
    """Launch the kernel of an entry; a status."""
    c = gpu_at(gpu)
    extra = store_extra(gpu, at)
    shared = entry_at(at).shared
    if c.starts_early != 0:
        config = launch_config_at(c.launch_config)
        for i in range(3):
            config.sizes[i] = grid_and_block(at, i)
        config.shared_bytes = shared
        return checked(gpu, drive_4(gpu, LAUNCH_KERNEL_EX, c.launch_config, function, 0, extra))
    if c.launch_config != 0:
        c.starts_early = 1  # the next kernel
    return checked(gpu, launch_on_grid(gpu, function, at + 8 * ENTRY_GRID, shared, extra))


@native
def launch_entries(gpu: int, at: int, end: int) -> int:
    """Launch the entries from ``at`` to ``end``; a status."""
    while at < end:
        status = launch_entry(gpu, at) + 0
        if status != 0:
            return status
        at += 8 * entry_at(at).words
    return OK
