"""Text generation token by token: relayvm, onnxruntime and torch with the same weights, one text, one thread.

    pip install 'relayvm[bench]' torch          # torch may be in a folder of its own: PYTHONPATH=FOLDER
    python benchmarks/generation.py [--rounds 9] [--contexts 64,128,256,512,1024] [--check] [--json]

relayvm      examples/text_generation.relay: one call writes all tokens
onnxruntime  a graph of one step, driven from Python; the caches are its inputs and results and never become numpy arrays
torch        eager mode, driven from Python; a cache with room for all tokens, written in place

A time is that of one token: of half as many tokens as the context has, in whose middle is the context, without the prompt.  That
of relayvm is the difference of two calls, one of which writes a single token.  All write the same most likely tokens, or there is
no benchmark.

attention  the kernels whose work grows with the context, by a trace of the program: attention, its bias, the positions seen
rest       the other kernels and all between them, by the same trace: of each the least mean over the tokens of a run, because the
           speed of a computer changes by more than the goal between two runs.  The time that the recording takes is left out: by
           how much a traced token exceeds an untraced one at the shortest context.  The goal is that the rest is the same within
           a tenth at all contexts.
The bytes allocated per token are those of all tensors; a cache is allocated only where it doubles.  The bytes appended are those
that the profile counts for the rows of all caches, with their positions, and for the token.
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
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.runtime.trace_events import KERNEL

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from generation_peers import OnnxPeer, TorchPeer
from text_generation import arguments, as_text, compiled, load

OURS = "relayvm"
#: The kernels whose work grows with the context.
ATTENTION = ("nn_attention", "fused_subtract_cast_less_greater_logical_or_multiply_where", "arange")
#: The kernel that chooses a token, once in each step.
CHOICE = "argmax"
#: The tokens of a sample of traced runs.
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

    def traced(self, prompt: str, count: int) -> Counter[str]:
        """Nanoseconds per token by kernel, by kind of other work, and ``between`` them, over ``count`` tokens of one run.

        The first token, whose step has the whole prompt, is left out.
        """
        self.vm.start_trace()
        self.written(prompt, count + 1)
        names, events = [p.name for p in self.vm.exe.packed], self.vm.stop_trace()
        ends = [e.end_ns for e in events if e.kind == KERNEL and names[e.subject] == CHOICE]
        found = Counter[str]()
        for e in events:
            if ends[0] < e.end_ns <= ends[-1]:
                found[names[e.subject] if e.kind == KERNEL else e.kind] += e.end_ns - e.start_ns
        if len(ends) != count + 1 or not set(ATTENTION) <= set(found):
            raise SystemExit("the program's kernels have other names: change ATTENTION and CHOICE")
        found["between"] = ends[-1] - ends[0] - found.total()
        return Counter({name: ns / count for name, ns in found.items()})  # type: ignore[misc]


class Context:
    """The subjects at one context: how each takes its time, and the samples."""

    def __init__(self, context: int, machines: dict[str, Any]) -> None:
        self.context, self.count, self.machines = context, context // 2, machines
        self.prompt = prompt_of(context - self.count // 2)
        self.samples: dict[str, list[float]] = {name: [] for name in machines}
        self.traces: list[Counter[str]] = []
        self.untraced: list[float] = []
        texts = {name: machine.seconds(self.prompt, self.count)[1] for name, machine in machines.items()}  # warm
        for name, tokens in texts.items():
            if tokens != texts[OURS]:
                raise SystemExit(f"{name} writes {as_text(np.array(tokens))!r}, {OURS} {as_text(np.array(texts[OURS]))!r}")

    def sample(self, name: str) -> None:
        """Take a sample: microseconds per token."""
        seconds, _ = self.machines[name].seconds(self.prompt, self.count)
        self.samples[name].append(seconds * 1e6 / self.count)

    def trace(self) -> None:
        """Trace some runs, and time as many untraced ones: ``TRACED`` tokens each, so that contexts have equal chances."""
        ours, runs = self.machines[OURS], max(1, TRACED // self.count)
        found, seconds = Counter[str](), 0.0
        for _ in range(runs):
            found.update(ours.traced(self.prompt, self.count))
            seconds += ours.seconds(self.prompt, self.count)[0] / self.count
        self.traces.append(Counter({name: ns / runs for name, ns in found.items()}))  # type: ignore[misc]
        self.untraced.append(seconds / runs)

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
        least = {name: min(trace[name] for trace in self.traces) / 1e3 for name in set().union(*self.traces)}
        return {
            "context": self.context,
            "us": times,
            "attention": sum(least[name] for name in ATTENTION),
            "rest": sum(us for name, us in least.items() if name not in ATTENTION),
            "recording": min(trace.total() for trace in self.traces) / 1e3 - min(self.untraced) * 1e6,
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
