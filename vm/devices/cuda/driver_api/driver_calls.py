"""Calls of the driver, as machine code.  Every call returns the driver's error number, 0 for success."""

from __future__ import annotations

from .....ops.native.c_functions import call_1, call_2, call_3, call_4, call_6, call_11
from .....ops.native.memory import load_i64, native
from .....ops.native.status import DEVICE_ERROR, OK
from ....state.gpu_layout import gpu_at, words_at
from .driver import DRIVER


def _place(name: str) -> int:
    """The offset in bytes of a function's address in the driver table."""
    return 8 * DRIVER[name].index


CTX_SET_CURRENT, CTX_GET_CURRENT = map(_place, ("cuCtxSetCurrent", "cuCtxGetCurrent"))
EXCHANGE_CAPTURE_MODE = _place("cuThreadExchangeStreamCaptureMode")
MEM_ALLOC, MEM_FREE = map(_place, ("cuMemAllocFromPoolAsync", "cuMemFreeAsync"))
HOST_ALLOC, HOST_FREE, POOL_TRIM = map(_place, ("cuMemHostAlloc", "cuMemFreeHost", "cuMemPoolTrimTo"))
COPY_TO_HOST, COPY_TO_DEVICE, COPY_ON_DEVICE = map(_place, ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"))
EVENT_CREATE, EVENT_DESTROY, EVENT_RECORD = map(_place, ("cuEventCreate", "cuEventDestroy", "cuEventRecord"))
EVENT_WAIT, EVENT_TIME = map(_place, ("cuEventSynchronize", "cuEventElapsedTime"))
STREAM_WAIT, STREAM_WAIT_EVENT = map(_place, ("cuStreamSynchronize", "cuStreamWaitEvent"))
CAPTURE_BEGIN, CAPTURE_END, CAPTURE_INFO = map(_place, ("cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamGetCaptureInfo"))
GRAPH_MAKE, GRAPH_LAUNCH = map(_place, ("cuGraphInstantiateWithFlags", "cuGraphLaunch"))
SET_KERNEL_NODE = _place("cuGraphExecKernelNodeSetParams")
GRAPH_EXEC_DESTROY, GRAPH_DESTROY = map(_place, ("cuGraphExecDestroy", "cuGraphDestroy"))
LAUNCH_KERNEL, LAUNCH_KERNEL_EX = map(_place, ("cuLaunchKernel", "cuLaunchKernelEx"))

_LOW = 0xFFFFFFFF
#: The driver's error number for "no memory", the only error after which the GPU stays usable.
NO_MEMORY = 2


@native
def drive_1(gpu: int, place: int, a: int) -> int:
    return call_1(load_i64(gpu_at(gpu).driver + place), a) & _LOW


@native
def drive_2(gpu: int, place: int, a: int, b: int) -> int:
    return call_2(load_i64(gpu_at(gpu).driver + place), a, b) & _LOW


@native
def drive_3(gpu: int, place: int, a: int, b: int, c: int) -> int:
    return call_3(load_i64(gpu_at(gpu).driver + place), a, b, c) & _LOW


@native
def drive_4(gpu: int, place: int, a: int, b: int, c: int, d: int) -> int:
    return call_4(load_i64(gpu_at(gpu).driver + place), a, b, c, d) & _LOW


@native
def drive_6(gpu: int, place: int, a: int, b: int, c: int, d: int, e: int, f: int) -> int:
    return call_6(load_i64(gpu_at(gpu).driver + place), a, b, c, d, e, f) & _LOW


@native
def launch_on_grid(gpu: int, function: int, sizes: int, shared_bytes: int, extra: int) -> int:
    """Launch a kernel in the stream of the kernels; ``sizes``: the address of six words, the sizes of its grid and its block."""
    c, s = gpu_at(gpu), words_at(sizes)
    gx, gy, gz, bx, by, bz = s.word[0], s.word[1], s.word[2], s.word[3], s.word[4], s.word[5]
    launch = load_i64(c.driver + LAUNCH_KERNEL)
    return call_11(launch, function, gx, gy, gz, bx, by, bz, shared_bytes, c.compute, 0, extra) & _LOW


@native
def checked(gpu: int, error: int) -> int:
    """Convert an error number of the driver to a status, and keep the error in the GPU's record.

    After an error nothing on the GPU can be trusted.
    """
    if error == 0:
        return OK
    if gpu_at(gpu).error == 0:
        gpu_at(gpu).error = error
    return DEVICE_ERROR
