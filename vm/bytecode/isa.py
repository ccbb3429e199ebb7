"""Declarations of the instruction set: encoder, decoder, disassembler, verifier and the reference page derive from them.

An instruction is a row of int64 words: its opcode, then its operands in order.  A list operand is its length, then its
items.  Opcodes 0 to 20 are those of the Relay VM; the docstrings explain differences in operands.  Opcodes are never reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, dataclass_transform, get_type_hints

import numpy as np

from ...ops.core.tensor_types import DTYPES

# ---- operand kinds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Kind of an operand: its text, its table and its limits.

    ``show``: formats the number.  ``table``: the table that the number indexes (``register``, ``function``, ``packed``,
    ``shape_func``, ``const``, ``dtype``, ``device``, ``reason``; ``code`` for a jump) or None.  ``access``: ``read``, ``take``
    (read and emptied), ``write`` or ``kill`` for registers.  ``many``: whether the operand is a list.  ``holds``: the kind of
    object that a register must hold when read, or holds when written: ``tensor``, ``storage``, ``record`` (a tuple or
    constructor), ``closure``, ``value`` (any of these but a storage), ``any`` (a value or a storage), or ``pending`` (a copy that
    was begun; it is neither value nor storage).  ``low``, ``high``: the smallest and the largest number allowed.
    """

    name: str
    show: Callable[[int], str] = str
    table: str | None = None
    access: str | None = None
    many: bool = False
    holds: str = "any"
    low: int | None = None
    high: int | None = None


def _register(n: int) -> str:
    return f"${n}"


def _dtype(n: int) -> str:
    return DTYPES[n] if 0 <= n < len(DTYPES) else f"dtype[{n}]"


def _to(holds: str, many: bool = False) -> Kind:
    return Kind("dsts" if many else "dst", _register, "register", "write", many, holds)


def _from(holds: str, many: bool = False) -> Kind:
    return Kind("srcs" if many else "src", _register, "register", "read", many, holds)


Dst = Annotated[int, _to("value")]
AnyDst = Annotated[int, _to("any")]
TensorDst = Annotated[int, _to("tensor")]
TensorDsts = Annotated[tuple[int, ...], _to("tensor", many=True)]
StorageDst = Annotated[int, _to("storage")]
RecordDst = Annotated[int, _to("record")]
ClosureDst = Annotated[int, _to("closure")]
PendingDst = Annotated[int, _to("pending")]
Src = Annotated[int, _from("value")]
Srcs = Annotated[tuple[int, ...], _from("value", many=True)]
AnySrc = Annotated[int, _from("any")]
TensorSrc = Annotated[int, _from("tensor")]
TensorSrcs = Annotated[tuple[int, ...], _from("tensor", many=True)]
StorageSrc = Annotated[int, _from("storage")]
RecordSrc = Annotated[int, _from("record")]
ClosureSrc = Annotated[int, _from("closure")]
PendingSrc = Annotated[int, Kind("src", _register, "register", "take", holds="pending")]
Dead = Annotated[tuple[int, ...], Kind("dead", _register, "register", "kill", many=True)]
Int = Annotated[int, Kind("int")]
Imm = Annotated[int, Kind("imm", low=0)]
Flag = Annotated[int, Kind("flag", low=0, high=1)]
Imms = Annotated[tuple[int, ...], Kind("imms", many=True, low=0)]
Func = Annotated[int, Kind("func", "function[{}]".format, "function")]
Packed = Annotated[int, Kind("packed", "packed[{}]".format, "packed")]
ShapeFn = Annotated[int, Kind("shape_func", "shape_func[{}]".format, "shape_func")]
Const = Annotated[int, Kind("const", "const[{}]".format, "const")]
DType = Annotated[int, Kind("dtype", _dtype, "dtype")]
Device = Annotated[int, Kind("device", "device[{}]".format, "device")]
Reason = Annotated[int, Kind("reason", "reason[{}]".format, "reason")]
#: Jumps, in words from the start of the jumping instruction; a Label until assembled.  A Forward jump is always positive.
Offset = Annotated[Any, Kind("offset", "{:+d}".format, "code")]
Forward = Annotated[Any, Kind("forward", "{:+d}".format, "code", low=1)]


