"""Control of inlining: machine code of rare cases stays out of the code of frequent ones."""

from __future__ import annotations

from typing import Any

from ..memory import set_machine_form, twin


@twin
def keep_out_of_line() -> None:
    """Keep the calling function out of the functions that call it, which stay small enough to be inlined themselves."""


def _keep_out_of_line(emitter: Any) -> None:
    emitter.function.attributes.add("noinline")


set_machine_form(keep_out_of_line, lambda: _keep_out_of_line)
