"""A graph of dynamo's as a function of tensors: the executable, the model's own tensors in it, and the machine of each thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....vm.api.machine import VirtualMachine
from ...compile import compile
from ..torch_package import torch_package
from .graph_import import ARRAY, SIZE, GraphImport


class CompiledGraph:
    """The function of a graph: its tensors and sizes in the order of its inputs, to the list of its results.

    ``own``: the parameters and buffers of the model, by position.  They are constants of the executable as long as nobody writes
    or moves them; a tensor that was written becomes an argument, and the graph is compiled again.  Each thread has a machine.
    """

    def __init__(self, graph: Any, own: Mapping[int, Any], settings: Mapping[str, Any]) -> None:
        self.graph, self.own, self.settings = graph, dict(own), settings
        #: How often the graph was compiled.
        self.compilations = 0
        self._lock = threading.Lock()
        self._compile()

    def __call__(self, *given: Any) -> list[Any]:
        current = self._current
        if current.has_changed():
            with self._lock:
                current = self._thawed()
        machine = current.machines.known or current.machines.machine()
        result = machine.run(*[_passed(given[i]) for i in current.arguments])
        parts = result if isinstance(result, tuple) else (result,)
        return [_returned(parts[at], how) if how else at for at, how in current.results]

    def _thawed(self) -> _Compilation:
        """The compilation whose constants nobody has written: the last one, or a new one with those tensors as arguments."""
        last = self._current
        changed = [k for k, kept, now in zip(self.own, last.states, map(_state, last.kept), strict=True) if kept != now]
        for position in changed:
            del self.own[position]
        if changed:
            self._compile()
        return self._current

    def _compile(self) -> None:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():  # dynamo's tensors without elements; the model's own have them
            made = GraphImport(self.graph, self.own)
            module = made.module()[0]
        exe = compile(module, target=_target(self.graph), **self.settings)
        kept = list(self.own.values())
        # by a single assignment: other threads call the old compilation or the new one
        self._current = _Compilation(_Machines(exe), kept, [*map(_state, kept)], made.arguments, made.results)
        self.compilations += 1


@frozen
class _Compilation:
    """The machines of an executable, its constant tensors with their states, and the places of arguments and results."""

    machines: _Machines
    kept: Sequence[Any]
    states: Sequence[tuple[int, int]]
    arguments: Sequence[int]
    results: Sequence[tuple[Any, str]]

    def has_changed(self) -> bool:
        """Whether somebody has written or moved a constant tensor."""
        return [*map(_state, self.kept)] != self.states


def _state(tensor: Any) -> tuple[int, int]:
    """The number of writes of a tensor, and its address."""
    return tensor._version, tensor.data_ptr()


class _Machines(threading.local):
    """The machine of each thread."""

    def __init__(self, exe: Any) -> None:
        self.exe = exe
        self.known: VirtualMachine | None = None

    def machine(self) -> VirtualMachine:
        self.known = VirtualMachine(self.exe)
        return self.known


def _passed(value: Any) -> Any:
    """An argument of the machine: a tensor's elements as they are in memory, dense; a size as a number."""
    if isinstance(value, int):
        return value
    torch = torch_package()
    if not isinstance(value, torch.Tensor):
        return int(value)
    tensor = value.detach() if value.requires_grad else value
    tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
    # an array costs a microsecond, and five by DLPack, which all others need
    return tensor.numpy() if tensor.is_cpu and tensor.dtype is not torch.bfloat16 else tensor


def _returned(result: Any, how: str) -> Any:
    """A result as torch's: a tensor in place, or a number."""
    if how == SIZE:
        return int(result.numpy())
    torch = torch_package()
    return torch.from_numpy(result.numpy()) if how == ARRAY and result.device == "cpu" else torch.from_dlpack(result)


def _target(graph: Any) -> str:
    """The device of a graph: the GPU if a tensor is there."""
    metas: Sequence[Any] = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
    kinds = {m.device.type for m in metas if isinstance(m, torch_package().Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"
