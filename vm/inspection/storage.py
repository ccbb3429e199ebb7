"""Analysis of bytecode: the storages of functions and the tensors stored in them, named by the notes on memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, dim
from ..bytecode import isa
from ..bytecode.executable import ExecutableData, MemoryNote, VMFunction
from ..bytecode.operand_kinds import Role
from ..bytecode.register_flow import jump_targets
from ..device_table import DEVICES
from ..diagnostics.source import Span
from ..machine.runtime_errors import span_of


@dataclass
class StorageUse:
    """A storage defined by the instruction at ``pc``.

    ``values``: the names of the tensors stored in it, in order, or their registers (``$3``).  ``parts``: the names of views of
    them.  ``arena``: whether several tensors are stored at different offsets.  ``nbytes``: a portable dim.  ``over``: the value
    whose storage is reused if it has no other reference at run time, else "".  ``why``: the reason why no existing storage is
    reused.  ``released``: whether the rows kept of an upper bound may move to a smaller storage.
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


@frozen
class InPlaceResult:
    """In-place reuse by the kernel launched at ``pc``: the result ``value`` overwrites the dead input ``over``."""

    value: str
    over: str
    kernel: str
    pc: int


@frozen
class KernelOutput:
    """Output of the kernel launched at ``pc``: ``value``, its argument ``position``, in the storage defined at ``storage``."""

    pc: int
    position: int
    value: str
    storage: int


@dataclass
class FunctionMemory:
    """Memory use of one function, on all paths."""

    function: str
    storages: list[StorageUse] = field(default_factory=list)
    in_place: list[InPlaceResult] = field(default_factory=list)
    outputs: list[KernelOutput] = field(default_factory=list)


def memory_of(exe: ExecutableData, function: VMFunction) -> FunctionMemory:
    """The storages of a function in the order of its code, its in-place results and its kernel outputs."""
    return _StorageAnalysis(exe, function).memory


@frozen
class _Contents:
    """Contents of a register: the value ``name`` ("": unknown), defined at ``pc``, in the storage defined at ``storage``.

    -1 for ``storage``: not in a storage of this function.
    """

    name: str
    storage: int = -1
    pc: int = -1


_Registers = dict[int, _Contents]


class _StorageAnalysis:
    """Forward data flow over the code; the join is set intersection."""

    def __init__(self, exe: ExecutableData, function: VMFunction) -> None:
        self.exe, self.function = exe, function
        self.memory = FunctionMemory(function.name)
        self.notes = {note.pc: note for note in function.notes}
        self.storages: dict[int, StorageUse] = {}
        #: Definitions of in-place results: pc of the tensor, and the name of the overwritten value.
        self.overwritten: set[tuple[int, str]] = set()
        jumped: dict[int, _Registers] = {}
        state: _Registers | None = {number: _Contents(name) for number, (name, _) in enumerate(function.params)}
        for pc, instruction in isa.disassemble(function.code):
            here = _join(jumped.get(pc), state)
            self.step(pc, instruction, here)
            for target in jump_targets(pc, instruction):
                jumped[target] = _join(jumped.get(target), here)
            state = None if instruction.leaves() else here

    def step(self, pc: int, instruction: isa.Instruction, state: _Registers) -> None:
        """Transfer function: record the instruction's storages, tensors and launches, and update the registers."""
        written = self.defined(pc, instruction, state)
        if Role.KERNEL in instruction.roles:
            self.launch(pc, instruction, state)
        for r in instruction.registers("write", "kill", "take"):
            state.pop(r, None)
        if written is not None:
            (dst,) = instruction.registers("write")
            state[dst] = written

    def defined(self, pc: int, instruction: isa.Instruction, state: _Registers) -> _Contents | None:
        """The contents of the register that the instruction defines; None if they are in no storage of this function."""
        roles = instruction.roles
        if instruction.defines("storage"):
            self.storage(pc, instruction, state)
            return _Contents("", pc)
        if Role.STORAGE in roles:
            return self.tensor(pc, instruction, state.get(instruction.get(Role.STORAGE)))
        if Role.WHOLE in roles:
            return self.part(pc, instruction, state.get(instruction.get(Role.WHOLE)))
        if Role.ALIASED not in roles:
            return None
        aliased = state.get(instruction.get(Role.ALIASED), _Contents(""))
        if instruction.get(Role.RELEASE) and aliased.storage >= 0:
            self.storages[aliased.storage].released = True
        return aliased

    def storage(self, pc: int, instruction: isa.Instruction, state: _Registers) -> None:
        note, over = self.notes.get(pc, MemoryNote(pc)), ""
        nbytes = dim(instruction.get(Role.NBYTES)) if Role.NBYTES in instruction.roles else note.nbytes
        if Role.DONOR in instruction.roles:
            donor = instruction.get(Role.DONOR)
            over = note.name or _name(state.get(donor), donor)
        device, span = DEVICES[instruction.get(Role.DEVICE)], span_of(self.exe, self.function, pc)
        self.storages[pc] = StorageUse(pc, device, nbytes, [], False, over, note.why, span)
        self.memory.storages.append(self.storages[pc])

    def tensor(self, pc: int, instruction: isa.Instruction, storage: _Contents | None) -> _Contents:
        name = self.named(pc, instruction)
        if storage is None or storage.storage < 0:
            return _Contents(name, pc=pc)
        use = self.storages[storage.storage]
        use.values.append(name)
        use.arena = use.arena or instruction.get(Role.OFFSET) > 0
        return _Contents(name, storage.storage, pc)

    def part(self, pc: int, instruction: isa.Instruction, whole: _Contents | None) -> _Contents:
        name, storage = self.named(pc, instruction), whole.storage if whole is not None else -1
        if storage >= 0:
            self.storages[storage].parts.append(name)
        return _Contents(name, storage, pc)

    def named(self, pc: int, instruction: isa.Instruction) -> str:
        return self.notes[pc].name if pc in self.notes else f"${instruction.registers('write')[0]}"

    def launch(self, pc: int, instruction: isa.Instruction, state: _Registers) -> None:
        packed, args = self.exe.packed[instruction.get(Role.KERNEL)], instruction.get(Role.ARGS)
        for position in range(packed.n_inputs, len(args)):
            output = state.get(args[position])
            if output is not None and output.storage >= 0:
                self.memory.outputs.append(KernelOutput(pc, position, output.name, output.storage))
        for k, position in packed.group.in_place:
            register = args[packed.n_inputs + position]
            value, over = state.get(register), _name(state.get(args[k]), args[k])
            # the multi-version kernels of one primitive write the same value
            written = value.pc if value is not None else pc, over
            if written not in self.overwritten:
                self.memory.in_place.append(InPlaceResult(_name(value, register), over, packed.name, pc))
            self.overwritten.add(written)


def _name(contents: _Contents | None, register: int) -> str:
    return contents.name if contents is not None and contents.name else f"${register}"


def _join(one: _Registers | None, other: _Registers | None) -> _Registers:
    """The join of two states; None is the state of an unreachable predecessor."""
    if one is None or other is None:
        return dict(one or other or {})
    return {r: _join_contents(h, other[r]) for r, h in one.items() if r in other}


def _join_contents(one: _Contents, other: _Contents) -> _Contents:
    return one if one == other else _Contents("", one.storage if one.storage == other.storage else -1)
