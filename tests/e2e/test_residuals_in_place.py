"""A sum with a convolution is written over the residual that dies there: the same bits as in memory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.lowering.pipeline import stages
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse

from ..programs import HEADER

CHANNELS, INNER = 6, 5


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    yield
    relay.set_num_threads(None)


def text(tail: list[str], consumers: int, residual: str, shape: str) -> str:
    """A block: the residual is a value of the program's own, or an argument; ``consumers``: its further readers."""
    lines = [
        "let %own = nn.softmax(%r, axis=1);" if residual == "own" else "let %own = %r;",
        "let %y = nn.conv2d(%x, %w);",
    ]
    name = "%y"
    for k, step in enumerate(tail):
        lines.append(f"let %t{k} = {step.replace('@', name)};")
        name = f"%t{k}"
    fields = [name, *["sum(%own)", "negative(%own)"][:consumers]]
    result = name if len(fields) == 1 else f"({', '.join(fields)})"
    params = f"%x: Tensor[({shape.format(INNER)}), float32], %w: Tensor[({CHANNELS}, {INNER}, 1, 1), float32], "
    params += f"%r: Tensor[({shape.format(CHANNELS)}), float32], %b: Tensor[({CHANNELS}), float32]"
    return HEADER + f"def @main({params}) {{ {' '.join(lines)} {result} }}"


def over(program: str) -> list[str]:
    """The primitives with a convolution that write over an operand, by name."""
    mod: Any = stages(parse(program), Config(), "cpu")["planned"]
    return sorted(n for n, f in mod.functions.items() if f.attrs.get("in_place") and "conv2d" in n)


STEPS = ["add(@, %own)", "add(%own, @)", "multiply(@, %own)", "nn.bias_add(@, %b)", "nn.relu(@)", "tanh(@)", "subtract(@, %own)"]


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=4),
    st.integers(0, 2),
    st.sampled_from(["own", "own", "argument"]),
    st.sampled_from(["2, {}, 4, 9", "?n, {}, ?h, ?w"]),
    st.integers(0, 10**6),
)
def test_the_bits_are_those_of_memory_of_its_own(tail: list[str], consumers: int, residual: str, shape: str, seed: int) -> None:
    program = text(tail, consumers, residual, shape)
    planned, alone = (relay.VirtualMachine(relay.compile(program, plan=plan)) for plan in ("on", "off"))
    rng = np.random.default_rng(seed)
    for n, h, w in [(2, 4, 9)] if "?" not in shape else [(2, 4, 9), (0, 3, 3), (1, 1, 1), (1, 17, 40), (3, 7, 7)]:
        x, r = (rng.standard_normal((n, c, h, w)).astype("float32") for c in (INNER, CHANNELS))
        weight = rng.standard_normal((CHANNELS, INNER, 1, 1)).astype("float32")
        arguments = [x, weight, r, rng.standard_normal(CHANNELS).astype("float32")]
        before = [a.copy() for a in arguments]
        for count in (1, 2):
            relay.set_num_threads(count)
            for got, want in zip(_arrays(planned.run(*arguments)), _arrays(alone.run(*arguments)), strict=True):
                np.testing.assert_array_equal(got, want)
            for array, copied in zip(arguments, before, strict=True):
                np.testing.assert_array_equal(array, copied)


def _arrays(result: Any) -> list[np.ndarray]:
    return [np.asarray(r.numpy()) for r in (result if isinstance(result, tuple | list) else [result])]


@pytest.mark.parametrize("shape", ["2, {}, 4, 9", "?n, {}, ?h, ?w"])
def test_a_residual_is_overwritten_where_it_dies(shape: str) -> None:
    tail = ["nn.bias_add(@, %b)", "add(@, %own)", "nn.relu(@)"]
    # a choice at run time has a kernel for each implementation
    versions = ["_rows", "_tiles"] if "?" in shape else [""]
    assert over(text(tail, 0, "own", shape)) == [f"fused_nn_conv2d_nn_bias_add_add_nn_relu{v}_over_p3" for v in versions]
    assert over(text(tail, 2, "own", shape)) == []


def test_a_constant_is_not_overwritten() -> None:
    rng = np.random.default_rng(3)
    program = text(["add(@, %own)", "nn.relu(@)"], 0, "argument", "2, {}, 4, 9")
    x, r = (rng.standard_normal((2, c, 4, 9)).astype("float32") for c in (INNER, CHANNELS))
    weight, bias = rng.standard_normal((CHANNELS, INNER, 1, 1)).astype("float32"), np.zeros(CHANNELS, "float32")
    vm = relay.VirtualMachine(relay.compile(program, params={"r": r, "w": weight, "b": bias}))
    first = vm.run(x).numpy().copy()
    np.testing.assert_array_equal(vm.run(x).numpy(), first)


def test_an_argument_that_is_given_is_overwritten() -> None:
    """A donated residual has its memory written over; the caller's own has not."""
    rng = np.random.default_rng(4)
    vm = relay.VirtualMachine(relay.compile(text(["add(@, %own)", "nn.relu(@)"], 0, "argument", "2, {}, 40, 90")))
    x, r = (rng.standard_normal((2, c, 40, 90)).astype("float32") for c in (INNER, CHANNELS))
    weight, bias = rng.standard_normal((CHANNELS, INNER, 1, 1)).astype("float32"), np.zeros(CHANNELS, "float32")
    kept = r.copy()
    want = vm.run(x, weight, r, bias).numpy().copy()
    np.testing.assert_array_equal(r, kept)
    np.testing.assert_array_equal(vm.run(x, weight, r, bias, donate=["r"]).numpy(), want)
