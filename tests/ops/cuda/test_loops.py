"""Groups of fusable operators as CUDA C: compiled for real GPUs, and run on the emulated GPU against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.codegen.cuda.opaque_cuda import NoCudaKernel
from relayvm.ops.core.group import Node
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, NoAttrs, Op, OpPattern
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs
from relayvm.ops.defs.axes.reduce import ArgReduceAttrs, ReduceAttrs
from relayvm.ops.defs.movement.dynamic import DynInitAttrs
from relayvm.ops.defs.movement.transform import AxisAttrs, SliceAttrs, TransposeAttrs
from relayvm.ops.native.status import EMPTY_REDUCTION, INDEX_OUT_OF_RANGE
from relayvm.shape_funcs.symbolic import registry

from ...emulator import emulator
from ..fused import run_group
from ..fused import test_fusable_elements as elements
from ..fused import test_fusable_injective as injective
from ..fused import test_loops as programs
from ..fused.reductions import test_fusable_reduce as reduce
from . import groups_on_gpu as gpu

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))


@pytest.fixture
def on_gpu(monkeypatch):
    """Run the kernels of the emulated GPU instead of the CPU's within a test."""
    for module in (elements, injective, reduce, programs):
        monkeypatch.setattr(module, "call", lambda *given, run=None: gpu.call(*given), raising=False)
        monkeypatch.setattr(module, "evaluate", lambda group, arrays, run=None: gpu.evaluate(group, arrays), raising=False)


def data(*shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape) > 0
    return (rng.standard_normal(shape) * 4).astype(numpy_dtype(dtype))


def close(ours, expected, **tolerance):
    np.testing.assert_allclose(ours, expected, **(tolerance or {"rtol": 2e-7, "atol": 0}))


# ---- properties of the CPU's kernels hold on the GPU ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "test",
    [
        lambda: reduce.test_nan_is_the_largest_and_the_smallest(),
        lambda: reduce.test_positions_among_equal_elements_and_nan("argmax", True),
        lambda: reduce.test_positions_among_equal_elements_and_nan("argmin", False),
        lambda: reduce.test_exclude_and_negative_axes(),
        lambda: reduce.test_empty_axes((0, 3)),
        lambda: reduce.test_sums_of_float32_accumulate_in_float64(),
        lambda: reduce.test_dtypes("int8"),
        lambda: reduce.test_dtypes("uint64"),
        lambda: injective.test_concatenate_and_stack(False, "float32"),
        lambda: injective.test_split(False),
        lambda: injective.test_slice_attributes(),
        lambda: injective.test_tile_and_repeat(False),
        lambda: injective.test_take("wrap", False),
        lambda: injective.test_take_with_batch_dims(),
        lambda: injective.test_an_index_out_of_range_is_a_status(2**40),
        lambda: injective.test_nothing_is_taken_from_an_empty_axis("clip"),
        lambda: injective.test_gather_nd(False),
        lambda: injective.test_one_hot(False),
        lambda: injective.test_arange("float64"),
        lambda: programs.test_a_long_chain_and_a_ladder_of_diamonds(),
        lambda: programs.test_reduction_of_what_is_computed_on_the_way(),
        lambda: programs.test_sizes_from_run_time_values(),
        lambda: programs.test_arange_that_nobody_stores("float32"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.extensive
def test_as_on_the_processor(on_gpu, test):
    test()


@settings(max_examples=12)
@given(programs.programs())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fused_programs(program):
    arrays, steps, _, fold, attrs, static = program
    if not steps:
        return
    group = programs.fused(arrays, steps, fold, attrs, static)
    inputs = [*arrays, np.array([2, 0, 5], "int32")]
    status, (expected,) = run_group.evaluate(group, inputs)
    ours, (result,) = gpu.evaluate(group, inputs)
    assert ours == status
    if status == 0:
        close(result, expected, rtol=1e-5, atol=1e-5)


def values(dtype):
    """The special values of a dtype, and their neighbours."""
    if "float" in dtype:
        return np.array([0.0, -0.0, 1.5, -2.5, 0.49999997, 8388609.0, 3e38, -1e-40, 1e19, np.inf, -np.inf, np.nan, 7.0]).astype(
            dtype
        )
    if dtype == "bool":
        return np.array([False, True, True])
    info = np.iinfo(dtype)
    return np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, 100], dtype)


