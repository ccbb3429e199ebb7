"""Scattering, and picking by index tensors, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.movement.indexing import GatherNdAttrs
from relayvm.ops.defs.movement.scatter import SparseToDenseAttrs
from relayvm.ops.native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OK, SHAPE_CHECK
from relayvm.shape_funcs.symbolic.dim import sym
from relayvm.shape_funcs.symbolic.registry import ShapeError

from ...arrays import same
from ..fused import run_group
from ..fused.run_group import compiled, evaluate, one_call
from ..refusals import INTEGER
from .opaque_kernels import run

MODES = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def scattered(data, targets, updates, mode):
    """One update after the other; ``targets``: an index per update."""
    out, written = data.copy(), np.ones(data.shape, int)
    for at, new in zip(targets, updates, strict=True):
        if mode == "update":
            out[at] = new
        elif mode == "mean":
            out[at] += new
            written[at] += 1
        else:
            out[at] = MODES[mode](out[at], new)
    return (out / written).astype(out.dtype) if mode == "mean" else out


@st.composite
def element_cases(draw, dtypes=("float32", "int64")):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = [draw(st.integers(0, 5 if k == axis else n)) for k, n in enumerate(shape)]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(dtypes))
    data, updates = (rng.integers(1, 9, s).astype(dtype) for s in (shape, sizes))
    indices = rng.integers(-shape[axis], shape[axis], sizes).astype(draw(st.sampled_from(["int32", "int64"])))
    targets = [(*at[:axis], indices[at], *at[axis + 1 :]) for at in np.ndindex(*sizes)]
    return data, indices, updates, draw(st.sampled_from([axis, axis - len(shape)])), targets


@settings(max_examples=80, deadline=None)
@given(element_cases(), st.sampled_from(["update", *MODES]))
def test_scatter_elements(case, mode):
    data, indices, updates, axis, targets = case
    (result,), status, _ = run("scatter_elements", [data, indices, updates], axis=axis, reduction=mode)
    assert status == OK
    same(result, scattered(data, targets, updates.reshape(-1), mode))


@settings(max_examples=30, deadline=None)
@given(element_cases(("float32",)))
def test_the_mean_is_that_of_all_that_meet(case):
    data, indices, updates, axis, targets = case
    result = run("scatter_elements", [data, indices, updates], axis=axis, reduction="mean").outputs[0]
    same(result, scattered(data, targets, updates.reshape(-1), "mean"))


@st.composite
def tuple_cases(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    coordinates = draw(st.integers(0, len(shape)))
    many = draw(st.lists(st.integers(0, 3), max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    data = rng.integers(1, 9, shape).astype("float32")
    updates = rng.integers(1, 9, (*many, *shape[coordinates:])).astype("float32")
    indices = np.stack([rng.integers(-n, n, many) for n in shape[:coordinates]]) if coordinates else np.zeros((0, *many), int)
    return data, indices, updates, coordinates, many


@settings(max_examples=80, deadline=None)
@given(tuple_cases(), st.sampled_from(["update", *MODES]))
def test_scatter_nd(case, mode):
    data, indices, updates, coordinates, many = case
    (result,), status, _ = run("scatter_nd", [data, indices, updates], known=(1,), mode=mode)
    assert status == OK
    targets = [tuple(indices[(slice(None), *at)]) for at in np.ndindex(*many)]
    parts = updates.reshape(len(targets), *data.shape[coordinates:])
    same(result, scattered(data, targets, parts, mode))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mode", ["update", "add"])
def test_whole_rows_as_machine_code(axis, mode):
    """An index that is the same for a whole row, for some rows; sizes that differ along the axis alone, and along others."""
    rng = np.random.default_rng(7)
    for sizes in [(6, 3, 40), (2, 3, 40), (4, 2, 40), (4, 3, 33), (4, 3, 0)]:
        indices = rng.integers(-3, 3, sizes)
        indices[1::2] = indices[1::2, :1, :1]
        data, updates = rng.integers(1, 9, (6, 3, 40)).astype("float32"), rng.integers(1, 9, sizes).astype("float32")
        at = [(*k[: axis % 3], indices[k], *k[axis % 3 + 1 :]) for k in np.ndindex(*sizes)]
        found = run("scatter_elements", [data, indices, updates], axis=axis, reduction=mode, jit=True)
        assert found.status == OK
        same(found.outputs[0], scattered(data, at, updates.reshape(-1), mode))


def test_the_last_one_stays_as_machine_code():
    rng = np.random.default_rng(0)
    data, indices = np.zeros(50, "float32"), rng.integers(0, 50, 1000)
    updates = rng.standard_normal(1000).astype("float32")
    targets = [(i,) for i in indices]
    for mode in ("update", "add", "mean"):
        result = run("scatter_elements", [data, indices, updates], reduction=mode, jit=True).outputs[0]
        same(result, scattered(data, targets, updates, mode))
        if mode != "mean":
            same(run("scatter_nd", [data, indices[None], updates], known=(1,), mode=mode, jit=True).outputs[0], result)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "float16"])
def test_every_dtype_is_written(dtype):
    data, updates = np.array([1, 0, 1], dtype), np.array([0, 1], dtype)
    result = run("scatter_elements", [data, np.array([0, -2]), updates], jit=True).outputs[0]
    same(result, np.array([0, 1, 1], dtype))


def test_integers_wrap_and_halves_round_once():
    small = np.array([100, 0], "int8")
    same(run("scatter_elements", [small, np.array([0]), small[:1]], reduction="add", jit=True).outputs[0], np.int8([-56, 0]))
    # one by one, each addition to 2048 would be lost
    ones = np.ones(9, "float16")
    given = [np.array([2048], "float16"), np.zeros(9, int), ones]
    same(run("scatter_elements", given, reduction="add", jit=True).outputs[0], np.array([2056], "float16"))


@pytest.mark.parametrize("mode", ["min", "max"])
def test_nan_wins(mode):
    given = [np.array([1, np.nan], "float32"), np.array([0, 1]), np.array([np.nan, 0], "float32")]
    assert np.isnan(run("scatter_elements", given, reduction=mode, jit=True).outputs[0]).all()


@pytest.mark.parametrize("at", [3, -4, 2**40, -(2**63), 2**63 - 1])
def test_an_index_out_of_range_is_a_status(at):
    data, one = np.zeros((3, 2), "float32"), np.ones((1, 2), "float32")
    indices = np.array([[0, at]])
    for jit in (False, True):
        assert run("scatter_elements", [data, indices, one], jit=jit).status == INDEX_OUT_OF_RANGE
        assert run("scatter_nd", [data, indices, np.ones((2, 2), "float32")], known=(1,), jit=jit).status == INDEX_OUT_OF_RANGE
        given = [np.array([0, at]), np.ones(2, "float32"), np.float32(0)]
        assert run("sparse_to_dense", given, output_shape=(3,), jit=jit).status == INDEX_OUT_OF_RANGE
    # nothing can be written to an empty axis
    assert run("scatter_elements", [data[:0], indices[:, :1] * 0, one[:, :1]]).status == INDEX_OUT_OF_RANGE


# ---- points ------------------------------------------------------------------------------------------------------------


def test_sparse_to_dense():
    points = np.array([[0, 1], [2, 0], [0, 1]], "int32")
    wanted = np.full((3, 2), -1, "float32")
    wanted[0, 1], wanted[2, 0] = 9, 8
    given = [points, np.array([7, 8, 9], "float32"), np.float32(-1)]
    shape = np.array([3, 2])
    for jit in (False, True):
        same(run("sparse_to_dense", given, known=(0,), output_shape=(3, 2), jit=jit).outputs[0], wanted)
        same(run("dyn.sparse_to_dense", [*given, shape], known=(0,), jit=jit).outputs[0], wanted)
    same(run("sparse_to_dense", [np.array([1, 3]), np.int8(5), np.int8(0)], output_shape=(4,)).outputs[0], np.int8([0, 5, 0, 5]))
    same(run("sparse_to_dense", [np.array(2), np.int8(5), np.int8(0)], output_shape=(3,)).outputs[0], np.int8([0, 0, 5]))
    empty = [np.zeros(0, int), np.zeros(0, "int8"), np.int8(3)]
    same(run("sparse_to_dense", empty, output_shape=(2,)).outputs[0], np.int8([3, 3]))
    same(run("dyn.sparse_to_dense", [*empty, np.array([0])]).outputs[0], np.int8([]))
    form = get("dyn.sparse_to_dense").static(None, [None, None, None, shape])
    assert form == ("sparse_to_dense", SparseToDenseAttrs((3, 2)))
    assert get("dyn.sparse_to_dense").data_dependent == (False, False, False, True)


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 6), st.sampled_from(["int32", "int64"]))
def test_invert_permutation(order, n, dtype):
    data = np.array([i for i in order if i < n], dtype)
    same(run("invert_permutation", [data]).outputs[0], np.argsort(data).astype(dtype))


@pytest.mark.parametrize("jit", [False, True])
def test_what_is_no_permutation(jit):
    assert run("invert_permutation", [np.array([0, 1, 1])], jit=jit).status == BAD_VALUE
    for bad in (3, -1):
        assert run("invert_permutation", [np.array([0, bad, 1])], jit=jit).status == INDEX_OUT_OF_RANGE


# ---- slices ------------------------------------------------------------------------------------------------------------

bounds = st.integers(-7, 7)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 5), bounds, bounds, st.sampled_from([1, 2, 3, -1, -2]), st.booleans())
def test_strided_set(n, begin, end, stride, static):
    data = np.arange(2.0 * n).reshape(n, 2)
    wanted = data.copy()
    v = -1 - np.arange(wanted[begin:end:stride].size, dtype=float).reshape(wanted[begin:end:stride].shape)
    wanted[begin:end:stride] = v
    vectors = [np.array([x]) for x in (begin, end, stride)]
    arrays = [data, v, *vectors]
    group = one_call("strided_set", arrays, None, True)
    status, (result,) = evaluate(group, arrays)
    assert status == OK
    same(result, wanted)


def test_strided_set_of_two_axes_as_machine_code():
    data, v = np.zeros((4, 5), "float32"), np.arange(1, 5, dtype="float32").reshape(2, 2)
    vectors = [np.array(x) for x in ([3, 0], [-9, 2**63 - 1], [-2, 4])]
    wanted = data.copy()
    wanted[3::-2, 0::4] = v
    same(run_group.call("strided_set", [data, v, *vectors], None, True, compiled), wanted)


def test_what_does_not_fit_the_slice_is_a_status():
    data = np.zeros(5, "float32")
    for size, limits, status in [
        (2, (0, 5, 2), SHAPE_CHECK),
        (4, (0, 5, 2), SHAPE_CHECK),
        (2, (3, 1, 1), SHAPE_CHECK),
        (3, (0, 5, 0), BAD_VALUE),
    ]:
        arrays = [data, np.zeros(size, "float32"), *(np.array([x]) for x in limits)]
        assert evaluate(one_call("strided_set", arrays, None, True), arrays)[0] == status


# ---- picking -----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans())
def test_adv_index_is_numpys(draw, static):
    shape = draw.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    n = draw.draw(st.integers(1, len(shape)))
    common = draw.draw(st.lists(st.integers(0, 3), max_size=2))
    rng = np.random.default_rng(draw.draw(st.integers(0, 99)))
    indices = []
    for size in shape[:n]:
        own = [draw.draw(st.sampled_from([d, 1])) for d in common[draw.draw(st.integers(0, len(common))) :]]
        indices.append(rng.integers(-size, size, own).astype(draw.draw(st.sampled_from(["int32", "int64"]))))
    data = np.arange(math.prod(shape), dtype="float32").reshape(shape)
    same(run_group.call("adv_index", [(data, *(np.asarray(i) for i in indices))], None, static), data[tuple(indices)])


def test_adv_index_out_of_range():
    for at in (3, -4, 2**40):
        arrays = [np.zeros((3, 2)), np.array([0, at])]
        assert evaluate(one_call("adv_index", [tuple(arrays)]), arrays)[0] == INDEX_OUT_OF_RANGE


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_unravel_index(dtype):
    for shape in [(5,), (2, 3), (2, 1, 4)]:
        for indices in (np.arange(math.prod(shape)), np.array(1), np.zeros((0, 2), int)):
            indices = indices.astype(dtype)
            wanted = np.stack(np.unravel_index(indices, shape)).astype(dtype)
            same(run_group.call("unravel_index", [indices, np.array(shape)], None, True), wanted)
            same(run_group.call("unravel_index", [indices, np.array(shape)], None, True, compiled), wanted)


@pytest.mark.parametrize(
    ("at", "shape"), [(6, (2, 3)), (-1, (2, 3)), (0, (0, 3)), (0, (3, 0)), (1, (-1, -3)), (2**63 - 1, (2, 3))]
)
def test_an_index_outside_the_shape_is_a_status(at, shape):
    arrays = [np.array([at]), np.array(shape)]
    for run_it in (run_group.plain, compiled):
        assert evaluate(one_call("unravel_index", arrays, None, True), arrays, run_it)[0] == INDEX_OUT_OF_RANGE


def test_gather_nd_whose_tuples_have_a_length_said_by_an_attribute():
    data, indices = np.arange(12.0).reshape(3, 4), np.array([[0, 2], [3, 1]])
    same(run_group.call("gather_nd", [data, indices], GatherNdAttrs(index_rank=2)), data[0::2, [3, 1]].diagonal().copy())
    arrays = [data, indices[:1]]
    with pytest.raises(ShapeError, match="axis 0 of the indices has size 1, index_rank is 2"):
        evaluate(one_call("gather_nd", arrays, GatherNdAttrs(index_rank=2)), arrays)


# ---- wrong calls ---------------------------------------------------------------------------------------------------------

F, INT, N = "float32", "int64", sym("n")


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        (
            "scatter_elements",
            [((3,), F), ((2,), F), ((2,), F)],
            {},
            f"indices is float32; {INTEGER}",
        ),
        (
            "scatter_elements",
            [((3,), F), ((2,), INT), ((2,), INT)],
            {},
            "data is float32 but updates is int64; they must have one dtype",
        ),
        ("scatter_elements", [((3,), F), ((2, 1), INT), ((2,), F)], {}, "the indices must have 1 dimension, not 2"),
        ("scatter_elements", [((3,), F), ((2,), INT), ((1,), F)], {}, "axis 0 is 2 in the indices and 1 in the updates"),
        ("scatter_elements", [((3, 2), F), ((9, 4), INT), ((9, 4), F)], {}, "axis 1 is 4 in the indices, but only 2 in the data"),
        ("scatter_elements", [((), F), ((), INT), ((), F)], {}, "axis 0 is out of range for 0 dimensions (a scalar has none)"),
        (
            "scatter_elements",
            [((3,), "bool"), ((2,), INT), ((2,), "bool")],
            {"reduction": "add"},
            "data with reduction='add' is bool; supported: float32, float64, float16, bfloat16, int8, int16, int32, int64, "
            "uint8, uint16, uint32, uint64",
        ),
        (
            "scatter_elements",
            [((3,), INT), ((2,), INT), ((2,), INT)],
            {"reduction": "mean"},
            "data with reduction='mean' is int64; supported: float32, float64, float16, bfloat16",
        ),
        ("scatter_nd", [((3,), F), ((2, 5), INT), ((5,), F)], {}, "2 coordinates are more than the data's 1 dimension"),
        ("scatter_nd", [((3, 4), F), ((1, 5), INT), ((5, 3), F)], {}, "axis 1 of the updates must be 4, not 3"),
        ("scatter_nd", [((3, 4), F), ((1, 5), INT), ((5,), F)], {}, "the updates must have 2 dimensions, not 1"),
        (
            "scatter_nd",
            [((3,), F), ((N, 5), INT), ((5,), F)],
            {},
            "the size of axis 0 of the indices (how many coordinates) must be known at compile time",
        ),
        (
            "strided_set",
            [((3,), F), ((3,), F), ((1,), INT), ((2,), INT), ((1,), INT)],
            None,
            "begin, end and strides differ in length: 1, 2 and 1",
        ),
        (
            "strided_set",
            [((3,), F), ((3,), F), ((2,), INT), ((2,), INT), ((2,), INT)],
            None,
            "begin has 2 elements, the data only 1 dimension",
        ),
        (
            "strided_set",
            [((3,), F), ((3,), F), ((N,), INT), ((1,), INT), ((1,), INT)],
            None,
            "the length of begin must be known at compile time",
        ),
        (
            "strided_set",
            [((3, 2), F), ((3, 5), F), ((1,), INT), ((1,), INT), ((1,), INT)],
            None,
            "axis 1 is 2 in the data and 5 in v",
        ),
        ("invert_permutation", [((3, 2), INT)], None, "the data must have 1 dimension, not 2"),
        ("invert_permutation", [((3,), F)], None, "data is float32; supported: int32, int64"),
        ("sparse_to_dense", [((2,), INT), ((3,), F), ((), F)], {"output_shape": (4,)}, "there are 2 indices and 3 values"),
        ("sparse_to_dense", [((2,), INT), ((2,), F), ((), F)], {"output_shape": (-4,)}, "a size of output_shape is negative: -4"),
        (
            "sparse_to_dense",
            [((2, 2), INT), ((2,), F), ((), F)],
            {"output_shape": (4,)},
            "output_shape has 1 sizes, an index has 2 coordinates",
        ),
        (
            "sparse_to_dense",
            [((2,), INT), ((2,), F), ((), F)],
            {"output_shape": (4, 4)},
            "output_shape has 2 sizes, but an index has 1 coordinate",
        ),
        ("unravel_index", [((2,), INT), ((2, 2), INT)], None, "shape must have 1 dimension, not 2"),
        (
            "unravel_index",
            [((2,), F), ((2,), INT)],
            None,
            f"indices is float32; {INTEGER}",
        ),
        (
            "unravel_index",
            [((2,), INT), ((N,), INT)],
            None,
            "the length of shape (how many coordinates) must be known at compile time",
        ),
    ],
)
def test_wrong_calls(name, types, attrs, message):
    op = get(name)
    with pytest.raises(TypeRelError) as error:
        relate(op, [TensorType.of(shape, dtype) for shape, dtype in types], op.attrs(**(attrs or {})))
    assert error.value.message == f"{name}: {message}"


def test_wrong_tuples_of_indices():
    for fields, message in [
        ([], "needs the data and at least one tensor of indices"),
        ([((3,), F)], "needs the data and at least one tensor of indices"),
        ([((3,), F), ((2,), INT), ((2,), INT)], "2 tensors of indices are more than the data's 1 dimension"),
        ([((3, 3), F), ((2,), INT), ((3,), INT)], "sizes 2 and 3 do not broadcast"),
        (
            [((3,), F), ((2,), F)],
            f"field 1 (indices) is float32; {INTEGER}",
        ),
    ]:
        op = get("adv_index")
        with pytest.raises(TypeRelError) as error:
            relate(op, [tuple(TensorType.of(*t) for t in fields)], op.attrs())
        assert error.value.message == f"adv_index: {message}"
