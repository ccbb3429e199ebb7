"""Operators on matrices (the last two axes): triangles and diagonals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...composition.legalize import indices
from ...core.compute import Scalar, Select, Value, apply, index
from ...core.dtype_rules import INTEGERS, like_first, require_same
from ...core.op import Op, OpPattern, TypeRelError
from ...core.parameters import Parameter, Parameters
from ..arithmetic.elementwise import zero
from .indexing import as_index

Axes = tuple[Scalar, ...]


@frozen
class TriluAttrs:
    """``upper``: whether to keep the diagonal and the elements above it; otherwise the diagonal and the elements below it."""

    upper: bool = True


@frozen
class MatrixSetDiagAttrs:
    """``k1`` to ``k2``: the replaced diagonals; 0 is the main diagonal, diagonals below it are negative.

    A diagonal shorter than the longest one is aligned to the end of its row of ``diagonal`` if ``super_diag_right_align``
    (diagonals above the main one) or ``sub_diag_right_align`` (below it), else to the begin.
    """

    k1: int = 0
    k2: int = 0
    super_diag_right_align: bool = True
    sub_diag_right_align: bool = False


def _trilu(inputs: tuple[Value, ...], axes: Axes, attrs: TriluAttrs, output: Value) -> Scalar:
    data, k = inputs
    *_, row, column = axes
    above, wanted = column - row, as_index(k())
    kept = above >= wanted if attrs.upper else apply("less_equal", above, wanted, dtype="bool")
    # each element is read, also one that is not kept: vectors of 16 bits cannot be read where a condition holds
    return apply("where", kept, data(*axes), zero(output.dtype), dtype=output.dtype)


def _matrix_set_diag(inputs: tuple[Value, ...], axes: Axes, attrs: MatrixSetDiagAttrs, output: Value) -> Scalar:
    data, diagonal = inputs
    *batch, row, column = axes
    k = column - row
    if attrs.k1 == attrs.k2:
        # a row has one element of the diagonal at most: it is read before the row, not where a condition holds, as vectors cannot
        last = diagonal.size(diagonal.rank - 1) - 1
        at = apply("minimum", apply("maximum", row + min(attrs.k1, 0), index(0)), last)
        is_set = apply("equal", k, index(attrs.k1), dtype="bool")
        return apply("where", is_set, diagonal(*batch, at), data(*axes), dtype=output.dtype)
    at = apply("minimum", row, column)  # index along the diagonal
    rows, columns = (output.size(output.rank - 2), output.size(output.rank - 1))
    length = apply("minimum", rows + apply("minimum", k, index(0)), columns - apply("maximum", k, index(0)))
    shift = diagonal.size(diagonal.rank - 1) - length
    if attrs.super_diag_right_align != attrs.sub_diag_right_align:
        right = k >= 0 if attrs.super_diag_right_align else apply("less_equal", k, index(0), dtype="bool")
        shift = apply("where", right, shift, index(0), dtype="int64")
    elif not attrs.super_diag_right_align:
        shift = index(0)
    is_set = apply("and", k >= attrs.k1, apply("less_equal", k, index(attrs.k2), dtype="bool"))
    return Select(is_set, diagonal(*batch, index(attrs.k2) - k, at + shift), data(*axes))


def _set_diag_rule(inputs: tuple[Any, ...], attrs: MatrixSetDiagAttrs) -> str:
    return require_same("matrix_set_diag", inputs, (0, 1), ("data", "diagonal"))


_ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def _set_diag_call(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """``k``: a diagonal, or the first and the last; ``align``: of the diagonals above and below the main one."""
    k, align = given["k"], given["align"]
    if align not in _ALIGNMENTS:
        raise TypeRelError(f"matrix_set_diag: align is {' or '.join(_ALIGNMENTS)}, not {align!r}")
    first, last = (k[0], k[-1]) if isinstance(k, (list, tuple)) and k else (k, k)
    above, below = (side == "RIGHT" for side in align.split("_"))
    sides = {"super_diag_right_align": above, "sub_diag_right_align": below}
    return "matrix_set_diag", {"data": given["data"], "diagonal": given["diagonal"], "k1": first, "k2": last, **sides}


Op(
    name="trilu",
    doc="The upper (or lower) triangle of matrices from diagonal `k` on, 0 elsewhere: "
    "`trilu([[1, 2], [3, 4]], 0) = [[1, 2], [0, 4]]`.",
    inputs=("data", "k"),
    attrs=TriluAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_first("trilu", ("data", "k"), {1: INTEGERS}),
    compute=_trilu,
    legalization=indices(1),
)
Op(
    name="matrix_set_diag",
    doc="Diagonals of matrices replaced: `matrix_set_diag([[1, 2], [3, 4]], [7, 8]) = [[7, 2], [3, 8]]`.",
    inputs=("data", "diagonal"),
    python=Parameters.of("data", "diagonal", Parameter("k", 0), Parameter("align", "RIGHT_LEFT"), call=_set_diag_call),
    attrs=MatrixSetDiagAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_set_diag_rule,
    compute=_matrix_set_diag,
)