class Label:
    """A jump target in code that is being assembled."""


# ---- the base class ------------------------------------------------------------------------------------------------

INSTRUCTIONS: dict[int, type[Instruction]] = {}


@dataclass_transform(frozen_default=True)
class Instruction:
    """Base class of instructions.  Subclasses declare operands as annotated fields.

    The first paragraph of a subclass's docstring is the meaning of the instruction.
    """

    opcode: ClassVar[int]
    operands: ClassVar[dict[str, Kind]]

    def __init_subclass__(cls, opcode: int) -> None:
        dataclass(frozen=True)(cls)
        if opcode in INSTRUCTIONS:
            raise ValueError(f"opcode {opcode} is already {INSTRUCTIONS[opcode].__name__}")
        hints = get_type_hints(cls, include_extras=True)
        cls.opcode = opcode
        cls.operands = {f.name: hints[f.name].__metadata__[0] for f in fields(cls)}  # type: ignore[arg-type]
        INSTRUCTIONS[opcode] = cls

    @property
    def length(self) -> int:
        """The size of the instruction in words."""
        return 1 + sum(1 + len(getattr(self, n)) if k.many else 1 for n, k in self.operands.items())

    def words(self) -> list[int]:
        """The encoding of the instruction."""
        out = [self.opcode]
        for name, kind in self.operands.items():
            value = getattr(self, name)
            out += [len(value), *value] if kind.many else [value]
        return out

    def __str__(self) -> str:
        shown = []
        for name, kind in self.operands.items():
            value = getattr(self, name)
            text = "(" + ", ".join(map(kind.show, value)) + ")" if kind.many else kind.show(value)
            shown.append(text if kind.table in ("register", "packed", "function", "shape_func", "const") else f"{name}={text}")
        return f"{type(self).__name__:<15} {' '.join(shown)}"


class EncodingError(ValueError):
    """Words that are no instruction."""


def decode(words: Sequence[int], pc: int) -> Instruction:
    """Decode the instruction at word ``pc``.  Raises EncodingError for an unknown opcode and for a truncated instruction."""
    cls = INSTRUCTIONS.get(int(words[pc]))
    if cls is None:
        raise EncodingError(f"no instruction has opcode {int(words[pc])}")
    at, values = pc + 1, []

    def take(n: int) -> list[int]:
        nonlocal at
        if n < 0 or at + n > len(words):
            raise EncodingError(f"{cls.__name__} at {pc} runs off the end of the code")
        at += n
        return [int(w) for w in words[at - n : at]]

    for kind in cls.operands.values():
        values.append(tuple(take(take(1)[0])) if kind.many else take(1)[0])
    return cls(*values)


def assemble(items: Iterable[Instruction | Label]) -> tuple[np.ndarray, list[int]]:
    """Assemble instructions to code (int64 words) and the pc of each instruction.  A Label marks the next instruction."""
    items = list(items)
    at, pc, starts = {}, 0, []
    for item in items:
        if isinstance(item, Label):
            at[id(item)] = pc
        else:
            starts.append(pc)
            pc += item.length
    words: list[int] = []
    for item in items:
        if not isinstance(item, Label):
            here = len(words)
            words += [at[id(w)] - here if isinstance(w, Label) else w for w in item.words()]
    return np.array(words, np.int64), starts


def disassemble(words: Sequence[int]) -> list[tuple[int, Instruction]]:
    """Decode a whole function to ``(pc, instruction)`` pairs.  Raises EncodingError as ``decode``."""
    out, pc = [], 0
    while pc < len(words):
        instruction = decode(words, pc)
        out.append((pc, instruction))
        pc += instruction.length
    return out


# ---- the instructions ------------------------------------------------------------------------------------------------


class Move(Instruction, opcode=0):
    """``dst := src``: both registers refer to the same object."""

    dst: AnyDst
    src: AnySrc


class Ret(Instruction, opcode=1):
    """Return ``src`` to the caller.  Every register of the frame is released."""

    src: Src


