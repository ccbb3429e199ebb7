"""Declarations of the instruction set: encoder, decoder, disassembler, verifier, analyses, dispatch and the reference page derive
from them.

An instruction is a row of int64 words: its opcode, then its operands in order.  A list operand is its length, then its
items.  Opcodes 0 to 20 are those of the Relay VM; the docstrings explain differences in operands.  Opcodes are never reused.
"""

from __future__ import annotations

from typing import Annotated

from .instruction import INSTRUCTIONS as INSTRUCTIONS
from .instruction import Control as Control
from .instruction import EncodingError as EncodingError
from .instruction import Instruction as Instruction
from .instruction import Label as Label
from .instruction import assemble as assemble
from .instruction import decode as decode
from .instruction import disassemble as disassemble
from .operand_kinds import (
    AnyDst,
    AnySrc,
    ClosureDst,
    ClosureSrc,
    Const,
    Dead,
    Device,
    Dst,
    DType,
    Flag,
    Forward,
    Func,
    Imm,
    Imms,
    Int,
    Offset,
    Packed,
    PendingDst,
    PendingSrc,
    Reason,
    RecordDst,
    RecordSrc,
    Role,
    ShapeFn,
    ShapeSrc,
    Src,
    Srcs,
    StorageDst,
    StorageSrc,
    TensorDst,
    TensorDsts,
    TensorSrc,
    TensorSrcs,
)
from .operand_kinds import Kind as Kind


class Move(Instruction, opcode=0):
    """``dst := src``: both registers refer to the same object."""

    dst: AnyDst
    src: Annotated[AnySrc, Role.ALIASED]


class Ret(Instruction, opcode=1, control=Control.RETURN):
    """Return ``src`` to the caller.  Every register of the frame is released."""

    src: Src


class Invoke(Instruction, opcode=2, control=Control.CALL):
    """``dst := function(args)``."""

    dst: Dst
    func: Func
    args: Annotated[Srcs, Role.ARGS]


class InvokeClosure(Instruction, opcode=3, control=Control.CALL):
    """``dst := closure(args)``; the captured values are passed before ``args``."""

    dst: Dst
    closure: ClosureSrc
    args: Annotated[Srcs, Role.ARGS]


class InvokePacked(Instruction, opcode=4):
    """Launch a kernel.  The last ``n_outputs`` of ``args`` are its output tensors, the others its inputs.

    An output is stored in a storage of this frame: it was made by AllocTensor or AllocTensorReg, or is a view of such a tensor.

    The launch is asynchronous if the kernel's device has a queue.
    """

    packed: Packed
    n_outputs: Annotated[Imm, Role.N_OUTPUTS]
    args: Annotated[TensorSrcs, Role.ARGS]


class AllocTensor(Instruction, opcode=5):
    """``dst := tensor(storage, offset, dims)``: a tensor of static shape.

    ``offset`` (bytes) is an immediate, since offsets are never computed at run time.
    """

    dst: TensorDst
    storage: StorageSrc
    offset: Annotated[Imm, Role.OFFSET]
    dtype: DType
    dims: Annotated[Imms, Role.DIMS]


class AllocTensorReg(Instruction, opcode=6):
    """``dst := tensor(storage, offset, shape)``: ``shape`` is an int64 vector on the host; ``offset`` is in bytes."""

    dst: TensorDst
    storage: StorageSrc
    offset: Annotated[Imm, Role.OFFSET]
    shape: ShapeSrc
    dtype: DType


class AllocADT(Instruction, opcode=7):
    """``dst := constructor(values)``; a tuple has tag 0."""

    dst: RecordDst
    tag: Imm
    values: Srcs


class AllocClosure(Instruction, opcode=8):
    """``dst := closure`` of a function and its captured values."""

    dst: ClosureDst
    func: Annotated[Func, Role.BODY]
    captured: Annotated[Srcs, Role.CAPTURED]


class GetField(Instruction, opcode=9):
    """``dst := object[index]``."""

    dst: Dst
    object: RecordSrc
    index: Imm


class If(Instruction, opcode=10, control=Control.JUMP):
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


class Goto(Instruction, opcode=12, control=Control.JUMP):
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


class Fatal(Instruction, opcode=15, control=Control.STOP):
    """Stop the run with an error: no case of a match applies."""


class AllocStorage(Instruction, opcode=16):
    """``dst := storage`` of ``nbytes`` bytes on ``device``.

    The size is an immediate.  AllocStorageReg takes a dynamic size as a shape; Relay computes the size in bytes with a kernel.
    """

    dst: StorageDst
    nbytes: Annotated[Imm, Role.NBYTES]
    device: Device


