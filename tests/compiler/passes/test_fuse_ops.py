"""Fusion of random programs, and primitives as IR and as data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.ir.expr import Call, GlobalVar, IRModule, let_chain
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.primitive import function_of, group_of
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes import operator_clusters
from relayvm.compiler.passes.fuse_ops import MAX_NODES, MAX_PARAMS, fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.op import OpPattern
from relayvm.shape_funcs.defs.axes.reduce import reduced_axes

from ...programs import HEADER

UNARY = ["exp(%{})", "nn.softmax(%{})", "reshape(%{}, newshape=[-1, 3])", "add(%{}, 1.5f)", "transpose(transpose(%{}))"]
BINARY = ["add(%{}, %{})", "concatenate((%{}, %{}), axis=1)", "sum(%{}, axis=[1], keepdims=True)"]


def _fused(text: str, enabled: bool = True) -> IRModule:
    mod = infer_type(to_a_normal_form(parse(HEADER + text)))
    out = fuse_ops(mod, LoweringContext(), enabled)
    check(out, "fuse_ops", typed=True)
    return out


def _calls(mod: IRModule) -> list[str]:
    return [v.op.name for _, v in let_chain(mod["main"].body)[0] if isinstance(v, Call) and isinstance(v.op, GlobalVar)]


@st.composite
def _programs(draw: st.DrawFn) -> str:
    lines, names = [], ["x", "y"]
    for i in range(draw(st.integers(1, 14))):
        a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        form = draw(st.sampled_from([*UNARY, *BINARY]))
        value = form.format(a, b)
        if form.startswith(("concatenate", "sum")):
            # back to (?, 3): every value has one type
            value = f"add(sum({value}, axis=[1], keepdims=True), %x)"
        lines.append(f"let %v{i} = {value};")
        names.append(f"v{i}")
    return f"def @main(%x: Tensor[(?, 3), float32], %y: Tensor[(?, 3), float32]) {{ {' '.join(lines)} (%{names[-1]}, %{b}) }}"


@settings(max_examples=60)
@given(_programs())
def test_fusion_keeps_every_operator_and_its_order(text: str) -> None:
    apart, together = _fused(text, enabled=False), _fused(text)
    assert sorted(_operators(apart)) == sorted(_operators(together))
    for mod in (apart, together):
        for function in mod.functions.values():
            if function.is_primitive:
                _assert_well_made(group_of(function))
    # types of results do not depend on what is fused
    assert str(apart["main"].body.ty) == str(together["main"].body.ty)


def _operators(mod: IRModule) -> list[str]:
    return [node.op for name in _calls(mod) for node in group_of(mod[name]).nodes]


def _assert_well_made(group) -> None:
    assert len(group.nodes) <= MAX_NODES and len(group.params) <= MAX_PARAMS
    if len(group.nodes) > 1:
        assert all(n.operator.pattern <= OpPattern.COMM_REDUCE for n in group.nodes)
        assert kernel_source(group).text
    folds = [n for n in group.nodes if n.operator.pattern is OpPattern.COMM_REDUCE]
    if any(n is not group.nodes[-1] for n in folds):
        # the result of a reduction is used again: all reduce the same rows, which are contiguous
        ((shape, axes),) = {(shape, reduced_axes(n.attrs, len(shape))) for n in folds for shape in [_shape(group, n)]}
        assert 0 < len(axes) < len(shape) and axes == tuple(range(len(shape) - len(axes), len(shape)))


def _shape(group, node):
    """The shape that a reduction folds."""
    return group.values()[node.args[0]].shape


@settings(max_examples=40)
@given(_programs())
def test_a_primitive_and_its_group_are_the_same(text: str) -> None:
    for function in _fused(text).functions.values():
        if function.is_primitive:
            group = group_of(function)
            assert structural_equal(function_of(group), function)
            assert group_of(function_of(group)).key() == group.key()


@settings(max_examples=20)
@given(_programs())
def test_the_fused_program_parses_and_types_again(text: str) -> None:
    mod = _fused(text)
    again = parse(astext(mod))
    assert structural_equal(again, mod)
    check(infer_type(again), "infer_type", typed=True)


def test_long_chains_are_cut() -> None:
    lets = "".join(f"let %v{i + 1} = exp(%v{i});" for i in range(150))
    mod = _fused(f"def @main(%v0: Tensor[(?), float32]) {{ {lets} %v150 }}")
    assert [len(group_of(mod[name]).nodes) for name in _calls(mod)] == [150 - 2 * MAX_NODES, MAX_NODES, MAX_NODES]


def test_many_parameters_are_cut() -> None:
    params = ", ".join(f"%p{i}: Tensor[(?), float32]" for i in range(100))
    lets = "".join(f"let %s{i + 1} = add({'%p0' if i == 0 else f'%s{i}'}, %p{i + 1});" for i in range(99))
    mod = _fused(f"def @main({params}) {{ {lets} %s99 }}")
    assert all(len(group_of(mod[name]).params) <= MAX_PARAMS for name in _calls(mod))
    assert len(_calls(mod)) == 2


def test_constants_of_rank_0_are_literals_and_others_arguments() -> None:
    from relayvm.compiler.ir.expr import Constant, Function, Var
    from relayvm.ops.core.op import NoAttrs, get
    from relayvm.ops.core.tensor_types import TensorType

    x = Var("x", TensorType.of((2,)))
    small, zero = Constant(np.float32(0.0).reshape(())), Constant(np.float32(-0.0).reshape(()))
    row = Constant(np.ones(2, np.float32))
    add = get("add")
    body = Call(add, (Call(add, (Call(add, (x, small), NoAttrs()), zero), NoAttrs()), row), NoAttrs())
    mod = fuse_ops(infer_type(to_a_normal_form(IRModule({"main": Function((x,), body)}))), LoweringContext())
    (name,) = _calls(mod)
    group = group_of(mod[name])
    assert [repr(c.value) for c in group.literals] == ["0.0", "-0.0"]
    assert [t.shape for t in group.params] == [TensorType.of((2,)).shape] * 2


def test_layers_of_other_scales_are_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[object] = []
    original = operator_clusters.fits
    monkeypatch.setattr(operator_clusters, "fits", lambda group, machine: analysed.append(group) or original(group, machine))
    scales = (0.37, 1.9, 5.1)
    layers = "".join(f"let %y{s} = {_layer(s)};".replace(str(s), str(k), 1) for k, s in enumerate(scales))
    mod = _fused(f"def @main(%x: Tensor[(?n, 29), float32]) {{ {layers} (%y0, %y1, %y2) }}")
    groups = {repr(group) for group in analysed}
    assert len(_calls(mod)) == len(scales) and len(analysed) == len(scales) * len(groups)
    # the primitives have the scales of their layers
    assert all(f"{scale}f" in astext(mod) for scale in scales)


def _layer(scale: float) -> str:
    return f"annotation.stop_fusion(add(%x, sum(multiply(%x, {scale}f), axis=[1], keepdims=True)))"


def test_calls_whose_sizes_contradict_each_other_stay_apart() -> None:
    """The slice of ``%s`` to ``%s`` is empty, which only a primitive with both calls knows."""
    text = (
        "def @main(%a: Tensor[(?n, ?m), float32], %k: Tensor[(2, 3), float32], %s: Tensor[(2), int64]) "
        "-> Tensor[(?, ?), float32] { add(%k, dyn.strided_slice(%a, %s, %s, %s)) }"
    )
    assert len(_calls(_fused(text))) == 2
