"""Contents of the storages of a run: tensors by the compiler's names, with their run-time shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..bytecode.executable import ExecutableData
from ..inspection.storage import FunctionMemory, StorageUse, memory_of
from ..runtime.tracing.trace_events import ALLOC, HOST_CALL, KERNEL, Event, types_text
from .profile_rows import Positions

#: Dtype and shape of each argument of a kernel.
Types = tuple[tuple[str, tuple[int, ...]], ...]


def storage_contents(events: Iterable[Event], exe: ExecutableData, positions: Positions) -> dict[int, str]:
    """The tensors stored in each allocated storage, in order, by the pc of the allocation in the concatenated code.

    A tensor is shown with its shape in the launch that moved the most bytes.  A tensor without a shape, such as a workspace, was
    not an output of a kernel with traced types.
    """
    allocated: set[int] = set()
    launches: dict[int, Event] = {}
    for e in events:
        if e.kind == ALLOC and e.pc >= 0:
            allocated.add(e.pc)
        elif e.kind in (KERNEL, HOST_CALL) and (e.pc not in launches or e.nbytes > launches[e.pc].nbytes):
            launches[e.pc] = e
    types: dict[tuple[str, int], Types] = {}
    for pc, event in launches.items():
        at = positions.of(pc)
        types[at.function, at.pc] = event.types
    functions = {f.name: f for f in exe.functions}
    memory: dict[str, FunctionMemory] = {}
    found = {}
    for pc in allocated:
        at = positions.of(pc)
        if at.function not in memory:
            memory[at.function] = memory_of(exe, functions[at.function])
        found[pc] = _text(memory[at.function], at.pc, types)
    return found


def _text(memory: FunctionMemory, storage: int, types: Mapping[tuple[str, int], Types]) -> str:
    use = next((u for u in memory.storages if u.pc == storage), None)
    if use is None:
        return ""
    shapes = {}
    for f in memory.outputs:
        here = types.get((memory.function, f.pc), ())
        if f.storage == storage and f.position < len(here):
            shapes[f.value] = types_text([here[f.position]])
    return _joined(use, [f"{_shown(v)} {shapes[v]}" if v in shapes else _shown(v) for v in use.values])


def _shown(value: str) -> str:
    return value if value.startswith("$") else f"%{value}"


def _joined(use: StorageUse, texts: list[str]) -> str:
    """Join the texts of tensors: at different offsets of an arena, or one after another."""
    return (" beside " if use.arena else ", then ").join(texts)
