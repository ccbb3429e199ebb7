"""The instruction set, declared once: encoder, decoder, disassembler, verifier and the reference page derive from it.

An instruction is a row of int64 words: its opcode, then its operands in order.  A list operand is its length, then its
items.  Opcodes 0 to 20 are the Relay VM's; where our operands differ the docstring says why.  Numbers are never reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, dataclass_transform, get_type_hints

import numpy as np

from ..ops.ty import DTYPES

# ---- operand kinds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How one operand is written, read and checked.

    ``table``: what the number indexes (``register``, ``function``, ``packed``, ``shape_func``, ``const``, ``dtype``,
    ``device``, ``reason``) or None; ``access``: ``read``, ``take`` (read and emptied), ``write`` or ``kill`` for registers;
    ``many``: a list.  ``holds``: what a register must hold when read, or holds when written: ``tensor``, ``storage``,
    ``record`` (a tuple or constructor), ``closure``, ``value`` (any of these but a storage), ``any`` (a value or a storage), or
    ``pending`` (a copy that was begun; it is nothing else).  ``low``, ``high``: the least and the greatest number allowed.
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
#: Jumps, in words from the start of the jumping instruction; a Label until assembled.  Forward ones only go ahead.
Offset = Annotated[Any, Kind("offset", "{:+d}".format, "code")]
Forward = Annotated[Any, Kind("forward", "{:+d}".format, "code", low=1)]


class Label:
    """A place in code that is being assembled."""


# ---- the base class ------------------------------------------------------------------------------------------------

INSTRUCTIONS: dict[int, type[Instruction]] = {}


@dataclass_transform(frozen_default=True)
class Instruction:
    """An instruction; subclasses declare operands as annotated fields.  The docstring's first line is its meaning."""

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
        """Its size in words."""
        return 1 + sum(1 + len(getattr(self, n)) if k.many else 1 for n, k in self.operands.items())

    def words(self) -> list[int]:
        """Its encoding."""
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
    """The instruction at word ``pc``.  Raises EncodingError for an unknown opcode or one that runs off the end."""
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
    """Code (int64 words) and the word at which each instruction starts.  Labels mark the next instruction."""
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
    """``(pc, instruction)`` of a whole function.  Raises EncodingError."""
    out, pc = [], 0
    while pc < len(words):
        instruction = decode(words, pc)
        out.append((pc, instruction))
        pc += instruction.length
    return out


# ---- the instructions ------------------------------------------------------------------------------------------------


class Move(Instruction, opcode=0):
    """``dst := src``: both name the same object."""

    dst: AnyDst
    src: AnySrc


class Ret(Instruction, opcode=1):
    """Return ``src`` to the caller; every register of the frame is released."""

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
    """Run a kernel: the last ``n_outputs`` of ``args`` are tensors it fills, the others its inputs.

    What it fills lies in storages of this frame: AllocTensor or AllocTensorReg has made it, or the tensor that it is a part of.

    Queued, not run, when the kernel's device has a queue.
    """

    packed: Packed
    n_outputs: Imm
    args: TensorSrcs


class AllocTensor(Instruction, opcode=5):
    """``dst := tensor(storage, offset, dims)``: a view whose shape is known.

    ``offset`` (bytes) is an immediate: nothing computes one at run time.
    """

    dst: TensorDst
    storage: StorageSrc
    offset: Imm
    dtype: DType
    dims: Imms


class AllocTensorReg(Instruction, opcode=6):
    """``dst := tensor(storage, offset, shape)``: ``shape`` is an int64 vector on the host."""

    dst: TensorDst
    storage: StorageSrc
    offset: Imm
    shape: TensorSrc
    dtype: DType


class AllocADT(Instruction, opcode=7):
    """``dst := constructor(fields)``; a tuple has tag 0."""

    dst: RecordDst
    tag: Imm
    values: Srcs


class AllocClosure(Instruction, opcode=8):
    """``dst := closure`` of a function with its captured values."""

    dst: ClosureDst
    func: Func
    captured: Srcs


class GetField(Instruction, opcode=9):
    """``dst := object[index]``."""

    dst: Dst
    object: RecordSrc
    index: Imm


class If(Instruction, opcode=10):
    """Go on at ``on_true`` if ``test`` is not zero, else at ``on_false``.

    ``test`` is a scalar on the host: Relay compared two registers and copied from the device unseen.  Both places lie
    ahead: only Goto goes back, so every loop passes where the machine looks for Ctrl-C.
    """

    test: TensorSrc
    on_true: Forward
    on_false: Forward


class LoadConst(Instruction, opcode=11):
    """``dst := const`` on ``device``; the first load on a device copies it there."""

    dst: TensorDst
    const: Const
    device: Device


class Goto(Instruction, opcode=12):
    """Go on at ``offset``."""

    offset: Offset


class GetTag(Instruction, opcode=13):
    """``dst := tag of object``, an int64 scalar on the host."""

    dst: TensorDst
    object: RecordSrc


