"""Control of inlining: machine code of rare cases stays out of the code of frequent ones."""

from __future__ import annotations

from ..memory import instruction


@instruction(lambda e: e.emitter.function.attributes.add("noinline"))
def keep_out_of_line() -> None:
    """Keep the calling function out of the functions that call it, which stay small enough to be inlined themselves."""


@instruction(lambda e: e.keep_apart())
def keep_apart() -> None:
    """Let LLVM know that the arrays that the calling function takes share no memory that is written."""


@instruction(lambda e: e.emitter.function.attributes.add("optsize"))
def keep_short() -> None:
    """Keep the loops of the calling function as they are written: LLVM unrolls none."""


@instruction(lambda e: e.emitter.function.attributes.add("noimplicitfloat"))
def keep_words_single() -> None:
    """Keep the words of the calling function in registers of their own: LLVM makes vectors of places that advance together,
    and takes each out again for its loads.
    """
