"""Contents of the storages of a run: tensors by the names that the compiler gave them, with the shapes that they had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..events import ALLOC, HOST_CALL, KERNEL, Event, types_text
from ..executable import Executable
from ..storages import FunctionMemory, StorageUse, memory_of
from .profile_rows import Places

#: Dtype and shape of each argument of a kernel.
Types = tuple[tuple[str, tuple[int, ...]], ...]


def held(events: Iterable[Event], exe: Executable, places: Places) -> dict[int, str]:
    """For each instruction that allocated, by its place in the whole code: the tensors that lay there, in turn.

    A tensor has the shape of the launch that moved the most bytes; with none where no kernel with traced types filled it, as
    workspaces.
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
        at = places.of(pc)
        types[at.function, at.pc] = event.types
    functions = {f.name: f for f in exe.functions}
    memory: dict[str, FunctionMemory] = {}
    found = {}
    for pc in allocated:
        at = places.of(pc)
        if at.function not in memory:
            memory[at.function] = memory_of(exe, functions[at.function])
        found[pc] = _text(memory[at.function], at.pc, types)
    return found


def _text(memory: FunctionMemory, storage: int, types: Mapping[tuple[str, int], Types]) -> str:
    use = next((u for u in memory.storages if u.pc == storage), None)
    if use is None:
        return ""
    shapes = {}
    for f in memory.filled:
        here = types.get((memory.function, f.pc), ())
        if f.storage == storage and f.position < len(here):
            shapes[f.value] = types_text([here[f.position]])
    return _joined(use, [f"{_shown(v)} {shapes[v]}" if v in shapes else _shown(v) for v in use.values])


def _shown(value: str) -> str:
    return value if value.startswith("$") else f"%{value}"


def _joined(use: StorageUse, texts: list[str]) -> str:
    """In turn, or beside each other."""
    return (" beside " if use.arena else ", then ").join(texts)