class LoadConsti(Instruction, opcode=14):
    """``dst := val``, an int64 scalar on the host."""

    dst: TensorDst
    val: Int


class Fatal(Instruction, opcode=15):
    """Stop: no case of a match applies."""


class AllocStorage(Instruction, opcode=16):
    """``dst := storage`` of ``nbytes`` bytes on ``device``.

    The size is an immediate; a size known only at run time comes from a shape (AllocStorageReg), so that no kernel has
    to multiply it out as in Relay.
    """

    dst: StorageDst
    nbytes: Imm
    device: Device


class ShapeOf(Instruction, opcode=17):
    """``dst := shape of src``, an int64 vector on the host.  Never touches data."""

    dst: TensorDst
    src: TensorSrc


class ReshapeTensor(Instruction, opcode=18):
    """``dst := src`` under another shape: ``shape`` is an int64 vector on the host with the same product."""

    dst: TensorDst
    src: TensorSrc
    shape: TensorSrc


class DeviceCopy(Instruction, opcode=19):
    """``dst := copy of src`` on ``dst_device``.  To the host: waits for the device's queue.

    ``reason`` indexes the executable's table of why each copy is there.
    """

    dst: TensorDst
    src: TensorSrc
    src_device: Device
    dst_device: Device
    reason: Reason


class KillRegister(Instruction, opcode=20):
    """Empty the registers; an object that no register holds is freed.  Several at once: one dispatch."""

    dead: Dead


class InvokeShapeFunc(Instruction, opcode=21):
    """``dsts := shape function(args)``: int64 vectors on the host.

    ``args`` are tensors: where only the shape is needed the tensor itself (its descriptor is on the host), where the
    data is needed a tensor on the host.
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
    """``dst := src[:count]``: ``count`` is element ``index`` of an int64 vector on the host.

    How an upper-bound result gets its true size.  A view; with ``release`` a copy in a storage of its own where that pays: the
    program then gives up ``src`` and the whole bound with it, while ``dst`` lives on.
    """

    dst: TensorDst
    src: TensorSrc
    count: TensorSrc
    index: Imm
    release: Flag


class InvokeTail(Instruction, opcode=24):
    """Return ``function(args)``: the callee takes this frame's place, so a loop runs in constant space."""

    func: Func
    args: Srcs


class InvokeClosureTail(Instruction, opcode=25):
    """Return ``closure(args)``, in this frame's place."""

    closure: ClosureSrc
    args: Srcs


class CopyBegin(Instruction, opcode=26):
    """``dst := pending copy of src`` to the host: asks for it and goes on; CopyWait gives the tensor.

    The pending copy holds ``src``'s storage, so ``src`` may be killed at once.  ``reason`` as in DeviceCopy: this is the place of
    the copy.
    """

    dst: PendingDst
    src: TensorSrc
    src_device: Device
    reason: Reason


class CopyWait(Instruction, opcode=27):
    """``dst := tensor on the host`` that the pending copy ``src`` makes, once it is there; ``src`` is emptied.

    Waits for the copy, and so for what its source is made by, not for what was asked for after it.
    """

    dst: TensorDst
    src: PendingSrc


class TakeStorage(Instruction, opcode=28):
    """``dst := storage`` on ``device`` for as many bytes as ``src`` has: its own, if only ``src`` refers to it, else a new one.

    How a kernel writes over what was passed to its function: that is known to be nobody else's at run time only.
    """

    dst: StorageDst
    src: TensorSrc
    device: Device


class InvokeTaking(Instruction, opcode=29):
    """``dst := function(args)``, where the registers ``dead`` are emptied before the function begins.

    What the caller does not hold while it waits, the function frees or writes over (TakeStorage) after its last use.
    """

    dst: Dst
    func: Func
    args: Srcs
    dead: Dead


class SliceTensor(Instruction, opcode=30):
    """``dst := part of src``, a view: the elements from number ``offset`` on, as many as ``shape`` holds.

    Both are int64 vectors on the host, ``offset`` of one element; an empty part may have any offset.  How a slice of whole rows
    needs no copy, and what will be concatenated is written where it will be.
    """

    dst: TensorDst
    src: TensorSrc
    shape: TensorSrc
    offset: TensorSrc


#: What never goes on to the instruction that follows.
LEAVING = (Ret, Goto, If, Fatal, InvokeTail, InvokeClosureTail)
#: What makes a tensor in a storage, and what gives another name, or another tensor, to (part of) the elements of ``src``.
IN_STORAGE = (AllocTensor, AllocTensorReg)
OVER_ANOTHER = (Move, ReshapeTensor, TrimTensor, SliceTensor)
#: What makes a storage, a tensor in one, or part of a tensor: of these there are notes on memory.
NOTED = (AllocStorage, AllocStorageReg, TakeStorage, AllocTensor, AllocTensorReg, SliceTensor)
