"""Mask R-CNN of torchvision, whole, with random weights: beside torch eager, and where its time goes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.completion import finish

from .. import rivals
from ..contest import Contestant, contest, ratio
from ..figures import Goal, NotRun, Recorder, Spread
from ..machines import OURS
from ..scale import Scale

_ROWS, _COLUMNS, _DETECTIONS = 480, 640, 30
#: Milliseconds of a call by ``precision``, and copies to the host: half of torch's time in eager mode, and one for each size that
#: the program has to know.
GOALS = {"float32": Goal(at_most=20), "float16": Goal(at_most=12)}
_COPIES = Goal(at_most=30)
#: Few rounds: a call takes tens of milliseconds.
_ROUNDS = 7
#: The largest difference of a score in float32.  A network with random weights enlarges rounding errors.
_TOLERANCE = 1e-2
_EAGER = "torch eager"


def measure(record: Recorder, scale: Scale) -> None:
    """Milliseconds of a call with its picture on the GPU, launches and copies of a call, and a profile.

    Raises NotRun without torchvision, and on the emulated GPU, which takes hours.
    """
    if rivals.emulated:
        raise NotRun("the network is too large for the emulated GPU")
    image = np.random.default_rng(1).random((3, _ROWS, _COLUMNS), np.float32)
    model, eager = _network(image)
    contestants, machines = {_EAGER: rivals.torch_contestant(eager, rivals.tensor(image))}, {}
    for precision in GOALS:
        with record.task("Mask R-CNN", _who(precision), "ms", GOALS[precision]):
            machines[precision] = vm = _machine(model, precision)
            contestants[_who(precision)] = _ours(vm, image)
    record.facts(torch=_agreement(machines["float32"], image, contestants[_EAGER]))
    found = contest(contestants, min(scale.rounds, _ROUNDS), calls=1)
    for who, samples in found.items():
        goal = next((GOALS[p] for p in GOALS if _who(p) == who), None)
        record.figure("Mask R-CNN", who, "ms", samples.whole.per(1e6), goal)
    for precision, vm in machines.items():
        record.figure("Mask R-CNN", f"{_EAGER} / {_who(precision)}", "times", _ratio(found, precision))
        _counts(record, vm, image, precision)


def _who(precision: str) -> str:
    return f"{OURS}, precision={precision}"


def _ratio(found: Any, precision: str) -> Spread:
    return ratio(found[_EAGER].whole_ns, found[_who(precision)].whole_ns)


def _network(image: np.ndarray) -> tuple[bytes, Callable[[Any], tuple[Any, ...]]]:
    """The model, and the function of torch on the GPU; both give boxes, labels, scores and masks.  Raises NotRun."""
    torch = rivals.torch()
    try:
        from torchvision.models.detection import maskrcnn_resnet50_fpn
    except ImportError as error:
        raise NotRun("torchvision is not installed") from error
    torch.manual_seed(0)
    network = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, box_detections_per_img=_DETECTIONS).eval()
    names, written = ["boxes", "labels", "scores", "masks"], io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(
            network, ([torch.from_numpy(image)],), written, input_names=["picture"], output_names=names,
            dynamic_axes={"picture": {1: "height", 2: "width"}}, opset_version=17, dynamo=False,
        )  # fmt: skip
    network.cuda()
    return written.getvalue(), lambda x: tuple(network([x])[0][name] for name in names)


def _machine(model: bytes, precision: str) -> relay.VirtualMachine:
    """A machine for the model, with a function ``put`` that places a picture on the GPU."""
    module, params = relay.frontend.from_onnx(model)
    module.update(relay.parse('#[version = "0.0.5"]\ndef @put(%x: Tensor[(3, ?, ?), float32]) { %x }'))
    return relay.VirtualMachine(relay.compile(module, params=params, target="cuda", precision=precision))


def _ours(vm: relay.VirtualMachine, image: np.ndarray) -> Contestant:
    held = vm["put"](image)
    return Contestant(lambda: vm.run(held), lambda: finish(vm))


def _agreement(vm: relay.VirtualMachine, image: np.ndarray, eager: Contestant) -> dict[str, float]:
    """The largest difference from torch of each result.  Raises RuntimeError if the scores are not torch's."""
    results: Any = eager.run()
    wanted = [x.cpu().numpy() for x in results]
    found = [x.numpy() for x in vm.run(vm["put"](image))]
    if [x.shape for x in found] != [x.shape for x in wanted]:
        raise RuntimeError(f"shapes {[x.shape for x in found]}, torch has {[x.shape for x in wanted]}")
    names = ("boxes", "labels", "scores", "masks")
    off = {n: float(np.abs(a.astype(np.float64) - b).max()) for n, a, b in zip(names, found, wanted, strict=True)}
    if not off["scores"] <= _TOLERANCE:
        raise RuntimeError(f"the scores differ from torch's by {off['scores']:.2g}")
    return off


def _counts(record: Recorder, vm: relay.VirtualMachine, image: np.ndarray, precision: str) -> None:
    """Launches and copies of a call, and its profile."""
    held = vm["put"](image)
    vm.run(held)
    before = vm.counters
    vm.run(held)
    after = vm.counters
    for name in ("launches", "dtoh_copies", "htod_copies"):
        goal = _COPIES if name == "dtoh_copies" else None
        record.figure(f"Mask R-CNN: {name}", _who(precision), "calls", after[name] - before[name], goal)
    profile = vm.profile(held, repeat=3, warmup=1)
    for view in ("nvprof", "copies"):
        record.text(f"Mask R-CNN, {_who(precision)}: {view}", profile.view(view))
