"""Text generation token by token: relayvm, onnxruntime and torch with the same weights, one text, one thread.

    pip install 'relayvm[bench]' torch          # torch may be in a folder of its own: PYTHONPATH=FOLDER
    python benchmarks/generation.py [--rounds 9] [--contexts 64,128,256,512,1024] [--check] [--json]

relayvm      examples/text_generation.relay: one call writes all tokens
onnxruntime  a graph of one step, driven from Python; the caches are its inputs and results and never become numpy arrays
torch        eager mode, driven from Python; a cache with room for all tokens, written in place

A time is that of one token: of half as many tokens as the context has, in whose middle is the context, without the prompt.  That
of relayvm is the difference of two calls, one of which writes a single token.  All write the same most likely tokens, or there is
no benchmark.

attention  the kernels whose work grows with the context, by a trace of these alone: attention, its bias, the positions seen.  A
           record of all events would be as large as the caches, and empty those of the CPU the more tokens a run has.
rest       the tokens' time without these kernels, by the same trace.  The time that the recording takes is left out: by how much
           traced calls exceed untraced ones at the shortest context.  The goal is that the rest is the same within a tenth at all
           contexts.

A run writes the same tokens each time, with the same work for each.  So of each token the least time over the rounds counts, and
the means over the tokens are shown: they have what a token does in every run, and not what disturbed a run.  All contexts have
as many tokens in a round, and so as many chances.
The bytes allocated per token are those of all tensors; a cache is allocated only where it doubles.  The bytes appended are those
that the profile counts for the rows of all caches, with their positions, and for the token.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import bisect
import importlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from generation_peers import OnnxPeer, TorchPeer
from text_generation import arguments, as_text, compiled, load

OURS = "relayvm"
#: The kernels whose work grows with the context.
ATTENTION = ("nn_attention", "fused_subtract_cast_less_greater_logical_or_multiply_where", "arange")
#: The kernel that chooses a token, once in each step.
CHOICE = "argmax"
#: The tokens that are traced in a round.
TRACED = 512
PEERS = {"onnxruntime": OnnxPeer, "torch": TorchPeer}
#: The goals: times faster than the better peer at the context, and the most that the rest may differ.
GOAL, AT, FLAT = 2.0, 512, 0.1


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

    def seconds(self, prompt: str, count: int) -> tuple[float, list[int]]:
        """Seconds for ``count`` tokens, and the tokens, one more."""
        began = time.perf_counter()
        self.written(prompt, 1)
        between = time.perf_counter()
        tokens = self.written(prompt, count + 1)
        return time.perf_counter() - between - (between - began), tokens

    def traced(self, prompt: str, count: int, runs: int) -> tuple[np.ndarray, float]:
        """Nanoseconds of each of ``count`` tokens of each run, ``(2, runs * count)``: attention, and the rest; those of all runs.

        The first token of a run, whose step has the whole prompt, is left out.
        """
        self.written(prompt, 1)  # what Python did since the last run emptied the caches
        self.vm.start_trace(kernels=(*ATTENTION, CHOICE))
        taken = self.call(prompt, count + 1, runs)
        names = [p.name for p in self.vm.exe.packed]
        kernels = [(names[e.subject], e) for e in self.vm.stop_trace()]
        ends = [e.end_ns for name, e in kernels if name == CHOICE]
        if len(ends) != runs * (count + 1):
            raise SystemExit(f"{CHOICE} runs more than once in a step: change CHOICE")
        attention = np.zeros(len(ends) + 1)  # the program's last positions seen are after its last token
        for name, e in kernels:
            if name in ATTENTION:
                attention[bisect.bisect_left(ends, e.end_ns)] += e.end_ns - e.start_ns
        tokens = np.stack([attention[:-1], np.diff(ends, prepend=0) - attention[:-1]]).reshape(2, runs, count + 1)
        return tokens[:, :, 1:].reshape(2, -1), taken

    def call(self, prompt: str, limit: int, runs: int) -> float:
        """Nanoseconds of ``runs`` calls that write ``limit`` tokens each."""
        began = time.perf_counter_ns()
        for _ in range(runs):
            self.written(prompt, limit)
        return time.perf_counter_ns() - began


class Context:
    """The subjects at one context: how each takes its time, and the samples."""

    def __init__(self, context: int, machines: dict[str, Any]) -> None:
        self.context, self.count, self.machines = context, context // 2, machines
        self.prompt = prompt_of(context - self.count // 2)
        self.samples: dict[str, list[float]] = {name: [] for name in machines}
        self.traces: list[np.ndarray] = []  # of each round: nanoseconds of attention and of the rest by token
        self.calls: list[tuple[float, float]] = []  # nanoseconds of a traced and an untraced call
        texts = {name: machine.seconds(self.prompt, self.count)[1] for name, machine in machines.items()}  # warm
        for name, tokens in texts.items():
            if tokens != texts[OURS]:
                raise SystemExit(f"{name} writes {as_text(np.array(tokens))!r}, {OURS} {as_text(np.array(texts[OURS]))!r}")

    def sample(self, name: str) -> None:
        """Take a sample: microseconds per token."""
        seconds, _ = self.machines[name].seconds(self.prompt, self.count)
        self.samples[name].append(seconds * 1e6 / self.count)

    def trace(self) -> None:
        """Trace runs of ``TRACED`` tokens, then time as many untraced ones."""
        ours, runs = self.machines[OURS], max(1, TRACED // self.count)
        found, taken = ours.traced(self.prompt, self.count, runs)
        self.traces.append(found)
        ours.written(self.prompt, 1)
        self.calls.append((taken, ours.call(self.prompt, self.count + 1, runs)))

    def row(self) -> dict[str, Any]:
        """The figures."""
        ours, allocated, copied = self.machines[OURS], [], []
        for limit in (1, self.count + 1):
            before = ours.vm.counters["alloc_bytes"]
            ours.written(self.prompt, limit)
            allocated.append(ours.vm.counters["alloc_bytes"] - before)
            profile = ours.vm.profile(**arguments([self.prompt], limit, stop=-1), repeat=1, warmup=0)
            copied.append(sum(row.nbytes for row in profile.activities if row.name == "scatter_nd"))
        times = {name: (statistics.median(s), min(s), max(s)) for name, s in self.samples.items()}
        attention, rest = np.min(self.traces, 0).mean(1) / 1e3
        traced, untraced = np.min(self.calls, 0) / 1e3
        return {
            "context": self.context,
            "us": times,
            "attention": float(attention),
            "rest": float(rest),
            "recording": float(traced - untraced) / len(self.traces[0][0]),
            "alloc": (allocated[1] - allocated[0]) // self.count,
            "copied": (copied[1] - copied[0]) // self.count,
        }


def measured(contexts: Sequence[int], machines: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    """The figures of the contexts, all of which are measured in turn: the speed of a computer changes within seconds."""
    subjects = [Context(context, machines) for context in contexts]
    for _ in range(rounds):
        for subject in subjects:
            for name in subject.samples:
                subject.sample(name)
            subject.trace()
    rows = [subject.row() for subject in subjects]
    return [row | {"rest": row["rest"] - rows[0]["recording"]} for row in rows]


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
    rows = measured([int(context) for context in args.contexts.split(",")], machines, args.rounds)
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
            times = "" if name == OURS else f"{median / ours:8.2f}x"
            print(f"  {name:12}{median:10.1f} us  [{least:.1f} .. {most:.1f}]  {1e6 / median:8.0f}/s{times}")
        print(
            f"  attention   {row['attention']:10.1f} us; rest {row['rest']:.1f} us;"
            f" bytes per token: {row['alloc']} allocated, {row['copied']} appended",
            flush=True,
        )


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
