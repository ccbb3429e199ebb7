"""Operators on sparse matrices in the formats CSR and BSR: values or blocks, their columns, the begin of each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import per_axis
from ....shape_funcs.defs.sparse.sparse import stored_rows
from ....shape_funcs.symbolic.argument_checks import need_rank
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, equal_sizes, number
from ...composition.legalize import indices
from ...core.dtype_rules import FLOATS, INTEGERS, NUMBERS, require, require_same
from ...core.implementation import Kernel, Split
from ...core.op import DTypeRule, NoAttrs, Op, OpPattern, TypeRelError, get
from ...core.parameters import Parameter, Parameters
from ...kernels.sparse_dense import cpu as bodies
from ...kernels.sparse_dense import cuda as cuda
from ..axes.search import SearchsortedAttrs
from ..axes.sort import ArgsortAttrs, CumulativeAttrs
from ..convolution.conv import Numbers
from ..movement.pad import PadAttrs
from ..movement.transform import (
    CONCATENATE,
    STRIDED_SLICE,
    TRANSPOSE,
    AxisAttrs,
    ExpandDimsAttrs,
    ReshapeAttrs,
    ReshapeLikeAttrs,
    SliceAttrs,
    TransposeAttrs,
)

_SPARSE = ("sparse_data", "sparse_indices", "sparse_indptr")
_INPUTS = ("dense_mat", *_SPARSE)


_FIELDS = ("data", "indices", "indptr")


def _written(name: str, matrix: str, *others: str | Parameter) -> Parameters:
    """Relay's parameters: the sparse matrix is one, ``matrix``: a tuple of three, or an object as scipy's ``csr_matrix``."""

    def call(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        rest = dict(given)
        value = rest.pop(matrix)
        if all(hasattr(value, field) for field in _FIELDS):
            parts = tuple(getattr(value, field) for field in _FIELDS)
        else:
            parts = tuple(value) if isinstance(value, (tuple, list)) else ()
        if len(parts) != len(_FIELDS):
            found = f"{len(parts)} parts" if parts else type(value).__name__
            raise TypeRelError(
                f"{name}: {matrix} must be three tensors, data, indices and indptr, not {found}",
                help="give a tuple of the three, or an object with these fields, as scipy's csr_matrix and bsr_matrix",
            )
        return name, {**rest, **dict(zip(_SPARSE, parts, strict=True))}

    return Parameters.of(*others[:1], matrix, *others[1:], call=call)


def _lists(name: str, dtypes: tuple[Any, ...], first: int) -> None:
    for position in (first, first + 1):
        require(name, dtypes[position], INTEGERS, position, _INPUTS[position])


def _rule(name: str, supported: tuple[str, ...]) -> DTypeRule:
    """Rule: the dense and the sparse matrix have one dtype, and so has the result."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        _lists(name, dtypes, 2)
        dtype = require_same(name, dtypes, (0, 1), _INPUTS)
        require(name, dtype, supported, 0, _INPUTS[0])
        return dtype

    return rule


# ---- products ------------------------------------------------------------------------------------------------------------


@frozen
class SparseDenseAttrs:
    """``sparse_lhs``: whether the sparse matrix is the left factor."""

    sparse_lhs: bool = False


_KERNEL: dict[str, Any] = {"body": bodies.sparse_dense, "views": ("", "dims", "flat", "flat", ""), "refuses": True}
#: The rows of the dense matrix between threads; as the right factor its rows are columns of the result.
_BY_ROWS = Split(ns=20, tensors=(True, False, False, False, True), by=-1)