class ShapeOf(Instruction, opcode=17):
    """``dst := shape(src)``, an int64 vector on the host.  The elements of ``src`` are not read."""

    dst: TensorDst
    src: Annotated[TensorSrc, Role.SIZED]


class ReshapeTensor(Instruction, opcode=18):
    """``dst := reshape(src, shape)``, a view: ``shape`` is an int64 vector on the host with as many elements in total."""

    dst: TensorDst
    src: Annotated[TensorSrc, Role.ALIASED]
    shape: ShapeSrc


class DeviceCopy(Instruction, opcode=19):
    """``dst := copy of src`` on ``dst_device``.  A copy to the host waits for the device's queue.

    ``reason`` indexes the executable's table of reasons for copies.
    """

    dst: TensorDst
    src: Annotated[TensorSrc, Role.COPIED]
    src_device: Annotated[Device, Role.SOURCE_DEVICE]
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
    args: Annotated[TensorSrcs, Role.ARGS]
    dsts: Annotated[TensorDsts, Role.RESULTS]


class AllocStorageReg(Instruction, opcode=22):
    """``dst := storage`` on ``device`` for a tensor of ``shape`` (an int64 vector on the host) and ``dtype``."""

    dst: StorageDst
    shape: ShapeSrc
    dtype: DType
    device: Device


class TrimTensor(Instruction, opcode=23):
    """``dst := src[:count]``: element ``index`` of the vector ``count`` (int64, on the host) is the count.

    Shrink a result allocated with an upper bound to its actual size.  The result is a view.  With ``release`` it is a copy in a
    new storage if that saves enough memory: ``src`` is then dead and its upper bound is freed, while ``dst`` is live.
    """

    dst: TensorDst
    src: Annotated[TensorSrc, Role.ALIASED]
    count: Annotated[TensorSrc, Role.COUNTS]
    index: Annotated[Imm, Role.COUNT_INDEX]
    release: Annotated[Flag, Role.RELEASE]


class InvokeTail(Instruction, opcode=24, control=Control.TAIL_CALL):
    """Return ``function(args)``: a tail call.  The callee reuses this frame, so a loop runs in constant space."""

    func: Func
    args: Annotated[Srcs, Role.ARGS]


class InvokeClosureTail(Instruction, opcode=25, control=Control.TAIL_CALL):
    """Return ``closure(args)``: a tail call that reuses this frame."""

    closure: ClosureSrc
    args: Annotated[Srcs, Role.ARGS]


class CopyBegin(Instruction, opcode=26):
    """``dst := pending copy of src`` to the host: start the copy asynchronously; CopyWait gives the tensor.

    The pending copy keeps ``src``'s storage alive, so ``src`` may be killed at once.  ``reason`` as in DeviceCopy.
    """

    dst: PendingDst
    src: Annotated[TensorSrc, Role.COPIED]
    src_device: Annotated[Device, Role.SOURCE_DEVICE]
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
    src: Annotated[TensorSrc, Role.DONOR]
    device: Device


class InvokeTaking(Instruction, opcode=29, control=Control.CALL):
    """``dst := function(args)``: the registers ``dead`` are emptied before the function begins.

    The callee frees or reuses (TakeStorage) the storage of such an argument after its last use.
    """

    dst: Dst
    func: Func
    args: Annotated[Srcs, Role.ARGS]
    dead: Dead


class SliceTensor(Instruction, opcode=30):
    """``dst := slice of src``, a view of shape ``shape``: consecutive elements from the element with number ``offset`` on.

    ``shape`` and ``offset`` are int64 vectors on the host; ``offset`` has one element.  An empty slice may have any offset.
    Slices of whole rows need no copy, and the inputs of a concatenation are written in place.
    """

    dst: TensorDst
    src: Annotated[TensorSrc, Role.WHOLE]
    shape: ShapeSrc
    offset: TensorSrc


class IfTag(Instruction, opcode=31, control=Control.JUMP):
    """Jump to ``on_true`` if the constructor with number ``tag`` made ``object``, else to ``on_false``.

    A match needs neither a tensor nor a comparison.  Both targets are forward, as those of If.
    """

    object: RecordSrc
    tag: Imm
    on_true: Forward
    on_false: Forward


class SetField(Instruction, opcode=32):
    """``object[index] := src``: write a reference, which is a record of one field."""

    object: RecordSrc
    index: Imm
    src: Annotated[Src, Role.STORED]
