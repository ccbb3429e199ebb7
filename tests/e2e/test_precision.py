"""The configuration key `precision` on each device: numbers near numpy's, types as before, weights cast once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api.machine import VirtualMachine

from ..devices import DEVICES
from ..programs import HEADER

TEXT = """def @main(
  %x: Tensor[(?n, 16), float32], %table: Tensor[(9, 16), float32], %i: Tensor[(?n), int64], %w: Tensor[(16, 16), float32],
  %b: Tensor[(16), float32], %g: Tensor[(16), float32], %v: Tensor[(4, 16), float32]
) {
  let %e = add(take(%table, %i, axis=0), %x);
  let %n = nn.layer_norm(%e, %g, %b);
  let %h = add(nn.dense(%n, %w), %b);
  let %a = multiply(multiply(%h, 0.5f), add(erf(multiply(%h, 0.70710678f)), 1f));
  let %s = nn.softmax(nn.dense(%a, %w));
  (nn.dense(add(%s, %e), %v), argmax(%s, axis=[1]))
}"""
PRECISIONS = ("tf32", "float16", "bfloat16")
#: Of the largest number, in roundings of a half.
ERROR = {"float32": 1e-5, "tf32": 1e-3, "float16": 2e-3, "bfloat16": 1.6e-2}


def arguments(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows)

    def numbers(*shape: int) -> np.ndarray:
        return random.uniform(-1, 1, shape).astype(np.float32)

    given = {"x": numbers(rows, 16), "table": numbers(9, 16), "i": random.integers(0, 9, rows), "w": numbers(16, 16)}
    return given | {"b": numbers(16), "g": numbers(16), "v": numbers(4, 16)}


def expected(
    x: np.ndarray, table: np.ndarray, i: np.ndarray, w: np.ndarray, b: np.ndarray, g: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """In float32."""
    e = table[i] + x
    n = (e - e.mean(1, keepdims=True)) / np.sqrt(e.var(1, keepdims=True) + np.float32(1e-5)) * g + b
    h = n @ w.T + b
    a = h * np.float32(0.5) * (1 + np.vectorize(math.erf, otypes=[np.float32])(h * np.float32(0.70710678)))
    scores = a @ w.T
    s = np.exp(scores - scores.max(1, keepdims=True, initial=-np.inf))
    return np.asarray((s / s.sum(1, keepdims=True) + e) @ v.T)


@pytest.mark.split(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_numbers_are_near_float32(precision: str, device: str) -> None:
    given = arguments(0)
    weights = {name: given[name] for name in ("table", "w", "b", "g", "v")}
    vm = VirtualMachine(relay.compile(HEADER + TEXT, target=device, params=weights, precision=precision))
    for rows in (0, 1, 5, 20):
        given = arguments(rows) | weights
        out, positions = vm.run(x=given["x"], i=given["i"])
        want = expected(**given)
        assert out.numpy().dtype == np.float32 and positions.numpy().shape == (rows,)
        np.testing.assert_allclose(out.numpy(), want, rtol=0, atol=ERROR[precision] * max(1.0, float(abs(want).max(initial=0))))


def test_weights_are_cast_once() -> None:
    given = arguments(3)
    weights = {name: given[name] for name in ("table", "w", "b", "g", "v")}
    exe = relay.compile(HEADER + TEXT, params=weights, precision="float16")
    large = {c.shape: c.dtype.name for c in exe.constants if c.size > 16}
    # a CPU multiplies float32: weights too small for panels are cast back when the program is compiled
    assert large == {(9, 16): "float16", (16, 16): "float32", (4, 16): "float32"}
    assert len([c for c in exe.constants if c.size > 16]) == len(large)
