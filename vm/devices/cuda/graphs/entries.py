"""Launches of queue entries, as machine code.

A launch is encoded as an *entry* (see ``gpu_layout``): function, grid and every argument word, addresses included.

If the machine has a ``launch_config``, all its kernels wait for the kernels before them (``ops.codegen.dependent_launch``),
and a kernel directly behind another kernel is launched so that the GPU may start it early.  Everything else that works on the
stream (libraries, copies, events, graphs, memory, other programs between two runs) sets ``starts_early`` to 0.
"""

from __future__ import annotations

from .....ops.native.memory import load_i64, native, store_i64
from .....ops.native.status import OK
from ....state.gpu_layout import (
    CONVOLUTION_ENTRY,
    ENTRY_ARGS,
    ENTRY_BLOCK,
    ENTRY_FUNCTION,
    ENTRY_GRID,
    ENTRY_KIND,
    ENTRY_N_ARGS,
    ENTRY_SHARED,
    ENTRY_WORDS,
    KERNEL_ENTRY,
    PRODUCT_ENTRY,
    gpu_at,
    launch_config_at,
)
from ..cudnn.calls import call_convolution
from ..driver_api.driver_calls import LAUNCH_KERNEL, LAUNCH_KERNEL_EX, checked, drive_4, drive_11
from ..driver_api.library_calls import call_library, call_product

#: CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE: arguments of cuLaunchKernel as a block of words.
_BUFFER, _SIZE = 1, 2


@native
def launch_entry(gpu: int, at: int) -> int:
    """Launch one entry; a status."""
    c = gpu_at(gpu)
    n = load_i64(at + 8 * ENTRY_N_ARGS)
    args = at + 8 * ENTRY_ARGS
    function = load_i64(at + 8 * ENTRY_FUNCTION)
    kind = load_i64(at + 8 * ENTRY_KIND)
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
    store_i64(out, 8 * load_i64(at + 8 * ENTRY_N_ARGS))
    store_i64(out + 8, _BUFFER)
    store_i64(out + 16, at + 8 * ENTRY_ARGS)
    store_i64(out + 24, _SIZE)
    store_i64(out + 32, out)
    store_i64(out + 40, 0)
    return out + 8


@native
def grid_and_block(at: int, number: int) -> int:
    """Of the six sizes of an entry's grid and block two, as numbers of 32 bits in a word."""
    sizes = at + 8 * (ENTRY_GRID + 2 * number)
    return load_i64(sizes) | load_i64(sizes + 8) << 32


@native
def launch_kernel(gpu: int, function: int, at: int) -> int:
    """Launch the kernel of an entry; a status."""
    c = gpu_at(gpu)
    extra = store_extra(gpu, at)
    shared = load_i64(at + 8 * ENTRY_SHARED)
    if c.starts_early != 0:
        config = launch_config_at(c.launch_config)
        for i in range(3):
            config.sizes[i] = grid_and_block(at, i)
        config.shared_bytes = shared
        return checked(gpu, drive_4(gpu, LAUNCH_KERNEL_EX, c.launch_config, function, 0, extra))
    if c.launch_config != 0:
        c.starts_early = 1  # the next kernel
    g, b = at + 8 * ENTRY_GRID, at + 8 * ENTRY_BLOCK
    gx, gy, gz = load_i64(g), load_i64(g + 8), load_i64(g + 16)
    bx, by, bz = load_i64(b), load_i64(b + 8), load_i64(b + 16)
    return checked(gpu, drive_11(gpu, LAUNCH_KERNEL, function, gx, gy, gz, bx, by, bz, shared, c.compute, 0, extra))


@native
def launch_entries(gpu: int, at: int, end: int) -> int:
    """Launch the entries from ``at`` to ``end``; a status."""
    while at < end:
        status = launch_entry(gpu, at) + 0
        if status != 0:
            return status
        at += 8 * load_i64(at + 8 * ENTRY_WORDS)
    return OK