class Invoke(Instruction, opcode=2):
    """``dst := function(args)``."""

    dst: Dst
    func: Func
    args: Srcs


class InvokeClosure(Instruction, opcode=3):
    """``dst := closure(args)``; the captured values are passed before ``args``."""

    dst: Dst
    closure: ClosureSrc
    args: Srcs


class InvokePacked(Instruction, opcode=4):
    """Launch a kernel.  The last ``n_outputs`` of ``args`` are its output tensors, the others its inputs.

    An output is stored in a storage of this frame: it was made by AllocTensor or AllocTensorReg, or is a view of such a tensor.

    The launch is asynchronous if the kernel's device has a queue.
    """

    packed: Packed
    n_outputs: Imm
    args: TensorSrcs


class AllocTensor(Instruction, opcode=5):
    """``dst := tensor(storage, offset, dims)``: a tensor of static shape.

    ``offset`` (bytes) is an immediate, since offsets are never computed at run time.
    """

    dst: TensorDst
    storage: StorageSrc
    offset: Imm
    dtype: DType
    dims: Imms


class AllocTensorReg(Instruction, opcode=6):
    """``dst := tensor(storage, offset, shape)``: ``shape`` is an int64 vector on the host; ``offset`` is in bytes."""

    dst: TensorDst
    storage: StorageSrc
    offset: Imm
    shape: TensorSrc
    dtype: DType


class AllocADT(Instruction, opcode=7):
    """``dst := constructor(values)``; a tuple has tag 0."""

    dst: RecordDst
    tag: Imm
    values: Srcs


class AllocClosure(Instruction, opcode=8):
    """``dst := closure`` of a function and its captured values."""

    dst: ClosureDst
    func: Func
    captured: Srcs


class GetField(Instruction, opcode=9):
    """``dst := object[index]``."""

    dst: Dst
    object: RecordSrc
    index: Imm


class If(Instruction, opcode=10):
    """Jump to ``on_true`` if ``test`` is not zero, else to ``on_false``.

    ``test`` is a scalar on the host.  Relay's If compares two registers and contains an implicit copy from the device.  Both
    targets are forward: only Goto jumps backward, so every loop passes a Goto, which checks for Ctrl-C.
    """

    test: TensorSrc
    on_true: Forward
    on_false: Forward


class LoadConst(Instruction, opcode=11):
    """``dst := const`` on ``device``; the first load on a device copies the constant there."""

    dst: TensorDst
    const: Const
    device: Device


class Goto(Instruction, opcode=12):
    """Jump to ``offset``."""

    offset: Offset


class GetTag(Instruction, opcode=13):
    """``dst := tag(object)``, an int64 scalar on the host."""

    dst: TensorDst
    object: RecordSrc


class LoadConsti(Instruction, opcode=14):
    """``dst := val``, an int64 scalar on the host."""

    dst: TensorDst
    val: Int


class Fatal(Instruction, opcode=15):
    """Stop the run with an error: no case of a match applies."""


class AllocStorage(Instruction, opcode=16):
    """``dst := storage`` of ``nbytes`` bytes on ``device``.

    The size is an immediate.  AllocStorageReg takes a dynamic size as a shape; Relay computes the size in bytes with a kernel.
    """

    dst: StorageDst
    nbytes: Imm
    device: Device


class ShapeOf(Instruction, opcode=17):
    """``dst := shape(src)``, an int64 vector on the host.  The elements of ``src`` are not read."""

    dst: TensorDst
    src: TensorSrc


class ReshapeTensor(Instruction, opcode=18):
    """``dst := reshape(src, shape)``, a view: ``shape`` is an int64 vector on the host with as many elements in total."""

    dst: TensorDst
    src: TensorSrc
    shape: TensorSrc


class DeviceCopy(Instruction, opcode=19):
    """``dst := copy of src`` on ``dst_device``.  A copy to the host waits for the device's queue.

    ``reason`` indexes the executable's table of reasons for copies.
    """

    dst: TensorDst
    src: TensorSrc
    src_device: Device
    dst_device: Device
    reason: Reason


