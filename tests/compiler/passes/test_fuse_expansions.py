"""Expansions and depthwise convolutions in one kernel: the results of two, for any sizes; programs that stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.fuse_expansions import fuse_expansions
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.native.jit.products.register_tile import panel_width

from ...devices import DEVICES
from ...ops.images.test_conv import convolution
from ...ops.opaque.opaque_kernels import run
from ...programs import HEADER

NAME = "nn.expanded_conv2d"
LIMITS = {
    "clip": "clip(%biased, a_min=-0.5, a_max=1.0)",
    "bounds": "minimum(maximum(%biased, -0.5f), 1f)",
    "turned": "minimum(1f, maximum(-0.5f, %biased))",
    "relu": "nn.relu(%biased)",
    "below": "maximum(%biased, 0f)",
}
BODY = """
  let %wide = nn.conv2d(%x, %w);
  let %biased = nn.bias_add(%wide, %b);
  let %limited = {limit};
  nn.conv2d(%limited, %d, strides={strides}, padding={padding}, groups=30)
"""


def program(
    limit: str = "relu",
    strides: Any = 1,
    padding: Any = 1,
    dtype: str = "float32",
    before: str = "",
    after: str = "",
    **types: str,
) -> str:
    """A program of an expansion to 30 channels; ``before`` and ``after``: a text of its body, and what replaces it."""
    kinds = {"x": "(?n, 5, ?h, ?w)", "w": "(30, 5, 1, 1)", "b": "(30,)", "d": "(30, 1, 3, 3)", **types}
    params = ", ".join(f"%{name}: Tensor[{shape}, {dtype}]" for name, shape in kinds.items())
    body = BODY.format(limit=LIMITS[limit], strides=strides, padding=padding)
    assert before in body
    return f"{HEADER}def @main({params}) {{ {body.replace(before, after) if before else body} }}"


def operators(text: str, forced: tuple[str, ...] = ()) -> list[str]:
    """The operators of a program after the pass, but those whose values are dead."""
    mod = fuse_expansions(infer_type(to_a_normal_form(relay.parse(text))), forced)
    found = relay.transform.DeadCodeElimination()(mod)
    return [value.op.name for value in values(found["main"].body) if isinstance(value, Call)]


def arrays(seed: int, shape: tuple[int, ...], channels: int = 30, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [shape, (channels, shape[1], 1, 1), (channels,), (channels, 1, 3, 3)]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


# ---- the pass --------------------------------------------------------------------------------------------------------


@pytest.mark.split(2)
@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.extensive(limit=["relu", "bounds"])
def test_programs_in_one_kernel(limit: str, target: str) -> None:
    text = program(limit, 2, "[1, 0, 2, 1]")
    assert operators(text) == [NAME]
    machines = [relay.VirtualMachine(relay.compile(relay.parse(text), target=target, expansions=e)) for e in ("on", "off")]
    fused = ["expanded" in packed.group.name for machine in machines for packed in machine.exe.packed]
    # two kernels apart: the expansion by the implementation for small pictures, or another, and the windows
    assert fused == ([True, False, False, False] if target != "cuda" else [False] * len(fused))
    for shape in [(1, 5, 7, 9), (2, 5, 1, 1), (0, 5, 4, 4), (3, 5, 30, 17)]:
        given = arrays(3, shape)
        found, wanted = (machine.run(*given).numpy() for machine in machines)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "text",
    [
        program(before="nn.conv2d(%limited, %d, strides=1, padding=1, groups=30)",
                after="(nn.conv2d(%limited, %d, padding=1, groups=30), %limited)"),
        program(before="nn.conv2d(%limited, %d, strides=1, padding=1, groups=30)",
                after="(nn.conv2d(%limited, %d, padding=1, groups=30), %wide)"),
        program(before="nn.conv2d(%x, %w)", after="nn.conv2d(%x, %w, strides=2)"),
        program(before="nn.conv2d(%x, %w)", after="nn.conv2d(%x, %w, padding=1)"),
        program(before="nn.conv2d(%x, %w)", after="nn.conv2d(%x, %w, groups=5)", w="(30, 1, 1, 1)"),
        program(before="groups=30", after="groups=15", d="(30, 2, 3, 3)"),
        program(d="(60, 1, 3, 3)"),
        program(d="(30, 1, 5, 5)"),
        program(w="(30, 5, 3, 3)"),
        program(x="(?n, 30, ?h, ?w)", w="(30, 30, 1, 1)"),
        program(x="(?n, ?c, ?h, ?w)"),
        program(w="(30, ?c, 1, 1)"),
        program(strides="[1, 2]"),
        program(strides=3),
        program(before="groups=30", after="groups=30, dilation=2"),
        program(before="nn.bias_add(%wide, %b)", after="nn.bias_add(%wide, %b, axis=3)"),
        program(before="nn.bias_add(%wide, %b)", after="sigmoid(%wide)"),
        program("below", before="maximum(%biased, 0f)", after="minimum(%biased, 0f)"),
        program("below", before="maximum(%biased, 0f)", after="maximum(%biased, %wide)"),
        program("below", before="maximum(%biased, 0f)", after="maximum(%biased, nanf)"),
        program(dtype="float16"),
        program(before="(%x, %w)", after='(%x, %w, data_layout="NHWC", out_layout="NCHW")', x="(?n, ?h, ?w, 5)"),
        program(before="groups=30", after='groups=30, kernel_layout="HWOI"', d="(3, 3, 30, 1)"),
    ],
    ids=["used", "used before", "strides", "padding", "groups", "pairs", "two windows", "five taps", "nine taps", "as many",
         "channels", "weight", "uneven strides", "far", "dilation", "axis", "sigmoid", "above", "tensors", "nan", "half",
         "layout", "windows last"],
)  # fmt: skip
def test_other_programs_stay(text: str) -> None:
    assert NAME not in operators(text)


def test_forced_operators_stay() -> None:
    assert NAME not in operators(program(), ("nn.conv2d",))


def test_the_limit_of_few_channels() -> None:
    few = program(w="(23, 5, 1, 1)", b="(23,)", d="(23, 1, 3, 3)", before="groups=30", after="groups=23")
    assert NAME not in operators(few)


def test_an_epilogue_and_a_residual_are_finished_by_the_kernel() -> None:
    before = "nn.conv2d(%limited, %d, strides=1, padding=1, groups=30)"
    after = "let %out = nn.bias_add(nn.conv2d(%limited, %d, padding=1, groups=30), %b); nn.relu(add(%out, %r))"
    text = program(before=before, after=after, r="(?n, 30, ?h, ?w)")
    on, off = (relay.VirtualMachine(relay.compile(relay.parse(text), expansions=e)) for e in ("on", "off"))
    assert len(on.exe.packed) == 1
    given = [*arrays(1, (2, 5, 41, 30)), np.random.default_rng(2).standard_normal((2, 30, 41, 30)).astype("float32")]
    np.testing.assert_array_equal(on.run(*given).numpy(), off.run(*given).numpy())


def test_programs_are_printed_parsed_saved_and_loaded(tmp_path: Path) -> None:
    mod = fuse_expansions(infer_type(to_a_normal_form(relay.parse(program("bounds", 2)))))
    again = relay.parse(mod.astext())
    assert relay.structural_equal(relay.parse(again.astext()), again)
    given, machine = arrays(5, (2, 5, 20, 30)), relay.VirtualMachine(relay.compile(again))
    wanted = relay.VirtualMachine(relay.compile(relay.parse(program("bounds", 2)), expansions="off")).run(*given).numpy()
    np.testing.assert_array_equal(machine.run(*given).numpy(), wanted)
    np.testing.assert_array_equal(relay.create_executor("debug", again).evaluate()(*given).numpy(), wanted)
    machine.exe.save(tmp_path / "net.rvm")
    loaded = relay.VirtualMachine(relay.Executable.load(tmp_path / "net.rvm"))
    np.testing.assert_array_equal(loaded.run(*given).numpy(), wanted)


# ---- the kernel ------------------------------------------------------------------------------------------------------


def apart(given: list[np.ndarray], jit: bool, least: float, most: float, **attrs: Any) -> np.ndarray:
    """The result of two kernels."""
    data, weight, bias, windows = given
    (wide,), *_ = run("nn.conv2d", [data, weight], jit=jit, implementation="tiles")
    limited = np.clip(wide + bias[:, None, None], data.dtype.type(least), data.dtype.type(most))
    (out,), *_ = run("nn.conv2d", [limited, windows], jit=jit, implementation="planes", groups=len(bias), **attrs)
    return out


def expanded(given: list[np.ndarray], jit: bool, least: float, most: float, **attrs: Any) -> np.ndarray:
    (out,), *_ = run(NAME, given, jit=jit, channels=len(given[2]), a_min=least, a_max=most, **attrs)
    return out


SIZES = st.tuples(st.integers(0, 3), st.integers(0, 70), st.integers(0, 40), st.integers(0, 40))


@settings(max_examples=60)
@given(
    SIZES,
    st.integers(0, 60),
    st.sampled_from([1, 2]),
    st.tuples(*[st.integers(0, 4)] * 4),
    st.sampled_from(["float32", "float64"]),
)
@example((1, 70, 120, 121), 13, 2, (1, 1, 1, 1), "float32")  # several bands, the last one short
@example((1, 64, 14, 14), 60, 1, (1, 1, 1, 1), "float32")  # four columns apart
@example((2, 64, 1, 3), 30, 1, (1, 1, 1, 1), "float32")  # all columns apart
@example((1, 64, 16, 5), 2, 2, (0, 0, 0, 0), "float64")  # no window reads the last row of whole panels
@example((1, 3, 2, 3), 7, 1, (4, 4, 4, 4), "float64")  # windows outside the data
@example((1, 64, 20, 27), 3, 1, (0, 0, 0, 0), "float64")  # four columns of a panel of eight apart
def test_one_kernel_gives_the_bits_of_two(
    shape: tuple[int, ...], channels: int, stride: int, padding: tuple[int, ...], dtype: str
) -> None:
    rows, columns = (max(n, 3 - padding[k] - padding[k + 2]) for k, n in enumerate(shape[2:]))
    given = arrays(rows * columns, (*shape[:2], rows, columns), channels, dtype)
    attrs = {"strides": stride, "padding": padding}
    found = expanded(given, True, -0.25, 1.5, **attrs)
    data, weight, bias, windows = given
    wide = np.clip(convolution(data, weight, {}) + bias[:, None, None], -0.25, 1.5)
    wanted = convolution(wide, windows.astype("float64"), {**attrs, "groups": channels}) if channels else found
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    # a few columns that are multiplied apart, of a picture or of a band, are sums in another order
    width = panel_width(data.itemsize)
    is_in_order = shape[1] < 64 or rows * columns % width == 0 or rows * columns % width > width // 2
    if channels and shape[1] and found.size and is_in_order:
        np.testing.assert_array_equal(found, apart(given, True, -0.25, 1.5, **attrs))


@settings(max_examples=15)
@given(SIZES, st.integers(1, 15), st.sampled_from([1, 2]), st.tuples(*[st.integers(0, 2)] * 4))
def test_as_plain_python(shape: tuple[int, ...], channels: int, stride: int, padding: tuple[int, ...]) -> None:
    """Every load and store is inside the tensors and buffers."""
    rows, columns = (max(n % 9, 3 - padding[k] - padding[k + 2]) for k, n in enumerate(shape[2:]))
    given = arrays(rows, (shape[0] % 3, shape[1] % 5, rows, columns), channels)
    with np.errstate(all="ignore"):  # columns behind the last hold whatever the memory held
        found = expanded(given, False, 0.0, np.inf, strides=stride, padding=padding)
    data, weight, bias, windows = given
    wide = np.maximum(convolution(data, weight, {}) + bias[:, None, None], 0)
    attrs = {"strides": stride, "padding": padding, "groups": channels}
    np.testing.assert_allclose(found, convolution(wide, windows.astype("float64"), attrs), rtol=1e-4, atol=1e-4)


def test_numbers_that_are_not_finite() -> None:
    given = [
        np.ones((1, 4, 6, 20), "float32"),
        np.ones((8, 4, 1, 1), "float32"),
        np.zeros(8, "float32"),
        np.ones((8, 1, 3, 3), "float32"),
    ]
    given[0][0, 1, 3, 9], given[2][5] = np.nan, np.inf
    found = expanded(given, True, 0.0, 6.0, padding=1)
    assert np.isnan(found[0, :, 2:5, 8:11]).all() and np.isnan(found).sum() == 8 * 9
    assert np.isfinite(
        expanded([np.full_like(given[0], -np.inf), *given[1:2], np.zeros(8, "float32"), given[3]], True, 0.0, 6.0)
    ).all()


@pytest.mark.parametrize("attrs", [{"strides": (1, 2)}, {"dilation": 2}, {"strides": 3}])
def test_calls_that_no_kernel_takes_are_two_convolutions(attrs: dict[str, Any]) -> None:
    named = ", ".join(f"{name}={list(v) if isinstance(v, tuple) else v}" for name, v in attrs.items())
    params = "%x: Tensor[(?n, 5, ?h, ?w), float32], %w: Tensor[(30, 5, 1, 1), float32], %b: Tensor[(30,), float32]"
    text = f"{HEADER}def @main({params}, %d: Tensor[(30, 1, 3, 3), float32]) {{ {NAME}(%x, %w, %b, %d, channels=30, {named}) }}"
    given = arrays(7, (2, 5, 12, 11))
    found = relay.VirtualMachine(relay.compile(relay.parse(text))).run(*given).numpy()
    wide = np.maximum(convolution(given[0], given[1], {}) + given[2][:, None, None], 0)
    np.testing.assert_allclose(
        found, convolution(wide, given[3].astype("float64"), {**attrs, "groups": 30}), rtol=1e-4, atol=1e-4
    )


def test_bounds_are_numbers() -> None:
    op = get(NAME)
    with pytest.raises(TypeRelError, match="a_min is NaN"):
        op.dtype(("float32",) * 4, op.attrs(channels=30, a_min=np.nan))
