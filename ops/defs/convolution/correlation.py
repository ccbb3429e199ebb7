"""The correlation of two pictures, as FlowNet computes it: windows of the first compared with displaced windows of the second."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import sides
from ....shape_funcs.defs.convolution.correlation import displacements
from ...composition.composite import Term, call, cast, composite, widened
from ...core.compute import Literal, Scalar, Select, Value, apply, index
from ...core.dtype_rules import FLOATS, like_inputs
from ...core.op import Op, OpPattern, get
from ..axes.reduce import MEAN, ReduceAttrs
from ..movement.indexing import inside
from .conv import Numbers

_INPUTS = ("data1", "data2")


@frozen
class CorrelationAttrs:
    """``kernel_size``: rows and columns of a window; ``max_displacement``: the largest distance of two compared windows along an
    axis; ``stride1``: distance of two windows of the first picture; ``stride2``: of two displacements; ``padding`` with zeros:
    one number, one per axis, or one before both axes, then after both axes; ``is_multiply``: whether elements are multiplied, or
    the absolute value of their difference is taken; ``layout``: NCHW."""

    kernel_size: int
    max_displacement: int
    stride1: int
    stride2: int
    padding: Numbers
    is_multiply: bool
    layout: str


def _products(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: CorrelationAttrs, output: Value) -> Scalar:
    each, before = displacements(attrs), sides(attrs.padding, 2)[0]
    batch, displaced, channel = axes[0], axes[1], axes[4]
    steps = apply("floordiv", displaced, index(each)), apply("floormod", displaced, index(each))
    first, second = [], []
    for k, step in enumerate(steps):
        at = axes[2 + k] * attrs.stride1 + (attrs.max_displacement - before[k]) + axes[5 + k]
        first.append(at)
        second.append(at + (step - each // 2) * attrs.stride2)

    def padded(data: Value, at: list[Scalar]) -> Scalar:
        there = apply("and", inside(at[0], data.size(2)), inside(at[1], data.size(3)))
        return Select(there, data(batch, channel, *at), Literal(0.0, output.dtype))

    x, y = padded(inputs[0], first), padded(inputs[1], second)
    return x * y if attrs.is_multiply else apply("abs", x - y)


def _correlation(inputs: tuple[Term, Term], attrs: CorrelationAttrs) -> Term:
    products = call(get("nn.displaced_products"), *widened(*inputs), attrs=attrs)
    return cast(call(MEAN, products, attrs=ReduceAttrs((4, 5, 6))), inputs[0].dtype)


Op(
    name="nn.displaced_products",
    doc="The products, or the absolute differences, that `nn.correlation` averages, for each displacement and position: "
    "`nn.displaced_products([[[[2.0, 3.0]]]], [[[[5.0, 7.0]]]], kernel_size=1, max_displacement=0, stride1=1, stride2=1, "
    'padding=0, is_multiply=True, layout="NCHW") = [[[[[[[10.0]]], [[[21.0]]]]]]]`.',
    inputs=_INPUTS,
    attrs=CorrelationAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_inputs("nn.displaced_products", _INPUTS, FLOATS),
    compute=_products,
)
composite(
    name="nn.correlation",
    doc="Each window of the first picture compared with the windows of the second at each displacement, along the channels of "
    "the result: the mean of the products, or of the absolute differences: "
    "`nn.correlation([[[[2.0, 3.0]]]], [[[[5.0, 7.0]]]], kernel_size=1, max_displacement=0, stride1=1, stride2=1, padding=0, "
    'is_multiply=True, layout="NCHW") = [[[[10.0, 21.0]]]]`.',
    inputs=_INPUTS,
    attrs=CorrelationAttrs,
    dtype=like_inputs("nn.correlation", _INPUTS, FLOATS),
    expand=_correlation,
)
