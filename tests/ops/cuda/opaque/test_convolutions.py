"""Convolutions by cuDNN on the emulated GPU, against the oracle of the CPU's tests; without a plan the steps after it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from relayvm.ops.core.implementation import GPU
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.strategy.choice import candidates
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts

from ....emulator import emulator
from ...images import test_conv as convolutions
from ...images import test_conv_transpose as transposed
from ..on_gpu import Ran, group_of, run, source_of, steps_of

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)
if not hasattr(emulator.library(), "cudnnCreate"):
    pytest.skip("the GPU has no cuDNN", allow_module_level=True)

TRANSPOSED: dict[str, dict[str, Any]] = {
    "plain": {},
    "apart": {"strides": 2},
    "cropped": {"strides": (2, 1), "padding": (1, 0, 0, 1), "dilation": (1, 2)},
    "with a gap": {"strides": 3, "padding": 1, "output_padding": (2, 1)},
    "groups": {"groups": 2, "strides": 2, "padding": 1, "output_padding": 1},
    "no size of a convolution": {"strides": 1, "dilation": 3, "output_padding": 2},
}


@pytest.mark.parametrize("no_plan", [False, True], ids=["plan", "no plan"])
@pytest.mark.parametrize("geometry", TRANSPOSED)
def test_transposed(geometry: str, no_plan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transposed, "run", functools.partial(on_gpu, no_plan=no_plan))
    rng, attrs = np.random.default_rng(1), TRANSPOSED[geometry]
    for batch, sizes, kernel, outputs in [
        (2, (5, 6), (3, 2), 20),
        (1, (1, 1), (2, 2), 8),
        (0, (5, 5), (2, 2), 16),
        (1, (4, 4), (3, 3), 1),
    ]:
        data = rng.standard_normal((batch, 4, *sizes)).astype(np.float32)
        weight = rng.standard_normal((4, outputs, *kernel)).astype(np.float32)
        transposed.check(data, weight, **attrs)


@pytest.mark.parametrize(("rank", "dtype"), [(1, "float32"), (3, "float32"), (2, "float64"), (2, "bfloat16")])
def test_transposed_over_other_axes_and_of_other_dtypes(rank: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transposed, "run", on_gpu)
    rng = np.random.default_rng(rank)
    data, weight = (rng.integers(-4, 5, s).astype(numpy_dtype(dtype)) for s in ((2, 3, *(4,) * rank), (3, 5, *(3,) * rank)))
    transposed.check(data, weight, strides=2, padding=1, output_padding=1)
    transposed.check(data[:, :, :0], weight, strides=2)


def test_which_transposed_convolutions_are_the_librarys() -> None:
    def names(dtype: str = "float32", **attrs: Any) -> list[str]:
        arrays = [np.empty((1, 4, 4, 4), dtype), np.empty((4, 4, 4, 4), dtype)]
        group = group_of("nn.conv2d_transpose", get("nn.conv2d_transpose").attrs(**attrs), arrays)
        return [k.name for k in candidates(group.call_on(GPU))]

    assert names() == names("float16") == ["cudnn", "transposed_convolution"]
    for attrs in ({"data_layout": "NHWC"}, {"kernel_layout": "HWOI"}, {"out_layout": "NHWC"}, {"out_dtype": "float64"}):
        assert names(**attrs) == ["transposed_convolution"]
    arrays = [np.empty((2, 4, 5, 5), np.float32), np.empty((4, 8, 3, 3), np.float32)]
    source = source_of("nn.conv2d_transpose", arrays, implementation="cudnn")
    assert steps_of(source.steps) == ["cudnnBackendExecute", "add_up"]


CHANNELS_FIRST = ("NCHW", "OIHW")
CHANNELS_LAST = ("NHWC", "OHWI")


def on_gpu(name: str, inputs: list[Any], jit: bool = False, no_plan: bool = False, **attributes: Any) -> Ran:
    return run(name, inputs, implementation="cudnn", no_plan=no_plan, **attributes)


@pytest.fixture(params=[False, True], ids=["plan", "no plan"])
def check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``convolutions.check`` by the library, and by the steps in place of it."""
    monkeypatch.setattr(convolutions, "run", functools.partial(on_gpu, no_plan=request.param))
    return convolutions.check


GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "same": {"padding": 1},
    "moved": {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)},
    "the rest is not read": {"strides": 3, "padding": (0, 1, 2, 0)},
    "groups": {"groups": 2, "padding": 1},
    "depthwise": {"groups": 4, "strides": 2},
}


