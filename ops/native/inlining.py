"""Control of inlining: machine code of rare cases stays out of the code of frequent ones."""

from __future__ import annotations

from .memory import instruction


@instruction(lambda e: e.emitter.function.attributes.add("noinline"))
def keep_out_of_line() -> None:
    """Keep the calling function out of the functions that call it, which stay small enough to be inlined themselves."""


@instruction(lambda e: e.emitter.function.attributes.add("optsize"))
def keep_short() -> None:
    """Keep the loops of the calling function as they are written: LLVM unrolls none."""
