"""Recipes of operators on random numbers, against Threefry in Python's own integers."""

from __future__ import annotations

import math

import numpy as np

from relayvm.ops.kernels.threefry.cpu import PARITY, ROTATIONS

from .drawing import Draw
from .recipe import Call, call, recipe

MASK, ONES = 2**64 - 1, 2**64 - 1


def threefry(key: list[int], counter: list[int]) -> list[int]:
    """Threefry-4x64 with 20 rounds, as its paper permutes the words."""
    words = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ PARITY]
    x = [(c + k) & MASK for c, k in zip(counter, key, strict=True)]
    for turn in range(20):
        for pair in (0, 1):
            bits, (left, right) = ROTATIONS[pair][turn % 8], x[2 * pair : 2 * pair + 2]
            total = (left + right) & MASK
            x[2 * pair : 2 * pair + 2] = total, (right << bits & MASK | right >> (64 - bits)) ^ total
        x[1], x[3] = x[3], x[1]
        if turn % 4 == 3:
            group = turn // 4 + 1
            x = [(v + words[(group + k) % 5] + (group if k == 3 else 0)) & MASK for k, v in enumerate(x)]
    return x


def drawn(key: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The next key, and words."""
    state, count = [int(k) for k in key], math.prod(shape)
    if state[7] >= ONES - count:
        place = state[8] << 64 | state[9]
        path = state[4] << 64 | state[5] | place
        if place == 0:
            state = [*threefry(state[:4], [state[4], state[5], ONES, ONES]), 0, 0, 0, 0, 2**63, 0]
        else:
            state = [*state[:4], path >> 64, path & MASK, 0, 0, place >> 65, place >> 1 & MASK]
    words = [w for n in range(-(-count // 4)) for w in threefry(state[:4], [*state[4:7], (state[7] + n) & MASK])][:count]
    state[7] += count
    return np.array(state, "uint64"), np.array(words, "uint64").reshape(shape)


def halves(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two keys of a split."""
    state = [int(k) for k in key]
    place = state[8] << 64 | state[9]
    if place == 0:
        state = [*threefry(state[:4], state[4:8]), 0, 0, 0, 0, 2**63, 0]
        place = 2**127
    path = (state[4] << 64 | state[5]) | place
    rest = [*state[6:8], place >> 65, place >> 1 & MASK]
    found = [*state[:6], *rest], [*state[:4], path >> 64, path & MASK, *rest]
    return np.array(found[0], "uint64"), np.array(found[1], "uint64")


def some_key(d: Draw) -> np.ndarray:
    """A key, of a seed or further on: with a long path, a full one, a full counter."""
    first = [int(n) for n in d.rng.integers(0, 2**63, 4)]
    rest = d.pick(
        [0, 0, 0, 0, 2**63, 0], [2**63, 0, 0, 17, 1, 0], [5, 2**63, 0, ONES - 1, 0, 2**60], [7, 9, 0, ONES - 1, 0, 0],
        [1, 2, 0, 3, 0, 0], [1, 2, 0, ONES - 2, 1, 0],
    )  # fmt: skip
    return np.array([*first, *rest], "uint64")


@recipe("random.threefry_generate")
def generate(d: Draw, name: str) -> Call:
    key, shape = some_key(d), d.shape(1, 3)
    return call([key], lambda: drawn(key, shape), shape=shape)


@recipe("random.threefry_rows")
def rows(d: Draw, name: str) -> Call:
    key, data, count = some_key(d), d.array(d.shape(1, 3), "float32"), d.pick(5, 1, 0)
    return call([key, data], lambda: drawn(key, (*data.shape[:-1], count)), count=count)


@recipe("random.threefry_split")
def split(d: Draw, name: str) -> Call:
    key = some_key(d)
    return call([key], lambda: halves(key))


def fractions(words: np.ndarray, dtype: str) -> np.ndarray:
    bits = 23 if dtype == "float32" else 52
    return (words >> np.uint64(64 - bits)).astype("float64") / 2**bits


@recipe("random.uniform", "random.normal")
def distributed(d: Draw, name: str) -> Call:
    dtype = d.dtype
    key, shape = some_key(d), d.shape(1, 3)
    a, b = d.scalar(d.pick(-2.0, 0.5)), d.scalar(d.pick(3.0, 0.75))

    def wanted() -> tuple[np.ndarray, np.ndarray]:
        if name == "random.uniform":
            new_key, words = drawn(key, shape)
            return new_key, fractions(words, dtype) * (float(b) - float(a)) + float(a)
        new_key, words = drawn(key, (2, *shape))
        radius, angle = fractions(words, dtype)
        return new_key, np.sqrt(-2 * np.log(1 - radius)) * np.cos(2 * np.pi * angle) * float(b) + float(a)

    return call([key, a, b], wanted, shape=shape, dtype=dtype, tolerance=20)


@recipe("random.multinomial")
def multinomial(d: Draw, name: str) -> Call:
    lead, classes, count = d.pick((2,), (), (3, 2)), d.pick(5, 1, 8), d.pick(9, 0, 1)
    key, probs = (
        some_key(d),
        d.rng.integers(-1, 5, (*lead, classes)).astype(d.dtype if d.dtype.startswith("float") else "float32"),
    )
    probs[..., -1] = 2

    def wanted() -> tuple[np.ndarray, np.ndarray]:
        new_key, words = drawn(key, (*lead, count))
        sums = np.cumsum(np.maximum(probs.astype("float64"), 0), -1)
        above = sums[..., None, :] > (fractions(words, "float32") * sums[..., -1:])[..., None]
        return new_key, above.argmax(-1).astype("int32")

    return call([key, probs], wanted, num_samples=count)
