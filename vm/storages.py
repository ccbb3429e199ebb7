"""Which storages the functions of an executable make and what lies in them: from the bytecode, named by its notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..shape_funcs.dims import Dim, dim
from . import isa
from .executable import DEVICES, Executable, MemoryNote, VMFunction
from .failure import span_of
from .registers import jump_targets
from .source import Span


@dataclass
class StorageUse:
    """A storage that the instruction at ``pc`` makes.

    ``values``: the names of the tensors made in it, in order, or their registers (``$3``); ``parts``: of those that are part of
    one of them; ``arena``: do some lie beside others?  ``nbytes``: a portable dim.  ``over``: the value whose storage it is, if
    nothing else refers to that at run time, else ""; ``why``: what kept it from being one that was there.  ``released``: may what
    is kept of an upper bound move out of it?
    """

    pc: int
    device: str
    nbytes: Dim
    values: list[str]
    arena: bool
    over: str
    why: str
    span: Span | None
    parts: list[str] = field(default_factory=list)
    released: bool = False


@dataclass(frozen=True)
class Overwriting:
    """A kernel, launched at ``pc``, that writes ``value`` over ``over``: its input, of which nobody needs more."""

    value: str
    over: str
    kernel: str
    pc: int


@dataclass(frozen=True)
class Filling:
    """The kernel launched at ``pc`` fills ``value``, its argument ``position``, in the storage made at ``storage``."""

    pc: int
    position: int
    value: str
    storage: int


@dataclass
class FunctionMemory:
    """What one function does with memory, whichever way a run goes."""

    function: str
    storages: list[StorageUse] = field(default_factory=list)
    in_place: list[Overwriting] = field(default_factory=list)
    filled: list[Filling] = field(default_factory=list)


def memory_of(exe: Executable, function: VMFunction) -> FunctionMemory:
    """The storages of a function in the order of its code, and the results that are written over inputs."""
    return _Reading(exe, function).found


@dataclass(frozen=True)
class _Held:
    """What a register holds: the value ``name`` ("": nobody knows), made at ``pc``, in the storage made at ``storage``; -1:
    elsewhere."""

    name: str
    storage: int = -1
    pc: int = -1


_Registers = dict[int, _Held]


class _Reading:
    """A walk through code in its order.  What a register holds where ways meet is what it holds on all of them."""

    def __init__(self, exe: Executable, function: VMFunction) -> None:
        self.exe, self.function = exe, function
        self.found = FunctionMemory(function.name)
        self.notes = {note.pc: note for note in function.notes}
        self.made: dict[int, StorageUse] = {}
        #: Where a tensor is made that is written over a value.
        self.written: set[tuple[int, str]] = set()
        jumped: dict[int, _Registers] = {}
        held: _Registers | None = {number: _Held(name) for number, (name, _) in enumerate(function.params)}
        for pc, instruction in isa.disassemble(function.code):
            here = _met(jumped.get(pc), held)
            self.step(pc, instruction, here)
            for target in jump_targets(pc, instruction):
                jumped[target] = _met(jumped.get(target), here)
            held = None if type(instruction) in isa.LEAVING else here

    def step(self, pc: int, instruction: isa.Instruction, held: _Registers) -> None:
        """Record what the instruction makes, and do to the registers what it does."""
        written: dict[int, _Held] = {}
        match instruction:
            case isa.AllocStorage(dst=dst) | isa.AllocStorageReg(dst=dst) | isa.TakeStorage(dst=dst):
                self.storage(pc, instruction, held)
                written[dst] = _Held("", pc)
            case isa.AllocTensor(dst=dst, storage=storage) | isa.AllocTensorReg(dst=dst, storage=storage):
                written[dst] = self.tensor(pc, instruction, held.get(storage))
            case isa.SliceTensor(dst=dst, src=src):
                written[dst] = self.part(pc, instruction, held.get(src))
            case isa.Move(dst=dst, src=src) | isa.ReshapeTensor(dst=dst, src=src) | isa.TrimTensor(dst=dst, src=src):
                written[dst] = held.get(src, _Held(""))
                if isinstance(instruction, isa.TrimTensor) and instruction.release and written[dst].storage >= 0:
                    self.made[written[dst].storage].released = True
            case isa.InvokePacked():
                self.launch(pc, instruction, held)
        for name, kind in instruction.operands.items():
            if kind.access in ("write", "kill", "take"):
                registers = getattr(instruction, name)
                for r in registers if kind.many else (registers,):
                    held.pop(r, None)
        held |= written

    def storage(self, pc: int, instruction: Any, held: _Registers) -> None:
        note, over = self.notes.get(pc, MemoryNote(pc)), ""
        nbytes = dim(instruction.nbytes) if isinstance(instruction, isa.AllocStorage) else note.nbytes
        if isinstance(instruction, isa.TakeStorage):
            over = note.name or _name(held.get(instruction.src), instruction.src)
        device, span = DEVICES[instruction.device], span_of(self.exe, self.function, pc)
        self.made[pc] = StorageUse(pc, device, nbytes, [], False, over, note.why, span)
        self.found.storages.append(self.made[pc])

    def tensor(self, pc: int, instruction: Any, storage: _Held | None) -> _Held:
        name = self.named(pc, instruction)
        if storage is None or storage.storage < 0:
            return _Held(name, pc=pc)
        use = self.made[storage.storage]
        use.values.append(name)
        use.arena = use.arena or instruction.offset > 0
        return _Held(name, storage.storage, pc)

    def part(self, pc: int, instruction: isa.SliceTensor, whole: _Held | None) -> _Held:
        name, storage = self.named(pc, instruction), whole.storage if whole is not None else -1
        if storage >= 0:
            self.made[storage].parts.append(name)
        return _Held(name, storage, pc)

    def named(self, pc: int, instruction: Any) -> str:
        return self.notes[pc].name if pc in self.notes else f"${instruction.dst}"

    def launch(self, pc: int, instruction: isa.InvokePacked, held: _Registers) -> None:
        packed, args = self.exe.packed[instruction.packed], instruction.args
        for position in range(packed.n_inputs, len(args)):
            filled = held.get(args[position])
            if filled is not None and filled.storage >= 0:
                self.found.filled.append(Filling(pc, position, filled.name, filled.storage))
        for k, position in packed.group.in_place:
            register = args[packed.n_inputs + position]
            value, over = held.get(register), _name(held.get(args[k]), args[k])
            # versions of one primitive write the same value
            written = value.pc if value is not None else pc, over
            if written not in self.written:
                self.found.in_place.append(Overwriting(_name(value, register), over, packed.name, pc))
            self.written.add(written)


def _name(held: _Held | None, register: int) -> str:
    return held.name if held is not None and held.name else f"${register}"


def _met(one: _Registers | None, other: _Registers | None) -> _Registers:
    """What is known of registers that are as in ``one`` or as in ``other``; None: nothing comes from there."""
    if one is None or other is None:
        return dict(one or other or {})
    return {r: _either(h, other[r]) for r, h in one.items() if r in other}


def _either(one: _Held, other: _Held) -> _Held:
    return one if one == other else _Held("", one.storage if one.storage == other.storage else -1)
