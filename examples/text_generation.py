"""Continue prompts with `text_generation.relay`: all texts in one run, compared with plain numpy.

    python examples/text_generation.py ["A kernel is" ...] [--limit 100] [--temperature 0.7] [--top-k 20] [--top-p 0.9] [--seed 0]
                                       [--device cpu|sim|cuda]

First the most likely texts, which numpy writes too, then texts drawn from the likely tokens.  The model has read this project's
prose for a few minutes (text_generation/train.py): it knows how words look, not what they mean.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import relayvm as relay

HERE = Path(__file__).parent
STOP, HEADS, LAYERS, VOCABULARY = 0, 4, 3, 96
#: Tokens whose logits differ by no more than this may be exchanged: numpy computes in float64.
NEAR = 1e-3

Weights = dict[str, np.ndarray]


def load() -> Weights:
    """The weights by parameter name, float32."""
    with np.load(HERE / "text_generation" / "weights.npz") as stored:
        return {name: stored[name].astype(np.float32) for name in stored}


def compiled(device: str = "cpu", **config: object) -> relay.Executable:
    """The executable, with the weights as constants."""
    module = relay.parse((HERE / "text_generation.relay").read_text(), source_name="text_generation.relay")
    return relay.compile(module, target=device, params=load(), **config)


# ---- text and tokens -----------------------------------------------------------------------------------------------------


def as_tokens(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The prompts as rows of one matrix, and their lengths; a character outside ASCII is a question mark."""
    rows = [[ord(c if " " <= c <= "~" else "?") - 31 for c in text] for text in texts]
    out = np.zeros((len(rows), max(map(len, rows), default=0)), np.int32)
    for row, tokens in zip(out, rows, strict=True):
        row[: len(tokens)] = tokens
    return out, np.array([len(tokens) for tokens in rows], np.int64)


def as_text(tokens: np.ndarray) -> str:
    """The characters before the token that ends a text."""
    ends = np.flatnonzero(tokens == STOP)
    return "".join(chr(31 + t) for t in tokens[: ends[0] if len(ends) else None])


def arguments(
    texts: Sequence[str], limit: int, temperature: float = 0.0, top_k: int = VOCABULARY, top_p: float = 1.0, seed: int = 0,
    stop: int = STOP,
) -> dict[str, np.ndarray | np.generic]:  # fmt: skip
    """The arguments of the program except the weights."""
    prompts, lengths = as_tokens(texts)
    return {
        "prompts": prompts, "lengths": lengths, "limit": np.int64(limit), "stop": np.int32(stop),
        "temperature": np.float32(temperature), "top_k": np.int32(top_k), "top_p": np.float32(top_p), "seed": np.uint64(seed),
    }  # fmt: skip


# ---- the same in numpy, one text at a time, without a cache ----------------------------------------------------------------


def normalised(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def attention(x: np.ndarray, w: Weights, n: int) -> np.ndarray:
    length, width = x.shape
    heads = (x @ w[f"wqkv_{n}"].T + w[f"bqkv_{n}"]).reshape(length, 3, HEADS, -1).transpose(1, 2, 0, 3)
    back = np.arange(length) - np.arange(length)[:, None]
    bias = np.where(back > 0, -np.inf, back * 4.0 ** -(np.arange(HEADS) + 1)[:, None, None])
    scores = heads[0] @ heads[1].swapaxes(1, 2) / math.sqrt(width / HEADS) + bias
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return ((powers / powers.sum(axis=-1, keepdims=True)) @ heads[2]).swapaxes(0, 1).reshape(length, width)


def logits(tokens: Sequence[int], w: Weights) -> np.ndarray:
    """The logits after each token, float64: the last row is that of the next token."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    x = w["meanings"][np.array(tokens)]
    for n in range(LAYERS):
        x = x + attention(normalised(x, w[f"g1_{n}"], w[f"c1_{n}"]), w, n) @ w[f"wo_{n}"].T + w[f"bo_{n}"]
        h = normalised(x, w[f"g2_{n}"], w[f"c2_{n}"]) @ w[f"w1_{n}"].T + w[f"b1_{n}"]
        x = x + (0.5 * h * (1 + erf(h / math.sqrt(2)))) @ w[f"w2_{n}"].T + w[f"b2_{n}"]
    return normalised(x, w["g"], w["c"]) @ w["meanings"].T


def difference(prompt: np.ndarray, written: np.ndarray, given: Weights) -> str:
    """The first token that is not the most likely one by numpy, as text; empty if each is."""
    w = {name: value.astype(np.float64) for name, value in given.items()}
    found = logits([STOP, *prompt, *written], w)[len(prompt) :]
    for k, (token, row) in enumerate(zip(written, found, strict=False)):
        if row[token] < row.max() - NEAR:
            return f"token {k} is {token}, numpy's {row.argmax()}"
        if token == STOP:
            return "" if not written[k:].any() else f"tokens after the end at {k}"
    return ""


# ---- the program ---------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", nargs="*", default=["The shape of", "A kernel", ""])
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-k", type=int, default=20)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    args = parser.parse_args()

    vm, weights = relay.VirtualMachine(compiled(args.device)), load()
    prompts, lengths = as_tokens(args.prompts)
    drawn = {"temperature": args.temperature, "top_k": args.top_k, "top_p": args.top_p, "seed": args.seed}
    for name, how in (("most likely", {}), ("drawn", drawn)):
        began = time.perf_counter()
        texts = vm.run(**arguments(args.prompts, args.limit, **how)).numpy()
        seconds = time.perf_counter() - began
        print(f"{name}: {len(texts)} texts of up to {texts.shape[1]} tokens in {1000 * seconds:.0f} ms on {args.device}")
        for prompt, length, tokens, text in zip(prompts, lengths, texts, args.prompts, strict=True):
            print(f"  [{text}]{as_text(tokens)}")
            wrong = "" if how else difference(prompt[:length], tokens, weights)
            if wrong:
                print(f"the text after {text!r} differs from numpy's: {wrong}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
