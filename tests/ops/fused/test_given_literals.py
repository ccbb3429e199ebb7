"""Kernels that differ in literals only have one machine code, with tables of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.jit import given_literals
from relayvm.ops.native.jit.given_literals import filled, without_literals

QUANTISED = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 8), float32]) {
  clip(cast(add(cast(divide(%x, SCALEf), dtype="int32"), ZERO), dtype="float32"), a_min=-128f, a_max=127f)
}"""


def quantised(scale: float, zero: int) -> Callable[[np.ndarray], np.ndarray]:
    text = QUANTISED.replace("SCALE", str(scale)).replace("ZERO", str(zero))
    vm = relay.VirtualMachine(relay.compile(text, target="cpu"))
    return lambda x: vm.run(x).numpy()


def test_layers_of_other_scales_share_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = kernel_store.compile_object
    monkeypatch.setattr(kernel_store, "compile_object", lambda f, *rest: compiled.append(f.__name__) or original(f, *rest))
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32) * 50
    counts = []
    for scale, zero in ((0.372519, 5), (0.123, -9), (0.7701, 100)):
        expected = np.clip(((x / np.float32(scale)).astype(np.int32) + zero).astype(np.float32), -128, 127)
        np.testing.assert_array_equal(quantised(scale, zero)(x), expected, strict=True)
        counts.append(compiled.count("kernel"))
    assert counts[1:] == counts[:1] * 2 and counts[0] <= 1


def test_literals_of_which_llvm_makes_other_code_stay() -> None:
    for text in (
        "v = x * float32(0.25)", "v = x + float32(0.0)", "v = x - int32(8)", "v = x + int32(127)", "v = x // int32(7)",
        "v = x % int32(7)", "v = x >> int32(3)", "v = x if x >= float32(6.1) else y", "v = x + int64(9)", "v = i * 147",
    ):  # fmt: skip
        assert without_literals(text) == (text, ())


def test_a_table_that_is_not_whole_is_not_filled() -> None:
    word = given_literals._MARK
    marks = b"".join((word + k).to_bytes(8, "little") for k in range(3))
    assert filled(b"code" + marks + b"code", [1.5, -3]) is not None
    for code in (b"code", marks[:-1], marks + marks):
        assert filled(code, [1.5, -3]) is None


literals = st.one_of(
    st.tuples(st.sampled_from(["float32", "float64"]), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.sampled_from(["int8", "int16", "int32"]), st.integers(-128, 127)),
)


@given(st.lists(st.tuples(literals, st.sampled_from(["+", "-", "*", "/", ">=", "//"])), max_size=12))
def test_the_literals_put_back_give_the_text(parts: list[Any]) -> None:
    text = "\n".join(f"v{k} = (x {op} {dtype}({value!r}))" for k, ((dtype, value), op) in enumerate(parts))
    shared, numbers = without_literals(text)

    def literal(match: re.Match[str]) -> str:
        assert int(match[2]) == len(numbers)
        return repr(numbers[int(match[1])])

    assert re.sub(r"given_(?:float|integer)\((\d+), (\d+)\)", literal, shared) == text
