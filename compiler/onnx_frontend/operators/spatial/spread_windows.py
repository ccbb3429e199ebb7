"""Windows that move: deformable convolution, and elements of windows put back to their places."""

from __future__ import annotations

from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..vectors import as_int64, measured, numbers, result_rank, sizes_or_expr
from ..windows import window_attributes


@onnx_operator("DeformConv", since=19)
def deform_conv(node: Node, x: Expr, weight: Expr, offset: Expr, bias: Expr | None, mask: Expr | None) -> Expr:
    """Over two spatial axes."""
    if node.rank(x) != 4:
        raise node.error(f"the data has rank {node.rank(x)}; deformable convolutions have 2 spatial axes, rank 4")
    window = window_attributes(node, x, weight)
    if window.weight is not None:
        raise node.error("kernel_shape must be given if the size of the kernel is known at run time only")
    function = relay.nn.deformable_conv2d if mask is None else relay.nn.modulated_deformable_conv2d
    result: Expr = function(
        *([x, offset] if mask is None else [x, offset, mask]), weight, strides=window.strides,
        padding=[*window.begin, *window.end], dilation=window.dilations, deformable_groups=node.attr("offset_group", 1),
        groups=node.attr("group", 1), kernel_size=window.kernel,
    )  # fmt: skip
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


@onnx_operator("Col2Im", since=18)
def col2im(node: Node, x: Expr, image: Expr, block: Expr) -> Expr:
    """Over any number of spatial axes, with sizes of images and blocks known at import or at run time."""
    declared = result_rank(node, 2)
    (image, rank), (block, _) = measured(node, image, "image_shape", declared), measured(node, block, "block_shape", declared)
    ones = [1] * rank
    strides, dilations = node.attr("strides", ones), node.attr("dilations", ones)
    pads = node.attr("pads", [0] * (2 * rank))
    for name, given, count in (("strides", strides, rank), ("dilations", dilations, rank), ("pads", pads, 2 * rank)):
        if len(given) != count:
            raise node.error(f"{name} has {len(given)} numbers; {count} are wanted for {rank} spatial axes")
    if rank < 1 or node.rank(x) != 3:
        raise node.error(f"the data has rank {node.rank(x)} for {rank} spatial axes; its rank must be 3, of 1 or more axes")
    image, block = node.bind(as_int64(node, image)), node.bind(as_int64(node, block))
    padded = node.bind(relay.add(image, numbers([pads[k] + pads[rank + k] for k in range(rank)])))
    positions = _positions(node, padded, block, strides, dilations)
    shape = relay.shape_of(x, dtype="int64")
    batch = relay.strided_slice(shape, [0], [1])
    elements = relay.reshape(relay.prod(block), [1])
    channels = relay.floor_divide(relay.strided_slice(shape, [1], [2]), elements)
    split = node.bind(relay.concatenate([batch, channels, relay.shape_of(positions, dtype="int64")], 0))
    # the places are the first axis: all channels of all images have the same
    rows = relay.transpose(relay.reshape(x, sizes_or_expr(node, split), allowzero=True), [2, 0, 1])
    whole = node.bind(relay.concatenate([relay.reshape(relay.prod(padded), [1]), batch, channels], 0))
    zeros = relay.broadcast_to(number(0, node.dtype(x)), sizes_or_expr(node, whole))
    total = relay.transpose(relay.scatter_nd(zeros, relay.expand_dims(positions, 0), rows, mode="add"), [1, 2, 0])
    result = relay.reshape(total, sizes_or_expr(node, node.bind(relay.concatenate([batch, channels, padded], 0))), allowzero=True)
    if not any(pads):
        return result
    begin = numbers([0, 0, *pads[:rank]])
    ends = relay.concatenate([batch, channels, relay.add(image, numbers(pads[:rank]))], 0)
    return relay.strided_slice(result, sizes_or_expr(node, begin), sizes_or_expr(node, node.bind(ends)))


def _positions(node: Node, padded: Expr, block: Expr, strides: list[int], dilations: list[int]) -> Expr:
    """The place in the padded image, as one axis, of each element of each window: those of a window are the outer axis."""
    rank = len(strides)
    total: Expr = numbers([0])
    for k in range(rank):
        size, extent = (relay.strided_slice(v, [k], [k + 1]) for v in (padded, block))
        covered = relay.add(relay.multiply(relay.subtract(extent, numbers([1])), numbers([dilations[k]])), numbers([1]))
        steps = relay.add(relay.floor_divide(relay.subtract(size, covered), numbers([strides[k]])), numbers([1]))
        inside = relay.multiply(_range(extent), numbers([dilations[k]]))
        along = relay.multiply(_range(steps), numbers([strides[k]]))
        axes = relay.add(_at(inside, k, 2 * rank), _at(along, rank + k, 2 * rank))
        total = axes if k == 0 else relay.add(relay.multiply(total, size), axes)
    return node.bind(relay.reshape(total, [-1]))


def _range(size: Expr) -> Expr:
    """``0, 1, ...`` below the only element of ``size``."""
    result: Expr = relay.arange(number(0, "int64"), relay.squeeze(size, [0]), number(1, "int64"), dtype="int64")
    return result


def _at(vector: Expr, axis: int, rank: int) -> Expr:
    """The vector as axis ``axis`` of ``rank``, whose other axes have size 1."""
    result: Expr = relay.reshape(vector, [1] * axis + [-1] + [1] * (rank - 1 - axis))
    return result


@onnx_operator("MaxUnpool", since=9)
def max_unpool(node: Node, x: Expr, indices: Expr, output_shape: Expr | None) -> Expr:
    """With an output shape that is larger than the pooled data's, the rest is 0."""
    rank, spatial = node.rank(x), node.rank(x) - 2
    if spatial < 1:
        raise node.error(f"the data has rank {rank}; it must have spatial axes")
    kernel = node.required("kernel_shape")
    strides, pads = node.attr("strides", [1] * spatial), node.attr("pads", [0] * (2 * spatial))
    for name, given, count in (("kernel_shape", kernel, spatial), ("strides", strides, spatial), ("pads", pads, 2 * spatial)):
        if len(given) != count:
            raise node.error(f"{name} has {len(given)} numbers; {count} are wanted for {spatial} spatial axes")
    shape = relay.shape_of(x, dtype="int64")
    first, space = relay.strided_slice(shape, [0], [2]), relay.strided_slice(shape, [2], [rank])
    rest = [k - pads[i] - pads[spatial + i] for i, k in enumerate(kernel)]
    steps = relay.multiply(relay.subtract(space, numbers([1] * spatial)), numbers(strides))
    whole = node.bind(relay.concatenate([first, relay.add(steps, numbers(rest))], 0))
    elements = node.bind(relay.reshape(relay.prod(whole), [1]))
    zeros = relay.broadcast_to(number(0, node.dtype(x)), sizes_or_expr(node, elements))
    flat = relay.reshape(as_int64(node, indices), [-1])
    spread = relay.scatter_elements(zeros, flat, relay.reshape(x, [-1]), 0, "update")
    result = relay.reshape(spread, sizes_or_expr(node, whole), allowzero=True)
    if output_shape is None:
        return result
    output_shape, _ = measured(node, output_shape, "output_shape", rank)
    missing = node.bind(relay.subtract(as_int64(node, output_shape), whole))
    width = node.bind(relay.stack([relay.zeros_like(missing), missing], 1))
    known, zero = node.constant(width), number(0, node.dtype(x))
    return relay.dyn.nn.pad(result, width, zero) if known is None else relay.nn.pad(result, known.tolist(), zero)
