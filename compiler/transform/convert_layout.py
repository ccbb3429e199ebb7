"""``ConvertLayout``: convolutions and pools in another layout, with transforms of data, weights and results around them.

    nn.conv2d(%x, %w)  ->  let %y = nn.conv2d(layout_transform(%x, "NCHW", "NHWC"), ..., data_layout="NHWC");
                           layout_transform(%y, "NHWC", "NCHW")

A transform moves behind an operator that works element by element on one tensor, and two opposite transforms are none.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from ...ops.core.op import REGISTRY, Op, OpPattern, get
from ...shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts
from ...shape_funcs.defs.convolution.conv_transpose import transposed_layouts
from ...vm.diagnostics.argument_errors import a_mapping, a_sequence, wrong
from ..ir.expr import Call, Expr, IRModule, map_functions, replace
from ..passes.beta_reduction import rewritten_function
from .inlining import graph_of
from .layout_config import skipped_layers

Layouts = Mapping[str, tuple[str, ...]]


def checked_layouts(desired: Any) -> Layouts:
    """The layouts by operator: of the data, and of the kernel ("default": the one that goes with the data's).

    Raises ArgumentError for an operator without layouts, or for too many or too few of them.
    """
    out = {}
    for name, given in a_mapping(desired, "ConvertLayout: the desired_layouts").items():
        attrs = REGISTRY[name].attrs if name in REGISTRY else None
        several = hasattr(attrs, "kernel_layout")
        if not several and not (name.startswith("nn.") and "pool" in name and hasattr(attrs, "layout")):
            raise wrong("ConvertLayout: an operator", "a convolution or a pool", name)
        layouts = a_sequence(given, f"ConvertLayout: the layouts of {name}", '["NHWC", "default"]')
        if len(layouts) not in ((1, 2) if several else (1,)) or not all(isinstance(layout, str) for layout in layouts):
            wanted = "the layouts of data and kernel" if several else "one layout"
            raise wrong(f"ConvertLayout: the layouts of {name}", wanted, list(layouts))
        out[name] = tuple(layouts)
    return out


def convert_layout(mod: IRModule, desired: Layouts) -> IRModule:
    """The module with the operators in the desired layouts, except convolutions that the ``LayoutConfig`` skips.

    Results of functions keep their layouts.
    """
    convolutions, skipped = itertools.count(), skipped_layers()

    def visit(node: Expr) -> Expr:
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return node
        if node.op.name == "nn.conv2d" and next(convolutions) in skipped:
            return node
        if node.op.name in desired:
            return _converted(node, node.op, desired[node.op.name])
        return past_operator(node, node.op)

    return map_functions(mod, lambda f: rewritten_function(graph_of(f, mod), visit))


def _converted(call: Call, op: Op, desired: tuple[str, ...]) -> Call:
    attrs, layout = call.attrs, "data_layout" if hasattr(call.attrs, "data_layout") else "layout"
    data, old = desired[0], getattr(attrs, layout)
    if data == "default" or data == old:
        return call
    new: dict[str, Any] = {layout: data, "out_layout": ""}
    args = [transform(call.args[0], old, data), *call.args[1:]]
    if hasattr(attrs, "kernel_layout"):
        kernel = desired[1] if len(desired) > 1 and desired[1] != "default" else _default_kernel(op, data, attrs.kernel_layout)
        args[1] = transform(args[1], attrs.kernel_layout, kernel)
        new["kernel_layout"] = kernel
    result = replace(call, args=tuple(args), attrs=replace(attrs, **new), ty=None)
    converted: Call = replace(transform(result, data, attrs.out_layout or old), ty=call.ty)
    return converted


def _default_kernel(op: Op, data: str, kernel: str) -> str:
    """The kernel's layout that goes with a layout of the data; the layout that it has, for data in blocks."""
    rank = int(op.name.removeprefix("nn.conv")[0])
    layouts = transposed_layouts(rank) if op.name.endswith("_transpose") else kernel_layouts(rank)[:2]
    return dict(zip(data_layouts(rank), layouts, strict=True)).get(data, kernel)


def transform(data: Expr, source: str, result: str) -> Any:
    """The data in another layout; of opposite transforms, the data."""
    op = get("layout_transform")
    if source == result:
        return data
    if isinstance(data, Call) and data.op is op and (data.attrs.src_layout, data.attrs.dst_layout) == (result, source):
        return data.args[0]
    return Call(op, (data,), op.attrs(source, result), span=data.span)


def past_operator(call: Call, op: Op) -> Call:
    """An elementwise call on a transformed tensor as the transform of a call on the tensor."""
    moved = op.pattern is OpPattern.ELEMWISE and len(call.args) == 1 and isinstance(call.args[0], Call)
    before = call.args[0] if moved else None
    if not isinstance(before, Call) or before.op is not get("layout_transform"):
        return call
    inner = replace(call, args=before.args, ty=None)
    return replace(before, args=(inner,), ty=call.ty, span=call.span)
