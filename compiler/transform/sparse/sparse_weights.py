"""``DenseToSparse``, ``Conv2dToSparse`` and ``Conv2dToSparse2``: products and convolutions with sparse weights.

    def @main(%x, %w) {        ->    def @main(%x, %w.data, %w.indices, %w.indptr) {
      nn.dense(%x, %w)                 nn.sparse_dense(%x, %w.data, %w.indices, %w.indptr)
    }                                }

A convolution is rewritten if ``nn.sparse_conv2d`` means the same: strides, dilation and groups are 1, and the padding keeps the
picture's size.  A weight that is used otherwise, too, stays beside its sparse form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType
from ....shape_funcs.defs.convolution.conv import per_axis, sides
from ....shape_funcs.symbolic.dim import const, dim
from ....shape_funcs.symbolic.registry import ShapeError
from ....vm.diagnostics.argument_errors import a_count, a_sequence, a_text, wrong
from ...ir.call_graph import mentioned
from ...ir.expr import Call, Constant, Expr, Function, IRModule, Var, map_functions, replace
from ...ir.visitor import post_order
from ...passes.beta_reduction import rewritten_function
from ..inlining import graph_of
from .block_matrix import BlockMatrix, fits_blocks

#: Sizes of the blocks' values (3), of their columns, of the begins of rows.
Sizes = tuple[int, int, int, int, int]
#: The order of the axes of the weight in which sparse weights list them: output channels, window, input channels.
_ROWS_FIRST = "OHWI"


def checked_weights(names: Any, sizes: Any, who: str) -> dict[str, Sizes]:
    """The sizes of sparse weights by name.  Raises ArgumentError."""
    given = a_sequence(names, f"{who}: weight_name", '["w"]')
    shapes = a_sequence(sizes, f"{who}: weight_shape", "[[8, 4, 1, 8, 5]]")
    if len(given) != len(shapes):
        raise wrong(f"{who}: weight_shape", f"{len(given)} lists, one for each name", sizes)
    out: dict[str, Sizes] = {}
    for name, shape in zip(given, shapes, strict=True):
        numbers = a_sequence(shape, f"{who}: a weight_shape", "[8, 4, 1, 8, 5]")
        if len(numbers) != 5:
            raise wrong(f"{who}: a weight_shape", "5 sizes: 3 of the values, of the indices, of indptr", shape)
        a, b, c, d, e = (a_count(number, f"{who}: a weight_shape") for number in numbers)
        out[a_text(name, f"{who}: a weight_name")] = a, b, c, d, e
    return out


def checked_layout(layout: Any, who: str) -> str:
    """``NHWC`` or ``NCHW``.  Raises ArgumentError."""
    if layout not in ("NHWC", "NCHW"):
        raise wrong(f"{who}: the layout", "NHWC or NCHW", layout)
    return str(layout)


def dense_to_sparse(mod: IRModule, weights: Mapping[str, Sizes]) -> IRModule:
    """The module with ``nn.sparse_dense`` for each ``nn.dense`` with one of the weights, parameters of functions."""
    return _with_sparse_parameters(mod, weights, sparse_dense)


def conv2d_to_sparse(mod: IRModule, weights: Mapping[str, Sizes], layout: str, kernel_size: int) -> IRModule:
    """The module with ``nn.sparse_conv2d`` for each ``nn.conv2d`` of this layout and window with one of the weights."""
    return _with_sparse_parameters(mod, weights, lambda call, parts: sparse_conv2d(call, parts, layout, kernel_size))


def conv2d_to_sparse_constants(
    mod: IRModule, layout: str, kernel_size: int, blocksize: tuple[int, int], threshold: float
) -> IRModule:
    """The module with ``nn.sparse_conv2d`` for each ``nn.conv2d`` of this layout and window with a constant weight that fits."""

    def visit(node: Expr) -> Expr:
        if not isinstance(node, Call) or len(node.args) != 2 or not isinstance(node.args[1], Constant):
            return node
        if sparse_conv2d(node, node.args[1:], layout, kernel_size) is None:
            return node
        matrix = weight_matrix(node.args[1].data, node.attrs.kernel_layout)
        if not fits_blocks(matrix, blocksize, threshold):
            return node
        parts = [Constant(array, span=node.args[1].span) for array in BlockMatrix.of(matrix, blocksize).arrays]
        found = sparse_conv2d(node, parts, layout, kernel_size)
        return node if found is None else found

    return map_functions(mod, lambda f: rewritten_function(graph_of(f, mod), visit))


def is_plain_kernel(kernel_layout: str) -> bool:
    """Whether the layout of a weight has each axis once, none in blocks."""
    return sorted(kernel_layout) == sorted(_ROWS_FIRST)


def weight_matrix(weight: np.ndarray, kernel_layout: str) -> np.ndarray:
    """The weight of a convolution as the matrix of ``nn.sparse_conv2d``: a row for each output channel."""
    transposed = weight.transpose([kernel_layout.index(axis) for axis in _ROWS_FIRST])
    return transposed.reshape(len(transposed), -1)


# ---- calls ---------------------------------------------------------------------------------------------------------------

#: A call with the parts of a sparse weight in the place of its weight; None if the sparse operator does not mean the same.
Sparse = Callable[[Call, Sequence[Expr]], "Call | None"]


def sparse_dense(call: Call, parts: Sequence[Expr]) -> Call | None:
    """``nn.sparse_dense`` for an ``nn.dense``."""
    if not _is_call_of(call, "nn.dense") or call.attrs.out_dtype:
        return None
    op = get("nn.sparse_dense")
    return Call(op, (call.args[0], *parts), op.attrs(), span=call.span, ty=call.ty)


def sparse_conv2d(call: Call, parts: Sequence[Expr], layout: str, kernel_size: int) -> Call | None:
    """``nn.sparse_conv2d`` for an ``nn.conv2d`` of this layout, with a square window of this size."""
    if not _is_call_of(call, "nn.conv2d") or not _keeps_size(call, layout, kernel_size):
        return None
    op = get("nn.sparse_conv2d")
    attrs = op.attrs(layout=layout, kernel_size=(kernel_size, kernel_size))
    return Call(op, (call.args[0], *parts), attrs, span=call.span, ty=call.ty)


def _is_call_of(call: Call, name: str) -> bool:
    return isinstance(call.op, Op) and call.op.name == name


def _keeps_size(call: Call, layout: str, kernel_size: int) -> bool:
    attrs = call.attrs
    if attrs.data_layout != layout or attrs.out_layout not in ("", layout) or attrs.out_dtype or attrs.groups != 1:
        return False
    if not is_plain_kernel(attrs.kernel_layout) or kernel_size % 2 == 0:
        return False
    try:
        plain = all(per_axis(n, 2, name) == (1, 1) for name, n in (("strides", attrs.strides), ("dilation", attrs.dilation)))
        around = (kernel_size // 2,) * 2
        if not plain or tuple(sides(attrs.padding, 2)) != (around, around):
            return False
    except ShapeError:
        return False
    return _window(call) == (kernel_size, kernel_size)


def _window(call: Call) -> tuple[Any, ...] | None:
    """The sizes of the window, of the attribute or of the weight's type; None if they are unknown."""
    if call.attrs.kernel_size is not None:
        return tuple(per_axis(call.attrs.kernel_size, 2, "kernel_size"))
    weight = call.args[1]
    ty = weight.annotation if isinstance(weight, Var) else weight.ty
    if isinstance(weight, Constant):
        ty = TensorType.of(weight.data.shape, weight.data.dtype.name)
    layout, shape = call.attrs.kernel_layout, tuple(map(const, ty.shape)) if isinstance(ty, TensorType) else ()
    return tuple(shape[layout.index(axis)] for axis in "HW") if len(shape) == len(layout) else None