@pytest.mark.extensive(dtype=("float32", "int8"))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint16", "uint64", "bool"])
def test_scalar_functions(dtype):
    """All of a dtype in one group each, every pair of values, against the CPU's kernels; a GPU's float functions are within
    some units in the last place, also for subnormal numbers."""
    x, y = (v.reshape(-1) for v in np.meshgrid(values(dtype), values(dtype)))
    taken = list[tuple[str, int]]()
    for name, op in sorted(REGISTRY.items()):
        if op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST) and op.attrs is NoAttrs and len(op.inputs) < 3:
            try:
                run_group.one_call(name, [x, y][: len(op.inputs)])
            except Exception:  # not of this dtype
                continue
            taken.append((name, len(op.inputs)))
    assert len(taken) > 5
    nodes = [Node(name, NoAttrs(), (0, 1)[:n], ()) for name, n in taken]
    nodes += [Node("cast", CastAttrs(d), (0,), ()) for d in ("int8", "int64", "uint64", "float32", "bool")]
    params = run_group.one_call(taken[0][0], [x, y][: taken[0][1]]).params[:1] * 2
    # integer division by zero is an error: not here
    safe = np.where(y == 0, np.ones_like(y), y)
    group = run_group.group_of(params, nodes, results=range(2, 2 + len(nodes)))
    status, expected = run_group.evaluate(group, [x, safe])
    ours, results = gpu.evaluate(group, [x, safe])
    assert (status, ours) == (0, 0)
    for node, a, b in zip(nodes, results, expected, strict=True):
        if node.op in ("cast",) and "float" in dtype:
            held = np.abs(x) < 9e18  # beyond that, numpy converts as the machine does
            a, b = a[held], b[held]
        rtol, atol = (1e-6, 8 * float(np.finfo(dtype).smallest_subnormal)) if "float" in dtype else (0, 0)
        np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), rtol, atol, err_msg=f"{node.op} {node.attrs}")


# ---- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aligned", [True, False])
def test_broadcasting_at_every_width(aligned):
    pairs = [((3, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 1), (3, 4)), ((0, 4), (1, 4)), ((5, 7), (5, 1)), ((40, 100), (40, 100))]
    for first, second in pairs:
        x, y = data(*first), data(*second, seed=1)
        close(gpu.call("add", [x, y], aligned=aligned), x + y)
    for n in (0, 1, 2, 3, 4, 1023, 1024, 1025, 5000):
        x = data(n)
        close(gpu.call("add", [x, x], aligned=aligned), x + x)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_reductions_of_every_shape(aligned, axis):
    # short rows, long rows, rows for one block each, few rows shared out among blocks, many columns, few columns
    for shape in [(3, 4), (1, 1), (5, 1000), (300, 33), (2, 30000), (3000, 3), (2100, 3), (1, 70000), (0, 3), (3, 0), (40, 64)]:
        x = data(*shape)
        close(gpu.call("sum", [x], ReduceAttrs(axis), aligned=aligned), x.astype("float64").sum(axis).astype("float32"))
        if 0 in shape:
            continue
        close(gpu.call("argmin", [x], ArgReduceAttrs(axis), aligned=aligned), x.argmin(axis))
        variance = x.astype("float64").var(axis)
        close(gpu.call("variance", [x], ReduceAttrs(axis), aligned=aligned), variance, rtol=1e-6, atol=1e-12)


def test_reductions_of_axes_apart():
    x = data(5, 7, 6, 11)
    for axis in [(0, 2), (1, 3), (0, 3), (1, 2), (0, 1, 3), (2,)]:
        close(gpu.call("max", [x], ReduceAttrs(axis)), x.max(axis))
        close(gpu.call("sum", [x], ReduceAttrs(axis, True)), x.astype("float64").sum(axis, keepdims=True), rtol=1e-6)


