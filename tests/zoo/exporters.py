"""The ways of a module of torch into a machine, and the comparison of its results with torch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

import relayvm as relay
from relayvm.compiler.torch_frontend.importing.program import as_array

from .family import Family

#: The ends: equal at all sizes, torch exports no program, the program is not imported or does not run, other results.
ENDS = ("equal", "not exported", "error", "different")


@dataclass(frozen=True)
class End:
    """One of ENDS, and why."""

    kind: str
    reason: str = ""


def _by_torch(family: Family, module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
    return torch.export.export(module, args, dynamic_shapes=(_open(family),), strict=False)


def _by_script(family: Family, module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
    import onnx

    names = [f"x{k}" for k in range(len(args))]
    axes = {name: {a: f"{name}_{a}" for a in axes} for name, axes in zip(names, family.open_axes, strict=True)}
    made = io.BytesIO()
    torch.onnx.export(module, args, made, dynamo=False, input_names=names, dynamic_axes=axes)
    return onnx.ModelProto.FromString(made.getvalue())


def _open(family: Family) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in family.open_axes)


#: The exporters by name: ``torch.export``, and ONNX by TorchScript.
EXPORTERS: dict[str, Callable[..., Any]] = {"torch": _by_torch, "script": _by_script}


class Flat(torch.nn.Module):
    """A module whose result is the list of its tensors, with as many arguments as inputs."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: torch.Tensor) -> Any:
        return tuple(tree_leaves(self.module(*args)))


def end_of(family: Family, exporter: str) -> End:
    """The end of a family at all of its sizes."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        module = Flat(family.module()).eval()
        runs = [family.draw(sizes) for sizes in family.sizes]
        try:
            program = EXPORTERS[exporter](family, module, runs[0])
        except Exception as error:  # torch's errors are of many classes
            return End("not exported", _first_line(error))
        try:
            machine = relay.VirtualMachine(relay.compile(program))
        except relay.RelayError as error:
            return End("error", f"{error.code}: {error.diagnostics[0].message}")
        return _compared(family, module, machine, runs)


def _compared(family: Family, module: torch.nn.Module, machine: Any, runs: list[tuple[torch.Tensor, ...]]) -> End:
    for sizes, args in zip(family.sizes, runs, strict=True):
        wanted = module(*args)
        try:
            found = machine.run(*map(as_array, args))
        except relay.RelayError as error:
            return End("error", f"{sizes}: {error.code}: {error.diagnostics[0].message}")
        apart = difference(family, arrays_of(found), [as_array(x) for x in wanted])
        if apart:
            return End("different", f"{sizes}: {apart}")
    return End("equal")


def arrays_of(result: Any) -> list[np.ndarray]:
    """The arrays of a machine's result."""
    return [x.numpy() for x in (result if isinstance(result, (list, tuple)) else [result])]


def difference(family: Family, results: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """The first difference between results of a family beyond its tolerance; "" if there is none."""
    if family.finds_objects:
        if not len(wanted[0]):
            return "torch finds no object, so that nothing is compared"
        wanted = in_order_of(results, wanted, family.tolerance)
    for ours, theirs in zip(results, wanted, strict=True):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"{ours.dtype}{ours.shape} instead of {theirs.dtype}{theirs.shape}"
        scale = 1 + np.abs(theirs).max(initial=0)
        apart = float(np.abs(ours.astype(np.float64) - theirs).max(initial=0) / scale)
        if not apart <= family.tolerance:
            return f"by {apart:.1e}"
    return ""


def in_order_of(found: list[np.ndarray], wanted: list[np.ndarray], near: float) -> list[np.ndarray]:
    """``wanted`` in the order of ``found``, as far as labels are equal and scores near: of such objects the nearest box first."""
    (boxes, labels, scores), left, order = found[:3], list(range(len(wanted[0]))), list[int]()
    for box, label, score in zip(boxes, labels, scores, strict=True):
        same = [k for k in left if wanted[1][k] == label and abs(wanted[2][k] - score) <= near]
        if not same:
            return wanted  # which differs
        order.append(min(same, key=lambda k: float(np.abs(wanted[0][k] - box).max())))
        left.remove(order[-1])
    return [x[order + left] for x in wanted]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
