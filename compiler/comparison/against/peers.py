"""Runtimes that a model is compared with: onnxruntime, the reference of onnx, torch, or this one with other settings."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.similar_names import did_you_mean
from ....vm.api.machine import VirtualMachine
from ....vm.device_table import DEVICES
from ....vm.diagnostics.source import ConfigError, InputError
from ....vm.report.completion import finish
from ...compile import compile
from ...executors.result_arrays import array_of
from ...lowered import as_module
from ...settings.config import Config
from ...settings.targets import check_target
from .observed_model import is_onnx, result_names

Arrays = Mapping[str, np.ndarray]
#: A prepared model: from its inputs by name, in their order, to its outputs by name, on the host.
Runner = Callable[[Arrays], dict[str, np.ndarray]]


@frozen
class Peer:
    """A runtime: its name with its version or settings, and the preparation of a model.

    ``prepare`` raises RelayError where the runtime refuses the model.  ``is_own``: whether it is relayvm.
    """

    name: str
    prepare: Callable[[Any], Runner]
    is_own: bool = False


def peer_of(text: str, threads: int) -> Peer:
    """The peer that ``text`` names: a key of PEERS, or settings of relayvm, ``device=sim,opt_level=0``.

    ``threads``: of the runtimes that take a number.  Raises ConfigError for another text, an unknown setting or device, and a
    package that is not installed.
    """
    if "=" not in text:
        if text not in PEERS:
            names = ", ".join(PEERS)
            raise ConfigError(
                f"there is no runtime {text!r}{did_you_mean(text, PEERS)}", help=f"{names}, or settings, opt_level=0"
            )
        return PEERS[text](threads)
    settings = dict(part.partition("=")[::2] for part in text.split(","))
    device = settings.pop("device", DEVICES[0])
    return relayvm(device, settings)


def relayvm(device: str, settings: Mapping[str, Any]) -> Peer:
    """This machine on a device with these settings.  Raises ConfigError for unknown ones."""
    check_target(device)
    Config.of(**settings)
    shown = "".join(f", {key}={value}" for key, value in settings.items())
    return Peer(f"relayvm on {device}{shown}", lambda model: _machine(model, device, settings), True)


def _machine(model: Any, device: str, settings: Mapping[str, Any]) -> Runner:
    machine = VirtualMachine(compile(as_module(model), target=device, **settings))
    names = [o.name for o in model.graph.output] if is_onnx(model) else result_names(len(machine.exe.outputs))

    def run(inputs: Arrays) -> dict[str, np.ndarray]:
        result = machine.run(*inputs.values())
        finish(machine)
        return dict(zip(names, map(array_of, result) if isinstance(result, tuple) else [array_of(result)], strict=True))

    return run


def _onnxruntime(threads: int) -> Peer:
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ConfigError("the package onnxruntime is not installed", help="pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4

    def prepare(model: Any) -> Runner:
        _check_onnx(model, "onnxruntime")
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(f"onnxruntime refuses the model: {error}") from error
        names = [output.name for output in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))

    return Peer(f"onnxruntime {onnxruntime.__version__}", prepare)


def _reference(threads: int) -> Peer:
    import onnx
    from onnx.reference import ReferenceEvaluator

    def prepare(model: Any) -> Runner:
        _check_onnx(model, "the reference of the package onnx")
        try:
            evaluator = ReferenceEvaluator(model)
        except Exception as error:
            raise InputError(f"the reference of the package onnx refuses the model: {error}") from error

        def run(inputs: Arrays) -> dict[str, np.ndarray]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return dict(zip(evaluator.output_names, evaluator.run(None, dict(inputs)), strict=True))

        return run

    return Peer(f"the reference of onnx {onnx.__version__}", prepare)


def _check_onnx(model: Any, runtime: str) -> None:
    if not is_onnx(model):
        raise InputError(f"{runtime} runs models of ONNX", help="give a .onnx file, or compare with settings: opt_level=0")


def _torch(threads: int) -> Peer:
    try:
        torch, trees = importlib.import_module("torch"), importlib.import_module("torch.utils._pytree")
    except ImportError as error:
        raise ConfigError("the package torch is not installed", help="pip install 'relayvm[torch]'") from error

    def prepare(model: Any) -> Runner:
        if type(model).__name__ != "ExportedProgram":
            raise InputError("torch runs programs of torch.export", help="give a .pt2 file, which torch.export.save writes")
        module, form = model.module(), model.call_spec.in_spec

        def run(inputs: Arrays) -> dict[str, np.ndarray]:
            tensors = [torch.from_dlpack(np.array(array)) for array in inputs.values()]  # a copy: the module may write its inputs
            args, kwargs = trees.tree_unflatten(tensors, form)
            with torch.no_grad():
                found = trees.tree_leaves(module(*args, **kwargs))
            return {f"result.{k}": np.asarray(each.detach()) for k, each in enumerate(found)}

        return run

    torch.set_num_threads(threads)
    return Peer(f"torch {torch.__version__}", prepare)


#: The runtimes by name; each takes a number of threads.
PEERS: dict[str, Callable[[int], Peer]] = {"onnxruntime": _onnxruntime, "reference": _reference, "torch": _torch}
