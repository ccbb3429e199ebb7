"""Enter and leave a GPU's context, as machine code; the thread's previous context is restored."""

from __future__ import annotations

from ....ops.native.memory import load_i64, native, store_i64
from ....ops.native.status import OK
from ...state.gpu_layout import gpu_at
from .driver_api.driver_calls import CTX_GET_CURRENT, CTX_SET_CURRENT, EXCHANGE_CAPTURE_MODE, checked, drive_1

#: CU_STREAM_CAPTURE_MODE_RELAXED: calls that could conflict with a capture are allowed.
_RELAXED = 2


@native
def enter(gpu: int) -> int:
    """Set the GPU's context as current, and relax the thread's capture mode; a status.

    The thread may have another GPU's context, and captures may be under way, the thread's own too.  In any stricter mode the
    driver rejects a call that could conflict with a capture, and invalidates the capture.  No call here touches a captured
    stream.
    """
    c = gpu_at(gpu)
    c.entered += 1
    if c.entered > 1:
        return OK
    c.caller_context = load_i64(c.out) if drive_1(gpu, CTX_GET_CURRENT, c.out) == 0 else 0
    status = OK
    if c.caller_context != c.context:
        status = checked(gpu, drive_1(gpu, CTX_SET_CURRENT, c.context)) + 0
    store_i64(c.out, _RELAXED)
    c.caller_mode = load_i64(c.out) & 0xFFFFFFFF if drive_1(gpu, EXCHANGE_CAPTURE_MODE, c.out) == 0 else 0
    return status


@native
def leave(gpu: int) -> None:
    """Restore the thread's context and capture mode."""
    c = gpu_at(gpu)
    c.entered -= 1
    if c.entered > 0:
        return
    store_i64(c.out, c.caller_mode)
    drive_1(gpu, EXCHANGE_CAPTURE_MODE, c.out)
    if c.caller_context != c.context:
        drive_1(gpu, CTX_SET_CURRENT, c.caller_context)
