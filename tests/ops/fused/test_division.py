"""Partitioned kernels: partitions write disjoint elements, and together the same bits as the whole kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from relayvm.compiler.passes.constant_weights.pack_weights import filters_of
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.op import REGISTRY
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.axes.reduce import ReduceAttrs
from relayvm.ops.defs.movement.indexing import TakeAttrs
from relayvm.ops.defs.weight_forms.byte_convolution import words_of
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE
from relayvm.ops.native.status import DIVISION_BY_ZERO
from relayvm.ops.native.threads import team, work_partition
from relayvm.shape_funcs.symbolic.dim import dim

from ..opaque.opaque_kernels import run as run_operator
from .reductions.row_groups import kernels
from .run_group import compiled, evaluate, group_of, plain
from .test_loops import fused, node, params, programs

pytestmark = pytest.mark.many

#: Of 1, and of numbers that divide hardly any extent; 12 is more than some have.
PARTS = (1, 3, 12)


def part(k: int, parts: int, stretches: int = 1, own: int = 1) -> np.ndarray:
    return np.array([(k, parts, NO_LIMIT, stretches, own)], SHARE)


def asking(limit: int) -> np.ndarray:
    return np.array([(0, 1, limit, 1, 1)], SHARE)


def bits(a: np.ndarray) -> np.ndarray:
    return np.frombuffer(a.tobytes(), np.uint8)


@examples(st.integers(0, 300), st.integers(0, 9), st.integers(1, 5), st.integers(1, 4))
def test_neighbours_stay_together_where_there_are_enough(total: int, together: int, stretches: int, each: int) -> None:
    """The blocks that share a preparation are divided only if some part, or some stretch, would have more of them than others."""
    parts = stretches * each
    portions = [part(k, parts, stretches) for k in range(parts)]
    grain = work_partition.grain_of(portions[0].ctypes.data, total, together)
    bounds = [bounds_of(share, total, grain) for share in portions]
    assert [low for low, _ in bounds[1:]] == [high for _, high in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == (0, total)
    if together > 1 and (total >= parts * together or total % (stretches * together) == 0):
        assert grain == together and all(low % together == 0 for low, _ in bounds if low < total)
    else:
        assert grain == 1


@examples(st.integers(0, 300), st.sampled_from([1, 3, 64]), st.integers(1, 5), st.integers(1, 4))
def test_a_thread_computes_its_stretch_or_a_part_of_another(total: int, grain: int, stretches: int, each: int) -> None:
    parts = stretches * each
    for k in range(parts):
        own, other = part(k, parts, stretches), part(k, parts, stretches, own=0)
        ends = k // each * each, k // each * each + each - 1
        first, last = (bounds_of(part(n, parts, stretches), total, grain) for n in ends)
        assert bounds_of_thread(own, total, grain) == (first[0], last[1])
        assert bounds_of_thread(other, total, grain) == bounds_of(other, total, grain) == bounds_of(own, total, grain)


def bounds_of(share: np.ndarray, total: int, grain: int) -> tuple[int, int]:
    return work_partition.first_of(share.ctypes.data, total, grain), work_partition.end_of(share.ctypes.data, total, grain)


def bounds_of_thread(share: np.ndarray, total: int, grain: int) -> tuple[int, int]:
    at = share.ctypes.data
    return work_partition.first_of_thread(at, total, grain), work_partition.end_of_thread(at, total, grain)


def same_in_parts(group, arrays, run, parts) -> None:
    """Compare a kernel's partitions, each run separately, with the whole kernel."""
    status, alone = evaluate(group, arrays, run)
    divided = "share = " in kernel_source(group).text
    for n in parts if divided and status == 0 else ():
        _, untouched = evaluate(group, arrays, run, portions=[])
        written = [np.zeros(a.nbytes, int) for a in alone]
        together = [bits(a).copy() for a in untouched]
        for k in range(n):
            status, mine = evaluate(group, arrays, run, portions=[part(k, n)])
            assert status == 0
            for a, before, count, whole in zip(mine, untouched, written, together, strict=True):
                changed = bits(a) != bits(before)
                count += changed
                whole[changed] = bits(a)[changed]
        for whole, a, count in zip(together, alone, written, strict=True):
            np.testing.assert_array_equal(whole, bits(a))
            assert count.max(initial=0) <= 1, "two parts wrote one element"


