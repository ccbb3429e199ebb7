"""Neural-network operators with hand-written kernels: matrix products and softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import product
from ...composition.composite import Term, call, cast
from ...composition.legalize import legalized
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import FLOATS, INTEGERS, NUMBERS, like_inputs, one_of, require, require_same
from ...core.implementation import Kernel, OpCall, Scratch, Split
from ...core.input_types import from_data, stated
from ...core.op import DTypeRule, Op, OpPattern
from ...core.tensor_types import HALVES, TensorType, int_range, is_float
from ...kernels.softmax import cpu as softmaxes
from ...kernels.softmax import cuda as cuda_softmax
from ...strategy.products import matmul_strategy
from .byte_terms import EXCESS, are_bytes, row_sums, signed


@frozen
class DenseAttrs:
    """``units``: number of rows of the weight, None for any.  ``out_dtype``: dtype of the result, "" for the data's."""

    units: int | None = None
    out_dtype: str = ""


@frozen
class MatmulAttrs:
    """As DenseAttrs; ``transpose_a``, ``transpose_b``: whether the last two axes of the input are swapped first."""

    units: int | None = None
    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False


@frozen
class BatchMatmulAttrs:
    """As MatmulAttrs, but ``transpose_b`` is True by default."""

    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = True


@frozen
class SoftmaxAttrs:
    """``axis``: the normalised axis."""

    axis: int = -1


