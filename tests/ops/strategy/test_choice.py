"""Choosing an implementation: conditions as data and text, candidates in order, guards, forcing, falling back."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.analysis.aliasing import kernel_pairs
from relayvm.ops.core.conditions import Choice, Condition, condition, holds, undecided
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.implementation import GPU, HOST, Kernel, OpCall, Scratch
from relayvm.ops.core.op import REGISTRY, Op, OpPattern, get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.core.type_relation import build_group
from relayvm.ops.strategy.choice import FORCED, ONLY, TUNED, Rejection, choose, fallbacks, force, resolve_implementation
from relayvm.shape_funcs.symbolic.dim import Dim, const, dim, sym
from relayvm.shape_funcs.symbolic.dim_operations import evaluate, max_, min_

from ..every_op.recipe import operators

N, M = sym("n"), sym("m")


class _Op:
    """As much of an operator as a choice asks for."""

    def __init__(self, *kernels: Kernel) -> None:
        self.name, self.kernels = "test.choice", kernels
        self.implementations = tuple(k.name for k in kernels)

    def kernels_on(self, machine: str) -> tuple[Kernel, ...]:
        return tuple(k for k in self.kernels if machine in k.devices)


def body(*args: Any) -> int:
    return 0


def kernel(name: str, fits: Any = (), pays: Any = (), **more: Any) -> Kernel:
    return Kernel(name, body, fits=lambda call: tuple(fits), pays=lambda call: tuple(pays), **more)


def call(*kernels: Kernel, size: int | Dim = N, device: str = HOST) -> OpCall:
    tensor = Tensor("float32", (dim(size),))
    return OpCall(_Op(*kernels), None, (tensor,), (tensor,), device)  # type: ignore[arg-type]


SMALL, LARGE = condition(N, "<=", 8), condition(N, ">", 8)
TRUE, FALSE = condition(1, "<=", 2), condition(3, "<=", 2)


def test_equal_calls_are_decided_once() -> None:
    asked = list[str]()
    one = Kernel("one", body, takes=lambda call: not asked.append("takes"))
    first = call(one)
    assert choose(first) == choose(replace(first)) and asked == ["takes"]
    # attributes that are no key
    asked.clear()
    assert choose(replace(first, attrs=[1])) == choose(replace(first, attrs=[1])) == choose(first) and len(asked) == 2


# ---- conditions ----------------------------------------------------------------------------------------------------


@st.composite
def dims(draw: st.DrawFn, depth: int = 2) -> Dim:
    if depth == 0:
        return draw(st.sampled_from([N, M, sym("d0"), dim(0), dim(1), dim(7), dim(2**31)]))
    a, b = draw(dims(depth - 1)), draw(dims(depth - 1))
    return draw(
        st.sampled_from([lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // b, lambda: min_(a, b), lambda: max_(a, b)])
    )()


conditions = st.builds(Condition, dims(), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), dims())
names = st.sampled_from(["rows", "blas", "loops", "im2col"])
choices = st.builds(
    lambda guarded, last: Choice((*guarded, (last, ()))),
    st.lists(st.tuples(names, st.lists(conditions, min_size=1, max_size=3).map(tuple)), max_size=3),
    names,
)


@given(choices)
def test_what_prints_parses_back(choice: Choice) -> None:
    assert Choice.parse(str(choice)) == choice


@given(conditions, st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_a_condition_holds_as_python_says(c: Condition, n: int, m: int, d0: int) -> None:
    sizes = {"n": n, "m": m, "d0": d0}
    left, right = evaluate(c.left, sizes), evaluate(c.right, sizes)
    python = {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }
    assert evaluate(c.holds, sizes) == python[c.relation]
    known = const(c.holds)
    assert known is None or known == python[c.relation]


NO_CHOICES = [
    *("", "1", "rows if", "rows if n else blas", "rows if n <= 8", "a.b", "__import__('os')", "(" * 10000),
    *("rows if f(n, 1) <= 2 else b", "x if n <= 1 < 2 else y", "x if n <= 2.5 else y"),
]


@pytest.mark.parametrize("text", NO_CHOICES, ids=range(len(NO_CHOICES)))
def test_other_texts_are_no_choice(text: str) -> None:
    with pytest.raises(ValueError, match="is no choice of an implementation"):
        Choice.parse(text)


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no relation '=<'; there are == != < <= > >="):
        condition(N, "=<", 3)


def test_what_is_decided_is_left_out() -> None:
    assert undecided((TRUE, SMALL)) == (SMALL,)
    assert undecided((FALSE, SMALL)) is None
    assert undecided((TRUE,)) == ()
    assert const(holds((TRUE, TRUE))) == 1


# ---- choosing ------------------------------------------------------------------------------------------------------


def test_the_first_that_fits_and_pays_for_every_size_is_chosen() -> None:
    found = choose(call(kernel("a", fits=[FALSE]), kernel("b", pays=[FALSE]), kernel("c", pays=[TRUE]), kernel("d")))
    assert found == Choice((("c", ()),), "pays: 1 <= 2")
    assert choose(call(kernel("a"), kernel("b"))).because == "the first that fits"
    assert choose(call(kernel("a", fits=[FALSE]), kernel("b"))) == Choice((("b", ()),), ONLY)


def test_what_sizes_decide_becomes_a_guarded_version() -> None:
    found = choose(call(kernel("a", fits=[TRUE, SMALL]), kernel("b", fits=[LARGE], pays=[TRUE]), kernel("c"), kernel("d")))
    assert found.versions == (("a", (SMALL,)), ("b", (LARGE,)), ("c", ()))
    assert str(found) == "a if n <= 8 else b if n > 8 else c"
    assert found.because == "sizes at run time decide"
    assert [evaluate(g, {"n": 8}) for g in found.guards] == [1, 0] and [evaluate(g, {"n": 9}) for g in found.guards] == [0, 1]


def test_only_what_runs_on_the_device_and_takes_the_call_is_a_candidate() -> None:
    gpu = Kernel("gpu", None, cuda=lambda c: None)
    kernels = (kernel("a", takes=lambda c: False), gpu, kernel("b"))
    assert choose(call(*kernels)).names == ("b",)
    assert choose(call(*kernels, device=GPU)).names == ("gpu",)
    with pytest.raises(Rejection, match=r"no implementation of test.choice runs on cuda"):
        choose(call(kernel("a"), device=GPU))


def test_measurements_come_first_and_never_where_they_are_not_right() -> None:
    kernels = (kernel("a"), kernel("b", fits=[SMALL]), kernel("c", fits=[FALSE]), kernel("d"))

    def preferring(*versions: tuple[str, Any]) -> Choice:
        return choose(call(*kernels), lambda c: versions)

    assert preferring(("d", ())) == Choice((("d", ()),), TUNED)
    assert preferring(("b", ())) == Choice((("b", (SMALL,)), ("a", ())), TUNED)
    large = (condition(N, ">", 100),)
    assert preferring(("d", large)) == Choice((("d", large), ("a", ())), TUNED)
    assert preferring(("d", (FALSE,)), ("b", large)).versions == (("b", (*large, SMALL)), ("a", ()))
    assert preferring(("c", ())) == preferring() == preferring(("unheard of", ())) == choose(call(*kernels))


def test_a_forced_implementation_is_the_only_one() -> None:
    kernels = (kernel("a", fits=[SMALL]), kernel("b", fits=[FALSE]), kernel("c", takes=lambda c: False), Kernel("gpu", None))
    assert force(call(*kernels), "a") == (Choice((("a", ()),), FORCED), (SMALL,))
    for name, why in [
        ("b", "it needs 3 <= 2"),
        ("c", "it does not take these types and attributes"),
        ("gpu", "it does not run on cpu"),
        ("d", "it is none of a, b, c, gpu"),
    ]:
        with pytest.raises(Rejection) as refused:
            force(call(*kernels), name)
        assert (refused.value.name, refused.value.why) == (name, why)


def test_a_rejection_leaves_a_context_manager_as_it_is() -> None:
    """``contextlib`` sets the traceback of an exception that it throws into a generator."""

    @contextlib.contextmanager
    def managed() -> Iterator[None]:
        yield

    with pytest.raises(Rejection, match="it is none of a") as refused, managed():
        force(call(kernel("a")), "b")
    assert (refused.value.name, refused.value.why) == ("b", "it is none of a")


def test_what_falls_back_is_declared_later_right_for_every_size_and_fits_the_plan() -> None:
    a, b, c = kernel("a", in_place=((0, 0),)), kernel("b", fits=[SMALL]), kernel("c", in_place=((0, 0),))
    d = kernel("d")
    assert fallbacks(call(a, b, c, d), "a") == (c, d)
    assert fallbacks(call(a, b, c, d), "a", a.in_place) == (c,)
    assert fallbacks(call(a, b, c, d), "d") == ()


def test_what_is_planned_for_a_parameter_holds_for_each_input_that_it_is() -> None:
    tensor = Tensor("float32", (N,))
    # f(1, x, (y, x)), whose two outputs are returned the other way round
    node = Node("test.choice", None, (2, 0, (1, 0)), (tensor, tensor))
    group = Group((tensor, tensor), (Literal("float32", 1.0),), (node,), (4, 3))
    assert kernel_pairs(group, (0, 0)) == {(1, 1), (3, 1)}
    assert kernel_pairs(group, (1, 1)) == {(2, 0)}


# ---- declarations --------------------------------------------------------------------------------------------------


SEVERAL = [op.name for op in operators() if len(op.kernels) > 1]


def test_the_operators_with_several_implementations() -> None:
    assert {"nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv2d", "sort", "argsort", "topk", "nn.softmax"} <= set(SEVERAL)


def unknown_call(name: str, dtype: str, device: str, **attrs: Any) -> OpCall:
    """A call with every size unknown, of the ranks that the operator takes."""
    op = get(name)
    if name == "nn.sparse_dense":
        params = [Tensor(dtype, (N, M)), *(Tensor(d, (sym(f"d{k}"),)) for k, d in enumerate((dtype, "int32", "int32")))]
        params[2] = Tensor("int32", params[1].shape)
        return build_group(params, (), (Node(name, op.attrs(**attrs), (0, 1, 2, 3), ()),), ()).call_on(device)
    if name == "nn.dense_panels":
        params = [Tensor(dtype, (N, M)), Tensor(dtype, (sym("panels"), M, sym("width")))]
        return build_group(params, (), (Node(name, op.attrs(units=70, **attrs), (0, 1), ()),), ()).call_on(device)
    if name == "nn.dense_bit_panels":
        params = [Tensor("float32", (N, M)), Tensor("uint8", (sym("panels"), sym("blocks"), sym("bytes")))]
        params += [Tensor(d, (sym("panels"), sym("blocks"), sym("width"))) for d in ("float32", "uint8")]
        made = op.attrs(units=70, bits=4, block=32, **attrs)
        return build_group(params, (), (Node(name, made, (0, 1, 2, 3), ()),), ()).call_on(device)
    if name == "nn.dense_byte_panels":
        params = [
            Tensor("uint8", (N, M)),
            Tensor("int8", (sym("panels"), sym("steps"), dim(16), dim(4))),
            Tensor("int32", (sym("n"),)),
        ]
        return build_group(params, (), (Node(name, op.attrs(**attrs), (0, 1, 2), ()),), ()).call_on(device)
    if name == "nn.byte_conv2d":
        params = [Tensor("uint8", (N, dim(4), sym("h"), sym("w"))), Tensor("int32", tuple(map(sym, ("g", "t", "s", "r"))))]
        params += [Tensor("int32", (dim(6),)), Tensor("uint8", (dim(1),))]
        made = op.attrs(kernel_size=(3, 3), **attrs)
        return build_group(params, (), (Node(name, made, (0, 1, 2, 3), ()),), ()).call_on(device)
    if name == "nn.winograd_conv2d":
        params = [Tensor(dtype, (N, dim(4), sym("h"), sym("w"))), Tensor(dtype, (dim(6), dim(4), dim(1), dim(1)))]
        params.append(Tensor(dtype, (dim(16), dim(6), dim(4))))
        return build_group(params, (), (Node(name, op.attrs(**attrs), (0, 1, 2), ()),), ()).call_on(device)
    if name == "nn.batch_attention":
        params = [Tensor(dtype, (sym("b"), rows, sym("h"), sym("d"))) for rows in (N, M, M)]
        return build_group(params, (), (Node(name, op.attrs(**attrs), (0, 1, 2), ()),), ()).call_on(device)
    if name == "nn.grouped_attention":
        params = [Tensor(dtype, (sym("b"), rows, sym("h"), sym("d"))) for rows in (N, M, M)]
        params.append(Tensor(dtype, (dim(1), dim(1), N, M)))
        return build_group(params, (), (Node(name, op.attrs(**attrs), (0, 1, 2, 3), ()),), ()).call_on(device)
    if name == "nn.tiled_batch_matmul":
        params = [Tensor(dtype, (sym("b"), N, M)), Tensor(dtype, (sym("g"), sym("k"), M)), Tensor("int64", (dim(3),))]
        return build_group(params, (), (Node(name, op.attrs(**attrs), (0, 1, 2), ()),), ()).call_on(device)
    spatial = next((n for n in (1, 2, 3) if name.startswith(f"nn.conv{n}d")), 0)
    channels = (4, 6) if name.endswith("_transpose") else (6, 4)
    rank = {"nn.batch_matmul": 3}.get(name, 2 + spatial)
    params = []
    for k in range(len(op.inputs)):
        sizes = [sym(f"d{10 * k + axis}") for axis in range(rank)]
        if spatial:  # channels and windows must fit
            sizes = [sizes[0], dim(4), *sizes[2:]] if k == 0 else [*map(dim, channels), *[dim(1)] * spatial]
        elif k == 1:
            sizes = (
                [*sizes[:-1], params[0].shape[-1]]
                if name in ("nn.dense", "nn.batch_matmul")
                else [params[0].shape[-1], sizes[-1]]
            )
            sizes[0] = params[0].shape[0] if name == "nn.batch_matmul" else sizes[0]
        params.append(Tensor(dtype, tuple(sizes)))
    node = Node(name, op.attrs(**attrs), tuple(range(len(params))), ())
    return build_group(params, (), (node,), ()).call_on(device)


@pytest.mark.parametrize("device", [HOST, GPU])
@pytest.mark.parametrize("name", SEVERAL)
def test_the_last_implementation_takes_every_call(name: str, device: str) -> None:
    for dtype in ("float32", "float64", "float16"):
        c = unknown_call(name, dtype, device)
        last = c.op.kernels_on(device)[-1]
        assert last.takes(c) and undecided(last.fits(c) + last.pays(c)) == ()


@pytest.mark.parametrize("name", SEVERAL)
def test_choices_can_be_written_down(name: str) -> None:
    for dtype in ("float32", "float16"):
        choice = choose(unknown_call(name, dtype, HOST))
        assert Choice.parse(str(choice), choice.because) == choice
        assert len(choice.names) == len(set(choice.names))


def test_a_group_is_settled_by_the_shapes_of_its_parameters() -> None:
    c = unknown_call("nn.dense", "float32", HOST)
    group = Group(c.inputs, (), (Node("nn.dense", c.attrs, (0, 1), c.outputs),), (2,))
    assert resolve_implementation(group, [(3, 64), (10, 64)]).implementation == "rows"
    assert resolve_implementation(group, [(30, 64), (10, 64)]).implementation == "blas"
    assert resolve_implementation(group, [(30, 64), (1, 64)]).implementation == "rows"


def _first(dtypes: Any, attrs: Any) -> Any:
    return dtypes[0]


def test_two_implementations_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two of its implementations have one name: a, a"):
        Op(name="test.two_names", doc="x", inputs=(), pattern=OpPattern.OPAQUE, dtype=_first, kernels=(kernel("a"),) * 2)
    assert "test.two_names" not in REGISTRY


# ---- facts for a memory plan ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("view", "axis"), list(itertools.product(["", "flat", "axis"], [0, -1, None])))
def test_buffers_are_what_the_scratch_takes(view: str, axis: int | None) -> None:
    class Attrs:
        pass

    attrs = Attrs()
    attrs.axis = axis  # type: ignore[attr-defined]
    shape = (dim(3), N)
    tensor = Tensor("float16", shape)
    at = 1 if view == "axis" else 0
    c = OpCall(_Op(), attrs, (tensor,), (tensor,))  # type: ignore[arg-type]
    of_the_call = Scratch("float64", length=lambda c: c.inputs[0].shape[1] * 9 - 50)
    scratch = (Scratch(axis=at), Scratch("int64", axis=at, rows=2), Scratch("uint8", length=100), of_the_call)
    found = Kernel("a", body, views=(view,), scratch=scratch).buffers(c)
    # a length below 0 is none
    for size, more in ((5, 0), (6, 8 * 4)):
        n = {"": 3, "flat": 3 * size, "axis": {0: 3, -1: size, None: 3 * size}[axis]}[view]  # type: ignore[index]
        rounded = [-(-bytes_ // 64) * 64 for bytes_ in (n * 4, n * 2 * 8, 100, more)]
        assert [evaluate(buffer.nbytes, {"n": size}) for buffer in found] == rounded
