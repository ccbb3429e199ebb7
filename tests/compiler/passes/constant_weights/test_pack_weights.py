"""Weights in panels: results differ by rounding only, for any number of rows; what is not packed, and what is shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.passes.constant_weights.pack_weights import pack_weights
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....devices import DEVICES
from ....programs import HEADER

RNG = np.random.default_rng(5)
#: 130 units: two panels and two columns of a third, of float32.
WEIGHT = RNG.standard_normal((130, 120)).astype("float32")


def module(body: str, weight: np.ndarray, data: str = "(?n, 120)") -> IRModule:
    """A program over data ``%x`` with the weight ``%w`` as a constant."""
    shape, dtype = ", ".join(map(str, weight.shape)), weight.dtype.name
    text = f"{HEADER}def @main(%x: Tensor[{data}, {dtype}], %w: Tensor[({shape}), {dtype}]) {{ {body} }}"
    mod = relay.parse(text)
    main = mod["main"]
    return relay.IRModule.from_expr(relay.bind(relay.Function(main.params[:1], main.body), {main.params[1]: relay.const(weight)}))


def typed(mod: IRModule) -> IRModule:
    """The module in typed A-normal form."""
    return infer_type(to_a_normal_form(mod))


def operators(mod: IRModule, forced: tuple[str, ...] = ()) -> list[str]:
    """The operators of the program after the pass."""
    packed = pack_weights(typed(mod), forced)
    return [value.op.name for value in values(packed["main"].body) if isinstance(value, Call)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
@pytest.mark.extensive(dtype=["float32"])
def test_a_packed_product_is_the_product(target: str, dtype: str) -> None:
    weight = WEIGHT.astype(dtype)
    body = "let %d = nn.dense(%x, %w); let %m = nn.matmul(%d, %w); (%d, nn.matmul(%m, %w, transpose_b=True))"
    exe = relay.compile(module(body, weight), target=target)
    assert {packed.group.nodes[0].op for packed in exe.packed} == {"nn.dense_panels"}
    machine = relay.VirtualMachine(exe)
    for rows in (0, 1, 2, 6, 7, 13, 200):
        x = RNG.standard_normal((rows, 120)).astype(dtype)
        first, last = (r.numpy() for r in machine.run(x))
        np.testing.assert_allclose(first, x @ weight.T, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(last, x @ weight.T @ weight @ weight.T, rtol=1e-3, atol=0.5)


@pytest.mark.parametrize(
    ("body", "weight", "data"),
    [
        ("nn.dense(%x, %w)", WEIGHT[:30, :], "(?n, 120)"),  # less than 4,096 elements
        ("nn.dense(%x, %w)", np.ones((10, 700), "float32"), "(?n, 700)"),  # 6 of 16 columns would be padding
        ("nn.matmul(%x, %w, transpose_a=True)", WEIGHT.T.copy(), "(120, ?n)"),
        ("nn.dense(%x, %w)", WEIGHT.astype("float16"), "(?n, 120)"),
        ("nn.dense(%x, %w, out_dtype='float64')", WEIGHT, "(?n, 120)"),
        ("nn.dense(%w, %x)", WEIGHT, "(?n, 120)"),
    ],
    ids=["small", "padded", "turned", "half", "wider", "data"],
)
def test_other_products_stay(body: str, weight: np.ndarray, data: str) -> None:
    assert "nn.dense_panels" not in operators(module(body.replace("'", '"'), weight, data))


def test_an_operator_with_a_forced_implementation_stays() -> None:
    assert operators(module("nn.dense(%x, %w)", WEIGHT)) == ["nn.dense_panels"]
    assert operators(module("nn.dense(%x, %w)", WEIGHT), ("nn.dense",)) == ["nn.dense"]
    exe = relay.compile(module("nn.dense(%x, %w)", WEIGHT), **{"impl.nn.dense": "blas"})
    assert [packed.group.nodes[0].op for packed in exe.packed] == ["nn.dense"]


def test_a_weight_of_several_products_is_packed_once() -> None:
    packed: Any = pack_weights(typed(module("(nn.dense(%x, %w), nn.dense(tanh(%x), %w))", WEIGHT)))
    calls = [v for v in values(packed["main"].body) if isinstance(v, Call) and v.op.name == "nn.dense_panels"]
    assert len(calls) == 2 and calls[0].args[1] is calls[1].args[1]
    assert pack_weights(packed)["main"].body is packed["main"].body


@pytest.mark.parametrize("units", [64, 100, 130, 700])
def test_rows_of_panels_are_cache_lines(units: int) -> None:
    exe = relay.compile(module("nn.dense(%x, %w)", np.ones((units, 120), "float32")))
    assert [c.ctypes.data % 64 for c in exe.constants if c.ndim == 3] == [0]


# ---- convolutions ----------------------------------------------------------------------------------------------------

WINDOWS = RNG.standard_normal((26, 24, 3, 3)).astype("float32")


@pytest.mark.spread("target")
@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
def test_a_convolution_with_filters_is_the_convolution(target: str) -> None:
    """Bit for bit of the implementation that the sizes choose, for known sizes and unknown ones."""
    body = "nn.relu(nn.conv2d(%x, %w, padding=1))"
    unknown = relay.compile(module(body, WINDOWS, "(?n, 24, ?h, ?w)"), target=target)
    assert {packed.group.nodes[0].op for packed in unknown.packed} == {"nn.winograd_conv2d"}
    machine = relay.VirtualMachine(unknown)
    for shape, implementation in [((1, 24, 4, 4), "tiles"), ((0, 24, 1, 9), "tiles"), ((4, 24, 7, 7), "winograd")]:
        x = RNG.standard_normal(shape).astype("float32")
        sizes = str(shape)
        result = machine.run(x).numpy()
        for text, given in ((sizes, {}), ("(?n, 24, ?h, ?w)", {"impl.nn.conv2d": implementation})):
            other = relay.VirtualMachine(relay.compile(module(body, WINDOWS, text), target=target, **given))
            np.testing.assert_array_equal(result, other.run(x).numpy())


@pytest.mark.parametrize(
    ("attrs", "weight", "data"),
    [
        ("padding=1", WINDOWS[:, :12].copy(), "(?n, 12, ?h, ?w)"),  # few channels
        ("padding=1", WINDOWS[:, :20].copy(), "(1, 20, 19, 21)"),  # few channels for 399 positions
        ("padding=1, strides=3", WINDOWS, "(?n, 24, ?h, ?w)"),
        ("padding=1", WINDOWS[:, :, :, :2].copy(), "(?n, 24, ?h, ?w)"),
        ("padding=1", WINDOWS.astype("float64"), "(?n, 24, ?h, ?w)"),
        ("padding=1", WINDOWS, "(1, 24, 4, 6)"),  # few positions
        ("padding=1", WINDOWS, "(?n, 24, 1, 9)"),  # tiles of half the results
    ],
    ids=["channels", "channels and positions", "strides", "window", "double", "positions", "rows"],
)
def test_other_convolutions_stay(attrs: str, weight: np.ndarray, data: str) -> None:
    assert operators(module(f"nn.conv2d(%x, %w, {attrs})", weight, data)) == ["nn.conv2d"]


def test_filters_are_stored_once_and_need_no_workspace() -> None:
    body = "(nn.conv2d(%x, %w, padding=1), nn.conv2d(tanh(%x), %w, padding=1))"
    mod = module(body, WINDOWS, "(?n, 24, ?h, ?w)")
    packed: Any = pack_weights(typed(mod))
    calls = [v for v in values(packed["main"].body) if isinstance(v, Call) and v.op.name == "nn.winograd_conv2d"]
    assert len(calls) == 2 and calls[0].args[2] is calls[1].args[2]
    assert pack_weights(packed)["main"].body is packed["main"].body
    assert operators(mod, ("nn.conv2d",)) == ["nn.conv2d", "tanh", "nn.conv2d"]
    assert sorted(c.shape for c in relay.compile(mod).constants if c.ndim > 2) == [(16, 26, 24), (26, 24, 3, 3)]


@pytest.mark.filterwarnings("error")
def test_huge_weights_are_packed_without_a_warning() -> None:
    huge = np.full_like(WINDOWS, 3e38)
    huge[0, 0, :, 0] = np.inf, 0, -np.inf
    assert operators(module("nn.conv2d(%x, %w, padding=1)", huge, "(?n, 24, ?h, ?w)")) == ["nn.winograd_conv2d"]


# ---- weights tap by tap ----------------------------------------------------------------------------------------------

TAPS = RNG.standard_normal((40, 64, 3, 3)).astype("float32")


def layouts(mod: IRModule, forced: tuple[str, ...] = ()) -> list[str]:
    """The layouts of the weights of convolutions after the pass."""
    packed = pack_weights(typed(mod), forced)
    return [value.attrs.kernel_layout for value in values(packed["main"].body) if isinstance(value, Call)]


@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
def test_a_convolution_tap_by_tap_is_the_convolution(target: str) -> None:
    """The same bits for known sizes and unknown ones; of the implementation that reads the weight as it is but for rounding."""
    body = "nn.relu(nn.conv2d(%x, %w, padding=12, dilation=12))"
    mod = module(body, TAPS, "(?n, 64, ?h, ?w)")
    machine = relay.VirtualMachine(relay.compile(mod, target=target))
    other = relay.VirtualMachine(relay.compile(mod, target=target, **{"impl.nn.conv2d": "tiles"}))
    for shape in [(1, 64, 14, 14), (2, 64, 1, 30), (0, 64, 5, 5), (1, 64, 33, 9)]:
        x = RNG.standard_normal(shape).astype("float32")
        result = machine.run(x).numpy()
        known = relay.VirtualMachine(relay.compile(module(body, TAPS, str(shape)), target=target))
        np.testing.assert_array_equal(result, known.run(x).numpy())
        np.testing.assert_allclose(result, other.run(x).numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("attrs", "weight", "data", "layout"),
    [
        ("padding=12, dilation=12", TAPS, "(?n, 64, ?h, ?w)", "HWIO"),
        ("padding=12, dilation=12", TAPS.astype("float64"), "(?n, 64, ?h, ?w)", "HWIO"),
        ("padding=2, dilation=2", TAPS, "(?n, 64, 14, 14)", "HWIO"),
        ("padding=2, dilation=2", TAPS, "(?n, 64, ?h, ?w)", "OIHW"),
        ("padding=12, dilation=12, strides=2", TAPS, "(?n, 64, ?h, ?w)", "OIHW"),
        ("padding=12, dilation=12, groups=2", TAPS, "(?n, 128, ?h, ?w)", "OIHW"),
        ("padding=12, dilation=12", TAPS[:, :20].copy(), "(?n, 20, ?h, ?w)", "OIHW"),
        ("padding=12, dilation=12", TAPS[:15].copy(), "(?n, 64, ?h, ?w)", "OIHW"),
    ],
    ids=["wide", "double", "small", "narrow", "strides", "groups", "inputs", "outputs"],
)
def test_weights_that_are_stored_tap_by_tap(attrs: str, weight: np.ndarray, data: str, layout: str) -> None:
    assert layouts(module(f"nn.conv2d(%x, %w, {attrs})", weight, data)) == [layout]


def test_a_weight_tap_by_tap_is_stored_once_and_alone() -> None:
    body = "(nn.conv2d(%x, %w, padding=12, dilation=12), nn.conv2d(%x, %w, padding=24, dilation=24))"
    mod = module(body, TAPS, "(?n, 64, ?h, ?w)")
    assert layouts(mod) == ["HWIO", "HWIO"] and layouts(mod, ("nn.conv2d",)) == ["OIHW", "OIHW"]
    assert [c.shape for c in relay.compile(mod).constants if c.ndim == 4] == [(3, 3, 64, 40)]