class KillRegister(Instruction, opcode=20):
    """Empty the registers ``dead``.  An object without references is freed.

    One instruction empties several registers to save dispatches.
    """

    dead: Dead


class InvokeShapeFunc(Instruction, opcode=21):
    """``dsts := shape function(args)``: int64 vectors on the host.

    ``args`` are tensors.  If the shape function reads only the shape of an argument, the tensor may be on any device: its
    descriptor is on the host.  If the shape function reads the elements, the tensor is on the host.
    """

    func: ShapeFn
    args: TensorSrcs
    dsts: TensorDsts


class AllocStorageReg(Instruction, opcode=22):
    """``dst := storage`` on ``device`` for a tensor of ``shape`` (an int64 vector on the host) and ``dtype``."""

    dst: StorageDst
    shape: TensorSrc
    dtype: DType
    device: Device


class TrimTensor(Instruction, opcode=23):
    """``dst := src[:count]``: element ``index`` of the vector ``count`` (int64, on the host) is the count.

    Shrink a result allocated with an upper bound to its actual size.  The result is a view.  With ``release`` it is a copy in a
    new storage if that saves enough memory: ``src`` is then dead and its upper bound is freed, while ``dst`` is live.
    """

    dst: TensorDst
    src: TensorSrc
    count: TensorSrc
    index: Imm
    release: Flag


class InvokeTail(Instruction, opcode=24):
    """Return ``function(args)``: a tail call.  The callee reuses this frame, so a loop runs in constant space."""

    func: Func
    args: Srcs


class InvokeClosureTail(Instruction, opcode=25):
    """Return ``closure(args)``: a tail call that reuses this frame."""

    closure: ClosureSrc
    args: Srcs


class CopyBegin(Instruction, opcode=26):
    """``dst := pending copy of src`` to the host: start the copy asynchronously; CopyWait gives the tensor.

    The pending copy keeps ``src``'s storage alive, so ``src`` may be killed at once.  ``reason`` as in DeviceCopy.
    """

    dst: PendingDst
    src: TensorSrc
    src_device: Device
    reason: Reason


class CopyWait(Instruction, opcode=27):
    """``dst := tensor on the host``: wait for the pending copy ``src`` and take its result; ``src`` is emptied.

    The wait covers the copy and the work queued before it, not the work queued after it.
    """

    dst: TensorDst
    src: PendingSrc


class TakeStorage(Instruction, opcode=28):
    """``dst := storage`` on ``device`` with as many bytes as ``src``: the storage of ``src`` if it is not shared, else a new one.

    In-place reuse of an argument's storage: only at run time is it known whether the storage has other references.
    """

    dst: StorageDst
    src: TensorSrc
    device: Device


class InvokeTaking(Instruction, opcode=29):
    """``dst := function(args)``: the registers ``dead`` are emptied before the function begins.

    The callee frees or reuses (TakeStorage) the storage of such an argument after its last use.
    """

    dst: Dst
    func: Func
    args: Srcs
    dead: Dead


class SliceTensor(Instruction, opcode=30):
    """``dst := slice of src``, a view of shape ``shape``: consecutive elements from the element with number ``offset`` on.

    ``shape`` and ``offset`` are int64 vectors on the host; ``offset`` has one element.  An empty slice may have any offset.
    Slices of whole rows need no copy, and the inputs of a concatenation are written in place.
    """

    dst: TensorDst
    src: TensorSrc
    shape: TensorSrc
    offset: TensorSrc


#: Terminators: instructions after which execution never continues with the next instruction.
LEAVING = (Ret, Goto, If, Fatal, InvokeTail, InvokeClosureTail)
#: Instructions that define a tensor in a storage, and instructions that define an alias or a view of ``src``.
IN_STORAGE = (AllocTensor, AllocTensorReg)
OVER_ANOTHER = (Move, ReshapeTensor, TrimTensor, SliceTensor)
#: Instructions that may have a MemoryNote: definitions of storages, of tensors in them, and of slices.
NOTED = (AllocStorage, AllocStorageReg, TakeStorage, AllocTensor, AllocTensorReg, SliceTensor)