def product_rule(op: str, names: tuple[str, str]) -> DTypeRule:
    """Rule: both inputs are integers, or have the same float dtype; the result has that of the first, or another of its kind."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        dtype = dtypes[0] if set(dtypes) <= {*INTEGERS} else require_same(op, dtypes, (0, 1), names)
        require(op, dtype, NUMBERS, 0, names[0])
        if not attrs.out_dtype:
            return dtype
        one_of(op, "out_dtype", attrs.out_dtype, FLOATS if is_float(dtype) else INTEGERS)
        return str(attrs.out_dtype)

    return rule


def _tiled_rule(dtypes: tuple[Any, ...], attrs: BatchMatmulAttrs) -> str:
    require("nn.tiled_batch_matmul", dtypes[0], FLOATS, 0, "tensor_a")
    require("nn.tiled_batch_matmul", dtypes[2], ("int32", "int64"), 2, "reps")
    return str(product_rule("nn.tiled_batch_matmul", ("tensor_a", "tensor_b"))(dtypes[:2], attrs))


def _integers_as_one(op: Op, inputs: tuple[Term, Term], attrs: Any) -> Term:
    """A product of two dtypes of integers, both as the narrowest that holds either; uint64 and a signed one modulo 2**64."""
    first, second = (t.dtype for t in inputs)
    ranges = [int_range(d) for d in (first, second)]
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    wide = next((d for d in INTEGERS if int_range(d)[0] <= low and high <= int_range(d)[1]), "int64")
    result: Term = call(op, *(cast(t, wide) for t in inputs), attrs=replace(attrs, out_dtype=attrs.out_dtype or first))
    return result


def _needs_one_dtype(dtypes: tuple[Any, ...], attrs: Any) -> bool:
    return bool(dtypes[1] == "uint8" if are_bytes(dtypes, attrs) else dtypes[0] != dtypes[1])


def _of_integers(op: Op, inputs: tuple[Term, Term], attrs: Any) -> Term:
    """``_integers_as_one``; unsigned bytes of the second matrix are taken as signed ones, 128 less, and the rest is added."""
    a, b = inputs
    if not are_bytes((a.dtype, b.dtype), attrs):
        return _integers_as_one(op, inputs, attrs)
    product: Term = call(op, a, signed(b), attrs=attrs)
    return product + row_sums(a) * EXCESS


_OF_TWO_DTYPES = legalized(_needs_one_dtype, _of_integers)


#: Buffers of columns: of the compute dtype, and sums.
_TOP, _TOTAL = Scratch(axis=2), Scratch("float64", axis=2)
#: A buffer of a row.
_ROW = Scratch(axis=1)


def _is_of_halves(call: OpCall) -> bool:
    return call.inputs[0].dtype in HALVES


def _softmax_kernels(
    name: str,
    rows: dict[str, Any],
    over: dict[str, Any],
    columns: dict[str, Any],
    buffers: tuple[Scratch, ...],
    on_gpu: Any,
    held: Any = None,
) -> tuple[Kernel, ...]:
    """``held``: the body for rows of halves that has a buffer of a row; None: that of ``rows``."""

    def of(bodies: dict[str, Any]) -> Callable[[Any, tuple[str, ...]], Any]:
        return lambda attrs, dtypes: bodies.get(dtypes[0]) or bodies[""]

    def in_rows(call: OpCall) -> Conditions:
        shape = call.inputs[0].shape
        return (condition(product(shape[call.attrs.axis % len(shape) + 1 :]), "==", 1),)

    def has_body(call: OpCall) -> bool:
        return not (held and _is_of_halves(call))

    # in place: each element is written after its last read
    given: dict[str, Any] = {"attrs": lambda attrs: {}, "views": ("axis",), "split": Split(ns=0.7), "in_place": ((0, 0),)}
    return (
        *([Kernel("half_rows", held, scratch=(_ROW,), takes=_is_of_halves, fits=in_rows, **given)] if held else []),
        Kernel("rows", rows["float64"], choose=of(rows), over=of(over), takes=has_body, fits=in_rows, **given),
        Kernel("columns", columns[""], choose=of(columns), scratch=buffers, **given),
        Kernel(name, None, views=("axis",), cuda=on_gpu),
    )


def _dense_weight(attrs: Any, data: TensorType) -> tuple[TensorType, ...]:
    """``(units, k)`` for data ``[..., k]``."""
    stated("nn.dense", attrs, "units")
    return (TensorType.of((attrs.units, data.shape[-1]), data.dtype),)


def _matmul_weight(attrs: Any, data: TensorType) -> tuple[TensorType, ...]:
    """``(k, units)`` for the first matrix ``[..., m, k]``, each transposed if its flag is set."""
    stated("nn.matmul", attrs, "units")
    sizes = (data.shape[-2 if attrs.transpose_a else -1], attrs.units)
    return (TensorType.of(sizes[::-1] if attrs.transpose_b else sizes, data.dtype),)


def _dense(attrs: Any) -> tuple[bool, bool]:
    return False, True


def _own(attrs: Any) -> tuple[bool, bool]:
    return attrs.transpose_a, attrs.transpose_b


Op(
    name="nn.dense",
    doc="`data[..., k]` times the transpose of `weight[n, k]`: a linear layer.",
    inputs=("data", "weight"),
    attrs=DenseAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=product_rule("nn.dense", ("data", "weight")),
    kernels=matmul_strategy.tensor_times_matrix(_dense),
    infer_inputs=from_data(_dense_weight, at_least=True),
    legalization=_OF_TWO_DTYPES,
)

Op(
    name="nn.matmul",
    doc="`tensor_a[..., m, k]` times the matrix `tensor_b[k, n]`, each transposed first if its flag is set.",
    inputs=("tensor_a", "tensor_b"),
    attrs=MatmulAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=product_rule("nn.matmul", ("tensor_a", "tensor_b")),
    kernels=matmul_strategy.tensor_times_matrix(_own),
    infer_inputs=from_data(_matmul_weight, 2, at_least=True),
    legalization=_OF_TWO_DTYPES,
)

Op(
    name="nn.batch_matmul",
    doc="`tensor_a[i] @ tensor_b[i]` for each i of a batch, `tensor_b` transposed by default; a batch of 1 is broadcast.",
    inputs=("tensor_a", "tensor_b"),
    attrs=BatchMatmulAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=product_rule("nn.batch_matmul", ("tensor_a", "tensor_b")),
    kernels=matmul_strategy.batched_products(_own),
    legalization=_OF_TWO_DTYPES,
)

Op(
    name="nn.tiled_batch_matmul",
    doc="`nn.batch_matmul(tensor_a, dyn.tile(tensor_b, reps))` of floats, with `reps` of `[r, 1, 1]`, without copies: "
    "`nn.tiled_batch_matmul([[[1.0]], [[2.0]]], [[[3.0]]], [2, 1, 1]) = [[[3.0]], [[6.0]]]`.  The compiler makes it on CPUs.",
    inputs=("tensor_a", "tensor_b", "reps"),
    attrs=BatchMatmulAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_tiled_rule,
    kernels=matmul_strategy.tiled_products(_own),
)

Op(
    name="nn.softmax",
    doc="`exp(x) / sum(exp(x))` along an axis.",
    inputs=("data",),
    attrs=SoftmaxAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=like_inputs("nn.softmax", ["data"], FLOATS),
    kernels=_softmax_kernels(
        "softmax",
        softmaxes.SOFTMAX_ROWS,
        softmaxes.SOFTMAX_ROWS_OVER,
        softmaxes.SOFTMAX_COLUMNS,
        (_TOP, _TOP, _TOTAL, _TOP),
        cuda_softmax.softmax,
        softmaxes.SOFTMAX_ROWS_OF_HALVES,
    ),
)

Op(
    name="nn.log_softmax",
    doc="The logarithm of softmax along an axis, without forming the softmax.",
    inputs=("data",),
    attrs=SoftmaxAttrs,
    pattern=OpPattern.OPAQUE,
    shape_func_name="nn.softmax",
    dtype=like_inputs("nn.log_softmax", ["data"], FLOATS),
    kernels=_softmax_kernels(
        "log_softmax",
        softmaxes.LOG_SOFTMAX_ROWS,
        softmaxes.LOG_SOFTMAX_ROWS,
        softmaxes.LOG_SOFTMAX_COLUMNS,
        (_TOP, _TOP, _TOTAL),
        cuda_softmax.log_softmax,
    ),
)
