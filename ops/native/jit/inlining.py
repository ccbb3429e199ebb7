"""Control of inlining: machine code of rare cases stays out of the code of frequent ones."""

from __future__ import annotations

from typing import Any

from ..memory import set_machine_form, twin


@twin
def keep_out_of_line() -> None:
    """Keep the calling function out of the functions that call it, which stay small enough to be inlined themselves."""


def _keep_out_of_line() -> Any:
    from numba import types

    from .intrinsics import intrinsic

    @intrinsic
    def keep(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.function.attributes.add("noinline")
            return context.get_dummy_value()

        return types.void(), generate

    return keep


set_machine_form(keep_out_of_line, _keep_out_of_line)
