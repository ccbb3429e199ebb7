"""Recipes of recurrences: small batches and few units, in one dtype; the oracle computes sequence by sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.ops.core.tensor_types import is_float

from .drawing import Draw, wide
from .recipe import Call, call, recipe

Real = Callable[[np.ndarray], np.ndarray]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_step(gates: np.ndarray, h: np.ndarray, c: np.ndarray, peepholes: np.ndarray, bound: Real, forget: bool) -> Any:
    i, o, f, g = np.split(gates, 4)
    of_i, of_o, of_f = np.split(peepholes, 3)
    i = _sigmoid(bound(i + of_i * c))
    f = 1 - i if forget else _sigmoid(bound(f + of_f * c))
    c = f * c + i * np.tanh(bound(g))
    return _sigmoid(bound(o + of_o * c)) * np.tanh(bound(c)), c


def gru_step(given: np.ndarray, h: np.ndarray, weight: np.ndarray, bias: np.ndarray, bound: Real, linear: bool) -> np.ndarray:
    units = len(h)
    z, r = np.split(_sigmoid(bound(given[: 2 * units] + weight[: 2 * units] @ h)), 2)
    last = weight[2 * units :]
    new = np.tanh(bound(given[2 * units :] + (r * (last @ h + bias) if linear else last @ (r * h) + bias)))
    return (1 - z) * new + z * h


def over_steps(given: np.ndarray, lengths: np.ndarray, direction: str, states: list[np.ndarray], step: Any) -> list[np.ndarray]:
    """All states and the last ones; ``step(d, given, states)`` gives the next states of one sequence."""
    steps, batch, columns = given.shape
    directions, units = states[0].shape[0], states[0].shape[2]
    out, last = np.zeros((steps, directions, batch, units)), [wide(s).copy() for s in states]
    each = columns // directions
    for d in range(directions):
        for b in range(batch):
            times = range(int(lengths[b]))
            for t in reversed(times) if direction == "reverse" or d == 1 else times:
                found = step(d, wide(given[t, b, d * each : (d + 1) * each]), [s[d, b] for s in last])
                for s, value in zip(last, found, strict=True):
                    s[d, b] = value
                out[t, d, b] = found[0]
    return [out, *last]


@recipe("nn.lstm", "nn.gru", "nn.rnn", by_width=True)
def recurrence(d: Draw, name: str) -> Call:
    gates = {"nn.lstm": 4, "nn.gru": 3, "nn.rnn": 1}[name]
    steps, batch, units = (n % 12 for n in d.dims(3))
    direction = d.pick("forward", "bidirectional", "reverse")
    count = 2 if direction == "bidirectional" else 1
    clip, flag = d.pick(0.0, 0.4), d.pick(False, True)
    dtype = d.dtype if is_float(d.dtype) else "float32"
    given, weight = (d.array(s, dtype, -1, 1) for s in ((steps, batch, count * gates * units), (count, gates * units, units)))
    states = [d.array((count, batch, units), dtype, -1, 1) for _ in range(2 if name == "nn.lstm" else 1)]
    lengths = d.rng.integers(0, steps, batch, endpoint=True).astype("int32")
    extra = {"nn.lstm": [(count, 3 * units)], "nn.gru": [(count, units)], "nn.rnn": []}[name]
    more = [d.array(s, dtype, -1, 1) for s in extra]

    def bound(x: np.ndarray) -> np.ndarray:
        return np.clip(x, -clip, clip) if clip else x

    def step(k: int, x: np.ndarray, now: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        w = wide(weight[k])
        if name == "nn.lstm":
            return tuple(lstm_step(x + w @ now[0], now[0], now[1], wide(more[0][k]), bound, flag))
        if name == "nn.gru":
            return (gru_step(x, now[0], w, wide(more[0][k]), bound, flag),)
        return (np.tanh(bound(x + w @ now[0])),)

    attrs: dict[str, Any] = {"direction": direction, "clip": clip}
    attrs |= {"nn.lstm": {"input_forget": flag}, "nn.gru": {"linear_before_reset": flag}}.get(name, {})
    inputs = [given, weight, *states, *more, lengths]
    return call(inputs, lambda: over_steps(given, lengths, direction, states, step), tolerance=20, **attrs)
