"""Effects of values on memory, from the declarations of machine operators."""

from __future__ import annotations

from ...ops.core.effect import NO_EFFECT, Effect
from ...ops.core.op import Op
from .expr import Call, Expr


def effect_of(value: Expr) -> Effect:
    """The effect of a call of a machine operator; without roles for every other value."""
    return value.op.effect if isinstance(value, Call) and isinstance(value.op, Op) else NO_EFFECT
