"""Calls of the driver, as machine code.  Every call gives the driver's error number, 0 where all is well."""

from __future__ import annotations

from ...ops.native.by_address import call_1, call_2, call_3, call_4, call_11
from ...ops.native.memory import load_i64, native
from ...ops.native.status import DEVICE_ERROR, OK
from .driver import DRIVER
from .layout import card_at


def _place(name: str) -> int:
    """Where in the driver table a function's address is, in bytes."""
    return 8 * DRIVER[name].index


CTX_SET_CURRENT, CTX_GET_CURRENT = map(_place, ("cuCtxSetCurrent", "cuCtxGetCurrent"))
EXCHANGE_CAPTURE_MODE = _place("cuThreadExchangeStreamCaptureMode")
MEM_ALLOC, MEM_FREE = map(_place, ("cuMemAllocFromPoolAsync", "cuMemFreeAsync"))
HOST_ALLOC, HOST_FREE, POOL_TRIM = map(_place, ("cuMemHostAlloc", "cuMemFreeHost", "cuMemPoolTrimTo"))
POINTER_ATTRIBUTES = _place("cuPointerGetAttributes")
COPY_TO_HOST, COPY_TO_DEVICE, COPY_ON_DEVICE = map(_place, ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"))
EVENT_CREATE, EVENT_DESTROY, EVENT_RECORD = map(_place, ("cuEventCreate", "cuEventDestroy", "cuEventRecord"))
EVENT_WAIT, EVENT_QUERY, EVENT_TIME = map(_place, ("cuEventSynchronize", "cuEventQuery", "cuEventElapsedTime"))
STREAM_WAIT, STREAM_WAIT_EVENT = map(_place, ("cuStreamSynchronize", "cuStreamWaitEvent"))
CAPTURE_BEGIN, CAPTURE_END = map(_place, ("cuStreamBeginCapture", "cuStreamEndCapture"))
GRAPH_MAKE, GRAPH_LAUNCH = map(_place, ("cuGraphInstantiateWithFlags", "cuGraphLaunch"))
GRAPH_EXEC_DESTROY, GRAPH_DESTROY = map(_place, ("cuGraphExecDestroy", "cuGraphDestroy"))
LAUNCH_KERNEL = _place("cuLaunchKernel")

_LOW = 0xFFFFFFFF
#: The driver's error number for "no memory": the only one after which the card can be used further.
NO_MEMORY = 2


@native
def drive_1(card, place, a):
    return call_1(load_i64(card_at(card).driver + place), a) & _LOW


@native
def drive_2(card, place, a, b):
    return call_2(load_i64(card_at(card).driver + place), a, b) & _LOW


@native
def drive_3(card, place, a, b, c):
    return call_3(load_i64(card_at(card).driver + place), a, b, c) & _LOW


@native
def drive_4(card, place, a, b, c, d):
    return call_4(load_i64(card_at(card).driver + place), a, b, c, d) & _LOW


@native
def drive_11(card, place, a, b, c, d, e, f, g, h, i, j, k):
    return call_11(load_i64(card_at(card).driver + place), a, b, c, d, e, f, g, h, i, j, k) & _LOW


@native
def checked(card, error):
    """A status for an error number of the driver, which the card remembers: after an error nothing on it can be trusted."""
    if error == 0:
        return OK
    if card_at(card).error == 0:
        card_at(card).error = error
    return DEVICE_ERROR
