"""Help for a literal of a wrong dtype: the literal that fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import TensorType, numpy_dtype
from ...ops.core.type_relation import relate
from ..ir.expr import Constant, Expr
from ..text.literals import literal_text

_NUMBER = re.compile(r"-*[\s-]*[0-9][\w.+-]*")


def literal_help(op: Op, args: Sequence[Expr], attrs: Any, known: Sequence[Any]) -> str | None:
    """The literal to write so that the call has a type, as ``write `1i64```; None if no other dtype of one literal suffices.

    ``known`` has the value of each constant argument.  Only numbers written in the program's text count.
    """
    types = [arg.ty for arg in args]
    dtypes = dict.fromkeys(ty.dtype for ty in types if isinstance(ty, TensorType))
    for k, arg in enumerate(args):
        if not isinstance(arg, Constant) or not _is_literal(arg):
            continue
        for dtype in dtypes:
            value = _exactly(arg.data, dtype)
            text = None if value is None else literal_text(value)
            if text is not None and _has_type(op, _with(types, k, TensorType((), dtype)), attrs, _with(known, k, value)):
                return f"write `{text}`"
    return None


def _with(items: Sequence[Any], k: int, item: Any) -> list[Any]:
    return [*items[:k], item, *items[k + 1 :]]


def _is_literal(constant: Constant) -> bool:
    span = constant.span
    return span is not None and constant.data.ndim == 0 and bool(_NUMBER.fullmatch(span.source.text, span.start, span.end))


def _exactly(data: np.ndarray, dtype: str) -> np.ndarray | None:
    """The number as another dtype; None if the dtype does not have it, or has it already."""
    if dtype in (data.dtype.name, "bool"):
        return None
    with np.errstate(all="ignore"):
        value = data.astype(numpy_dtype(dtype))
        same = float(value) == float(data) and value.astype(data.dtype) == data
    return value if same else None


def _has_type(op: Op, types: Sequence[Any], attrs: Any, known: Sequence[Any]) -> bool:
    try:
        relate(op, types, attrs, known)
    except TypeRelError:
        return False
    return True
