"""BERT-base and networks of convolutions in float32 and in halves, replayed, against torch in halves, replayed and compiled."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import relayvm as relay

from .. import rivals
from ..contest import Contestant, Samples, contest, ratio
from ..figures import Goal, NotRun, Recorder
from ..machines import OURS
from ..scale import Scale
from .networks import machine, ours

#: Bounded, for the part has many sizes.
_ROUNDS, _BURST_NS = 5, 5e6
PRECISIONS = ("float32", "tf32", "float16", "bfloat16")
#: Of the better of torch's two.
LANGUAGE, VISION = Goal(at_most=0.9), Goal(at_most=0.95)
#: The largest difference from float32, by the largest number of the result.
_TOLERANCE = {"float32": 1e-5, "tf32": 1e-2, "float16": 2e-2, "bfloat16": 1.5e-1}


def measure(record: Recorder, scale: Scale, precisions: tuple[str, ...] = PRECISIONS, compiled: bool = True) -> None:
    """Microseconds of a call with its inputs on the GPU, all sizes but a text's batch open; and the launches of a call.

    ``compiled``: whether torch.compile takes part, which takes long for the first size.
    """
    for texts in scale.texts:
        with record.task(f"BERT-base, {texts} texts"):
            _language(record, scale, texts, precisions, compiled)
        gc.collect()
    if scale.batches:
        from convolutions import NETWORKS

        for name, network in NETWORKS.items():
            with record.task(f"{name} in halves"):
                _vision(record, scale, name, network(), precisions)
            gc.collect()


def _language(record: Recorder, scale: Scale, texts: int, precisions: tuple[str, ...], compiled: bool) -> None:
    from dataclasses import replace

    from encoder import BASE, Size, encoder

    size = replace(BASE, batch=texts) if scale.batches else Size(1, 64, 2, 128, 50, texts)
    model, random = encoder(size), np.random.default_rng(1)
    machines = _machines(model, f"Tensor[({texts}, ?), int64]", precisions)
    peers = _torch_modules(model, size.heads, precisions)
    fast = {}
    if compiled and "float16" in peers:
        fast["float16"] = rivals.torch().compile(peers["float16"], dynamic=False)
    for words in scale.lengths:
        x = random.integers(0, size.vocabulary, (texts, words))
        given = {precision: rivals.tensor(x) for precision in peers}
        _compare(record, scale, f"BERT-base, {texts} x {words} words", machines, x, peers, given, fast, LANGUAGE)


def _vision(record: Recorder, scale: Scale, name: str, model: bytes, precisions: tuple[str, ...]) -> None:
    machines = _machines(model, "Tensor[(?, 3, ?, ?), float32]", precisions)
    peers = _torch_modules(model, None, precisions)
    for n in scale.batches:
        x = np.random.default_rng(1).standard_normal((n, 3, 224, 224)).astype(np.float32)
        given = {}
        for precision, module in peers.items():
            last = rivals.torch().channels_last
            module.to(memory_format=last)
            given[precision] = rivals.tensor(x).to(dtype=_dtype(precision), memory_format=last)
        _compare(record, scale, f"{name}, batch of {n}", machines, x, peers, given, {}, VISION)


def _machines(model: bytes, kind: str, precisions: tuple[str, ...]) -> dict[str, relay.VirtualMachine]:
    return {precision: machine(model, kind, graphs="on", precision=precision) for precision in precisions}


def _dtype(precision: str) -> Any:
    return getattr(rivals.torch(), "float32" if precision == "tf32" else precision)


def _torch_modules(model: bytes, heads: int | None, precisions: tuple[str, ...]) -> dict[str, Any]:
    """The model in torch, by precision; none without torch."""
    try:
        torch = rivals.torch()
    except NotRun:
        return {}
    import onnx
    from torch_models import torch_module

    graph = onnx.load_from_string(model).graph
    return {p: torch_module(torch, graph, heads).cuda().to(_dtype(p)) for p in precisions}


def _compare(
    record: Recorder, scale: Scale, task: str, machines: dict[str, relay.VirtualMachine], x: np.ndarray, peers: dict[str, Any],
    given: dict[str, Any], fast: dict[str, Any], goal: Goal,
) -> None:  # fmt: skip
    """The figures of one size: the results agree, then times and their ratios."""
    contestants: dict[str, Contestant] = {}
    want = machines["float32"].run(x).numpy() if "float32" in machines else None
    for precision, vm in machines.items():
        found = vm.run(x).numpy()
        if want is not None:
            most = _TOLERANCE[precision] * max(1.0, float(abs(want).max()))
            np.testing.assert_allclose(found, want, rtol=0, atol=most, err_msg=f"{task}, {precision}")
        contestants[f"{OURS} {precision}"] = ours(vm, x)
        before = vm.counters
        vm.run(x)
        after = vm.counters
        record.figure(f"{task}: launches", f"{OURS} {precision}", "launches", float(after["launches"] - before["launches"]))
    for precision, module in peers.items():
        with record.task(task, f"torch graph {precision}", "µs"), _tf32(precision):
            contestants[f"torch graph {precision}"], _ = rivals.replayed(module, given[precision])
    for precision, module in fast.items():
        with record.task(task, f"torch.compile {precision}", "µs"), rivals.limited(2 * rivals.PATIENCE_S):
            contestants[f"torch.compile {precision}"], _ = rivals.replayed(module, given[precision])
    _record(record, task, contest(contestants, min(scale.rounds, _ROUNDS), burst_ns=_BURST_NS), goal)


def _record(record: Recorder, task: str, found: dict[str, Samples], goal: Goal) -> None:
    for who, samples in found.items():
        record.figure(task, who, "µs", samples.whole.per(1000))
    for who, samples in found.items():
        precision = who.removeprefix(f"{OURS} ")
        rivals_ = {peer: s for peer, s in found.items() if peer.startswith("torch") and peer.endswith(f" {precision}")}
        if who == precision or not rivals_:
            continue
        best = min(rivals_, key=lambda peer: rivals_[peer].whole.median)
        held = goal if precision in ("float16", "bfloat16") else None
        record.figure(task, f"{who} / {best}", "times", ratio(samples.whole_ns, rivals_[best].whole_ns), held)


class _tf32:
    """torch's products and convolutions of float32 on tensor cores, within a block; for the precision ``tf32``."""

    def __init__(self, precision: str) -> None:
        self.wanted = precision == "tf32"

    def __enter__(self) -> None:
        self._set(self.wanted)

    def __exit__(self, *error: object) -> None:
        self._set(False)

    def _set(self, value: bool) -> None:
        backends = rivals.torch().backends
        backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = value
