"""The interpreter loop, as machine code: one call runs until there is a reason to return, and a later call resumes there.

Registers hold object addresses; a register owns its object.  The bytecode was verified, so register numbers, jumps and tables are
in range.  Handlers check the kinds of objects, because bytecode has no types.  ``bytecode.dispatch`` writes the text of the
branches.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import Any

from ...ops.native.generated_source import define
from ...ops.native.memory import clock_ns, load_i64, native
from ...ops.native.status import INTERNAL
from ..bytecode.dispatch import branches, handlers_in
from ..state.state_layout import DONE, FAILED, HOST_CALL, OUT_OF_FUEL, state_at
from . import control_handlers, handlers, view_handlers

#: The handler of each instruction, those of frequent ones first.
HANDLERS = handlers_in((handlers, control_handlers, view_handlers))
#: Calls and launches between two reads of the clock, and the time slice after which Python may handle Ctrl-C.
_FUEL, _SLICE_NS = 16, 50_000_000


@native
def out_of_time(state: int) -> bool:
    """Whether the time slice is over."""
    s = state_at(state)
    now = clock_ns()
    if s.deadline_ns == 0:
        s.deadline_ns = now + _SLICE_NS
        return False
    return now > s.deadline_ns


#: In front of each instruction that may take long.
_BURN = f"""\
fuel -= 1
if fuel < 0:
    fuel = {_FUEL}
    if out_of_time(state):
        n_instructions -= 1  # it runs when the loop resumes
        reason = OUT_OF_FUEL
        break
"""
#: Each instruction sets ``step``, the words to the next one, or a status that ends the run.
TEXT = f'''\
def run_loop(state):
    """Run from the state's frame and pc until there is a reason to return; the reason."""
    s = state_at(state)
    code = s.code
    pc, regs = s.pc, s.stack + 8 * s.base
    n_instructions, fuel = 0, {_FUEL}
    status, reason, step = 0, DONE, 0
    while True:
        at = code + 8 * pc
        op = load_i64(at)
        n_instructions += 1
{indent(branches(HANDLERS, _BURN), " " * 8)}
        else:
            status = INTERNAL
        if status != 0:
            break
        pc += step
    s.pc = pc
    s.instructions += n_instructions
    if status == -HOST_CALL:
        reason = HOST_CALL
    elif status != 0:
        if s.error_pc < 0:
            s.error_pc = pc
        s.status = status
        reason = FAILED
    s.reason = reason
    return reason
'''


#: Names in the text, besides those of handlers.
_NAMES = {
    "DONE": DONE, "FAILED": FAILED, "HOST_CALL": HOST_CALL, "OUT_OF_FUEL": OUT_OF_FUEL, "INTERNAL": INTERNAL,
    "load_i64": load_i64, "out_of_time": out_of_time, "state_at": state_at,
}  # fmt: skip


def _compiled() -> Callable[[int], int]:
    """The loop as a plain Python function; debuggers find its text."""
    namespace: dict[str, Any] = {**_NAMES, **{handler.__name__: handler for handler in HANDLERS.values()}}
    define("loop", TEXT, namespace)
    loop: Callable[[int], int] = native(namespace["run_loop"])
    return loop


run_loop = _compiled()