@pytest.mark.split(2)
@pytest.mark.parametrize("layouts", [CHANNELS_FIRST, CHANNELS_LAST], ids=lambda names: names[0])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_geometries(geometry: str, layouts: tuple[str, str], check: Any) -> None:
    rng, attrs = np.random.default_rng(1), GEOMETRIES[geometry]
    names = dict(zip(("data_layout", "kernel_layout"), layouts, strict=True))
    for batch, sizes, kernel, outputs in [
        (2, (9, 12), (3, 2), 20),
        (1, (3, 5), (1, 1), 8),
        (0, (5, 5), (2, 2), 16),
        (1, (4, 4), (3, 3), 4),
    ]:
        data = rng.standard_normal((batch, 4, *sizes)).astype(np.float32)
        weight = rng.standard_normal((outputs, 4 // attrs.get("groups", 1), *kernel)).astype(np.float32)
        check(data, weight, **attrs, **names)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("layout", [0, 1])
def test_other_axes(rank: int, layout: int, check: Any) -> None:
    rng = np.random.default_rng(rank)
    names = {"data_layout": data_layouts(rank)[layout], "kernel_layout": kernel_layouts(rank)[2 * layout]}
    moved = {"strides": tuple(range(1, rank + 1)), "dilation": tuple(range(rank, 0, -1)), "padding": tuple(range(2 * rank))}
    for inputs, outputs, size, kernel in [(3, 9, 7, 3), (0, 9, 3, 1), (2, 2, 6, 2), (2, 1, 5, 1)]:
        data = rng.standard_normal((2, inputs, *(size,) * rank)).astype("f")
        weight = rng.standard_normal((outputs, inputs, *(kernel,) * rank)).astype("f")
        for attrs in ({"padding": 1}, moved):
            check(data, weight, **attrs, **names)


@settings(max_examples=25, deadline=None)
@given(convolutions.cases())
def test_any_convolution_that_the_library_takes(case: dict[str, Any]) -> None:
    rank = case["data"].ndim - 2
    number = kernel_layouts(rank).index(case["kernel_layout"]) % 2
    layouts = {"data_layout": data_layouts(rank)[number], "kernel_layout": kernel_layouts(rank)[2 * number]}
    case = {**case, **layouts, "out_layout": "", "out_dtype": "", "implementation": "cudnn"}
    before, convolutions.run = convolutions.run, lambda name, inputs, jit, **attrs: run(name, inputs, **attrs)
    try:
        convolutions.check(case.pop("data"), case.pop("weight"), **case)
    finally:
        convolutions.run = before


@pytest.mark.extensive(dtype=("float16",))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_halves_are_added_up_in_float32(dtype: str) -> None:
    rng = np.random.default_rng(3)
    data, weight = (rng.integers(-4, 5, shape).astype(numpy_dtype(dtype)) for shape in ((1, 6, 5, 5), (9, 6, 3, 3)))
    expected = convolutions.convolution(data, weight, {})
    (result,), status, _ = on_gpu("nn.conv2d", [data, weight])
    assert status == 0
    np.testing.assert_array_equal(result, expected.astype(numpy_dtype(dtype)))


def test_what_the_library_has_no_engines_for_is_not_offered() -> None:
    def names(dtypes: tuple[str, str] = ("float32", "float32"), **attrs: Any) -> list[str]:
        arrays = [np.empty((1, 4, 4, 4), dtypes[0]), np.empty((4, 4, 4, 4), dtypes[1])]
        group = group_of("nn.conv2d", get("nn.conv2d").attrs(**attrs), arrays)
        return [k.name for k in candidates(group.call_on(GPU))]

    assert names() == names(data_layout="NHWC", kernel_layout="OHWI") == names(("float16", "float16")) == ["cudnn", "convolution"]
    for attrs in (
        {"data_layout": "NHWC"},
        {"data_layout": "NHWC", "kernel_layout": "HWIO"},
        {"kernel_layout": "OHWI"},
        {"out_layout": "NHWC"},
        {"out_dtype": "float64"},
    ):
        assert names(**attrs) == ["convolution"]


def test_one_step_replaces_all_others() -> None:
    arrays = [np.empty((2, 4, 5, 5), np.float32), np.empty((8, 4, 3, 3), np.float32)]
    source = source_of("nn.conv2d", arrays, implementation="cudnn")
    other = source_of("nn.conv2d", arrays, implementation="convolution")
    assert steps_of(source.steps) == ["cudnnBackendExecute", *steps_of(other.steps)]
    assert source.steps[0].instead == len(other.steps)  # type: ignore[union-attr]
    assert (source.text, source.scratch) == (other.text, other.scratch)
