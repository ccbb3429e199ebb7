"""The shape of the answer of a function in Python."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank
from ...symbolic.dim import Shape
from ...symbolic.registry import Operand, register_shape_func


@register_shape_func("host_function")
def host_function(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """A scalar, whatever the shape of the data."""
    need_rank(inputs[0], 0, "the function's number", 0)
    return ()
