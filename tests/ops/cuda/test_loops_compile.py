"""Every fusable operator, and some groups of them, compile with NVRTC for the tested architectures."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import REGISTRY, NoAttrs, OpPattern
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.defs.arithmetic.broadcast import BiasAddAttrs, BroadcastToAttrs, PreluAttrs
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs, ClipAttrs, LeakyReluAttrs
from relayvm.ops.defs.axes.reduce import ReduceAttrs
from relayvm.ops.defs.movement.indexing import OneHotAttrs, TakeAttrs
from relayvm.ops.defs.movement.transform import AxisAttrs, RepeatAttrs, SliceAttrs, SplitAttrs, TileAttrs, TransposeAttrs

from ...emulator import proof
from ..fused.run_group import group_of, one_call

ARCHITECTURES = ("sm_80", "sm_90")
DTYPES = ("float32", "bfloat16", "int8", "bool")
FUSABLE = (OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.COMM_REDUCE, OpPattern.INJECTIVE)


def _x(dtype, *shape):
    return np.ones(shape, numpy_dtype(dtype))


def _attrs(name, axis=1):
    if REGISTRY[name].reduction is None:
        return NoAttrs()
    return REGISTRY[name].attrs(axis)


def together(dtype):
    """All operators of ``dtype`` that need no attributes: a group of many results, and one of reductions for each axis."""
    x, taken = _x(dtype, 3, 4), []
    for name, op in sorted(REGISTRY.items()):
        arrays = [_x("bool", 3, 4), x, x] if name == "where" else [x] * len(op.inputs)
        try:
            if op.pattern in FUSABLE[:3]:
                one_call(name, arrays, _attrs(name))
                taken.append(name)
        except Exception:  # not of this dtype, or with attributes
            continue
    params = one_call("where", [_x("bool", 3, 4), x, x]).params
    elements = [n for n in taken if REGISTRY[n].reduction is None]
    nodes = [Node(n, NoAttrs(), (0, 1, 2) if n == "where" else (1, 2)[: len(REGISTRY[n].inputs)], ()) for n in elements]
    yield f"elements of {dtype}", group_of(params, nodes, results=range(3, 3 + len(nodes)))
    for axis in (0, 1, None) if dtype == "float32" else (1,):
        folds = [Node(n, _attrs(n, axis), (1,), ()) for n in taken if n not in elements]
        yield f"reductions of {dtype} {axis}", group_of(params, folds, results=range(3, 3 + len(folds)))


def with_attributes():
    """Groups of the operators that need attributes, most of which only move elements."""
    y = _x("float16", 3, 4)
    yield "clip", one_call("clip", [y], ClipAttrs(-1.5, 2.5))
    yield "nn.leaky_relu", one_call("nn.leaky_relu", [y], LeakyReluAttrs())
    yield "broadcast_to", one_call("broadcast_to", [y], BroadcastToAttrs((2, 3, 4)))
    yield "nn.bias_add", one_call("nn.bias_add", [y, y[0]], BiasAddAttrs(-1))
    yield "nn.prelu", one_call("nn.prelu", [y, y[0]], PreluAttrs(-1))
    yield "full_like", one_call("full_like", [y, np.asarray(y[0, 0])])
    for dtype in ("float32", "float16"):
        x, at = _x(dtype, 3, 4), np.zeros((2, 3), "int32")
        yield f"transpose {dtype}", one_call("transpose", [x], TransposeAttrs())
        yield f"concatenate {dtype}", one_call("concatenate", [(x, x, x)], AxisAttrs(1))
        yield f"stack {dtype}", one_call("stack", [(x, x)], AxisAttrs(0))
        yield f"split {dtype}", one_call("split", [x], SplitAttrs((1, 2), 1))
        yield f"strided_slice {dtype}", one_call("strided_slice", [x], SliceAttrs((-1,), (-9,), (-1,)))
        yield f"tile {dtype}", one_call("tile", [x], TileAttrs((2, 3)))
        yield f"repeat {dtype}", one_call("repeat", [x], RepeatAttrs(3, 1))
        for mode in ("clip", "wrap", "fast"):
            yield f"take {mode} {dtype}", one_call("take", [x, at], TakeAttrs(0, 0, mode))
        yield f"cast {dtype}", one_call("cast", [x], CastAttrs("uint8"))
        yield f"one_hot {dtype}", one_call("one_hot", [at, _x("int8"), _x("int8")], OneHotAttrs(5, -1, "int8"))


def fused():
    """Groups of several operators."""
    params = one_call("add", [_x("float32", 3, 4), _x("float32", 4)]).params
    add, tanh = Node("add", NoAttrs(), (0, 1), ()), Node("tanh", NoAttrs(), (2,), ())
    yield "add tanh", group_of(params, [add, tanh])
    yield "add and tanh", group_of(params, [add, tanh], results=[2, 3])
    for name in ("sum", "mean", "variance", "max"):
        for axis in (0, 1, None):
            yield f"add tanh {name} {axis}", group_of(params, [add, tanh, Node(name, ReduceAttrs(axis), (3,), ())])


@pytest.mark.extensive
def test_all_compile():
    if reason := proof.missing():
        pytest.skip(reason)
    groups = dict([*(g for d in DTYPES for g in together(d)), *with_attributes(), *fused()])
    covered = {n.op for g in groups.values() for n in g.nodes}
    declared = {n for n, op in REGISTRY.items() if op.pattern in FUSABLE[:3]}
    assert declared <= covered, declared - covered
    texts = {cuda_source(group).text: name for name, group in groups.items()}
    # compiling takes tenths of a second: each text for one of the architectures
    for k, text in enumerate(texts):
        proof.check_image(text, ARCHITECTURES[k % 2])
    kernels = sum(text.count("__global__") for text in texts)
    print(f"{kernels} kernels in {len(texts)} texts compiled")
