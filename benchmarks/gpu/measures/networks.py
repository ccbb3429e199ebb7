"""Whole models against torch: a text encoder, networks of convolutions, and text written token by token."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.completion import finish

from .. import rivals
from ..contest import Contestant, contest, ratio
from ..figures import Goal, NotRun, Recorder, Spread
from ..machines import OURS, ROOT
from ..scale import Scale
from .sizes_in_turn import measure_changes, measure_drawn

sys.path.insert(0, str(ROOT / "examples"))

#: Bounded, for a part has many models and sizes.
_ROUNDS, _BURST_NS = 7, 8e6
#: relayvm with these values of ``graphs``.
GRAPHS = ("auto", "on", "off")
EAGER, REPLAYED = "torch eager", "torch graph"
TOKEN = Goal(at_most=100)


def measure(record: Recorder, scale: Scale) -> None:
    """Microseconds of a call with its inputs on the GPU, beside torch, eager and replayed as a CUDA graph of this size.

    The number of words or pictures is open in each of our programs.  Then calls at sizes in turn, and microseconds per token
    of a text.
    """
    with record.task("encoder"):
        _encoder(record, scale)
    gc.collect()
    with record.task("sizes in turn"):
        measure_changes(record, scale)
    with record.task("encoder, lengths drawn"):
        _drawn(record, scale)
    gc.collect()
    if scale.batches:
        from convolutions import NETWORKS

        for name, network in NETWORKS.items():
            with record.task(name):
                _network(record, scale, name, network())
            gc.collect()
    with record.task("generation"):
        _generation(record, scale)


def _encoder(record: Recorder, scale: Scale) -> None:
    from encoder import HEADS, VOCABULARY, encoder

    model, random = encoder(), np.random.default_rng(1)
    inputs = {f"encoder, {n} words": random.integers(0, VOCABULARY, (1, n)) for n in scale.words}
    _compare(record, scale, model, HEADS, inputs)


def _drawn(record: Recorder, scale: Scale) -> None:
    from encoder import VOCABULARY, encoder

    measure_drawn(record, scale, machine(encoder(), "Tensor[(?, ?), int64]", graphs="auto"), VOCABULARY)


def _network(record: Recorder, scale: Scale, name: str, model: bytes) -> None:
    random = np.random.default_rng(1)
    shapes = {f"{name}, batch of {n}": (n, 3, 224, 224) for n in scale.batches}
    _compare(
        record, scale, model, None, {task: random.standard_normal(shape).astype(np.float32) for task, shape in shapes.items()}
    )


def machine(model: bytes, kind: str, **config: str) -> relay.VirtualMachine:
    """A machine for the model, with a function ``put`` that places an input of this type on the GPU."""
    module, params = relay.frontend.from_onnx(model)
    module.update(relay.parse(f'#[version = "0.0.5"]\ndef @put(%x: {kind}) {{ %x }}'))
    return relay.VirtualMachine(relay.compile(module, params=params, target="cuda", **config))


def _compare(record: Recorder, scale: Scale, model: bytes, heads: int | None, inputs: dict[str, np.ndarray]) -> None:
    """The figures of a model for each of its inputs."""
    x = next(iter(inputs.values()))
    kind = f"Tensor[({', '.join('?' for _ in x.shape)}), {x.dtype.name}]"
    machines = {graphs: machine(model, kind, graphs=graphs) for graphs in GRAPHS}
    module: Any = None
    with record.task(next(iter(inputs)), EAGER, "µs"):
        module = _torch_module(model, heads)
    for task, x in inputs.items():
        contestants = {f"{OURS}, graphs={graphs}": ours(vm, x) for graphs, vm in machines.items()}
        if module is not None:
            held = rivals.tensor(x)
            contestants[EAGER] = eager = rivals.torch_contestant(module, held)
            want = eager.run().cpu().numpy()
            for vm in machines.values():
                np.testing.assert_allclose(vm.run(x).numpy(), want, rtol=1e-3, atol=2e-4 * max(1.0, float(abs(want).max())))
            with record.task(task, REPLAYED, "µs"):
                contestants[REPLAYED], _ = rivals.replayed(module, held)
        found = contest(contestants, min(scale.rounds, _ROUNDS), burst_ns=_BURST_NS)
        for who, samples in found.items():
            record.figure(task, who, "µs", samples.whole.per(1000))
            record.figure(f"{task}: host", who, "µs", samples.host.per(1000))
        for peer in found.keys() & {EAGER, REPLAYED}:
            for graphs in GRAPHS[:2]:
                times = ratio(found[f"{OURS}, graphs={graphs}"].whole_ns, found[peer].whole_ns)
                record.figure(task, f"{OURS}, graphs={graphs} / {peer}", "times", times)
        record.facts(**{f"{task}: a call": _counted(machines["auto"], x)})


def _torch_module(model: bytes, heads: int | None) -> Any:
    torch = rivals.torch()
    import onnx
    from torch_models import torch_module

    return torch_module(torch, onnx.load_from_string(model).graph, heads).cuda()


def ours(vm: relay.VirtualMachine, x: np.ndarray) -> Contestant:
    """Calls with the input on the GPU."""
    held = vm["put"](x)
    for _ in range(8):  # results alternate between addresses; each is met, captured, and then replayed
        vm.run(held)
    finish(vm)
    return Contestant(lambda: vm.run(held), lambda: finish(vm))


def _counted(vm: relay.VirtualMachine, x: np.ndarray) -> dict[str, int]:
    """Counters of a call."""
    held = vm["put"](x)
    before = vm.counters
    vm.run(held)
    return {name: after - before[name] for name, after in vm.counters.items() if after != before[name]}


# ---- generation --------------------------------------------------------------------------------------------------------------


def _generation(record: Recorder, scale: Scale) -> None:
    """Microseconds per token after the prompt: the difference of a call that writes all tokens and a call that writes one."""
    from generation_peers import TorchPeer, started
    from text_generation import arguments, compiled, load

    prompt, count = "the shape of a tensor " * scale.written, scale.written // 2
    prompt = prompt[: count - 1]
    subjects: dict[str, Callable[[], tuple[float, list[int]]]] = {}
    for graphs in GRAPHS:
        vm = relay.VirtualMachine(compiled("cuda", graphs=graphs))

        def ours(vm: relay.VirtualMachine = vm) -> tuple[float, list[int]]:
            times = [time.perf_counter()]
            for limit in (1, count + 1):
                tokens: list[int] = vm.run(**arguments([prompt], limit, stop=-1)).numpy()[0].tolist()
                times.append(time.perf_counter())
            return times[2] - times[1] - (times[1] - times[0]), tokens

        subjects[f"{OURS}, graphs={graphs}"] = ours
        before = vm.counters
        ours()
        record.facts(
            **{f"generation, graphs={graphs}: two calls": {n: v - before[n] for n, v in vm.counters.items() if v != before[n]}}
        )
    with record.task("generation", EAGER, "µs per token"):
        peer = TorchPeer(rivals.torch(), load(), "cuda")
        subjects[EAGER] = lambda: peer.seconds(prompt, count)
    texts = {who: subject()[1] for who, subject in subjects.items()}
    if any(tokens != texts[f"{OURS}, graphs=off"] for tokens in texts.values()):
        raise NotRun(f"the texts differ after {len(started(prompt))} tokens: {texts}")
    found: dict[str, list[float]] = {who: [] for who in subjects}
    for _ in range(min(scale.rounds, _ROUNDS)):
        for who, subject in subjects.items():
            found[who].append(subject()[0] * 1e6 / count)
    for who, samples in found.items():
        goal = TOKEN if who == f"{OURS}, graphs=auto" else None
        record.figure(f"generation, {scale.written} tokens", who, "µs per token", Spread.of(samples), goal)