Op(
    name="nn.sparse_dense",
    doc="The product of a dense matrix and a transposed sparse one, or of the sparse one and the transposed dense one.  The "
    "sparse matrix is given by its values, or blocks of values, their columns, and the begin of each row: "
    "`nn.sparse_dense([[1.0, 2.0, 3.0]], [5.0, 7.0], [1, 2], [0, 1, 2]) = [[10.0, 21.0]]`.",
    inputs=_INPUTS,
    python=_written("nn.sparse_dense", "sparse_mat", "dense_mat", "sparse_lhs"),
    attrs=SparseDenseAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule("nn.sparse_dense", FLOATS),
    legalization=indices(2, 3),
    kernels=(
        Kernel("by_rows", **_KERNEL, takes=lambda call: not call.attrs.sparse_lhs, split=_BY_ROWS, cuda=cuda.sparse_dense),
        Kernel("any_order", **_KERNEL, cuda=cuda.sparse_dense),
    ),
)


#: The largest size of a window; a larger one is rejected as a mistake.
MOST_TAPS = 31


@frozen
class SparseConv2dAttrs:
    """``layout``: NHWC or NCHW; ``kernel_size``: odd sizes of the window, whose middle goes over every position."""

    layout: Literal["NHWC", "NCHW"] = "NHWC"
    kernel_size: Numbers = (1, 1)


def _conv2d(inputs: tuple[Term, ...], attrs: SparseConv2dAttrs) -> Term:
    dense, data, columns, starts = inputs
    need_rank(dense.operand, 4, _INPUTS[0], 0)
    window = per_axis(attrs.kernel_size, 2, "kernel_size")
    if not all(size % 2 and size <= MOST_TAPS for size in window):
        raise ShapeError(f"kernel_size is {window}; both sizes must be odd, and at most {MOST_TAPS}")
    if data.rank not in (2, 3):
        raise ShapeError(f"sparse_data has rank {data.rank}; it must be 2 (blocks of one column) or 3 (blocks)", input=1)
    if data.rank == 2:
        data = call(get("expand_dims"), data, attrs=ExpandDimsAttrs(2))
    if attrs.layout == "NCHW":
        dense = call(TRANSPOSE, dense, attrs=TransposeAttrs((0, 2, 3, 1)))
    windows = _windows(dense, window)
    rows = call(get("reshape"), call(get("reshape"), windows, attrs=ReshapeAttrs((-3, 0, 0))), attrs=ReshapeAttrs((-3, 0)))
    product = call(get("nn.sparse_dense"), rows, data, columns, starts)
    image: Term = call(get("reshape_like"), product, dense, attrs=ReshapeLikeAttrs(0, 1, 0, 3))
    return call(TRANSPOSE, image, attrs=TransposeAttrs((0, 3, 1, 2))) if attrs.layout == "NCHW" else image


