"""Matrix products and convolutions of quantised integers without their zero points, as composite operators; results are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import dimensions
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite
from ...core.dtype_rules import one_of, require
from ...core.op import DTypeRule, InputRule, get
from ...core.tensor_types import ITEMSIZE, TensorType, Type
from ..convolution.conv import Conv2dAttrs
from ..convolution.conv_transpose import Conv2dTransposeAttrs
from ..movement.transform import SqueezeAttrs
from ..products.byte_terms import are_bytes, less_zero_points
from ..products.nn import BatchMatmulAttrs, DenseAttrs
from ..weight_forms.dense_pack import DensePackAttrs, packed_weight, unpacked
from .quantisation import check_parameters, parameters, spread

#: The dtypes of products and of their operands.
_RESULTS, _OPERANDS = ("int32", "int16", "int64"), ("int8", "uint8", "int16")


@frozen
class QnnDenseAttrs:
    """``units``: number of rows of the weight, None for any; ``out_dtype``: dtype of the result."""

    units: int | None = None
    out_dtype: str = "int32"


@frozen
class QnnDensePackAttrs(DensePackAttrs):
    """As DensePackAttrs."""

    out_dtype: str = "int32"


@frozen
class QnnBatchMatmulAttrs:
    """``out_dtype``: dtype of the result."""

    out_dtype: str = "int32"


@frozen
class QnnConv2dAttrs(Conv2dAttrs):
    """As Conv2dAttrs."""

    out_dtype: str = "int32"


@frozen
class QnnConv2dTransposeAttrs(Conv2dTransposeAttrs):
    """As Conv2dTransposeAttrs."""

    out_dtype: str = "int32"


def _inputs(first: str, second: str, prefixes: tuple[str, str]) -> tuple[str, ...]:
    return first, second, *(f"{p}_zero_point" for p in prefixes), *(f"{p}_scale" for p in prefixes)


_DENSE = _inputs("data", "weight", ("input", "kernel"))
_BATCHED = _inputs("x", "y", ("x", "y"))
_CONV = _inputs("data", "kernel", ("input", "kernel"))
_TRANSPOSED = _DENSE


def _rule(op: str, names: tuple[str, ...]) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        for n in range(2):
            require(op, dtypes[n], _OPERANDS, n, names[n])
        check_parameters(op, names, dtypes)
        one_of(op, "out_dtype", attrs.out_dtype, _RESULTS)
        return str(attrs.out_dtype)

    return rule


def _with_weight(op: str) -> InputRule:
    """The rule of the weight of ``op``, for all six inputs."""

    def six(attrs: Any, types: tuple[Type | None, ...]) -> tuple[Type | None, ...]:
        rule = get(op).infer_inputs
        assert rule is not None, op
        return (*rule(attrs, types[:2]), *types[2:])

    return six


def _packed(attrs: Any, data: Type | None) -> Type | None:
    return packed_weight(_PACKED, attrs, data) if isinstance(data, TensorType) and data.shape else None


def _centred(x: Term, zero_point: Term) -> Term:
    """The integers without their zero point: those of 8 bits as int16, of 16 bits as int32."""
    wide = "int16" if ITEMSIZE[x.dtype] == 1 else "int32"
    return cast(x, wide) - cast(zero_point, wide)


def _exact(op: str, terms: Iterable[Term], attrs: Any, dtype: str) -> Term:
    """The convolution ``op``, computed in float64: products of 17 bits are exact there, up to 2**19 in a sum."""
    product = call(get(op), *(cast(t, "float64") for t in terms), attrs=replace(attrs, out_dtype="float64"))
    return cast(cast(product, "int64"), dtype)


def _whole(op: str, names: tuple[str, ...], inputs: tuple[Term, ...], n: int) -> Term:
    """Zero point ``n``, of all elements of input ``n - 2``.  Raises ShapeError for a vector."""
    value = inputs[n]
    if value.rank and const(value.shape[0]) != 1:
        raise ShapeError(f"{names[n]} must be a scalar; it has {dimensions(value.rank)}", input=n)
    return spread(op, value, inputs[n - 2], -1, names[n], n)


def _is_one(value: Term) -> bool:
    """Whether a tensor has one element."""
    return all(const(size) == 1 for size in value.shape)


def _product(op: str, inputs: Iterable[Term], zeros: tuple[Term, Term], attrs: Any) -> Term:
    """The product of integers without their zero points, of which the second may have one for each column of the result."""
    (a, b), (of_all, by_row) = inputs, zeros
    are_rows = _is_one(by_row) or (by_row.rank == b.rank == 2 and const(by_row.shape[1]) == 1)
    if are_bytes((a.dtype, b.dtype), attrs) and _is_one(of_all) and are_rows:
        by_column = call(get("squeeze"), by_row, attrs=SqueezeAttrs((1,))) if by_row.rank == b.rank == 2 else by_row
        return less_zero_points(get(op), a, b, (of_all, by_column), attrs)
    product: Term = call(get(op), *map(_centred, (a, b), zeros), attrs=attrs)
    return product


def _dense(inputs: tuple[Term, ...], attrs: QnnDenseAttrs) -> Term:
    zeros = _whole("qnn.dense", _DENSE, inputs, 2), spread("qnn.dense", inputs[3], inputs[1], 0, _DENSE[3], 3)
    return _product("nn.dense", inputs[:2], zeros, DenseAttrs(attrs.units, attrs.out_dtype))


def _dense_pack(inputs: tuple[Term, ...], attrs: QnnDensePackAttrs) -> Term:
    data, weight, *parameters = inputs
    plain = unpacked(weight, attrs.weight_layout)
    return _dense((data, plain, *parameters), QnnDenseAttrs(attrs.units, attrs.out_dtype))


def _batch_matmul(inputs: tuple[Term, ...], attrs: QnnBatchMatmulAttrs) -> Term:
    zeros = _whole("qnn.batch_matmul", _BATCHED, inputs, 2), _whole("qnn.batch_matmul", _BATCHED, inputs, 3)
    return _product("nn.batch_matmul", inputs[:2], zeros, BatchMatmulAttrs(attrs.out_dtype))


def _convolution(op: str, names: tuple[str, ...], plain: type) -> Callable[[tuple[Term, ...], Any], Term]:
    def expand(inputs: tuple[Term, ...], attrs: Any) -> Term:
        outputs = attrs.kernel_layout.find("O") % max(inputs[1].rank, 1)
        zero_points = _whole(f"qnn.{op}", names, inputs, 2), spread(f"qnn.{op}", inputs[3], inputs[1], outputs, names[3], 3)
        return _exact(f"nn.{op}", map(_centred, inputs[:2], zero_points), plain(**vars(attrs)), attrs.out_dtype)

    return expand


composite(
    name="qnn.dense",
    doc="`nn.dense` of `data - input_zero_point` and `weight - kernel_zero_point`; the scale of the result is the product of "
    "the scales: `qnn.dense([[3, 4]], [[1, 2]], 1, 0, 0.5, 0.5) = [[8]]`.",
    inputs=_DENSE,
    attrs=QnnDenseAttrs,
    dtype=_rule("qnn.dense", _DENSE),
    expand=_dense,
    infer_inputs=_with_weight("nn.dense"),
    python=parameters(*_DENSE, "units", "out_dtype"),
)
_PACKED = "qnn.contrib_dense_pack"
composite(
    name=_PACKED,
    doc="`qnn.dense` with a packed weight, as `nn.contrib_dense_pack` has it: "
    '`qnn.contrib_dense_pack([[3, 4]], [[[1], [2]]], 1, 0, 0.5, 0.5, weight_layout="NC1n") = [[8]]`.',
    inputs=_DENSE,
    attrs=QnnDensePackAttrs,
    dtype=_rule(_PACKED, _DENSE),
    expand=_dense_pack,
    infer_inputs=lambda attrs, types: (types[0], _packed(attrs, types[0]), *types[2:]),
    python=parameters(*_DENSE, "weight_layout", "units", "out_dtype"),
)
composite(
    name="qnn.batch_matmul",
    doc="`nn.batch_matmul` of `x - x_zero_point` and `y - y_zero_point`, `y` transposed: "
    "`qnn.batch_matmul([[[3, 4]]], [[[1, 2]]], 1, 0, 0.5, 0.5) = [[[8]]]`.",
    inputs=_BATCHED,
    attrs=QnnBatchMatmulAttrs,
    dtype=_rule("qnn.batch_matmul", _BATCHED),
    expand=_batch_matmul,
    python=parameters(*_BATCHED, "out_dtype"),
)
_ORDER = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout", "out_dtype")
composite(
    name="qnn.conv2d",
    doc="`nn.conv2d` of `data - input_zero_point`, padded with 0, and `kernel - kernel_zero_point`; a vector of the kernel's "
    "zero points has one per output channel.",
    inputs=_CONV,
    attrs=QnnConv2dAttrs,
    dtype=_rule("qnn.conv2d", _CONV),
    expand=_convolution("conv2d", _CONV, Conv2dAttrs),
    infer_inputs=_with_weight("nn.conv2d"),
    python=parameters(*_CONV, "kernel_size", "channels", *_ORDER),
)
_TRANSPOSED_ORDER = (
    "strides", "padding", "dilation", "channels", "kernel_size", "groups", "data_layout", "kernel_layout", "out_layout",
    "output_padding", "out_dtype",
)  # fmt: skip
composite(
    name="qnn.conv2d_transpose",
    doc="`nn.conv2d_transpose` of `data - input_zero_point` and `weight - kernel_zero_point`; zero points as in `qnn.conv2d`.",
    inputs=_TRANSPOSED,
    attrs=QnnConv2dTransposeAttrs,
    dtype=_rule("qnn.conv2d_transpose", _TRANSPOSED),
    expand=_convolution("conv2d_transpose", _TRANSPOSED, Conv2dTransposeAttrs),
    infer_inputs=_with_weight("nn.conv2d_transpose"),
    python=parameters(*_TRANSPOSED, *_TRANSPOSED_ORDER),
)