@settings(max_examples=60)
@examples(programs(), st.sampled_from(PARTS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fused_programs_in_parts(program, parts) -> None:
    arrays, steps, _, fold, attrs, _ = program
    if steps:
        group = fused(arrays, steps, fold, attrs, static=False)
        same_in_parts(group, [*arrays, np.array([2, 0, 5], "int32")], plain, [parts])


#: A program for each form of loops, and the shapes of its parameters.
FORMS = {
    "flat": ("%x: Tensor[(?a, ?b), float32]", "tanh(exp(%x))", [(37, 29)]),
    "one axis": ("%x: Tensor[(?a), float32]", "tanh(exp(%x))", [(1000,)]),
    "general": ("%x: Tensor[(?a, ?b, ?c), float32], %y: Tensor[(?c), float32]", "exp(%x + %y)", [(3, 11, 5), (5,)]),
    "general, outer axes of 1": ("%x: Tensor[(?a, ?b, ?c), float32], %y: Tensor[(?c), float32]", "%x + %y", [(1, 11, 5), (5,)]),
    "four axes": (
        "%x: Tensor[(?a, ?b, ?c, ?d), float32], %y: Tensor[(?d), float32]",
        "%x * %y",
        [(2, 3, 5, 4), (4,)],
    ),
    "tiles": ("%x: Tensor[(?a, ?b), float32]", "transpose(%x) * 2f", [(130, 170)]),
    "tiles of tables": ("%x: Tensor[(?a, ?b, ?c), float32]", "exp(transpose(%x, axes=[1, 2, 0]))", [(70, 3, 90)]),
    "moved tiles": ("%x: Tensor[(?a, ?b), float32]", "transpose(%x)", [(20, 700)]),
    "pieces of one axis": (
        "%x: Tensor[(?a), float32], %y: Tensor[(?b), float32]",
        "concatenate((exp(%x), %y))",
        [(300,), (201,)],
    ),
    "pieces of rows": (
        "%x: Tensor[(?a, ?b), float32], %y: Tensor[(?a, ?c), float32]",
        "concatenate((exp(%x), %y), axis=1)",
        [(30, 21), (30, 40)],
    ),
    "rows": ("%x: Tensor[(?a, ?b), float32]", "sum(exp(%x), axis=[1])", [(23, 40)]),
    "rows of rows": ("%x: Tensor[(?a, ?b, ?c), float32]", "max(%x, axis=[2])", [(3, 5, 70)]),
    "variance": ("%x: Tensor[(?a, ?b), float32]", "variance(%x, axis=[1])", [(23, 40)]),
    "argmax": ("%x: Tensor[(?a, ?b), float32]", "argmax(%x, axis=[1])", [(23, 40)]),
    "rows used again": (
        "%x: Tensor[(?a, ?b), float32]",
        "let %m = max(%x, axis=[1], keepdims=True); let %e = exp(%x - %m); %e / sum(%e, axis=[1], keepdims=True)",
        [(23, 40)],
    ),
    "columns": ("%x: Tensor[(?a, ?b), float32]", "sum(%x, axis=[0])", [(9, 3000)]),
    "columns of tables": ("%x: Tensor[(?a, ?b, ?c), float32]", "mean(%x, axis=[1])", [(3, 7, 700)]),
    "a half": ("%x: Tensor[(?a, ?b), float16]", "exp(%x) * 2f16", [(37, 29)]),
}


@pytest.mark.parametrize("shape", [(5, 0), (5, 0, 2)])
def test_sums_of_no_elements_in_parts(shape: tuple[int, ...]) -> None:
    nodes = [node("take", 0, 1, attrs=TakeAttrs(0)), node("sum", 2, attrs=ReduceAttrs((1,)))]
    group = group_of([*params(("n", "m", "k")[: len(shape)]), Tensor("int32", (dim(3),))], nodes)
    assert "else:" in kernel_source(group).text  # no element is read ahead of its loop
    same_in_parts(group, [np.zeros(shape, "float32"), np.array([2, 0, 5], "int32")], plain, PARTS)


@pytest.mark.split(2)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_loops_in_parts(form: str) -> None:
    parameters, body, shapes = FORMS[form]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float16" if "float16" in parameters else "float32") for s in shapes]
    made = kernels(f"def @main({parameters}) {{ {body} }}")
    assert made
    for group, names in made:
        given = [arrays["xy".index(name)] for name in names]
        assert "share = " in kernel_source(group).text
        same_in_parts(group, given, compiled, PARTS)


def regions(n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    corners = np.sort(rng.uniform(0, 12, (n, 2, 2)), 1).reshape(n, 4)
    return np.concatenate([rng.integers(0, 2, (n, 1)), corners], 1).astype("float32")


DATA = np.random.default_rng(0).standard_normal((2, 3, 13, 11)).astype("float32")
CUBES = np.random.default_rng(1).standard_normal((1, 2, 6, 13, 11)).astype("float32")
HUNDRED_ROWS = np.linspace(-2, 1, 100 * 3, dtype="float32").reshape(100, 3)
IMAGES_AND_WEIGHT = [
    np.sin(np.arange(2400, dtype="float32")).reshape(2, 3, 20, 20),
    np.cos(np.arange(810, dtype="float32")).reshape(30, 3, 3, 3),
]


def expansion(shape: tuple[int, ...], channels: int) -> list[np.ndarray]:
    """Data of a shape, weight and bias of an expansion, and depthwise weight."""
    rng, (_, inputs, *_) = np.random.default_rng(5), shape
    shapes = (shape, (channels, inputs, 1, 1), (channels,), (channels, 1, 3, 3))
    return [rng.standard_normal(sizes).astype("float32") for sizes in shapes]


SPLIT = {
    "nn.softmax": ([DATA], {"axis": 1}),
    "nn.log_softmax": ([DATA], {"axis": -1}),
    "cumsum": ([DATA], {"axis": 2}),
    "cumprod": ([DATA], {"axis": 3}),
    "sort": ([DATA], {"axis": 2}),
    "argsort": ([DATA], {"axis": -1}),
    "topk": ([DATA], {"k": 2, "axis": 1}),
    "vision.roi_align": ([DATA, regions(10)], {"pooled_size": (2, 3), "spatial_scale": 0.9}),
    "vision.roi_pool": ([DATA, regions(10)], {"pooled_size": (2, 3), "spatial_scale": 0.9}),
    "image.crop_and_resize": (
        [DATA, regions(10)[:, 1:] / 12, np.arange(10, dtype="int32") % 2],
        {"crop_size": (4, 5)},
    ),
    "nn.max_pool1d": ([DATA[0]], {"pool_size": 2}),
    "nn.max_pool2d": ([DATA], {"pool_size": 3, "padding": 1, "strides": 2}),
    "nn.max_pool3d": ([DATA[None]], {"pool_size": 2, "layout": "NDHWC"}),
    "nn.dense_panels": (
        [HUNDRED_ROWS, np.linspace(-1, 1, 5 * 3 * 16, dtype="float32").reshape(5, 3, 16)],
        {"units": 70},
    ),
    "nn.dense_bit_panels": (
        [
            HUNDRED_ROWS,
            (np.arange(9 * 128) * 77 % 256).astype("uint8").reshape(9, 1, 128),
            np.linspace(1, 2, 9 * 16, dtype="float32").reshape(9, 1, 16),
            np.full((1, 1, 16), 8, "uint8"),
        ],
        {"units": 140, "bits": 4, "block": 16},
    ),
    # two bands of rows, two groups of columns
    "nn.dense_byte_panels": (
        [
            (7 * HUNDRED_ROWS).astype("int8"),
            np.arange(17 * 64, dtype="int64").astype("int8").reshape(17, 1, 16, 4),
            np.arange(270, dtype="int32"),
        ],
        {},
    ),
    "nn.dense": ([HUNDRED_ROWS, HUNDRED_ROWS[:70]], {"implementation": "tiles"}),
    "nn.matmul": ([HUNDRED_ROWS, HUNDRED_ROWS[:70].T], {"implementation": "tiles"}),
    "nn.batch_matmul": ([np.stack([HUNDRED_ROWS] * 2), HUNDRED_ROWS[None, :70]], {"implementation": "tiles"}),
    "nn.tiled_batch_matmul": (
        [np.stack([HUNDRED_ROWS] * 4), np.stack([HUNDRED_ROWS[:70], HUNDRED_ROWS[30:]]), np.array([2, 1, 1], "int64")],
        {"implementation": "tiles"},
    ),
    "nn.conv1d": (
        [DATA[0], np.sin(np.arange(26, dtype="float32")).reshape(13, 1, 2)],
        {"padding": 1, "groups": 13, "implementation": "planes"},
    ),
    # blocks of two images, two groups, two stretches of positions, and two bands of output channels
    "nn.conv2d": (
        [DATA[:, :2], np.sin(np.arange(400, dtype="float32")).reshape(200, 1, 1, 2)],
        {"padding": 1, "groups": 2, "strides": (1, 2)},
    ),
    # two images, two stretches of tiles, two bands of output channels
    "nn.byte_conv2d": (
        [
            (np.arange(2 * 4 * 20 * 70) % 251).astype("uint8").reshape(2, 4, 20, 70),
            words_of((np.arange(40 * 4 * 9) % 255 - 127).astype("int8").reshape(40, 4, 3, 3), 1, "blocks"),
            np.arange(40, dtype="int32"),
            np.array([7], "uint8"),
        ],
        {"kernel_size": (3, 3), "padding": 1, "form": "blocks"},
    ),
    "nn.winograd_conv2d": (
        [*IMAGES_AND_WEIGHT, filters_of(IMAGES_AND_WEIGHT[1])],
        {"padding": 1, "implementation": "winograd"},
    ),
    # two images, two bands of rows
    "nn.expanded_conv2d": (expansion((2, 64, 10, 70), 2), {"channels": 2, "padding": 1}),
    "nn.conv3d": ([CUBES, np.cos(np.arange(4 * 2 * 8, dtype="float32")).reshape(4, 2, 2, 2, 2)], {}),
    "nn.batch_attention": ([HUNDRED_ROWS.reshape(1, 50, 2, 3)] * 3, {"implementation": "tiles"}),
    "nn.grouped_attention": (
        [HUNDRED_ROWS.reshape(1, 50, 2, 3)] * 3 + [np.cos(np.arange(50, dtype="float32")).reshape(1, 1, 1, 50)],
        {"implementation": "tiles"},
    ),
    "nn.sparse_dense": (
        [DATA[0, 0], DATA[1, 0, 0, :6], np.array([0, 10, 3, 3, 5, 9], "int32"), np.array([0, 2, 2, 5, 6], "int32")],
        {},
    ),
}


#: Further implementations: operator, inputs, attributes.
IMPLEMENTATIONS = {
    "two bands, three groups of panels of bits": (
        "nn.dense_bit_panels",
        SPLIT["nn.dense_bit_panels"][0],
        {**SPLIT["nn.dense_bit_panels"][1], "implementation": "tiles"},
    ),
    "three bands, two groups of three tiles of expanded channels": (
        "nn.expanded_conv2d",
        expansion((1, 70, 24, 121), 13),
        {"channels": 13, "padding": 1, "strides": 2},
    ),
    "two images, two groups of expanded channels": (
        "nn.expanded_conv2d",
        expansion((2, 3, 9, 5), 50),
        {"channels": 50, "padding": 1, "strides": 2},
    ),
    "two images, two stretches of tiles": (
        "nn.conv2d",
        IMAGES_AND_WEIGHT,
        {"padding": 1, "implementation": "winograd"},
    ),
    "two images of halves, three groups, bands of rows": (
        "nn.conv2d",
        [np.sin(np.arange(36000)).reshape(2, 3, 60, 100).astype("f2"), np.cos(np.arange(54)).reshape(6, 1, 3, 3).astype("f2")],
        {"padding": 1, "groups": 3, "out_dtype": "float32", "implementation": "half_planes"},
    ),
    "three images, three panels of output channels": (
        "nn.conv2d",
        [np.sin(np.arange(18900, dtype="f4")).reshape(3, 21, 15, 20), np.cos(np.arange(840, dtype="f4")).reshape(40, 21, 1, 1)],
        {"implementation": "positions"},
    ),
    "two groups, bands of rows, two parts of the channels": (
        "nn.conv2d",
        [np.sin(np.arange(4800, dtype="f4")).reshape(1, 2, 24, 100), np.cos(np.arange(1200, dtype="f4")).reshape(200, 1, 3, 2)],
        {"padding": 1, "groups": 2, "strides": (2, 1), "implementation": "shifts"},
    ),
}


def test_each_kernel_that_can_be_split_is_tested() -> None:
    split = {name for name, op in REGISTRY.items() if any(k.split or k.blocks for k in op.kernels)}
    assert split - {"dyn.topk"} == set(SPLIT)


#: Kernels that are compiled in a second, but as plain Python take up to 26 seconds.
LONG = ("nn.conv1d", "nn.conv2d", "nn.winograd_conv2d", "nn.conv3d", "nn.byte_conv2d", *IMPLEMENTATIONS)
PLAIN = [case for case in SPLIT if case not in LONG]


@pytest.mark.split(3)
@pytest.mark.parametrize(
    ("case", "jit"),
    [
        *(pytest.param(case, False) for case in PLAIN),
        *(pytest.param(case, True, marks=pytest.mark.extensive) for case in PLAIN),
        *(pytest.param(case, True) for case in LONG),
    ],
)
def test_kernels_of_operators_in_parts(case: str, jit: bool) -> None:
    name, inputs, attributes = IMPLEMENTATIONS.get(case) or (case, *SPLIT[case])
    alone = run_operator(name, inputs, jit=jit, **attributes)
    untouched = run_operator(name, inputs, jit=jit, portions=[], **attributes)
    assert run_operator(name, inputs, jit=jit, portions=[asking(1)], **attributes).status < 0
    for n in PARTS:
        written = [np.zeros(a.nbytes, int) for a in alone.outputs]
        for k in range(n):
            mine = run_operator(name, inputs, jit=jit, portions=[part(k, n)], **attributes)
            assert mine.status == 0
            for a, before, count in zip(mine.outputs, untouched.outputs, written, strict=True):
                count += bits(a) != bits(before)
        together = run_operator(name, inputs, jit=jit, portions=[part(k, n) for k in range(n)], **attributes)
        for a, b, count in zip(alone.outputs, together.outputs, written, strict=True):
            np.testing.assert_array_equal(bits(a), bits(b))
            assert count.max() <= 1, "two parts wrote one element"


def test_results_of_which_only_some_can_be_divided() -> None:
    nodes = [node("exp", 0), node("sum", 1, attrs=ReduceAttrs())]
    group = group_of(params(("n", "m")), nodes, (), [1, 2])
    same_in_parts(group, [np.random.default_rng(0).standard_normal((20, 30)).astype("float32")], compiled, PARTS)


def test_one_element_is_folded_by_one_thread() -> None:
    text = kernel_source(group_of(params(("n", "m")), [node("sum", 0, attrs=ReduceAttrs())])).text
    assert "share" not in text


def test_what_is_always_small_is_never_divided() -> None:
    assert "share" not in kernel_source(group_of(params((30, 40)), [node("exp", 0)])).text
    assert "share" in kernel_source(group_of(params((3000, 4000)), [node("exp", 0)])).text


def test_a_kernel_asks_for_threads_above_its_limit_and_has_done_nothing_then() -> None:
    group = group_of(params(("n",)), [node("exp", 0)])
    x = np.ones(1000, "float32")
    work = 24 * 1000
    for run in (plain, compiled):
        status, (result,) = evaluate(group, [x], run, portions=[asking(work)])
        assert status == 0 and (result < 3).all()
        status, (result,) = evaluate(group, [x], run, portions=[asking(work - 1)])
        assert status == -2 and (result == 99).all()
        status, _ = evaluate(group, [x], run, portions=[asking(work // 10)])
        assert status == -11


def test_no_more_threads_than_pieces() -> None:
    group = group_of(params(("n", "m")), [node("sum", 0, attrs=ReduceAttrs(1))])
    assert evaluate(group, [np.ones((3, 1000), "float32")], portions=[asking(10)])[0] == -3
    assert evaluate(group, [np.ones((1, 1000), "float32")], portions=[asking(10)])[0] == 0


def test_a_part_that_fails_says_so() -> None:
    group = group_of(params(("n",), ("n",), dtype="int32"), [node("floor_divide", 0, 1)])
    x, y = np.full(1000, 7, "int32"), np.full(1000, 2, "int32")
    y[700] = 0
    bounds = [bounds_of(part(k, 4), 1000, 64) for k in range(4)]
    for k in range(4):
        status, _ = evaluate(group, [x, y], compiled, portions=[part(k, 4)])
        assert status == (DIVISION_BY_ZERO if bounds[k][0] <= 700 < bounds[k][1] else 0)


@examples(st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 4), st.sampled_from([1, 64]))
def test_boundaries(total: int, stretches: int, each: int, grain: int) -> None:
    """Of n parts of a stretch the k-th from the end is k of n * (n + 1) / 2 equal shares, in whole grains."""
    parts = stretches * each
    found = [work_partition.boundary(total, k, parts, stretches, grain) for k in range(parts + 1)]
    assert found[0] == 0 and found[-1] == total and sorted(found) == found
    assert all(b % grain == 0 or b == total for b in found)
    grains = np.diff([-(-b // grain) for b in found]).reshape(stretches, each)
    of_stretches = grains.sum(axis=1)
    assert list(of_stretches) == sorted(of_stretches, reverse=True) and of_stretches.max() - of_stretches.min() <= 1
    portions = np.arange(each, 0, -1) / (each * (each + 1) // 2)
    assert (abs(grains - of_stretches[:, None] * portions) < 1).all()


def test_who_runs_alone_asks_nothing() -> None:
    alone = team.ALONE.ctypes.data
    assert work_partition.threads_wanted(alone, 1 << 60, 1000) == 0
    assert bounds_of(team.ALONE, 10, 64) == bounds_of_thread(team.ALONE, 10, 64) == (0, 10)
