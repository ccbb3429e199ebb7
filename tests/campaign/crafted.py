"""Crafted executables: each instruction with each hostile operand, and the use of its results."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.tensor_types import DTYPES
from relayvm.vm.bytecode import isa

from .part import Part

F32, I64 = DTYPES.index("float32"), DTYPES.index("int64")
_NUMBERS = (-1, -(1 << 63), 0, 1, 2, 3, 8, 63, 64, 1024, 1 << 31, 1 << 46, 1 << 62, (1 << 63) - 1)
#: Contents of the constants, by number: rows, shapes of every bad kind, nothing, a table of numbers that are no vector.
CONSTANTS = (
    np.zeros((2, 4), np.float32), np.array([2, 4]), np.array([-1, 4]), np.array([1 << 62, 8]), np.array([1 << 32, 1 << 32]),
    np.zeros(0, np.int64), np.ones(9, np.int64), np.array([[2, 4]]), np.array([2, 4], np.int32), np.array([0, 1 << 62]),
    np.array([8]), np.array([(1 << 63) - 1]), np.array([-(1 << 63)]), np.array(1), np.zeros((0, 4), np.float32),
    np.array([1 << 20] * 8),
)  # fmt: skip
#: Registers: parameters; a tensor and its storage; a tuple, a closure; a small vector, a scalar; a pending copy; what is written.
PARAMS, OWN, STORAGE, RECORD, CLOSURE, VECTOR, SCALAR, PENDING, TO, EMPTY, FIRST_CONSTANT = (0, 1), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
N_REGISTERS = FIRST_CONSTANT + len(CONSTANTS)
#: Rows of the two parameters.
_SIZES = ((2, 2), (0, 2), (2, 5), (9, 9))


def prologue(device: int) -> list[isa.Instruction]:
    """Fill the registers."""
    begun = [isa.CopyBegin(PENDING, OWN, device, 0)] if device else []
    return [
        isa.AllocStorage(STORAGE, 64, device),
        isa.AllocTensor(OWN, STORAGE, 0, F32, (2, 4)),
        isa.AllocADT(RECORD, 3, (0, 1)),
        isa.AllocClosure(CLOSURE, 1, (0,)),
        isa.ShapeOf(VECTOR, 0),
        isa.LoadConsti(SCALAR, 1),
        isa.ShapeOf(TO, 0),
        *(isa.LoadConst(FIRST_CONSTANT + i, i, 0) for i in range(len(CONSTANTS))),
        *begun,
    ]


def samples(device: int) -> list[isa.Instruction]:
    """Every instruction but jumps, as it should be."""
    shape = FIRST_CONSTANT + 1
    made = [
        isa.Move(TO, OWN), isa.Ret(OWN), isa.Invoke(TO, 1, (0, 1)), isa.InvokeClosure(TO, CLOSURE, (1,)),
        isa.InvokePacked(0, 1, (0, OWN)), isa.InvokePacked(1, 1, (0, 1, OWN)), isa.AllocTensor(TO, STORAGE, 0, F32, (2, 4)),
        isa.AllocTensorReg(TO, STORAGE, 0, shape, F32), isa.AllocADT(TO, 0, (0, OWN)), isa.AllocClosure(TO, 1, (0,)),
        isa.GetField(TO, RECORD, 1), isa.LoadConst(TO, 0, device), isa.GetTag(TO, RECORD), isa.LoadConsti(TO, 5), isa.Fatal(),
        isa.AllocStorage(STORAGE, 64, device), isa.ShapeOf(TO, OWN), isa.ReshapeTensor(TO, OWN, shape),
        isa.DeviceCopy(TO, OWN, device, 0, 0), isa.KillRegister((OWN,)), isa.InvokeShapeFunc(0, (0,), (TO,)),
        isa.AllocStorageReg(STORAGE, shape, F32, device), isa.TrimTensor(TO, OWN, shape, 0, 1), isa.InvokeTail(1, (0, 1)),
        isa.InvokeClosureTail(CLOSURE, (1,)), isa.TakeStorage(STORAGE, OWN, device), isa.InvokeTaking(TO, 1, (0, 1), (OWN,)),
        isa.SliceTensor(TO, OWN, shape, FIRST_CONSTANT + 10),
    ]  # fmt: skip
    if device:
        made += [isa.CopyBegin(PENDING, OWN, device, 0), isa.CopyWait(TO, PENDING)]
    return made


def hostile(i: isa.Instruction) -> Iterator[isa.Instruction]:
    """The instruction, then with each operand as it should not be."""
    yield i
    for name, kind in i.operands.items():
        value = getattr(i, name)
        bad = (*range(N_REGISTERS + 1), -1) if kind.table == "register" else _NUMBERS
        if not kind.many:
            for number in bad:
                yield replace(i, **{name: number})  # type: ignore[type-var]
            continue
        for at in range(len(value)):
            for number in bad:
                yield replace(i, **{name: (*value[:at], number, *value[at + 1 :])})  # type: ignore[type-var]
        for many in ((), value[1:], (*value, *value[-1:]), value * 600, value[:1] * 1025):
            yield replace(i, **{name: many})  # type: ignore[type-var]


def uses(device: int) -> list[tuple[str, Callable[[int], list[isa.Instruction | isa.Label]]]]:
    """Uses of the register that an instruction wrote, each ending in a return."""
    a, b = isa.Label(), isa.Label()
    out = [isa.AllocStorage(STORAGE, 64, device), isa.AllocTensor(OWN, STORAGE, 0, F32, (2, 4))]
    return [
        ("returned", lambda r: [isa.Ret(r)]),
        ("read by a kernel", lambda r: [*out, isa.InvokePacked(0, 1, (r, OWN)), isa.Ret(OWN)]),
        ("written by a kernel", lambda r: [isa.InvokePacked(0, 1, (0, r)), isa.Ret(r)]),
        ("a condition", lambda r: [isa.If(r, a, b), a, isa.Ret(0), b, isa.Ret(1)]),
        ("a shape", lambda r: [
            isa.AllocStorageReg(STORAGE, r, F32, device), isa.AllocTensorReg(TO, STORAGE, 0, r, F32), isa.Ret(TO),
        ]),
        ("a storage taken", lambda r: [
            isa.TakeStorage(STORAGE, r, device), isa.AllocTensor(TO, STORAGE, 0, F32, (2, 4)), isa.Ret(TO),
        ]),
        ("called", lambda r: [isa.InvokeClosureTail(r, (1,))]),
        ("a tuple", lambda r: [isa.GetField(TO, r, 1), isa.GetTag(SCALAR, r), isa.Ret(TO)]),
        ("passed on", lambda r: [isa.InvokeTail(1, (r, 1))]),
        ("reshaped", lambda r: [isa.ReshapeTensor(TO, r, FIRST_CONSTANT + 1), isa.Ret(TO)]),
        ("sliced", lambda r: [isa.SliceTensor(TO, r, FIRST_CONSTANT + 1, FIRST_CONSTANT + 10), isa.Ret(TO)]),
    ]  # fmt: skip


@dataclass(frozen=True)
class Crafted:
    """Instructions behind the prologue, as the words of a function, on a device."""

    what: str
    device: int
    code: tuple[int, ...]


@functools.cache
def all_crafted() -> tuple[Crafted, ...]:
    """Every one."""
    out: dict[Crafted, None] = {}
    for device in (0, 1):
        for sample in samples(device):
            for i in hostile(sample):
                follow = uses(device) if i is sample or _is_first(i, sample) else uses(device)[:1]
                for what, then in follow:
                    written = [getattr(i, n) for n, k in i.operands.items() if k.access == "write"]
                    to = written[0] if written and isinstance(written[0], int) else TO
                    items = [*prologue(device), i, *then(to if 0 <= to < N_REGISTERS else TO)]
                    try:
                        code = tuple(isa.assemble(items)[0].tolist())
                    except OverflowError:
                        continue
                    out[Crafted(f"{i}, {what}", device, code)] = None
    return tuple(out)


def _is_first(i: isa.Instruction, sample: isa.Instruction) -> bool:
    """Whether another source register is all that is changed: then all that may follow is tried."""
    changed = [n for n in i.operands if getattr(i, n) != getattr(sample, n)]
    return len(changed) == 1 and i.operands[changed[0]].access in ("read", "take") and not i.operands[changed[0]].many


def executable(case: Crafted) -> relay.Executable:
    """``main`` of the case, and a function of two parameters that writes over the first if it may."""
    from relayvm.ops.core.group import Node
    from relayvm.ops.core.op import NoAttrs
    from relayvm.ops.core.tensor_types import Tensor, TensorType
    from relayvm.ops.core.type_relation import build_group
    from relayvm.shape_funcs.symbolic.dim import dim, fresh, sym
    from relayvm.vm.bytecode.executable import PackedFunc, VMFunction
    from tests.vm.bytecode.executables import executable as by_hand
    from tests.vm.bytecode.executables import exp_group, function

    d = case.device
    other = [
        isa.TakeStorage(2, 0, d), isa.AllocTensor(2, 2, 0, F32, (2, 4)), isa.InvokePacked(0, 1, (1, 2)), isa.Ret(2),
    ]  # fmt: skip
    base = by_hand(function([isa.Ret(0)], 2), function(other, 2, name="other"))
    rows = TensorType((fresh(), dim(4)), "float32"), TensorType((fresh(), dim(4)), "float32")
    params = tuple(zip(("a", "b"), rows, strict=True))
    main = VMFunction("main", params, rows[0], N_REGISTERS, np.array(case.code, np.int64))
    two = [Tensor("float32", (sym("d0"), dim(4)))] * 2
    groups = exp_group(), build_group(two, [], [Node("add", NoAttrs(), (0, 1), ())], [2])
    return replace(
        base,
        functions=(main, *base.functions[1:]),
        constants=tuple(c.astype(c.dtype) for c in CONSTANTS),
        packed=tuple(PackedFunc(g, d, len(g.params), 1) for g in groups),
        target=("cpu", "sim")[d],
    )


class CraftedPart(Part[Crafted]):
    """Made by hand, all of them: the seed is the number of one."""

    name, unit, slice_trials, hang_seconds = "crafted", "executables", 300, 30.0

    def __init__(self) -> None:
        super().__init__()
        self._ready = False

    def prepare(self) -> None:
        """Compile the machine and two kernels."""
        from .hostile import memo

        os.environ.setdefault("RELAYVM_POISON", "1")
        memo.remember()
        self._ready = True
        self.check(self.draw(0))
        self.seen.clear()

    def draw(self, seed: int) -> Crafted:
        """Number ``seed``, in an order in which neighbours have little in common."""
        found = all_crafted()
        return found[seed * 7919 % len(found)]

    def check(self, case: Crafted) -> str | None:
        """Refused or run; the arguments are in memory that nobody may write."""
        from .hostile import trial
        from .hostile.guarded import guarded

        if not self._ready:  # in a test made of a finding
            self.prepare()
        exe = executable(case)
        try:
            trial.verified(exe)
        except relay.RelayError as error:
            self.seen["refused"] += 1
            return None if str(error) else "the message is empty"
        calls = [[guarded(np.arange(4.0 * n, dtype=np.float32).reshape(n, 4)) for n in sizes] for sizes in _SIZES]
        ended, wrong = trial.run(trial.verified(exe), *calls)
        self.seen[ended] += 1
        return f"{case.what}: {wrong}" if wrong else None

    def write(self, case: Crafted) -> str:
        """Check it again."""
        return f"from tests.campaign.crafted import PART, Crafted\n\nassert PART.check({case!r}) is None"


PART: Part[Any] = CraftedPart()
