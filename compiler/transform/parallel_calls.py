"""Passes of Relay's that make one call of several on the same data: ``CombineParallelDense`` and its kin.

    nn.dense(%x, %a), nn.dense(%x, %b)  ->  let %y = nn.dense(%x, concatenate((%a, %b), axis=0)); one slice of %y for each call

Combined are calls whose weights are constants or parameters of known size, and whose attributes are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import const
from ..ir.expr import Call, Constant, Expr, Function, IRModule, Tuple, Var, replace
from ..ir.visitor import children, post_order, with_children
from .inlining import graph_of


@frozen
class _Parallel:
    """``op``: the operator; ``unset``: its attribute with the number of outputs; the axes of the outputs, from the attributes."""

    op: str
    unset: str
    weight_axis: Callable[[Any], int]
    result_axis: Callable[[Any, int], int]


_DENSE = _Parallel("nn.dense", "units", lambda attrs: 0, lambda attrs, rank: rank - 1)
_CONV2D = _Parallel(
    "nn.conv2d",
    "channels",
    lambda attrs: attrs.kernel_layout.index("O"),
    lambda attrs, rank: (attrs.out_layout or attrs.data_layout).index("C"),
)
_BATCH_MATMUL = _Parallel("nn.batch_matmul", "", lambda attrs: 1 if attrs.transpose_b else 2, lambda attrs, rank: rank - 1)


def combine_parallel_dense(mod: IRModule, min_num_branches: int) -> IRModule:
    """One ``nn.dense`` for at least ``min_num_branches`` of the same data."""
    return _combined(mod, _DENSE, min_num_branches)


def combine_parallel_conv2d(mod: IRModule, min_num_branches: int) -> IRModule:
    """One ``nn.conv2d`` for at least ``min_num_branches`` of the same data, without groups."""
    return _combined(mod, _CONV2D, min_num_branches)


def combine_parallel_batch_matmul(mod: IRModule, min_num_branches: int) -> IRModule:
    """One ``nn.batch_matmul`` for at least ``min_num_branches`` of the same data."""
    return _combined(mod, _BATCH_MATMUL, min_num_branches)


def _combined(mod: IRModule, how: _Parallel, least: int) -> IRModule:
    functions = {}
    for name, f in mod.functions.items():
        graph = f if f.is_primitive else graph_of(f, mod)
        functions[name] = graph if graph.is_primitive else _in_function(graph, how, least)
    return replace(mod, functions=functions)


def _in_function(function: Function, how: _Parallel, least: int) -> Function:
    groups: dict[Any, list[Call]] = {}
    for node in post_order(function):
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == how.op:
            sizes = _weight_sizes(node, function)
            if sizes is not None and getattr(node.attrs, "groups", 1) == 1:
                axis = how.weight_axis(node.attrs)
                attrs = replace(node.attrs, **{how.unset: None}) if how.unset else node.attrs
                rest = (*sizes[:axis], *sizes[axis + 1 :])
                groups.setdefault((id(node.args[0]), attrs, rest, _dtype(node.args[1])), []).append(node)
    found = {id(call): (group, k) for group in groups.values() if len(group) >= least for k, call in enumerate(group)}
    return _rewritten(function, how, found) if found else function


def _weight_sizes(call: Call, function: Function) -> tuple[int, ...] | None:
    """The sizes of a weight that is a constant or a parameter of the function, if they are known."""
    weight = call.args[1]
    if not (isinstance(weight, Constant) or (isinstance(weight, Var) and weight in function.params)):
        return None
    ty = weight.ty
    sizes = [const(d) for d in ty.shape] if isinstance(ty, TensorType) else [None]
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _dtype(weight: Expr) -> str:
    return weight.ty.dtype if isinstance(weight.ty, TensorType) else ""


def _rewritten(function: Function, how: _Parallel, found: dict[int, tuple[list[Call], int]]) -> Function:
    new: dict[int, Expr] = {}
    products: dict[int, Call] = {}  # of each group, by the id of its first call
    for node in post_order(function):
        mapped = with_children(node, tuple(new[id(child)] for child in children(node)))
        if id(node) in found:
            group, number = found[id(node)]
            if id(group[0]) not in products:
                products[id(group[0])] = _product(group, new[id(group[0].args[0])], how)
            mapped = _slice(group, number, products[id(group[0])], how)
        new[id(node)] = mapped
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def _product(group: list[Call], data: Expr, how: _Parallel) -> Call:
    first, concatenate = group[0], get("concatenate")
    weights = Tuple(tuple(call.args[1] for call in group), span=first.span)
    weight = Call(concatenate, (weights,), concatenate.attrs(how.weight_axis(first.attrs)), span=first.span)
    attrs = replace(first.attrs, **{how.unset: None}) if how.unset else first.attrs
    return Call(first.op, (data, weight), attrs, span=first.span)


def _slice(group: list[Call], number: int, product: Call, how: _Parallel) -> Call:
    call, slice_op = group[number], get("strided_slice")
    assert isinstance(call.ty, TensorType)
    sizes = [_outputs(each, how) for each in group]
    begin = sum(sizes[:number])
    axis = how.result_axis(call.attrs, call.ty.rank)
    attrs = slice_op.attrs(begin=(begin,), end=(begin + sizes[number],), axes=(axis,))
    return Call(slice_op, (product,), attrs, span=call.span, ty=call.ty)


def _outputs(call: Call, how: _Parallel) -> int:
    ty = call.args[1].ty
    assert isinstance(ty, TensorType)
    size = const(ty.shape[how.weight_axis(call.attrs)])
    assert size is not None
    return size
