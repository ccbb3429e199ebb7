"""Run `transformer_encoder.relay` on texts of several numbers and lengths, and compare each result with plain numpy.

    python examples/transformer_encoder.py [--device cpu|sim|cuda]

One executable serves all texts.  The weights are random: the example shows that shapes and numbers are correct.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

import relayvm as relay

HERE = Path(__file__).parent
WORDS, LONGEST, WIDTH, HIDDEN, HEADS, LAYERS = 1000, 512, 256, 1024, 4, 12
#: Texts, and words in each.
SIZES = ((0, 5), (2, 0), (1, 1), (3, 17), (1, 128))
#: The largest difference of a normalised value from numpy's, which computes in float64.
NEAR = 2e-4

Inputs = dict[str, np.ndarray]


def words(texts: int, length: int, seed: int = 0) -> np.ndarray:
    """The words of each text as numbers: int32 of shape (texts, length)."""
    return np.random.default_rng([seed, texts, length]).integers(0, WORDS, (texts, length), dtype=np.int32)


def weights(seed: int = 0) -> Inputs:
    """The inputs of the program except the words, float32, by name."""
    rng = np.random.default_rng(seed)
    made = {"meanings": rng.normal(0, 1, (WORDS, WIDTH)), "places": rng.normal(0, 1, (LONGEST, WIDTH))}
    for layer in range(LAYERS):
        for name in "qkvo":
            made[f"w{name}{layer}"] = rng.normal(0, 1 / math.sqrt(WIDTH), (WIDTH, WIDTH))
            made[f"b{name}{layer}"] = rng.normal(0, 0.1, WIDTH)
        for number, (to, of) in enumerate(((HIDDEN, WIDTH), (WIDTH, HIDDEN)), 1):
            made[f"w{number}_{layer}"] = rng.normal(0, 1 / math.sqrt(of), (to, of))
            made[f"b{number}_{layer}"] = rng.normal(0, 0.1, to)
            made[f"g{number}_{layer}"] = rng.normal(1, 0.1, WIDTH)
            made[f"c{number}_{layer}"] = rng.normal(0, 0.1, WIDTH)
    return {name: value.astype(np.float32) for name, value in made.items()}


# ---- the same in numpy -------------------------------------------------------------------------------------------------


def normalised(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2)))


def attention(x: np.ndarray, w: Inputs, layer: int) -> np.ndarray:
    texts, length, _ = x.shape

    def heads(name: str) -> np.ndarray:
        made = x @ w[f"w{name}{layer}"].T + w[f"b{name}{layer}"]
        return made.reshape(texts, length, HEADS, WIDTH // HEADS).swapaxes(1, 2)

    scores = heads("q") @ heads("k").swapaxes(2, 3) / math.sqrt(WIDTH // HEADS)
    likely = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    found = (likely / likely.sum(axis=-1, keepdims=True)) @ heads("v")
    return found.swapaxes(1, 2).reshape(texts, length, WIDTH) @ w[f"wo{layer}"].T + w[f"bo{layer}"]


def encode(numbers: np.ndarray, given: Inputs) -> np.ndarray:
    """The expected result: float64 of shape (texts, length, WIDTH)."""
    w = {name: value.astype(np.float64) for name, value in given.items()}
    x = w["meanings"][numbers] + w["places"][: numbers.shape[1]]
    for n in range(LAYERS):
        y = normalised(attention(x, w, n) + x, w[f"g1_{n}"], w[f"c1_{n}"])
        hidden = gelu(y @ w[f"w1_{n}"].T + w[f"b1_{n}"])
        x = normalised(hidden @ w[f"w2_{n}"].T + w[f"b2_{n}"] + y, w[f"g2_{n}"], w[f"c2_{n}"])
    return x


# ---- the comparison ----------------------------------------------------------------------------------------------------


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """The difference from numpy's result as text; empty if the results are equal."""
    if got.shape != want.shape:
        return f"float32{list(got.shape)} instead of {list(want.shape)}"
    worst = np.abs(got - want).max(initial=0)
    return "" if worst <= NEAR else f"values differ by up to {worst:.2g}"


def run_one(vm: relay.VirtualMachine, size: tuple[int, int], given: Inputs) -> tuple[str, bool]:
    """A line of the table, and whether the result equals numpy's."""
    numbers = words(*size)
    before = vm.counters["dtoh_bytes"]
    began = time.perf_counter()
    result = vm.run(words=numbers, **given)
    copied = vm.counters["dtoh_bytes"] - before  # for shapes: the result is read only below
    got = result.numpy()
    took_ms = (time.perf_counter() - began) * 1e3
    bad = difference(got, encode(numbers, given))
    return f"  {size[0]:>5}  {size[1]:>5}  {took_ms:>9.1f} ms  {copied:>12} B  {bad or 'yes'}", not bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    args = parser.parse_args()

    module = relay.parse((HERE / "transformer_encoder.relay").read_text(), source_name="transformer_encoder.relay")
    vm = relay.VirtualMachine(relay.compile(module, target=args.device))

    print(f"transformer_encoder.relay on {args.device}")
    print(f"  {'texts':>5}  {'words':>5}  {'call':>12}  {'copied to host':>14}  as numpy has it")
    given, fine = weights(), True
    for size in SIZES:
        line, as_numpy = run_one(vm, size, given)
        print(line)
        fine &= as_numpy
    if not fine:
        print("some results differ from numpy's", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
