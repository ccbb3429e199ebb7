"""Epilogues: elementwise operators applied to the result of a convolution by its kernel, against the operators one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.analysis.aliasing import in_place_pairs
from relayvm.ops.analysis.preconditions import demands
from relayvm.ops.analysis.uses import reads
from relayvm.ops.codegen import fits, kernel_source
from relayvm.ops.codegen.cpu import epilogue
from relayvm.ops.codegen.cpu.channel_limits import limits_of
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import Tensor, numpy_dtype
from relayvm.ops.core.type_relation import build_group, shape_program
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE
from relayvm.shape_funcs.symbolic.dim import Dim, const, dim, sym

from ... import tiers
from ..opaque.opaque_kernels import call

pytestmark = pytest.mark.many

#: Operators of an epilogue, with the shape of the further operand: per channel, of the result's shape, or otherwise.
WITH_OPERAND = {
    "nn.bias_add": ["channel"],
    "add": ["result", "scalar", "channel column", "image", "channels of one image"],
    "multiply": ["result", "channel column", "one"],
    "maximum": ["channel column"],
    "subtract": ["result"],
}
ALONE = ("nn.relu", "negative", "abs")


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rank, groups = draw(st.sampled_from([1, 2, 2, 3])), draw(st.sampled_from([1, 1, 2, 5]))
    inputs, outputs = draw(st.integers(0 if groups == 1 else 1, 3)), draw(st.sampled_from([0, 1, 2, 5, 9]))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    operators = [*ALONE, *((name, shape) for name, shapes in WITH_OPERAND.items() for shape in shapes)]
    return {
        "data": (draw(st.integers(0, 2)), inputs * groups, *(draw(st.sampled_from([3, 4, 7, 18])) for _ in kernel)),
        "weight": (outputs * groups, inputs, *kernel),
        "attrs": {"groups": groups, "strides": draw(st.integers(1, 2)), "padding": draw(st.integers(0, 1))},
        "tail": draw(st.lists(st.sampled_from(operators), min_size=1, max_size=4)),
        "dtype": draw(st.sampled_from(["float32", "float64"])),
        "stored": draw(st.sampled_from(["", "", "float64"])),  # an array of the sums covers no more memory than the result
        "is_known": draw(st.booleans()),
        "seed": draw(st.integers(0, 10**6)),
    }


def operand_shape(kind: str, result: tuple[Dim, ...]) -> tuple[Dim, ...]:
    one = dim(1)
    return {
        "channel": (result[1],),
        "result": result,
        "scalar": (),
        "channel column": (result[1], *[one] * (len(result) - 2)),
        "image": result[2:],
        "channels of one image": (one, *result[1:]),
        "one": (one,) * len(result),
    }[kind]


def made(case: dict[str, Any]) -> tuple[Group, list[np.ndarray]]:
    """The group of a convolution and its epilogue, and arrays for its parameters."""
    rank, dtype = len(case["data"]) - 2, case["dtype"]
    attrs = get(f"nn.conv{rank}d").attrs(**case["attrs"])
    shapes: list[tuple[Dim, ...]] = []
    for name, sizes in (("x", case["data"]), ("w", case["weight"])):
        shapes.append(tuple(dim(n) if case["is_known"] or name == "w" else sym(f"{name}{a}") for a, n in enumerate(sizes)))
    convolution = build_group([Tensor(dtype, s) for s in shapes], (), (Node(f"nn.conv{rank}d", attrs, (0, 1), ()),), (2,))
    actual = shape_program(convolution).program.run([np.empty(case[k], dtype) for k in ("data", "weight")])[0]
    result, literals = convolution.nodes[0].outputs[0].shape, (Literal(dtype, 0.5),)
    arrays_of = [case["data"], case["weight"]]
    steps: list[tuple[str, int | str]] = []
    for each in case["tail"]:
        name, kind = (each, None) if isinstance(each, str) else each
        if kind == "scalar":
            steps.append((name, "literal"))
        elif kind is None:
            steps.append((name, ""))
        else:
            steps.append((name, len(shapes)))
            shapes.append(operand_shape(kind, result))
            arrays_of.append(tuple(const(d) or 0 for d in operand_shape(kind, tuple(map(dim, actual)))))
    n = len(shapes)
    nodes, last = [Node(f"nn.conv{rank}d", attrs, (0, 1), ())], n + 1
    for name, operand in steps:
        further = () if operand == "" else (n,) if operand == "literal" else (operand,)
        nodes.append(Node(name, get(name).attrs(), (last, *further), ()))
        last += 1
    if stored := case.get("stored"):
        nodes.append(Node("cast", get("cast").attrs(stored), (last,), ()))
        last += 1
    group = build_group([Tensor(dtype, s) for s in shapes], literals, tuple(nodes), (last,))
    rng = np.random.default_rng(case["seed"])
    return group, [rng.standard_normal(s).astype(dtype) for s in arrays_of]


def run(group: Group, arrays: list[np.ndarray], jit: bool, parts: int = 1, over: int | None = None) -> np.ndarray:
    """The result of a group of one kernel, which runs in ``parts``, each once; ``over``: the operand that is its memory."""
    (shape,) = shape_program(group).program.run(arrays)
    out = np.full(shape, 77, numpy_dtype(group.values()[group.results[0]].dtype))
    if over is not None:
        out = arrays[over].copy()
        arrays = [*arrays[:over], out, *arrays[over + 1 :]]
    for k in range(parts):
        assert call(kernel_source(group), [*arrays, out], jit=jit, share=np.array([(k, parts, NO_LIMIT, 1, 1)], SHARE)) == 0
    return out


def one_by_one(group: Group, arrays: list[np.ndarray], jit: bool) -> np.ndarray:
    """The result of the operators of ``group``, each in a kernel of its own."""
    values: list[np.ndarray] = [*arrays, *(np.array(c.value, c.dtype) for c in group.literals)]
    for node in group.nodes:
        refs = list(dict.fromkeys(node.args))
        own = replace(node, args=tuple(map(refs.index, node.args)))
        params = [Tensor(values[r].dtype.name, tuple(map(dim, values[r].shape))) for r in refs]
        alone = build_group(params, (), (own,), (len(refs),))
        implementation = group.implementation if node is group.nodes[0] else ""
        values.append(run(replace(alone, implementation=implementation), [values[r] for r in refs], jit))
    return values[-1]


def same(group: Group, arrays: list[np.ndarray], jit: bool) -> None:
    expected = one_by_one(group, arrays, jit)
    for parts in (1, 2, 3):
        np.testing.assert_array_equal(run(group, arrays, jit, parts), expected)
    for pair in in_place_pairs(group):
        planned = replace(group, in_place=(pair,))
        for parts in (1, 2, 3):
            np.testing.assert_array_equal(run(planned, arrays, jit, parts, over=pair[0]), expected)
        np.testing.assert_array_equal(run(planned, arrays, jit), expected)


@settings(max_examples=60)
@given(cases(), st.sampled_from(["tiles", "planes", "shifts", "direct"]))
def test_an_epilogue_gives_the_bits_of_its_operators(case: dict[str, Any], implementation: str) -> None:
    group, arrays = made(case)
    same(replace(group, implementation=implementation), arrays, jit=False)


@pytest.mark.split(2)
@pytest.mark.extensive(implementation=("tiles", "pointwise"))
@pytest.mark.parametrize("implementation", ["tiles", "planes", "pointwise", "im2col", "direct"])
def test_epilogues_in_machine_code(implementation: str) -> None:
    """Several stretches of positions, bands of channels and parts of the inner axis; planes that are finished in stretches."""
    pointwise = implementation == "pointwise"
    cases = [
        ((2, 300, 9, 23), (100, 300, 1, 1), {}),
        ((1, 70, 12, 20), (7, 70, *((1, 1) if pointwise else (3, 3))), {"padding": 0 if pointwise else 1}),
        ((2, 6, 90, 33), (6, 1, 1, 1), {"groups": 6}),
        ((1, 600, 7, 7), (50, 600, 1, 1), {}),
        ((2, 0, 5, 90), (3, 0, 1, 1), {}),
        ((1, 9, 1, 1), (1600, 9, 1, 1), {}),
    ]
    for sizes, weight, attrs in tiers.some(cases, implementation, 2):
        for tail in (["nn.relu"], [("nn.bias_add", "channel"), ("add", "result"), "tanh"], [("multiply", "image")]):
            case = {"data": sizes, "weight": weight, "attrs": {"strides": 1, **attrs}, "tail": tail, "dtype": "float32"}
            group, arrays = made({**case, "is_known": False, "seed": 3})
            same(replace(group, implementation=implementation), arrays, jit=True)


@pytest.mark.extensive
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_epilogues_that_limit_each_channel(dtype: str) -> None:
    """Windows of 3 x 3 of each channel, whose sums are limited before they are stored; others, which are finished afterwards."""
    limits = [("nn.bias_add", "channel")], [("nn.bias_add", "channel"), "nn.relu"]
    others = [([("add", "result"), "nn.relu"], "", False), (limits[1], "float16", False)]
    for tail, stored, is_limited in [*((tail, "", True) for tail in limits), *others]:
        for sizes, stride, is_known in [((2, 5, 9, 20), 1, False), ((1, 3, 7, 5), 2, True), ((1, 2, 90, 33), 1, False)]:
            weight, attrs = (sizes[1], 1, 3, 3), {"groups": sizes[1], "padding": 1, "strides": stride}
            case = {"data": sizes, "weight": weight, "attrs": attrs, "tail": tail, "dtype": dtype, "is_known": is_known}
            group, arrays = made({**case, "stored": stored, "seed": 3})
            group = replace(group, implementation="planes")
            assert (limits_of(group) is not None) is is_limited
            same(group, arrays, jit=True)


@pytest.mark.split(2)
@pytest.mark.parametrize("implementation", ["tiles", "shifts", "groups", "planes"])
def test_epilogues_that_scale_and_limit_each_channel(implementation: str) -> None:
    """Sums with a factor and an addend of their channel, and limited ones: the bits of the operators, and NaN stays NaN."""
    of_norm = [("multiply", "channel column"), ("add", "channel column"), "nn.relu"]
    tails = [of_norm, of_norm[:1], of_norm[1:], [*of_norm[:2], ("minimum", "scalar")], ["nn.relu"]]
    cases = [
        ((2, 5, 9, 13), (20, 5, 1, 1), {}),
        ((1, 70, 4, 5), (9, 70, 1, 1), {}),
        ((1, 3, 9, 52), (8, 3, 3, 3), {"strides": 2}),
    ]
    for sizes, weight, attrs in [*cases, ((1, 600, 3, 6), (7, 600, 1, 1), {}), ((2, 4, 8, 16), (13, 4, 3, 3), {"padding": 1})]:
        for tail in tails:
            case = {"data": sizes, "weight": weight, "attrs": attrs, "tail": tail, "dtype": "float32", "is_known": False}
            group, arrays = made({**case, "seed": 3})
            arrays[0].flat[0] = np.nan
            limits = limits_of(group)
            assert limits is not None and (limits.factor is None, limits.addend is None) == tuple(
                all(each[0] != name for each in tail) for name in ("multiply", "add")
            )
            same(replace(group, implementation=implementation), arrays, jit=True)


@pytest.mark.parametrize("tail", [[("nn.bias_add", "channel"), "nn.relu"], [("nn.bias_add", "channel"), "sigmoid"]])
def test_epilogues_of_channels_in_vectors(tail: list[Any]) -> None:
    """Small pictures of windows of 5 x 5: sums that are limited in vectors of channels, and sums that are finished."""
    for sizes in [(2, 70, 6, 6), (1, 64, 3, 3), (3, 5, 1, 1)]:
        case = {"data": sizes, "weight": (sizes[1], 1, 5, 5), "attrs": {"groups": sizes[1], "padding": 2}, "tail": tail}
        group, arrays = made({**case, "dtype": "float32", "is_known": False, "seed": 3})
        arrays[0].flat[0] = np.nan
        same(replace(group, implementation="planes"), arrays, jit=True)


@pytest.mark.split(3)
@pytest.mark.parametrize("sizes", [(2, 300, 9, 13), (3, 130, 5, 5), (1, 600, 14, 14), (2, 0, 5, 9), (1, 9, 1, 1)])
def test_epilogues_of_positions(sizes: tuple[int, ...]) -> None:
    """Several panels of output channels, the last of a few; parts of the inner axis; pictures together and one by one."""
    for outputs in (50, 16, 300):
        for tail in (["nn.relu"], [("nn.bias_add", "channel"), ("add", "result"), "tanh"], [("multiply", "image")]):
            case = {"data": sizes, "weight": (outputs, sizes[1], 1, 1), "attrs": {}, "tail": tail, "dtype": "float32"}
            group, arrays = made({**case, "is_known": False, "seed": 3})
            for implementation in ("positions", "rows"):
                same(replace(group, implementation=implementation), arrays, jit=True)


@pytest.mark.split(2)
@pytest.mark.parametrize("implementation", ["winograd", "shifts", "groups"])
def test_epilogues_of_sums_in_a_buffer(implementation: str) -> None:
    """Results in memory of their own, of halves and over an operand; without terms, too."""
    for sizes, weight in [
        ((2, 30, 13, 18), (33, 30, 3, 3)),
        ((1, 24, 9, 9), (25, 24, 3, 3)),
        ((2, 0, 5, 9), (3, 0, 3, 3)),
        ((1, 3, 9, 60), (9, 3, 3, 3)),
    ]:
        tails = ["nn.relu"], [("nn.bias_add", "channel"), ("add", "result"), "tanh"], [("multiply", "channel column")]
        for tail, stored in zip(tails, ("float16", "", ""), strict=True):
            case = {"data": sizes, "weight": weight, "attrs": {"padding": 1}, "tail": tail, "dtype": "float32"}
            group, arrays = made({**case, "stored": stored, "is_known": False, "seed": 3})
            same(replace(group, implementation=implementation), arrays, jit=True)


def _convolution(*tail: Any, **changes: Any) -> Group:
    case = {"data": (2, 3, 9, 8), "weight": (8, 3, 3, 3), "attrs": {"padding": 1}, "dtype": "float32", "seed": 1}
    return made({"is_known": False, **case, "tail": list(tail), **changes})[0]


def test_networks_share_the_text_of_their_epilogues() -> None:
    tail = (("nn.bias_add", "channel"), ("add", "result"), "nn.relu")
    known = {"is_known": True, "attrs": {"padding": 1}}
    texts = {
        kernel_source(_convolution(*tail, data=(1, c, h, h), weight=(o, c, 3, 3), **known)).text
        for c, o, h in [(3, 8, 10), (8, 16, 20), (16, 16, 7)]
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("tail", "is_settled"),
    [(["nn.relu"], True), ([("maximum", "channel column")], True), (["abs"], False), ([("add", "result"), "nn.relu"], False)],
)
def test_a_choice_of_a_sum_is_not_stored_as_one(tail: list[Any], is_settled: bool) -> None:
    """LLVM stores the other elements alone, by masks, if a vector is chosen from the elements that it replaces."""
    group = replace(_convolution(*tail, weight=(3, 1, 3, 3), attrs={"padding": 1, "groups": 3}), implementation="planes")
    assert ("= settled(" in kernel_source(group).text) is is_settled


def test_operands_that_the_result_of_an_epilogue_is_written_over() -> None:
    group = _convolution(("add", "result"), ("nn.bias_add", "channel"), ("multiply", "result"), "nn.relu")
    assert fits(group) and reads(group) == (True,) * 5
    for apart in ("tiles", "positions", "rows", "winograd"):
        assert in_place_pairs(replace(group, implementation=apart)) == ((2, 0), (4, 0))
    for other in ("", "planes", "groups", "shifts", "im2col", "direct"):  # parts of sums are stored before operands are read
        assert in_place_pairs(replace(group, implementation=other)) == ()


def test_a_result_is_not_written_over_an_operand_that_the_convolution_reads() -> None:
    """Of the same shape as the result; read by the epilogue, too, or by both sides of an operator."""
    tensor = Tensor("float32", tuple(map(dim, (2, 8, 6, 6))))
    weight = Tensor("float32", tuple(map(dim, (8, 8, 1, 1))))
    conv = replace(_convolution("nn.relu", is_known=True).nodes[0], args=(0, 1))
    conv = replace(conv, attrs=replace(conv.attrs, padding=0))
    add = Node("add", get("add").attrs(), (3, 0), ())
    group = build_group((tensor, weight, tensor), (), (conv, add), (4,))
    assert fits(group) and 0 not in dict(in_place_pairs(replace(group, implementation="tiles")))
    twice = Node("multiply", get("multiply").attrs(), (2, 2), ())
    group = build_group((tensor, weight, tensor), (), (conv, twice, replace(add, args=(3, 4))), (5,))
    assert fits(group) and in_place_pairs(replace(group, implementation="tiles")) == ((2, 0),)
    arrays = [np.random.default_rng(k).standard_normal(s).astype("float32") for k, s in enumerate([(2, 8, 6, 6), (8, 8, 1, 1)])]
    same(replace(group, implementation="tiles"), [*arrays, arrays[0][::-1].copy()], jit=False)


@pytest.mark.parametrize(
    ("size", "lanes", "with_relu", "with_sigmoid"),
    [(1, 16, False, False), (2, 8, True, False), (2, 16, False, False), (3, 16, True, False), (4, 16, True, True),
     (5, 16, True, False), (6, 8, True, True), (12, 16, True, True)],
)  # fmt: skip
def test_short_runs_of_costly_functions_are_another_kernel(
    size: int, lanes: int, with_relu: bool, with_sigmoid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run has vectors of its own; of open sizes, and of few runs, the epilogue stays."""
    monkeypatch.setattr(epilogue, "vector_bytes", lambda: 4 * lanes)
    for name, is_one in (("nn.relu", with_relu), ("sigmoid", with_sigmoid)):
        for channels, shape in ((16, (size, size)), (15, (size, size)), (17, (sym("h"), dim(size)))):
            data = Tensor("float32", (dim(1), dim(8), *shape))
            weight = Tensor("float32", tuple(map(dim, (channels, 8, 1, 1))))
            nodes = [Node("nn.conv2d", get("nn.conv2d").attrs(), (0, 1), ()), Node(name, get(name).attrs(), (2,), ())]
            assert fits(build_group((data, weight), (), nodes, (3,))) == (is_one or channels != 16), (name, channels)


def test_operators_that_are_no_epilogue() -> None:
    """Another shape than the result, elements at another place, an operand that varies along a part of a run."""
    tensor, conv = Tensor("float32", tuple(map(dim, (2, 8, 6, 6)))), _convolution("nn.relu", is_known=True).nodes[0]
    weight, row = Tensor("float32", tuple(map(dim, (8, 8, 1, 1)))), Tensor("float32", (dim(6),))
    conv = replace(conv, attrs=replace(conv.attrs, padding=0))
    larger = Tensor("float32", tuple(map(dim, (3, 2, 8, 6, 6))))
    for name, attrs, further in [
        ("transpose", {"axes": (0, 1, 3, 2)}, ()),
        ("reverse", {"axis": 1}, ()),
        ("sum", {"axis": (1,), "keepdims": True}, ()),
        ("add", {}, (row,)),
        ("add", {}, (larger,)),
    ]:
        params = (tensor, weight, *further)
        last = Node(name, get(name).attrs(**attrs), (len(params), *range(2, len(params))), ())
        group = build_group(params, (), (conv, last), (len(params) + 1,))
        assert not fits(group), name
        with pytest.raises(TypeRelError, match="no kernel applies its operators together"):
            demands(group)
