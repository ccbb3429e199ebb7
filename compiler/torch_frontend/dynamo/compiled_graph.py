"""A graph of dynamo's as a function of tensors: the executable, the model's own tensors in it, and the machine of each thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

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
        if self._has_changed():
            with self._lock:
                self._thaw()
        found = self._threads.machine() if self._threads.known is None else self._threads.known
        result = found.run(*[_passed(given[i]) for i in self._arguments])
        parts = result if isinstance(result, tuple) else (result,)
        return [_returned(parts[at], how) if how else at for at, how in self._results]

    def _has_changed(self) -> bool:
        return [t._version for t in self._kept] != self._versions or [t.data_ptr() for t in self._kept] != self._addresses

    def _thaw(self) -> None:
        """Compile again, with the tensors that were written as arguments."""
        changed = [
            position
            for position, tensor, version, place in zip(self.own, self._kept, self._versions, self._addresses, strict=True)
            if (tensor._version, tensor.data_ptr()) != (version, place)
        ]
        for position in changed:
            del self.own[position]
        if changed:
            self._compile()

    def _compile(self) -> None:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():  # dynamo's tensors without elements; the model's own have them
            made = GraphImport(self.graph, self.own)
            module = made.module()[0]
        exe = compile(module, target=_target(self.graph), **self.settings)
        self._kept = list(self.own.values())
        self._versions, self._addresses = [t._version for t in self._kept], [t.data_ptr() for t in self._kept]
        self._arguments, self._results = made.arguments, made.results
        self._threads = _Machines(exe)
        self.compilations += 1


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
    """The device of a graph's tensors.  Raises nothing: torch keeps a graph's tensors on one device, or copies between them."""
    metas: Sequence[Any] = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
    kinds = {m.device.type for m in metas if isinstance(m, torch_package().Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"