def test_variance_of_what_lies_far_from_zero_or_from_the_first():
    x = data(4000)
    for y in (x + 1e6, np.concatenate([[1e8], x]).astype("float32"), np.full(99, 0.1)):
        y = y.astype("float32")
        close(gpu.call("variance", [y], ReduceAttrs()), y.astype("float64").var(), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("aligned", [True, False])
def test_many_tensors_put_together(aligned):
    parts = tuple(data(n % 5, 4, seed=n) for n in range(70))
    close(gpu.call("concatenate", [parts], AxisAttrs(0), aligned=aligned), np.concatenate(parts))
    parts = tuple(data(6, n % 9, seed=n, dtype="bool") for n in range(9))
    np.testing.assert_array_equal(gpu.call("concatenate", [parts], AxisAttrs(1), aligned=aligned), np.concatenate(parts, 1))
    parts = tuple(data(5, 8, seed=n) for n in range(3))
    close(gpu.call("stack", [parts], AxisAttrs(1), aligned=aligned), np.stack(parts, 1))


def test_parts_of_tensors_are_not_taken_for_the_whole():
    x, y = data(6, 4), data(2, 4, seed=1)
    half = Node("strided_slice", SliceAttrs((0,), (3,)), (0,), ())
    params = run_group.one_call("concatenate", [(x, y)], AxisAttrs(0)).params
    group = run_group.group_of(params, [half, Node("concatenate", AxisAttrs(0), ((2, 1),), ())])
    status, (ours,) = gpu.evaluate(group, [x, y])
    assert status == 0
    close(ours, np.concatenate([x[:3], y]))


# ---- float16 and bfloat16 ------------------------------------------------------------------------------------------------


@pytest.mark.extensive(dtype=("bfloat16",))
@pytest.mark.parametrize("dtype", HALVES)
def test_halves(dtype):
    x, y = data(7, 24, dtype=dtype), data(24, dtype=dtype, seed=1)
    for name, arrays, attrs in [
        ("add", [x, y], None),
        ("exp", [x], None),
        ("sum", [x], ReduceAttrs(1)),
        ("mean", [x], ReduceAttrs(0)),
        ("max", [x], ReduceAttrs()),
        ("variance", [x], ReduceAttrs(1)),
        ("transpose", [x], TransposeAttrs()),
        ("concatenate", [(x, x)], AxisAttrs(1)),
        ("cast", [x], CastAttrs("int32")),
        ("cast", [data(50)], CastAttrs(dtype)),
    ]:
        ours, expected = gpu.call(name, arrays, attrs), run_group.call(name, arrays, attrs)
        assert ours.dtype == expected.dtype
        close(ours.astype("float32"), expected.astype("float32"), rtol=0.01, atol=1e-3)


# ---- errors ------------------------------------------------------------------------------------------------------------------


def test_an_empty_axis_and_an_index_out_of_range():
    x = np.zeros((3, 0), "float32")
    group = run_group.one_call("max", [x], ReduceAttrs(1))
    assert gpu.evaluate(group, [x])[0] == EMPTY_REDUCTION
    assert gpu.evaluate(group, [np.zeros((0, 0), "float32")])[0] == 0
    y, at = data(4, 8), np.array([0, 9, 1])
    group = run_group.group_of(
        run_group.one_call("take", [y, at], injective.TakeAttrs(0, 0, "fast")).params,
        [Node("take", injective.TakeAttrs(0, 0, "fast"), (0, 1), ()), Node("sum", ReduceAttrs(), (2,), ())],
    )
    assert gpu.evaluate(group, [y, at])[0] == INDEX_OUT_OF_RANGE
    status, (ours,) = gpu.evaluate(group, [y, np.array([0, 3, 1])])
    assert status == 0
    close(ours, y[[0, 3, 1]].astype("float64").sum(), rtol=1e-6)


def test_a_size_that_only_the_result_has():
    shape = np.array([3, 5])
    np.testing.assert_array_equal(gpu.call("dyn.ones", [shape], DynInitAttrs("int32")), np.ones((3, 5), "int32"))


@pytest.fixture
def without_cuda():
    """An operator that has a kernel for the CPU only."""
    registry.register_shape_func("processor_only", False)(lambda inputs, attrs: inputs[0].shape)
    Op(
        name="processor_only",
        doc="Nothing.",
        inputs=("x",),
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: dtypes[0],
        kernels=(Kernel("nothing", lambda x, out: 0),),
    )
    yield "processor_only"
    del REGISTRY["processor_only"], registry.SHAPE_FUNCS["processor_only"]


def test_an_operator_without_a_kernel_for_cuda_is_named(without_cuda):
    with pytest.raises(NoCudaKernel, match="the operator processor_only has no kernel for CUDA devices"):
        cuda_source(run_group.one_call(without_cuda, [data(3)]))


# ---- the text ------------------------------------------------------------------------------------------------------------------


def test_equal_groups_have_equal_sources_without_names_of_operators():
    groups = [run_group.one_call("variance", [data(3, 4)], ReduceAttrs(1)) for _ in range(2)]
    assert cuda_source(groups[0]) == cuda_source(groups[1])
    assert "variance" not in cuda_source(groups[0]).text
