"""Groups with several results on the emulated GPU: results whose elements are independent share a launch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.codegen.cuda.fused_cuda import RESULTS
from relayvm.ops.core.group import Literal, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.core.type_relation import build_group
from relayvm.shape_funcs.symbolic.dim import sym

from ...emulator import emulator
from ..fused.run_group import one_call
from . import groups_on_gpu

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)


def parts_of(data: np.ndarray, sections: int | tuple[int, ...], axis: int) -> list[np.ndarray]:
    return np.split(data, list(sections) if isinstance(sections, tuple) else sections, axis)


def check(data: np.ndarray, sections: int | tuple[int, ...], axis: int, aligned: bool = True) -> None:
    attrs = get("split").attrs(indices_or_sections=sections, axis=axis)
    results = groups_on_gpu.call("split", [data], attrs, aligned=aligned)
    wanted = parts_of(data, sections, axis)
    for mine, part in zip(results if len(wanted) > 1 else [results], wanted, strict=True):
        np.testing.assert_array_equal(mine, part, strict=True)


@pytest.mark.spread("axis")
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sections", [1, 3, (2, 2, 5), (0,)])
@settings(max_examples=15)
@given(data=st.data())
def test_parts_along_each_axis(sections: int | tuple[int, ...], axis: int, data: st.DataObject) -> None:
    shape = [data.draw(st.sampled_from([0, 1, 2, 8, 300 if k == 2 else 5])) for k in range(3)]
    shape[axis] = sections * data.draw(st.integers(0, 4)) if isinstance(sections, int) else data.draw(st.integers(5, 9))
    values = np.arange(np.prod(shape)).astype(np.float32).reshape(shape)
    check(values, sections, axis, data.draw(st.booleans()))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64"])
def test_dtypes(dtype: str) -> None:
    for columns in (16, 3):
        check((np.arange(6 * columns) % 2).astype(dtype).reshape(2, 3, columns), 3, 1)


def test_one_launch_for_as_many_results_as_a_kernel_stores() -> None:
    def launches(parts: int) -> list[tuple[str, object]]:
        group = one_call("split", [np.zeros((parts, 4), np.float32)], get("split").attrs(indices_or_sections=parts, axis=0))
        return [(step.entry, step.grid[1]) for step in cuda_source(group).steps]

    assert launches(3) == [("kernel0", 3)]
    assert launches(RESULTS) == [("kernel0", RESULTS)]
    assert launches(RESULTS + 1) == [("kernel0", RESULTS), (f"kernel{RESULTS}", 1)]
    check(np.arange(2 * (RESULTS + 1) * 3).reshape(-1, 3), RESULTS + 1, 0)


def test_parts_of_a_computed_value() -> None:
    data = np.random.default_rng(1).standard_normal((4, 7, 6)).astype(np.float32)
    tensor, attrs = Tensor("float32", (sym("a"), sym("b"), sym("c"))), get("split").attrs(indices_or_sections=2, axis=2)
    nodes = (Node("multiply", get("multiply").attrs(), (0, 1), ()), Node("split", attrs, (2,), ()))
    group = build_group((tensor,), (Literal("float32", 3.0),), nodes, [3, 4])
    assert len(cuda_source(group).steps) == 1
    status, results = groups_on_gpu.evaluate(group, [data])
    assert status == 0
    for mine, part in zip(results, parts_of(data * np.float32(3), 2, 2), strict=True):
        np.testing.assert_array_equal(mine, part, strict=True)
