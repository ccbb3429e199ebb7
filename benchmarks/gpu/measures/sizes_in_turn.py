"""Replays over sizes that change from call to call: a chain of tiny operators, and the text encoder at drawn lengths."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.completion import finish
from relayvm.vm.state.gpu_layout import MAX_VARIANTS

from ..contest import Contestant, contest
from ..figures import Goal, Recorder, Spread
from ..machines import OURS, placed, put_entry
from ..scale import Scale
from .launches import on_host, program

#: Bounded, for a part has many models and sizes.
_ROUNDS = 7
CHANGE, DRAWN = Goal(at_most=600), Goal(at_most=1.15)
#: Sizes in turn, more than a region has graphs; of one block each, so that no grid changes.
SIZES = tuple(range(4, 4 * (MAX_VARIANTS + 5) + 1, 4))


def measure_changes(record: Recorder, scale: Scale) -> None:
    """Host time of a changed launch: calls of a chain at sizes in turn, against calls at one size."""
    x = np.linspace(-2, 2, SIZES[-1], dtype=np.float32)
    contestants: dict[str, Contestant] = {}
    turns: dict[str, relay.VirtualMachine] = {}
    for graphs, sizes in (("off", SIZES), ("on", SIZES[:1]), ("on", SIZES)):
        ready = placed(program(scale.chain), [x], fuse="off", graphs=graphs)
        vm = ready.vm
        held = [vm[put_entry(x)](x[:n]) for n in sizes]
        np.testing.assert_allclose(vm.run(x[:4]).numpy(), on_host(scale.chain, x[:4]), rtol=1e-5)
        following = itertools.cycle(held)
        name = f"{OURS}, graphs={graphs}, {len(sizes)} size{'s' * (len(sizes) > 1)}"
        contestants[name], turns[name] = _in_turn(vm, following), vm
        for _ in range(4 * len(SIZES)):
            vm.run(next(following))
        finish(vm)
    before = {name: vm.counters for name, vm in turns.items()}
    found = contest(contestants, min(scale.rounds, _ROUNDS), calls=scale.burst)
    for name, samples in found.items():
        grown = {n: v - before[name][n] for n, v in turns[name].counters.items() if v != before[name][n]}
        record.figure("sizes in turn: host", name, "ns per launch", samples.host.per(scale.chain))
        record.figure("sizes in turn: whole", name, "ns per launch", samples.whole.per(scale.chain))
        record.facts(**{f"sizes in turn: {name}": grown})
    one, many = (found[name].host_ns for name in list(found)[1:])
    calls = turns[list(found)[2]].counters["replays"] - before[list(found)[2]]["replays"]
    changed = turns[list(found)[2]].counters["updates"] - before[list(found)[2]]["updates"]
    if changed == 0:
        raise RuntimeError("no node was changed")
    times = [(b - a) * calls / changed for a, b in zip(one, many, strict=True)]
    record.figure("sizes in turn: host", "a changed launch", "ns", Spread.of(times), CHANGE)


def _in_turn(vm: relay.VirtualMachine, arguments: Any) -> Contestant:
    return Contestant(lambda: vm.run(next(arguments)), lambda: finish(vm))


def measure_drawn(record: Recorder, scale: Scale, vm: relay.VirtualMachine, vocabulary: int) -> None:
    """Microseconds of a call of the encoder at lengths drawn from 1 to the longest, beside its replays at each length alone."""
    random, longest = np.random.default_rng(5), max(scale.words)
    held = [vm["put"](random.integers(0, vocabulary, (1, n))) for n in range(1, longest + 1)]
    draws = random.integers(0, longest, scale.drawn)
    task, who = f"encoder, lengths drawn from 1 to {longest}", f"{OURS}, graphs=auto"
    start = vm.counters
    record.figure(task, f"{who}, first draws", "µs", _seconds(vm, [held[k] for k in draws]) * 1e6 / len(draws))
    for _ in range(min(4, scale.drawn)):  # each length occurs a few times
        _seconds(vm, [held[k] for k in random.permutation(longest)])
    before = vm.counters
    record.facts(**{f"{task}: {who}: at first": {n: v - start[n] for n, v in before.items() if v != start[n]}})
    sample, few = draws[: -(-scale.drawn // 4)], min(8, scale.drawn)
    drawn = [_seconds(vm, [held[k] for k in random.permutation(sample)]) * 1e6 / len(sample) for _ in range(min(3, scale.rounds))]
    record.facts(**{f"{task}: {who}: then": {n: v - before[n] for n, v in vm.counters.items() if v != before[n]}})
    alone = []
    for k in sample[:: max(1, len(sample) // 40)]:
        _seconds(vm, [held[k]] * few)
        alone.append((int(k), _seconds(vm, [held[k]] * few) * 1e6 / few))
    # the mean over the sample: lengths in between are interpolated
    lengths, times = map(np.array, zip(*sorted(alone), strict=True))
    at_one = float(np.interp(sample, lengths, times).mean())
    record.figure(task, who, "µs", Spread.of(drawn))
    record.figure(task, f"{who}, each length alone", "µs", at_one)
    record.figure(task, f"{who} / each length alone", "times", Spread.of([x / at_one for x in drawn]), DRAWN)


def _seconds(vm: relay.VirtualMachine, arguments: list[Any]) -> float:
    """The time of calls, one after another, until the GPU has finished."""
    finish(vm)
    start = time.perf_counter()
    for x in arguments:
        vm.run(x)
    finish(vm)
    return time.perf_counter() - start
