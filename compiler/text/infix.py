"""Infix and prefix signs of the text format and of Python, with their operators."""

from __future__ import annotations

from ...declarations.frozen_dataclass import frozen
from ...ops.core import op
from ...ops.core.op import Op


@frozen
class Sign:
    """``text`` between two operands; ``method`` is Python's method for it, None if Python's own meaning is kept.

    ``is_arithmetic``: Python also has a method for swapped operands.
    """

    text: str
    op_name: str
    method: str | None
    is_arithmetic: bool = False

    @property
    def op(self) -> Op:
        return op.get(self.op_name)


#: Binary signs.  ``==`` and ``!=`` remain identity in Python: nodes are keys of dictionaries.
SIGNS = {
    sign.text: sign
    for sign in (
        Sign("+", "add", "add", True),
        Sign("-", "subtract", "sub", True),
        Sign("*", "multiply", "mul", True),
        Sign("/", "divide", "truediv", True),
        Sign("%", "floor_mod", "mod", True),
        Sign("<", "less", "lt"),
        Sign("<=", "less_equal", "le"),
        Sign(">", "greater", "gt"),
        Sign(">=", "greater_equal", "ge"),
        Sign("==", "equal", None),
        Sign("!=", "not_equal", None),
    )
}
#: Signs of Python alone: in a text ``//`` begins a comment.
PYTHON_SIGNS = (Sign("//", "floor_divide", "floordiv", True),)
#: The unary sign.
MINUS = Sign("-", "negative", "neg")
