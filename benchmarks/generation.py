"""Text generation token by token: relayvm, onnxruntime and torch with the same weights, one text, one thread.

    pip install 'relayvm[bench]' torch          # torch may be in a folder of its own: PYTHONPATH=FOLDER
    python benchmarks/generation.py [--rounds 9] [--contexts 64,128,256,512,1024] [--check] [--json]

relayvm      examples/text_generation.relay: one call writes all tokens
onnxruntime  a graph of one step, driven from Python; the caches are its inputs and results and never become numpy arrays
torch        eager mode, driven from Python; a cache with room for all tokens, written in place

A time is that of one token: of the 64 tokens after a context, without the prompt.  That of relayvm is the difference of two
calls, one of which writes a single token.  All write the same most likely tokens, or there is no benchmark.

rest   the time of a token without its attention, which is measured by itself at the same context; the goal is that it is the same
       within a tenth at all contexts
The bytes allocated per token are those of all tensors; a cache is allocated only where it doubles.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import importlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.interleaved import in_turn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from generation_peers import OnnxPeer, TorchPeer
from text_generation import arguments, as_text, compiled, load

OURS = "relayvm"
PEERS = {"onnxruntime": OnnxPeer, "torch": TorchPeer}
#: Tokens that are timed, and the goals: times faster than the better peer at the context, and the most that the rest may differ.
TOKENS, GOAL, AT, FLAT = 64, 2.0, 512, 0.1

Write = Callable[[], Sequence[int]]


def prompt_of(length: int) -> str:
    """A prompt: some prose of the project."""
    text = " ".join((Path(__file__).resolve().parents[1] / "docs" / "architecture.md").read_text().split())
    return "".join(c for c in text if " " <= c <= "~")[: length - 1]  # a token before it begins the text


class Ours:
    """One machine."""

    def __init__(self) -> None:
        self.vm = relay.VirtualMachine(compiled())

    def written(self, prompt: str, limit: int) -> list[int]:
        """The most likely ``limit`` tokens; the end of a text ends nothing."""
        tokens: list[int] = self.vm.run(**arguments([prompt], limit, stop=-1)).numpy()[0].tolist()
        return tokens

    def seconds(self, prompt: str) -> tuple[float, list[int]]:
        """Seconds for TOKENS tokens, and the tokens, one more."""
        began = time.perf_counter()
        self.written(prompt, 1)
        between = time.perf_counter()
        tokens = self.written(prompt, TOKENS + 1)
        return time.perf_counter() - between - (between - began), tokens


def attention_seconds(context: int, layers: int = 3, heads: int = 4, width: int = 32) -> Callable[[], float]:
    """A function that measures the attention of a token: of one query to ``context`` rows in every layer."""
    kinds = "%q: Tensor[(1, 1, ?h, ?d), float32], %k: Tensor[(?n, 1, ?h, ?d), float32], %v: Tensor[(?n, 1, ?h, ?d), float32]"
    text = f'#[version = "0.0.5"]\ndef @main({kinds}, %b: Tensor[(1, ?h, 1, ?n), float32]) {{ nn.attention(%q, %k, %v, %b) }}'
    vm = relay.VirtualMachine(relay.compile(text))
    rng = np.random.default_rng(0)

    def inputs(n: int) -> list[np.ndarray]:
        shapes = (1, 1, heads, width), (n, 1, heads, width), (n, 1, heads, width), (1, heads, 1, n)
        return [rng.normal(size=shape).astype(np.float32) for shape in shapes]

    # the caches of every layer, as in the program: one layer's alone would stay in the first cache
    all_layers, none = [inputs(context) for _ in range(layers)], inputs(0)

    def measured() -> float:
        began = time.perf_counter()
        for _ in range(TOKENS):
            for given in all_layers:
                vm.run(*given)
        between = time.perf_counter()
        for _ in range(TOKENS * layers):
            vm.run(*none)
        return (between - began - (time.perf_counter() - between)) / TOKENS

    return measured


def of_context(context: int, machines: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The figures of one context."""
    prompt, ours = prompt_of(context), machines[OURS]
    attention = attention_seconds(context + TOKENS // 2)
    samples: dict[str, list[float]] = {name: [] for name in machines} | {"attention": []}
    texts = {name: machine.seconds(prompt)[1] for name, machine in machines.items()}  # warm
    for name in in_turn(samples, rounds):
        seconds = attention() if name == "attention" else machines[name].seconds(prompt)[0] / TOKENS
        samples[name].append(seconds * 1e6)
    for name, tokens in texts.items():
        if tokens != texts[OURS]:
            raise SystemExit(f"{name} writes {as_text(np.array(tokens))!r}, {OURS} {as_text(np.array(texts[OURS]))!r}")
    before = []
    for limit in (1, TOKENS + 1):
        started = ours.vm.counters["alloc_bytes"]
        ours.written(prompt, limit)
        before.append(ours.vm.counters["alloc_bytes"] - started)
    times = {name: (statistics.median(s), min(s), max(s)) for name, s in samples.items()}
    rest = statistics.median(a - b for a, b in zip(samples[OURS], samples["attention"], strict=True))
    return {"context": context, "us": times, "rest": rest, "alloc": (before[1] - before[0]) // TOKENS}


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--contexts", default="64,128,256,512,1024")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    machines: dict[str, Any] = {OURS: Ours()}
    for name, peer in PEERS.items():
        try:
            machines[name] = peer(importlib.import_module(name), load())
        except ImportError:
            print(f"{name}: missing (not installed)", file=sys.stderr)
    rows = [of_context(int(context), machines, args.rounds) for context in args.contexts.split(",")]
    if args.json:
        print(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}))
    else:
        show(rows)
    failed = verdicts(rows)
    for text in failed:
        print(f"NOT met: {text}", file=sys.stderr)
    return int(args.check and bool(failed))


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table: microseconds per token, median and range."""
    for row in rows:
        print(f"\ncontext {row['context']}")
        ours = row["us"][OURS][0]
        for name, (median, least, most) in row["us"].items():
            times = "" if name in (OURS, "attention") else f"{median / ours:8.2f}x"
            print(f"  {name:12}{median:10.1f} us  [{least:.1f} .. {most:.1f}]  {1e6 / median:8.0f}/s{times}")
        print(f"  rest        {row['rest']:10.1f} us; allocated per token: {row['alloc']} bytes", flush=True)


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """The goals that are missed."""
    failed = []
    for row in rows:
        peers = [t[0] for name, t in row["us"].items() if name in PEERS]
        if row["context"] == AT and peers and min(peers) / row["us"][OURS][0] < GOAL:
            failed.append(f"at context {AT} {min(peers) / row['us'][OURS][0]:.2f} times the better peer, goal {GOAL}")
    rest = [row["rest"] for row in rows]
    if max(rest) > min(rest) * (1 + FLAT):
        failed.append(f"the time without attention is from {min(rest):.1f} to {max(rest):.1f} us, goal within {FLAT:.0%}")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
