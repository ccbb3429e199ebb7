"""Random numbers: Threefry against its known answers, independence of keys, distributions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import get
from relayvm.ops.kernels.threefry import cpu

from .every_op import random_numbers
from .refusals import refused


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


#: Counter, key and result of threefry4x64 with 20 rounds, as in ``kat_vectors`` of Random123.
KNOWN = [
    ("0 0 0 0", "0 0 0 0", "09218ebde6c85537 55941f5266d86105 4bd25e16282434dc ee29ec846bd2e40b"),
    (
        " ".join(["ffffffffffffffff"] * 4),
        " ".join(["ffffffffffffffff"] * 4),
        "29c24097942bba1b 0371bbfb0f6f4e11 3c231ffa33f83a1c cd29113fde32d168",
    ),
    (
        "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
        "452821e638d01377 be5466cf34e90c6c be5466cf34e90c6c c0ac29b7c97c50dd",
        "a7e8fde591651bd9 baafd0c30138319b 84a5c1a729e685b9 901d406ccebc1ba4",
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter: str, key: str, result: str) -> None:
    """Of the kernel's function, run as plain Python, and of the integers that the kernels are held against."""
    own = np.array(words(key), "uint64")
    with np.errstate(over="ignore"):
        found = cpu.threefry(own, *(np.uint64(n) for n in words(counter)))
    assert [int(n) for n in found] == words(result)
    assert random_numbers.threefry(words(key), words(counter)) == words(result)


def run(*results: relay.Expr) -> list[np.ndarray]:
    module = relay.IRModule.from_expr(relay.Function([], relay.Tuple(results)))
    return [x.numpy() for x in relay.VirtualMachine(relay.compile(module, target="cpu")).run()]


def test_a_program_of_keys() -> None:
    """Each key is used once: all words differ, and the same program gives the same words."""
    random = relay.random

    def program() -> list[relay.Expr]:
        left, right = random.threefry_split(random.threefry_key(7))
        key, first = random.threefry_generate(left, (5, 9))
        further, second = random.threefry_generate(key, (7,))
        _, third = random.threefry_generate(further, (6,))
        return [first, second, third, random.threefry_generate(right, (8,))[1], random.threefry_key(2**64 + 7)]

    found, again = run(*program()), run(*program())
    assert all(map(np.array_equal, found, again))
    drawn = np.concatenate([x.ravel() for x in found[:-1]])
    assert len(np.unique(drawn)) == 45 + 7 + 6 + 8
    assert found[-1].tolist() == [7, 1, 0, 0, 0, 0, 0, 0, 2**63, 0]


def test_distributions() -> None:
    """Of 2**16 numbers, moments within five standard errors."""
    random, n = relay.random, 2**16
    key = random.threefry_key(1)
    key, uniform = random.uniform(key, (n,), low=-1, high=3)
    key, normal = random.normal(key, (n // 2, 2), "float64", 2.0, 0.5)
    weights = relay.const(np.array([[1, 0, 3], [0, 0, 0]], "float32"))
    _, indices = random.multinomial(key, weights, n)
    flat, bell, chosen = run(uniform, normal, indices)
    assert flat.dtype == "float32" and flat.min() >= -1 and flat.max() < 3
    assert abs(flat.mean() - 1) < 5 * flat.std() / n**0.5 and abs(flat.var() - 4 / 3) < 0.03
    assert bell.dtype == "float64" and abs(bell.mean() - 2) < 5 * 0.5 / n**0.5 and abs(bell.std() - 0.5) < 0.01
    assert abs(((bell - 2) ** 3).mean()) < 0.02 and abs(((bell - 2) ** 4).mean() - 3 * 0.5**4) < 0.02
    assert np.isin(chosen[0], [0, 2]).all() and abs((chosen[0] == 2).mean() - 0.75) < 5 * (0.1875 / n) ** 0.5
    assert (chosen[1] == 2).all()


def of(name: str, *types: Any, **attrs: Any) -> str:
    return refused(f"random.{name}", list(types), get(f"random.{name}").attrs(**attrs))


def test_what_is_refused() -> None:
    key, scalar = ((10,), "uint64"), ((), "float32")
    assert of("threefry_generate", ((10,), "int64"), shape=(4,)) == ("random.threefry_generate: key is int64; supported: uint64")
    assert of("threefry_split", ((9,), "uint64")) == "random.threefry_split: a key has 10 words, this one 9"
    assert of("threefry_generate", key, shape=(-4,)) == "random.threefry_generate: a size of shape is negative: -4"
    assert of("uniform", key, scalar, scalar, shape=(4,), dtype="float16") == (
        "random.uniform: dtype='float16' is not valid; valid: 'float32', 'float64'"
    )
    assert of("normal", key, scalar, scalar, shape=(4,), dtype="float64") == (
        "random.normal: mean is float32, dtype says float64"
    )
    assert of("multinomial", key, ((3, 0), "float32"), num_samples=1) == (
        "random.multinomial: there is nothing to draw from: the last axis of probs is empty"
    )
    assert of("multinomial", key, ((3, 2), "float32"), num_samples=-1) == "random.multinomial: num_samples is negative: -1"
    for seed in (-1, 2**256, 1.0, True, "seed"):
        with pytest.raises(relay.ArgumentError, match="threefry_key: the seed must be an integer of at most 256 bits"):
            relay.random.threefry_key(seed)
