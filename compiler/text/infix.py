"""The signs of the text format and of Python that stand for operators: the one place that knows which is which."""

from __future__ import annotations

from dataclasses import dataclass

from ...ops import op
from ...ops.op import Op


@dataclass(frozen=True)
class Sign:
    """``text`` between two operands; ``method`` is Python's method for it, None where Python keeps its own meaning.

    ``is_arithmetic``: Python has a method for swapped operands too.
    """

    text: str
    op_name: str
    method: str | None
    is_arithmetic: bool = False

    @property
    def op(self) -> Op:
        return op.get(self.op_name)


#: Between two operands.  ``==`` and ``!=`` stay identity in Python: nodes are keys of dictionaries.
SIGNS = {
    sign.text: sign
    for sign in (
        Sign("+", "add", "add", True),
        Sign("-", "subtract", "sub", True),
        Sign("*", "multiply", "mul", True),
        Sign("/", "divide", "truediv", True),
        Sign("<", "less", "lt"),
        Sign("<=", "less_equal", "le"),
        Sign(">", "greater", "gt"),
        Sign(">=", "greater_equal", "ge"),
        Sign("==", "equal", None),
        Sign("!=", "not_equal", None),
    )
}
#: Before one operand.
MINUS = Sign("-", "negative", "neg")
