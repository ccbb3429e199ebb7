"""Every family of operators on float16 and bfloat16: as numpy computes it in float32, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.codegen.cpu.fused_kernel import source
from relayvm.ops.codegen.cpu.narrowed_runs import MOST
from relayvm.ops.codegen.loop_nest.vector_math import LEAST
from relayvm.ops.core.group import Literal, Node
from relayvm.ops.core.tensor_types import DTYPES, HALVES, Tensor, is_float, numpy_dtype
from relayvm.ops.core.type_relation import build_group
from relayvm.ops.defs.arithmetic.broadcast import BiasAddAttrs
from relayvm.ops.defs.arithmetic.creation import ArangeAttrs, FullAttrs, InitAttrs
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs, ClipAttrs, LeakyReluAttrs
from relayvm.ops.defs.axes.reduce import ArgReduceAttrs, ReduceAttrs
from relayvm.ops.defs.movement.indexing import OneHotAttrs, TakeAttrs
from relayvm.ops.defs.movement.matrix import TriluAttrs
from relayvm.ops.defs.movement.pad import DilateAttrs, PadAttrs
from relayvm.ops.defs.movement.rearrange import SequenceMaskAttrs
from relayvm.ops.defs.movement.transform import AxisAttrs, SliceAttrs, TransposeAttrs
from relayvm.ops.defs.sampling.image import Resize2dAttrs
from relayvm.shape_funcs.symbolic.dim import dim

from ...arrays import wide
from ..opaque.opaque_kernels import run
from .run_group import call, compiled, evaluate, one_call, plain
from .test_fusable_elements import BINARY, PAIRS, TRANSCENDENTAL, UNARY

#: Both halves; one of them in `make test`.
BOTH = pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.extensive), "bfloat16"])
ANY_WARNING = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SPECIAL = [0.0, -0.0, 1.0, 0.5, -2.5, 1e-7, -3e-5, 6e4, np.inf, -np.inf, np.nan]


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0, special: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = rng.standard_normal(shape) * 3
    if special:
        out = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), out)
    return np.asarray(out).astype(numpy_dtype(dtype))


def ordered(x: np.ndarray) -> np.ndarray:
    """Numbers that count halves in their order; both zeros are one."""
    bits = x.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -32768 - bits, bits)


def same(ours: np.ndarray, exact: Any, dtype: str, apart: int = 0) -> None:
    """``ours`` is ``exact`` rounded to the dtype, or at most so many halves from it."""
    want = wide(exact).astype(numpy_dtype(dtype))
    assert ours.dtype == want.dtype and ours.shape == want.shape
    nan = np.isnan(wide(want))
    np.testing.assert_array_equal(np.isnan(wide(ours)), nan)
    assert (np.abs(ordered(ours) - ordered(want))[~nan] <= apart).all(), (ours, want)


# ---- elements ----------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", [n for n, (_, dtypes) in UNARY.items() if "float32" in dtypes])
@ANY_WARNING
def test_unary(name: str, dtype: str) -> None:
    for shape in [(0,), (1,), (33,), (3, 5), ()]:
        x = sample(shape, dtype)
        want, got = np.asarray(UNARY[name][0](wide(x))), call(name, [x])
        if want.dtype == bool:
            np.testing.assert_array_equal(got, want, strict=True)
        else:
            same(got, want, dtype, 1 if name in TRANSCENDENTAL else 0)


@BOTH
@pytest.mark.parametrize("name", [n for n, (_, dtypes) in BINARY.items() if "float32" in dtypes])
@ANY_WARNING
def test_binary(name: str, dtype: str) -> None:
    for a, b in PAIRS:
        x, y = sample(a, dtype, 1), sample(b, dtype, 2)
        want, got = np.asarray(BINARY[name][0](wide(x), wide(y))), call(name, [x, y])
        if want.dtype == bool:
            np.testing.assert_array_equal(got, want, strict=True)
        else:
            same(got, want, dtype, 1 if name == "power" else 0)


@BOTH
@pytest.mark.optimized
@pytest.mark.parametrize("name", ["exp", "sigmoid", "erf", "floor", "round", "trunc", "sign", "isfinite", "copy"])
@ANY_WARNING
@pytest.mark.extensive(name=["exp", "round"])
def test_machine_code_of_every_value(name: str, dtype: str) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(numpy_dtype(dtype))
    want, got = np.asarray(UNARY[name][0](wide(x))), call(name, [x], run=compiled)
    if name == "sigmoid":  # of float32: 0 for what would be subnormal
        want = np.where(wide(x) < LEAST, 0, want)
    if name == "copy":
        np.testing.assert_array_equal(got.view(np.uint16), x.view(np.uint16))
    elif want.dtype == bool:
        np.testing.assert_array_equal(got, want)
    else:
        same(got, want, dtype, 1 if name in TRANSCENDENTAL else 0)


@BOTH
@pytest.mark.optimized
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "floor_mod", "power", "maximum", "less"])
@ANY_WARNING
def test_machine_code_of_binary(name: str, dtype: str) -> None:
    x, y = sample((1001,), dtype, 3), sample((1001,), dtype, 4)
    want, got = BINARY[name][0](wide(x), wide(y)), call(name, [x, y], run=compiled)
    if want.dtype == bool:
        np.testing.assert_array_equal(got, want)
    else:
        same(got, want, dtype, 1 if name == "power" else 0)


@BOTH
@ANY_WARNING
def test_functions_of_a_library_and_short_loops(dtype: str) -> None:
    """Elements that a buffer holds in float32: more than a run, and loops over few elements."""
    x = sample((2, 300), dtype, 5, special=False)
    few, some = x[:, :144].reshape(2, 16, 3, 3), x[:1, :48].reshape(1, 16, 1, 3)
    for runner in (plain, compiled):
        same(call("tan", [x], run=runner), np.tan(wide(x)), dtype, 1)
        same(call("add", [few, some], run=runner, static=True), wide(few) + wide(some), dtype)


@BOTH
@pytest.mark.parametrize("rows", [0, 1, MOST // 3, 2 * MOST // 3 + 5])
def test_rows_of_very_few_elements(dtype: str, rows: int) -> None:
    """A buffer holds some rows in float32: none, a part of a block, a whole block, and more."""
    x, y = sample((rows, 3), dtype, 5, special=False), sample((rows, 1), dtype, 6, special=False)
    for runner in (plain, compiled):
        same(call("add", [x, y], run=runner, static=True), wide(x) + wide(y), dtype)


@BOTH
@pytest.mark.parametrize("columns", [30, MOST, MOST + 1])
def test_rows_of_elements_read_one_by_one(dtype: str, columns: int) -> None:
    """A resized image is computed as in float32, and rounded once, from a buffer of a row or without one."""
    x, attrs = sample((1, 2, 3, 21), dtype, 7, special=False), Resize2dAttrs((4, columns))
    exact, found = (call("image.resize2d", [y], attrs, run=compiled, static=True) for y in (wide(x), x))
    np.testing.assert_array_equal(wide(found), wide(exact.astype(numpy_dtype(dtype))))


@BOTH
def test_attributes_are_not_rounded(dtype: str) -> None:
    x = sample((40,), dtype)
    same(call("nn.leaky_relu", [x], LeakyReluAttrs(0.3)), np.where(wide(x) < 0, wide(x) * np.float32(0.3), wide(x)), dtype)
    same(call("clip", [x], ClipAttrs(-0.3, 0.7)), np.clip(wide(x), np.float32(-0.3), np.float32(0.7)), dtype)
    data, bias = sample((2, 3, 5), dtype), sample((3,), dtype, 9)
    same(call("nn.bias_add", [data, bias], BiasAddAttrs(1)), wide(data) + wide(bias)[:, None], dtype)


@pytest.mark.parametrize("name", ["rint", "trunc"])
def test_llvm_rounds_no_float16_one_by_one(name: str) -> None:
    """It would, between a conversion from float16 and one to it, and takes vectors of float32."""
    texts = {dtype: source(one_call(name, [sample((64,), dtype)], None, False)).text for dtype in HALVES}
    assert {dtype: "settled" in text for dtype, text in texts.items()} == {"float16": True, "bfloat16": False}


# ---- casts -------------------------------------------------------------------------------------------------------------


def check_casts(values: np.ndarray, to: str, runner: Any = None) -> None:
    got = call("cast", [values], CastAttrs(to), **({"run": runner} if runner else {}))
    if to in HALVES and values.dtype.name != to:
        same(got, wide(values), to)
    else:
        np.testing.assert_array_equal(got, values.astype(numpy_dtype(to)) if to in HALVES else wide(values).astype(to))


@BOTH
@pytest.mark.parametrize("other", DTYPES)
@ANY_WARNING
@pytest.mark.extensive(other=["float32", "int32"])
def test_cast(dtype: str, other: str) -> None:
    x = np.abs(sample((41,), dtype, 1, special=is_float(other)))
    for runner in (None, compiled):
        check_casts(x, other, runner)
        if is_float(other):
            check_casts(sample((41,), "float16", 2).astype(numpy_dtype(other)), dtype, runner)
        else:
            check_casts(np.arange(-60 if other.startswith("i") else 0, 60).astype(other), dtype, runner)


@BOTH
@settings(max_examples=30)
@given(values=st.lists(st.floats(width=64), min_size=1, max_size=8))
@ANY_WARNING
def test_cast_of_any_float64(dtype: str, values: list[float]) -> None:
    check_casts(np.array(values), dtype)


@BOTH
@settings(max_examples=30)
@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
@ANY_WARNING
def test_cast_of_any_int64(dtype: str, values: list[int]) -> None:
    check_casts(np.array(values), dtype)


@BOTH
@settings(max_examples=30)
@given(bits=st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=8), to=st.sampled_from(["int64", "float64", "bool"]))
@ANY_WARNING
def test_cast_of_any_half(dtype: str, bits: list[int], to: str) -> None:
    x = np.array(bits, np.uint16).view(numpy_dtype(dtype))
    if to.startswith("int"):  # what an integer cannot hold is not said
        x = x[np.isfinite(wide(x)) & (np.abs(wide(x)) < 2**31)]
    check_casts(x, to)


# ---- moved, made ---------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("runner", [None, compiled], ids=["python", "machine"])
def test_moving_changes_no_bit(dtype: str, runner: Any) -> None:
    bits = np.random.default_rng(0).integers(0, 2**16, (5, 6)).astype(np.uint16)
    # a conversion would make it quiet
    signalling = {"float16": 0x7D55, "bfloat16": 0x7F95}[dtype]
    bits[np.isnan(bits.view(numpy_dtype(dtype)).astype(np.float32))] = signalling if runner else 0
    bits[1, 1] = signalling if runner else 0
    x, options = bits.view(numpy_dtype(dtype)), {"run": runner} if runner else {}
    vectors, lengths = np.array([9, -4, 2]), np.array([2, 0, 5, 9, -1, 3])
    hot, counted = np.where(np.eye(3, dtype=bool), bits[1, 1], bits[2, 2]), np.arange(5)[:, None]
    cases: list[tuple[np.ndarray, np.ndarray]] = [
        (call("transpose", [x], TransposeAttrs(), **options), bits.T),
        (call("concatenate", [(x, x[:2], x[:0])], AxisAttrs(0), **options), np.concatenate([bits, bits[:2]])),
        (call("take", [x, vectors], TakeAttrs(1), **options), bits.take(vectors, 1, mode="clip")),
        (call("strided_slice", [x], SliceAttrs((1, 0), (5, 6), (2, 1)), **options), bits[1:5:2]),
        (call("where", [bits > 9, x, x], **options), bits),
        (call("nn.dilate", [x], DilateAttrs((2, 2)), **options)[::2, ::2], bits),
        (call("trilu", [x, np.array(1)], TriluAttrs(), **options), np.triu(bits, 1)),
        (call("sequence_mask", [x, lengths], SequenceMaskAttrs(), **options), np.where(counted < lengths, bits, 0)),
        (call("one_hot", [np.arange(3), x[1, 1], x[2, 2]], OneHotAttrs(3, dtype=dtype), **options), hot),
    ]
    for got, want in cases:
        np.testing.assert_array_equal(got.view(np.uint16), want)


@BOTH
def test_padding_by_zero_moves_words(dtype: str) -> None:
    given, nodes = Tensor(dtype, (dim(3),)), [Node("nn.pad", PadAttrs(((1, 2),)), (0, 1), ())]
    for value, is_moved in ((0.0, True), (-0.0, False), (1.0, False)):
        group = build_group([given], [Literal(dtype, value)], nodes, [2])
        assert (dtype not in source(group).text) == is_moved
        bits = np.array([0x7D55, 0x8000, 0x7F95], np.uint16)
        status, (padded,) = evaluate(group, [bits.view(numpy_dtype(dtype))], compiled)
        outside = int(np.array(value, numpy_dtype(dtype)).view(np.uint16))
        assert status == 0 and padded.view(np.uint16)[[0, 2, 4, 5]].tolist() == [outside, 0x8000, outside, outside]
        assert not is_moved or padded.view(np.uint16)[[1, 3]].tolist() == [0x7D55, 0x7F95]


@BOTH
def test_making(dtype: str) -> None:
    element = numpy_dtype(dtype).type
    for start, stop, step in [(0, 5, 1), (5, 0, -2), (3, 3, 1), (0.5, 7, 0.75), (0, 3000, 1)]:
        three = [np.array(element(v)) for v in (start, stop, step)]
        same(call("arange", three, ArangeAttrs(dtype)), np.arange(*map(wide, three), dtype=np.float32), dtype)
    same(call("full", [np.array(element(2.5))], FullAttrs((2, 3))), np.full((2, 3), 2.5), dtype)
    same(call("full", [np.float32(0.1)], FullAttrs((2,), dtype)), np.full((2,), 0.1, np.float32), dtype)
    same(call("ones", [], InitAttrs((2,), dtype)), np.ones(2), dtype)
    on, off = np.array(element(1)), np.array(element(0.1))
    hot = call("one_hot", [np.array([1, 0]), on, off], OneHotAttrs(2, -1, dtype))
    same(hot, np.where(np.eye(2)[[1, 0]] > 0, 1, wide(off)), dtype)


# ---- reductions ------------------------------------------------------------------------------------------------------------

REDUCTIONS = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "variance": np.var, "max": np.max, "min": np.min}


@pytest.mark.split(2)
@BOTH
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("runner", [None, compiled], ids=["python", "machine"])
@ANY_WARNING
def test_reductions_round_once(name: str, dtype: str, runner: Any) -> None:
    options = {"run": runner} if runner else {}
    shapes = [(3, 1000), (70, 3)] if runner else [(3, 5), (7, 1), (0, 4)]
    for shape in shapes:
        x = sample(shape, dtype, 1, special=name in ("max", "min"))
        for axis in (0, 1, None):
            if 0 in shape and (axis != 1 or name in ("mean", "variance")):
                continue
            got = call(name, [x], ReduceAttrs(axis), **options)
            same(np.asarray(got), REDUCTIONS[name](x.astype(np.float64), axis=axis), dtype)


@BOTH
@pytest.mark.parametrize("columns", [0, 1, 7])
def test_only_the_store_rounds_a_sum(dtype: str, columns: int) -> None:
    nodes = [Node("sum", ReduceAttrs((1,)), (0,), ()), Node("cast", CastAttrs(dtype), (1,), ())]
    group = build_group([Tensor("float32", (dim(3), dim(columns)))], [], nodes, [2])
    assert f" {dtype}(" not in source(group).text
    x = sample((3, columns), "float32", 1, special=False)
    status, (got,) = evaluate(group, [x], compiled)
    assert status == 0
    same(got, x.astype(np.float64).sum(1), dtype)


@BOTH
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name: str, dtype: str) -> None:
    x = np.round(sample((4, 50), dtype, 1, special=False))
    for runner in ({}, {"run": compiled}):
        got = call(name, [x], ArgReduceAttrs(1), **runner)
        np.testing.assert_array_equal(got, getattr(np, name)(wide(x), axis=1))


@BOTH
def test_a_sum_is_not_stuck_where_halves_end(dtype: str) -> None:
    x = np.ones((2**13,), numpy_dtype(dtype))
    assert float(call("sum", [x], ReduceAttrs(), run=compiled)) == 2**13


# ---- kernels of their own -----------------------------------------------------------------------------------------------------

JIT = pytest.mark.parametrize("jit", [False, True], ids=["python", "machine"])


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@BOTH
@JIT
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(dtype: str, jit: bool, axis: int) -> None:
    x = sample((2, 9, 4), dtype, special=False)
    want = softmax(x.astype(np.float64), axis)
    (got,), status, _ = run("nn.softmax", [x], jit=jit, axis=axis)
    same(got, want, dtype, 1)
    (log,), _, _ = run("nn.log_softmax", [x], jit=jit, axis=axis)
    same(log, np.log(want), dtype, 1)
    assert status == 0


PRODUCTS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("nn.dense", (3, 5), (4, 5), {}),
    ("nn.dense", (0, 5), (4, 5), {}),
    ("nn.dense", (2, 3, 0), (4, 0), {}),
    ("nn.matmul", (2, 5, 3), (5, 4), {"transpose_a": True}),
    ("nn.matmul", (3, 5), (4, 5), {"transpose_b": True}),
    ("nn.batch_matmul", (2, 3, 5), (1, 4, 5), {}),
    ("nn.batch_matmul", (1, 5, 3), (2, 5, 4), {"transpose_a": True, "transpose_b": False}),
]
LARGE: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("nn.dense", (300, 1100), (530, 1100), {}),
    ("nn.matmul", (700, 259), (700, 515), {"transpose_a": True}),
]


def product(name: str, x: np.ndarray, y: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    flip_x, flip_y = attrs.get("transpose_a", False), attrs.get("transpose_b", name != "nn.matmul")
    x, y = x.astype(np.float64), y.astype(np.float64)
    return (x.swapaxes(-1, -2) if flip_x else x) @ (y.swapaxes(-1, -2) if flip_y else y)


def check_product(name: str, a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any], dtype: str, jit: bool) -> None:
    x, y = sample(a, dtype, 1, special=False), sample(b, dtype, 2, special=False)
    (got,), status, _ = run(name, [x, y], jit=jit, **attrs)
    want = product(name, x, y, attrs)
    assert status == 0 and got.dtype == x.dtype
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    np.testing.assert_allclose(wide(got), want, rtol=1.01 * unit, atol=1e-5 * max(1, a[-1]))


@BOTH
@JIT
@pytest.mark.parametrize(("name", "a", "b", "attrs"), PRODUCTS)
@pytest.mark.extensive(jit=[False])
def test_products(name: str, a: Any, b: Any, attrs: Any, dtype: str, jit: bool) -> None:
    check_product(name, a, b, attrs, dtype, jit)


@BOTH
@pytest.mark.parametrize(("name", "a", "b", "attrs"), LARGE)
@pytest.mark.extensive(dtype=["float16"])
def test_products_of_many_blocks(name: str, a: Any, b: Any, attrs: Any, dtype: str) -> None:
    check_product(name, a, b, attrs, dtype, True)


@BOTH
@JIT
@pytest.mark.parametrize("wanted", ["float32", "float64"])
def test_products_into_wider_floats(dtype: str, wanted: str, jit: bool) -> None:
    x, y = sample((3, 5), dtype, 1, special=False), sample((4, 5), dtype, 2, special=False)
    (got,), _, _ = run("nn.dense", [x, y], jit=jit, out_dtype=wanted)
    np.testing.assert_allclose(got, product("nn.dense", x, y, {}), rtol=1e-5, atol=1e-5)
    assert got.dtype == wanted
    (narrow,), _, _ = run("nn.dense", [x.astype(wanted), y.astype(wanted)], jit=jit, out_dtype=dtype)
    same(narrow, product("nn.dense", x, y, {}), dtype, 1)


@pytest.mark.extensive(jit=(True,), ascend=(False,))
@BOTH
@JIT
@pytest.mark.parametrize("ascend", [True, False])
def test_order(dtype: str, jit: bool, ascend: bool) -> None:
    """As numpy orders it: NaN last of all, whichever way."""
    x = sample((3, 60), dtype)
    keys = wide(x) if ascend else -wide(x)
    if not ascend:
        keys = np.where(np.isnan(keys), -np.inf, keys)  # NaN is the largest
        x = np.where(np.isneginf(keys) & ~np.isnan(wide(x)), numpy_dtype(dtype).type(0), x)
        keys = np.where(np.isnan(wide(x)), -np.inf, -wide(x))
    order = np.argsort(keys, 1, kind="stable")
    want = np.take_along_axis(x, order, 1)
    (values,), _, _ = run("sort", [x], jit=jit, axis=1, is_ascend=ascend)
    np.testing.assert_array_equal(wide(values), wide(want))
    (positions,), _, _ = run("argsort", [x], jit=jit, axis=1, is_ascend=ascend)
    np.testing.assert_array_equal(positions, order)
    for k in (3, 60):
        (best, at), _, _ = run("topk", [x], jit=jit, k=k, axis=1, is_ascend=ascend)
        np.testing.assert_array_equal(at, order[:, :k])
        np.testing.assert_array_equal(wide(best), wide(want[:, :k]))


@BOTH
@JIT
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum(dtype: str, jit: bool, exclusive: bool) -> None:
    x = sample((2, 300 if jit else 9, 3), dtype, special=False)
    sums = np.cumsum(x.astype(np.float64), 1)
    want = sums - x.astype(np.float64) if exclusive else sums
    (got,), _, _ = run("cumsum", [x], jit=jit, axis=1, exclusive=exclusive)
    np.testing.assert_allclose(wide(got), wide(want.astype(np.float32).astype(x.dtype)), rtol=2.0**-8, atol=1e-6)
    ones = np.ones((2**13,), "int8")
    (counted,), _, _ = run("cumsum", [ones[: 2**13 if jit else 20]], jit=jit, axis=0, dtype=dtype)
    same(counted, np.arange(1, len(counted) + 1), dtype)


@BOTH
@JIT
@pytest.mark.parametrize(("name", "function"), [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
def test_scans_of_every_length(name: str, function: Any, dtype: str, jit: bool) -> None:
    """Rows of whole vectors and rests, and columns by lanes and alone; halves are exact."""
    rng = np.random.default_rng(5)
    for shape in [(2, n) for n in (0, 1, 7, 8, 9, 20, 41)] + [(3, 5, columns) for columns in (2, 8, 37, 73)]:
        drawn = rng.choice([-1, 1, 2, 0.5], shape) if name == "cumprod" else rng.integers(-4, 5, shape) / 8
        x = drawn.astype(numpy_dtype(dtype))
        up_to = function(wide(x).astype(np.float64), 1)
        before = np.concatenate([np.full_like(up_to[:, :1], name == "cumprod"), up_to[:, :-1]], 1)[:, : shape[1]]
        for exclusive in (False, True):
            (found,), _, _ = run(name, [x], jit=jit, axis=1, exclusive=exclusive)
            with np.errstate(over="ignore"):
                same(found, before if exclusive else up_to, dtype)


@BOTH
@JIT
def test_search(dtype: str, jit: bool) -> None:
    x = np.round(sample((60,), dtype))
    (found,), _, count = run("argwhere", [x], jit=jit)
    np.testing.assert_array_equal(found[:count], np.argwhere(wide(x)))
    values, first, inverse = np.unique(wide(x), return_index=True, return_inverse=True)
    outputs, _, count = run("unique", [x], jit=jit, is_sorted=True, return_counts=False)
    assert count == len(values)
    np.testing.assert_array_equal(wide(outputs[0][:count]), values)
    np.testing.assert_array_equal(outputs[1][:count], first)
    np.testing.assert_array_equal(outputs[2], inverse)
    ordered_x = np.sort(x[~np.isnan(wide(x))])
    (positions,), _, _ = run("searchsorted", [ordered_x, x], jit=jit)
    np.testing.assert_array_equal(positions, np.searchsorted(wide(ordered_x), wide(x)))


@BOTH
@JIT
def test_boxes(dtype: str, jit: bool) -> None:
    """Overlaps are computed in float32, so the same boxes are kept as of float32 boxes with the same values."""
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 40, (1, 12, 2))
    sizes = rng.integers(4, 30, (1, 12, 2))
    fields = [rng.integers(0, 2, (1, 12, 1)), rng.permutation(12).reshape(1, 12, 1) / 16, corners, corners + sizes]
    boxes = np.concatenate(fields, 2).astype(numpy_dtype(dtype))

    def kept(data: np.ndarray) -> Any:
        counts = run("vision.get_valid_counts", [data, np.array(0.1, data.dtype)], jit=jit).outputs
        limits = [np.array(-1, np.int32), np.array(0.4, np.float32)]
        return run("vision.non_max_suppression", [counts[1], counts[0], counts[2], *limits], jit=jit).outputs

    for ours, theirs in zip(kept(boxes), kept(wide(boxes)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