def _windows(image: Term, window: tuple[int, ...]) -> Term:
    """The channels of each window as the channels of its middle: rows of the window first, then columns, then channels."""
    if window == (1, 1):
        return image
    around = tuple(size // 2 for size in window)
    width = ((0, 0), *((n, n) for n in around), (0, 0))
    padded = call(get("nn.pad"), image, number(0, image.dtype), attrs=PadAttrs(width))
    parts = []
    for y in range(window[0]):
        for x in range(window[1]):
            ends = tuple(at - size + 1 or INT64_MAX for at, size in zip((y, x), window, strict=True))
            parts.append(call(STRIDED_SLICE, padded, attrs=SliceAttrs((y, x), ends, axes=(1, 2))))
    joined: Term = call(CONCATENATE, tuple(parts), attrs=AxisAttrs(3))
    return joined


composite(
    name="nn.sparse_conv2d",
    doc="Convolution by a sparse weight, padded to keep the picture's size.  The rows of the weight are the output channels, "
    "its columns go over the window's rows, its columns, and the input channels.  It is given by its blocks, their columns, and "
    "the begin of each row: `nn.sparse_conv2d([[[[1.0, 2.0]]]], [[3.0]], [1], [0, 1]) = [[[[6.0]]]]`.",
    inputs=_INPUTS,
    python=_written("nn.sparse_conv2d", "sparse_mat", "dense_mat", "layout", "kernel_size"),
    attrs=SparseConv2dAttrs,
    dtype=_rule("nn.sparse_conv2d", FLOATS),
    expand=_conv2d,
)


# ---- values by their rows ------------------------------------------------------------------------------------------------


def _numbers(like: Term) -> Term:
    """0, 1, 2 ... as many as a vector has elements, in int64."""
    ones = call(get("ones_like"), cast(like, "int64"))
    counted: Term = call(get("cumsum"), ones, attrs=CumulativeAttrs(0)) - 1
    return counted


def _rows(columns: Term, starts: Term) -> Term:
    """The row of each value."""
    after = call(get("searchsorted"), cast(starts, "int64"), _numbers(columns), attrs=SearchsortedAttrs(True, "int64"))
    row: Term = after - 1
    return row


def _values(name: str, data: Term, columns: Term, starts: Term, first: int) -> Term:
    """The values, checked to be as many as the columns."""
    need_rank(data.operand, 1, _SPARSE[0], first)
    stored_rows(data.operand, columns.operand, starts.operand, first)
    return equal_sizes(data, 0, columns, 0, f"{name}: there are {{}} values, but {{}} indices", first)


def _add(inputs: tuple[Term, ...], attrs: NoAttrs) -> Term:
    dense, data, columns, starts = inputs
    need_rank(dense.operand, 2, _INPUTS[0], 0)
    data = _values("nn.sparse_add", data, columns, starts, 1)
    at = call(get("stack"), (_rows(columns, starts), cast(columns, "int64")), attrs=AxisAttrs(0))
    added: Term = call(get("scatter_nd"), dense, at, data, attrs=get("scatter_nd").attrs("add"))
    return added


composite(
    name="nn.sparse_add",
    doc="The sum of a dense matrix and a sparse one, given by its values, their columns, and the begin of each row: "
    "`nn.sparse_add([[1.0, 2.0], [3.0, 4.0]], [5.0, 7.0], [1, 0], [0, 1, 2]) = [[1.0, 7.0], [10.0, 4.0]]`.",
    inputs=_INPUTS,
    python=_written("nn.sparse_add", "sparse_mat", "dense_mat"),
    dtype=_rule("nn.sparse_add", NUMBERS),
    expand=_add,
)


def _transpose_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    name = "nn.sparse_transpose"
    for position in (1, 2):
        require(name, dtypes[position], INTEGERS, position, _SPARSE[position])
    return tuple(dtypes)


def _transpose(inputs: tuple[Term, Term, Term], attrs: NoAttrs) -> tuple[Term, ...]:
    data, columns, starts = inputs
    data = _values("nn.sparse_transpose", data, columns, starts, 0)
    # each column looked up among all of them: a column that there is not is an error
    every = _numbers(call(STRIDED_SLICE, starts, attrs=SliceAttrs((1,), (INT64_MAX,))))
    own = call(get("gather"), every, cast(columns, "int64"), attrs=AxisAttrs(0))
    order = call(get("argsort"), own, attrs=ArgsortAttrs(0, dtype="int64"))
    by_order = AxisAttrs(0)
    values, rows, ordered = (call(get("gather"), t, order, attrs=by_order) for t in (data, _rows(columns, starts), own))
    begins = call(get("searchsorted"), ordered, _numbers(starts), attrs=SearchsortedAttrs(False, "int64"))
    return values, cast(rows, columns.dtype), cast(begins, starts.dtype)


composite(
    name="nn.sparse_transpose",
    doc="A square sparse matrix transposed, given and returned as its values, their columns, and the begin of each row: "
    "`nn.sparse_transpose([5.0, 7.0], [1, 1], [0, 1, 2]) = ([5.0, 7.0], [0, 1], [0, 0, 2])`.",
    inputs=_SPARSE,
    python=_written("nn.sparse_transpose", "x"),
    dtype=_transpose_rule,
    expand=_transpose,
)