# ---- parameters ----------------------------------------------------------------------------------------------------------


def _with_sparse_parameters(mod: IRModule, weights: Mapping[str, Sizes], sparse: Sparse) -> IRModule:
    """The module with sparse weights as parameters; functions that the program itself calls keep theirs."""
    called = {name for f in mod.functions.values() for name in mentioned(f.body)}
    kept = {n for n, f in mod.functions.items() if f.is_primitive or n in called}
    functions = {n: f if n in kept else _rewritten(graph_of(f, mod), weights, sparse) for n, f in mod.functions.items()}
    return replace(mod, functions=functions)


def _rewritten(function: Function, weights: Mapping[str, Sizes], sparse: Sparse) -> Function:
    parts = {id(p): _parts(p, weights[p.name]) for p in function.params if p.name in weights}

    def visit(node: Expr) -> Expr:
        if not isinstance(node, Call) or len(node.args) != 2 or id(node.args[1]) not in parts:
            return node
        found = sparse(node, parts[id(node.args[1])])
        return node if found is None else found

    out = rewritten_function(function, visit)
    used = {id(node) for node in post_order(out.body)}
    params: list[Var] = []
    for param in function.params:
        mine = [part for part in parts.get(id(param), ()) if id(part) in used]
        params += mine
        if not mine or id(param) in used:
            params.append(param)
    return replace(out, params=tuple(params), ty=None)


def _parts(weight: Var, sizes: Sizes) -> list[Var]:
    """The parameters of a sparse weight."""
    ty = weight.annotation or weight.ty
    dtype = ty.dtype if isinstance(ty, TensorType) else "float32"
    shapes = {"data": (sizes[:3], dtype), "indices": (sizes[3:4], "int32"), "indptr": (sizes[4:], "int32")}
    return [
        Var(f"{weight.name}.{part}", TensorType(tuple(map(dim, shape)), of), span=weight.span)
        for part, (shape, of) in shapes.items()
    ]
