"""Control of inlining: functions that kernels share, and code of rare cases, which stays out of the code of frequent ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .memory import F, instruction


def shared(function: F) -> F:
    """Mark a generic function that kernels share: where kernels have parts (see ``code_parts``), its code is one.

    It is compiled once for the types and the static values of its arguments, and called by its name.  It returns nothing.
    """
    vars(function)["__shared__"] = True
    return function


def apart(*passed: str) -> Callable[[F], F]:
    """Mark a generic function as a part of object code, which kernels share (see ``front_end.bodies_apart``).

    It returns an int.  A parameter may be a native function without a result, whose own parameters are words, and ``sums``: an
    array of the type of the parameter ``out``, or of the first field of that record.  ``passed``: parameters, and fields of
    records, for whose constants no code of its own is compiled.
    """

    def mark(function: F) -> F:
        vars(function)["__apart__"] = passed
        return function

    return mark


def is_shared(function: Callable[..., Any]) -> bool:
    """Whether a function is marked as ``shared``."""
    return hasattr(function, "__shared__")


@instruction(lambda e: e.emitter.function.attributes.add("noinline"))
def keep_out_of_line() -> None:
    """Keep the calling function out of the functions that call it, which stay small enough to be inlined themselves."""


@instruction(lambda e: e.emitter.function.attributes.add("optsize"))
def keep_short() -> None:
    """Keep the loops of the calling function as they are written: LLVM unrolls none."""
