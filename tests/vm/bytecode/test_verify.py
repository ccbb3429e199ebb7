"""The verifier: each rule refuses violations, and a slow independent checker confirms accepted code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES, TensorType, TupleType
from relayvm.shape_funcs.symbolic.program import SIZE, ShapeProgram
from relayvm.vm.api.executable import Executable
from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.executable import MemoryNote, PackedFunc, VMFunction
from relayvm.vm.bytecode.verify import verify
from relayvm.vm.device_table import DEVICES
from relayvm.vm.diagnostics.source import ExecutableFormatError, SourceText

from .executables import F32, all_executables, executable, exp_group, function

pytestmark = pytest.mark.many

EXECUTABLES = all_executables()
NAMES = sorted(EXECUTABLES)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_compiler_makes_verifies(name: str) -> None:
    verify(EXECUTABLES[name])


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_a_long_chain_of_branches_verifies(n: int) -> None:
    items: list[isa.Instruction | isa.Label] = []
    for _ in range(n):
        on_true, on_false = isa.Label(), isa.Label()
        items += [isa.If(0, on_true, on_false), on_true, isa.Move(1, 0), on_false]
    verify(executable(function([*items, isa.Ret(0)], n_registers=100)))


# ---- one rule at a time --------------------------------------------------------------------------------------------

Items = list["isa.Instruction | isa.Label"]
A, B, C = isa.Label(), isa.Label(), isa.Label()
STORAGE = isa.AllocStorage(1, 64, 1)
BEGIN = isa.CopyBegin(1, 0, 1, 0)

#: Code of a function with one parameter and 8 registers, and its fault.
REFUSED: dict[str, tuple[Items, str]] = {
    "register to read": ([isa.Ret(8)], "@main, pc 0, Ret $8: there is no register 8; the function @main has 8"),
    "register to write": ([isa.LoadConsti(-1, 0), isa.Ret(0)], "LoadConsti $-1 val=0: there is no register -1"),
    "register to kill": ([isa.KillRegister((0, 8)), isa.Ret(0)], "KillRegister ($0, $8): there is no register 8"),
    "function": ([isa.InvokeTail(2, (0,))], "there is no function 2; the table has 2"),
    "kernel": ([isa.InvokePacked(1, 1, (0, 0)), isa.Ret(0)], "there is no packed 1; the table has 1"),
    "shape function": ([isa.InvokeShapeFunc(-1, (0,), (1,)), isa.Ret(0)], "there is no shape_func -1; the table has 1"),
    "constant": ([isa.LoadConst(1, 2, 0), isa.Ret(1)], "there is no const 2; the table has 2"),
    "device": ([isa.LoadConst(1, 0, 2), isa.Ret(1)], "device=device[2]: there is no device 2 in a program for sim"),
    "dtype": ([STORAGE, isa.AllocTensor(1, 1, 0, 99, ()), isa.Ret(1)], "dtype=dtype[99] dims=(): there is no dtype 99"),
    "reason": ([isa.DeviceCopy(1, 0, 1, 0, 1), isa.Ret(1)], "there is no reason 1; the table has 1"),
    "no reason": ([isa.DeviceCopy(1, 0, 1, 0, -1), isa.Ret(1)], "there is no reason -1"),
    "size": ([isa.AllocStorage(1, -1, 0), isa.Ret(0)], "nbytes is -1; it must be at least 0"),
    "dimension": ([STORAGE, isa.AllocTensor(1, 1, 0, F32, (2, -1)), isa.Ret(1)], "dims is -1; it must be at least 0"),
    "offset": ([STORAGE, isa.AllocTensor(1, 1, -4, F32, (2,)), isa.Ret(1)], "offset is -4; it must be at least 0"),
    "offset beyond memory": ([STORAGE, isa.AllocTensorReg(1, 1, 2**60, 0, F32), isa.Ret(1)], "the offset 1152921504606846976 is"),
    "alignment": ([STORAGE, isa.AllocTensor(1, 1, 2, F32, ()), isa.Ret(1)], "offset 2 is no multiple of the size of a float32"),
    "rank": ([STORAGE, isa.AllocTensor(1, 1, 0, F32, (1,) * 9), isa.Ret(1)], "the tensor has 9 dimensions; at most 8"),
    "room": (
        [STORAGE, isa.AllocTensor(1, 1, 8, F32, (3, 5)), isa.Ret(1)],
        "8 + 60 bytes do not fit the 64 bytes of the storage in $1",
    ),
    "field": ([isa.GetField(1, 0, -1), isa.Ret(1)], "index is -1; it must be at least 0"),
    "trim": ([isa.TrimTensor(1, 0, 0, -1, 0), isa.Ret(1)], "index is -1; it must be at least 0"),
    "flag": ([isa.TrimTensor(1, 0, 0, 0, 2), isa.Ret(1)], "release is 2; it must be at most 1"),
    "too many": ([isa.AllocADT(1, 0, (0,) * 1025), isa.Ret(1)], "values has 1025 entries; at most 1024 are possible"),
    "arity": ([isa.Invoke(1, 1, (0,)), isa.Ret(1)], "@other takes 2 arguments, not 1"),
    "arity of a tail call": ([isa.InvokeTail(0, (0, 0))], "@main takes 1 argument, not 2"),
    "captured": ([isa.AllocClosure(1, 0, (0, 0)), isa.Ret(1)], "@main has 1 parameter, 2 are captured"),
    "kernel inputs": (
        [isa.InvokePacked(0, 1, (0, 0, 0)), isa.Ret(0)],
        "exp takes 1 input and 1 output, not 3 arguments, 1 of them",
    ),
    "kernel outputs": (
        [isa.InvokePacked(0, 2, (0, 0)), isa.Ret(0)],
        "exp takes 1 input and 1 output, not 2 arguments, 2 of them",
    ),
    "shape inputs": ([isa.InvokeShapeFunc(0, (), (1,)), isa.Ret(0)], "the shape function reads 1 argument, 0 are given"),
    "shape outputs": ([isa.InvokeShapeFunc(0, (0,), (1, 2)), isa.Ret(0)], "the shape function has 1 result, not 2"),
    "shape arguments": ([isa.InvokeShapeFunc(0, (0,) * 1024, (1,)), isa.Ret(0)], "it has 1025 arguments and results"),
    "jump into an instruction": ([isa.Goto(1)], "@main, pc 0, Goto offset=+1: jumps to 1, where no instruction starts"),
    "jump out of the code": ([isa.Goto(2)], "jumps to 2, where no instruction starts"),
    "jump before the code": ([isa.Goto(-2)], "jumps to -2, where no instruction starts"),
    "branch back": ([A, isa.If(0, A, B), B, isa.Ret(0)], "on_true is 0; it must be at least 1"),
    "no end": ([isa.Move(1, 0)], "@main, pc 0, Move $1 $0: the function ends here without returning"),
    "no end after a branch": ([isa.If(0, A, B), A, isa.Ret(0), B, isa.KillRegister(())], "the function ends here without"),
    "never written": ([isa.Ret(1)], "$1 is read, but on some path to here it is empty"),
    "killed": ([isa.KillRegister((0,)), isa.Ret(0)], "pc 3, Ret $0: $0 is read, but on some path to here it is empty"),
    "written on one path": ([isa.If(0, A, B), A, isa.Move(1, 0), B, isa.Ret(1)], "pc 7, Ret $1: $1 is read, but on some path"),
    "killed on one path": ([isa.If(0, A, B), A, isa.KillRegister((0,)), B, isa.Ret(0)], "$0 is read, but on some path"),
    "killed in a loop": (
        [A, isa.If(0, B, C), B, isa.KillRegister((0,)), isa.Goto(A), C, isa.Ret(0)],
        "pc 0, If $0 .*: $0 is read",
    ),
    "storage for a tensor": ([STORAGE, isa.ShapeOf(2, 1), isa.Ret(2)], "$1 holds a storage here; a tensor is needed"),
    "storage to a kernel": ([STORAGE, isa.InvokePacked(0, 1, (0, 1)), isa.Ret(0)], "$1 holds a storage here; a tensor is needed"),
    "storage returned": ([STORAGE, isa.Ret(1)], "$1 holds a storage here; a value is needed"),
    "storage in a tuple": ([STORAGE, isa.AllocADT(2, 0, (1,)), isa.Ret(2)], "$1 holds a storage here; a value is needed"),
    "moved storage": ([STORAGE, isa.Move(2, 1), isa.Ret(2)], "$2 holds a storage here; a value is needed"),
    "room, moved": (
        [STORAGE, isa.Move(2, 1), isa.AllocTensor(2, 2, 0, F32, (17,)), isa.Ret(2)],
        "0 + 68 bytes do not fit the 64 bytes",
    ),
    "tensor for a storage": (
        [isa.ShapeOf(1, 0), isa.AllocTensor(1, 1, 0, F32, ()), isa.Ret(1)],
        "$1 holds a tensor here; a storage",
    ),
    "anything for a storage": ([isa.AllocTensor(1, 0, 0, F32, ()), isa.Ret(1)], "$0 holds a value here; a storage is needed"),
    "tensor for a tuple": ([isa.ShapeOf(1, 0), isa.GetField(1, 1, 0), isa.Ret(1)], "$1 holds a tensor here; a tuple is needed"),
    "tuple for a function": (
        [isa.AllocADT(1, 0, ()), isa.InvokeClosureTail(1, ())],
        "$1 holds a tuple here; a function is needed",
    ),
    "function for a tensor": ([isa.AllocClosure(1, 0, ()), isa.ShapeOf(1, 1), isa.Ret(1)], "$1 holds a function here; a tensor"),
    "storage on one path": (
        [isa.If(0, A, B), A, STORAGE, isa.Goto(C), B, isa.Move(1, 0), C, isa.Ret(1)],
        "it is empty, or holds a storage or a pending copy on one",
    ),
    "tuple or storage on one path": (
        [isa.If(0, A, B), A, STORAGE, isa.Goto(C), B, isa.AllocADT(1, 0, ()), C, isa.AllocTensor(1, 1, 0, F32, ()), isa.Ret(1)],
        "it is empty, or holds a storage or a pending copy on one",
    ),
    "no reason of a begun copy": ([isa.CopyBegin(1, 0, 1, 7), isa.CopyWait(1, 1), isa.Ret(1)], "there is no reason 7"),
    "no pending copy waited for": ([isa.CopyWait(1, 0), isa.Ret(1)], "$0 holds a value here; a pending copy is needed"),
    "waited for an empty register": ([isa.CopyWait(1, 1), isa.Ret(1)], "$1 is read, but on some path to here it is empty"),
    "waited for twice": ([BEGIN, isa.CopyWait(2, 1), isa.CopyWait(3, 1), isa.Ret(3)], "CopyWait $3 $1: $1 is read, but on some"),
    "waited for and killed": ([BEGIN, isa.KillRegister((1,)), isa.CopyWait(2, 1), isa.Ret(2)], "$1 is read, but on some path"),
    "begun on one path": ([isa.If(0, A, B), A, BEGIN, B, isa.CopyWait(1, 1), isa.Ret(1)], "$1 is read, but on some path"),
    "pending on one path, a tensor on the other": (
        [isa.If(0, A, B), A, BEGIN, isa.Goto(C), B, isa.ShapeOf(1, 0), C, isa.CopyWait(1, 1), isa.Ret(1)],
        "it is empty, or holds a storage or a pending copy on one",
    ),
    "pending on one path, a value on the other": (
        [isa.If(0, A, B), A, BEGIN, isa.Goto(C), B, isa.Move(1, 0), C, isa.Ret(1)],
        "it is empty, or holds a storage or a pending copy on one",
    ),
    "waited for on one path": (
        [BEGIN, isa.If(0, A, B), A, isa.CopyWait(2, 1), B, isa.CopyWait(2, 1), isa.Ret(2)], "$1 is read, but on some path",
    ),
    "pending moved": ([BEGIN, isa.Move(2, 1), isa.Ret(0)], "$1 holds a pending copy here; a value or a storage is needed"),
    "pending for a tensor": ([BEGIN, isa.ShapeOf(2, 1), isa.Ret(2)], "$1 holds a pending copy here; a tensor is needed"),
    "pending to a kernel": ([BEGIN, isa.InvokePacked(0, 1, (0, 1)), isa.Ret(0)], "$1 holds a pending copy here; a tensor is"),
    "pending for a storage": ([BEGIN, isa.AllocTensor(2, 1, 0, F32, ()), isa.Ret(2)], "$1 holds a pending copy here; a storage"),
    "pending returned": ([BEGIN, isa.Ret(1)], "$1 holds a pending copy here; a value is needed"),
    "pending in a tuple": ([BEGIN, isa.AllocADT(2, 0, (1,)), isa.Ret(2)], "$1 holds a pending copy here; a value is needed"),
    "pending passed on": ([BEGIN, isa.InvokeTail(0, (1,))], "$1 holds a pending copy here; a value is needed"),
    "pending copied": ([BEGIN, isa.DeviceCopy(2, 1, 1, 0, 0), isa.Ret(2)], "$1 holds a pending copy here; a tensor is needed"),
    "storage begun": ([STORAGE, isa.CopyBegin(2, 1, 1, 0), isa.Ret(0)], "$1 holds a storage here; a tensor is needed"),
}  # fmt: skip

ACCEPTED: dict[str, Items] = {
    "a value is anything but a storage": [isa.ShapeOf(1, 0), isa.GetField(2, 0, 0), isa.InvokeClosure(3, 0, ()), isa.Ret(3)],
    "paths that meet with different kinds": [
        isa.If(0, A, B), A, isa.AllocADT(1, 0, ()), isa.Goto(C), B, isa.ShapeOf(1, 0), C, isa.GetField(1, 1, 0), isa.Ret(1),
    ],
    "both paths write": [isa.If(0, A, B), A, isa.Move(1, 0), isa.Goto(C), B, isa.Move(1, 0), C, isa.Ret(1)],
    "one path ends": [isa.If(0, A, B), A, isa.Fatal(), B, isa.Move(1, 0), isa.Ret(1)],
    "killing what is empty": [isa.KillRegister((3, 3)), isa.Ret(0)],
    "killing and writing again": [isa.KillRegister((0,)), isa.LoadConsti(0, -(2**63)), isa.Ret(0)],
    "a loop": [A, isa.If(0, B, C), B, isa.KillRegister((1,)), isa.Move(1, 0), isa.Goto(A), C, isa.Ret(0)],
    "storage by two paths": [
        isa.If(0, A, B), A, STORAGE, isa.Goto(C), B, STORAGE, C, isa.AllocTensor(1, 1, 0, F32, ()), isa.Ret(1),
    ],
    "a storage filled to the end": [STORAGE, isa.AllocTensor(1, 1, 4, F32, (3, 5)), isa.Ret(1)],
    "no elements": [isa.AllocStorage(1, 0, 1), isa.AllocTensor(1, 1, 0, F32, (0, 2**62)), isa.Ret(1)],
    "code that is never reached": [isa.Ret(0), isa.Ret(7)],
    "a copy begun and waited for in one register": [BEGIN, isa.CopyWait(1, 1), isa.Ret(1)],
    "a copy begun and never waited for": [BEGIN, isa.Ret(0)],
    "a pending copy killed": [BEGIN, isa.KillRegister((1,)), isa.Ret(0)],
    "a pending copy overwritten": [BEGIN, BEGIN, isa.CopyWait(1, 1), isa.Ret(1)],
    "a copy begun on both paths": [
        isa.If(0, A, B), A, BEGIN, isa.Goto(C), B, BEGIN, C, isa.CopyWait(2, 1), isa.Ret(2),
    ],
    "a copy waited for on both paths": [
        BEGIN, isa.If(0, A, B), A, isa.CopyWait(2, 1), isa.Ret(2), B, isa.CopyWait(2, 1), isa.Ret(2),
    ],
    "more killed than a call has arguments": [isa.KillRegister((0,) * 2000), isa.Fatal()],
}  # fmt: skip


def program(items: Items) -> Executable:
    return executable(function(items), function([isa.Ret(0)], 2, name="other"))


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    items, message = REFUSED[case]
    pattern = ".*".join(map(re.escape, message.split(".*")))
    with pytest.raises(ExecutableFormatError, match=pattern) as caught:
        verify(program(items))
    assert caught.value.diagnostics[0].message.startswith("the executable does not verify: @main, pc ")


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str) -> None:
    verify(program(ACCEPTED[case]))


def test_an_instruction_in_a_message_is_cut() -> None:
    with pytest.raises(ExecutableFormatError) as caught:
        verify(program([isa.AllocADT(1, 0, (0,) * 10**5), isa.Ret(1)]))
    assert len(str(caught.value)) < 400


# ---- the function as a whole, and the tables -----------------------------------------------------------------------


def main(**change: Any) -> VMFunction:
    return replace(function([isa.Ret(0)]), **change)


def kernel(**change: Any) -> PackedFunc:
    return replace(PackedFunc(exp_group(), 1, 1, 1), **change)


WIDE = TensorType.of((1,) * 9)
TABLES: dict[str, tuple[Executable, str]] = {
    "unknown opcode": (executable(main(code=np.array([99], np.int64))), "@main, pc 0: no instruction has opcode 99"),
    "cut off": (executable(main(code=np.array([1], np.int64))), "Ret at 0 runs off the end of the code"),
    "no code": (executable(main(code=np.zeros(0, np.int64))), "@main: its code is not a sequence of int64 words"),
    "code of another type": (executable(main(code=np.array([1.0, 0.0]))), "@main: its code is not a sequence of int64 words"),
    "too many registers": (executable(main(n_registers=2**20 + 1)), "has 1048577 registers; at most 1048576"),
    "fewer registers than parameters": (executable(main(n_registers=0)), "@main: has 1 parameters and 0 registers"),
    "parameter of rank 9": (executable(main(params=(("x", TupleType((WIDE,))),))), "%x has 9 dimensions; at most 8"),
    "parameter of an unknown dtype": (executable(main(params=(("x", TensorType((), "int4")),))), "%x has the dtype 'int4'"),
    "name of a parameter": (executable(main(params=(("\n", TensorType(())),))), r"a parameter has the name '\n'"),
    "result of rank 9": (executable(main(result=WIDE)), "its result has 9 dimensions"),
    "too many names of results": (executable(main(output_names=("a", "b"))), "@main: has 2 names for 1 results"),
    "name of a result": (executable(main(output_names=("\n",))), r"@main: a result has the name '\n'"),
    "results of one name": (
        executable(main(result=TupleType((TensorType((), "float32"),) * 2), output_names=("a", "a"))),
        "@main: two results have one name: a, a",
    ),
    "default of another type": (executable(main(defaults=(np.zeros(3),))), "its default Tensor[(3), float64]"),
    "too many defaults": (executable(main(defaults=(np.zeros(3),) * 2)), "@main: has 2 defaults for 1 parameters"),
    "two of one name": (executable(main(), main()), "two functions have one name: main, main"),
    "no name": (executable(main(name="")), "function[0] has the name ''"),
    "span of another source": (executable(main(spans=((0, 1, 0, 0),))), "pc 0 is in source 1 of 1"),
    "span outside": (executable(main(spans=((0, 0, 0, 9),))), "pc 0 is outside of hand.relay"),
    "span backwards": (executable(main(spans=((0, 0, 2, 1),))), "pc 0 is outside of hand.relay"),
    "span within an instruction": (executable(main(spans=((1, 0, 0, 0),))), "pc 1 is out of order, or of no instruction"),
    "spans out of order": (executable(main(spans=((0, 0, 0, 0), (0, 0, 0, 0)))), "pc 0 is out of order"),
    "note on another instruction": (executable(main(notes=(MemoryNote(0),))), "the note on memory of pc 0 is out of order"),
    "note that cannot be printed": (
        executable(replace(function([STORAGE, isa.Ret(0)]), notes=(MemoryNote(0, why="\n"),))),
        "the note on memory of pc 0 cannot be printed",
    ),
    "target": (replace(executable(main()), target="gpu"), "its target is 'gpu'; devices: cpu, sim"),
    "dtype of a constant": (replace(executable(main()), constants=(np.zeros(1, ">i4"),)), "const[0] has the dtype >i4"),
    "rank of a constant": (replace(executable(main()), constants=(np.zeros((1,) * 9),)), "const[0] has 9 dimensions"),
    "device of a kernel": (replace(executable(main()), packed=(kernel(device=2),)), "packed[0] (exp): there is no device[2]"),
    "inputs of a kernel": (replace(executable(main()), packed=(kernel(n_inputs=2),)), "has 2 inputs, but its group 1"),
    "outputs of a kernel": (replace(executable(main()), packed=(kernel(n_outputs=0),)), "has 0 outputs, but its group 1"),
    "names of shape functions": (replace(executable(main()), shape_func_names=()), "1 shape functions and 0 names"),
    "shape program": (
        replace(executable(main()), shape_funcs=(ShapeProgram(((0, SIZE, 8),), (), (), ()),)),
        "shape_func[0] (exp): shape program: load 0 reads index 8",
    ),
    "input of a shape program": (
        replace(executable(main()), shape_funcs=(ShapeProgram(((10**30, SIZE, 0),), (), (), ()),)),
        "load 0 reads input 1000000000000000000000000000000 of 1024",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_tables_refused(case: str) -> None:
    exe, message = TABLES[case]
    with pytest.raises(ExecutableFormatError, match=re.escape(message)):
        verify(exe)


def test_a_function_too_large_to_follow_is_refused() -> None:
    items: Items = []
    for _ in range(600):
        on_true, on_false = isa.Label(), isa.Label()
        items += [isa.If(0, on_true, on_false), on_true, isa.Move(1, 0), on_false]
    with pytest.raises(ExecutableFormatError, match=r"too large: 1048576 registers and \d+ places where paths meet"):
        verify(executable(function([*items, isa.Ret(0)], n_registers=2**20)))


def test_an_executable_without_functions_verifies() -> None:
    verify(replace(executable(), sources=(SourceText("x", ""),)))


# ---- what is accepted keeps the rules: a checker that shares nothing with the verifier -----------------------------

#: Operands by opcode: r read, R reads, T read and emptied, w write, W writes, K kills, j jump, n number, N numbers, i any
#: number, b 0 or 1, and the tables f p h c t(dtype) d(device) y(reason).
LAYOUT = (
    "wr", "r", "wfR", "wrR", "pnR", "wrntN", "wrnrt", "wnR", "wfR", "wrn", "rjj", "wcd", "j", "wr", "wi", "", "wnd", "wr", "wrr",
    "wrddy", "K", "hRW", "wrtd", "wrrnb", "fR", "rR", "wrdy", "wT", "wrd", "wfRK", "wrrr", "rnjj", "rnr",
)  # fmt: skip
ENDS = (1, 10, 12, 15, 24, 25, 31)


def decoded(words: list[int]) -> dict[int, tuple[int, list[tuple[str, int]], int]]:
    """Instructions by pc: opcode, operands with their letters, length.  Raises IndexError for code that does not decode."""
    out, pc = {}, 0
    while pc < len(words):
        operands, at = [], pc + 1
        assert 0 <= words[pc] < len(LAYOUT)
        for letter in LAYOUT[words[pc]]:
            n = 1
            if letter in "RWKN":
                n, at = words[at], at + 1
            assert n >= 0 and at + n <= len(words)
            letters = "rK" if letter == "T" else letter.lower() if letter in "RW" else letter
            operands += [(each, words[at + k]) for k in range(n) for each in letters]
            at += n
        out[pc] = (words[pc], operands, at - pc)
        pc = at
    return out


def keeps_the_rules(exe: Executable) -> None:
    """Assert, slowly, that every number is in range and no register is read before it is written on every path."""
    limits = {"f": len(exe.functions), "p": len(exe.packed), "h": len(exe.shape_funcs), "c": len(exe.constants)}
    limits |= {"t": len(DTYPES), "d": len(DEVICES), "y": len(exe.reasons), "b": 2}
    for f in exe.functions:
        code = decoded(f.code.tolist())
        for opcode, operands, _ in code.values():
            for letter, number in operands:
                assert 0 <= number < (f.n_registers if letter in "rwK" else limits.get(letter, 2**63)) or letter in "ij"
            if opcode in (2, 24):
                first = {2: 1, 24: 0}[opcode]
                assert sum(letter == "r" for letter, _ in operands) == len(exe.functions[operands[first][1]].params)
            if opcode == 4:
                packed = exe.packed[operands[0][1]]
                assert len(operands) - 2 == packed.n_inputs + packed.n_outputs
        after = {pc: [pc + n for letter, n in operands if letter == "j"] or ([] if opcode in ENDS else [pc + size])
                 for pc, (opcode, operands, size) in code.items()}  # fmt: skip
        assert all(pc in code for following in after.values() for pc in following)
        for register in range(f.n_registers):
            assert_written_before_read(register, register < len(f.params), code, after)


def assert_written_before_read(register: int, is_param: bool, code: dict[int, Any], after: dict[int, list[int]]) -> None:
    """Follow every path on which the register is empty, from the start and from each kill."""
    reached = set(successors_of_start(code, after))
    kills = {pc for pc in reached if ("K", register) in code[pc][1]}
    waiting = [*([] if is_param else [0]), *(t for pc in kills if ("w", register) not in code[pc][1] for t in after[pc])]
    seen: set[int] = set()
    while waiting:
        pc = waiting.pop()
        if pc in seen:
            continue
        seen.add(pc)
        assert ("r", register) not in code[pc][1], (pc, register)
        if ("w", register) not in code[pc][1]:
            waiting += after[pc]


def successors_of_start(code: dict[int, Any], after: dict[int, list[int]]) -> Iterable[int]:
    seen, waiting = set(), [0]
    while waiting:
        pc = waiting.pop()
        if pc not in seen:
            seen.add(pc)
            waiting += after[pc]
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_the_slow_checker_accepts_what_the_compiler_makes(name: str) -> None:
    keeps_the_rules(EXECUTABLES[name])


@pytest.mark.parametrize(
    "case", [c for c in REFUSED if c.startswith(("register", "never", "killed", "written", "jump", "arity", "waited"))]
)
def test_the_slow_checker_refuses_too(case: str) -> None:
    with pytest.raises((AssertionError, IndexError)):
        keeps_the_rules(program(REFUSED[case][0]))


def altered(exe: Executable, changes: list[tuple[int, int, int]]) -> Executable:
    """The executable with words of its functions replaced: ``(function, word, value)``."""
    functions = list(exe.functions)
    for f, at, value in changes:
        f %= len(functions)
        words = functions[f].code.copy()
        words[at % len(words)] = value
        functions[f] = replace(functions[f], code=words)
    return replace(exe, functions=tuple(functions))


def accepted(exe: Executable) -> bool:
    try:
        verify(exe)
    except ExecutableFormatError:
        return False
    return True


@pytest.mark.split(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_word_altered_is_refused_or_keeps_the_rules(name: str) -> None:
    exe, verdicts = EXECUTABLES[name], {True: 0, False: 0}
    for f, fn in enumerate(exe.functions):
        for at, word in enumerate(fn.code.tolist()):
            for value in (0, -1, 2**62, -(2**63), word + 1, word - 1, 2 * word):
                changed = altered(exe, [(f, at, value)])
                good = accepted(changed)
                verdicts[good] += 1
                if good:
                    keeps_the_rules(changed)
    assert min(verdicts.values()) > 0, verdicts


SMALL = st.one_of(st.integers(-3, 30), st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63)]))


@given(st.sampled_from(NAMES), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), SMALL), min_size=1, max_size=4))
@settings(max_examples=400)
def test_several_words_altered_are_refused_or_keep_the_rules(name: str, changes: list[tuple[int, int, int]]) -> None:
    changed = altered(EXECUTABLES[name], changes)
    if accepted(changed):
        keeps_the_rules(changed)


@st.composite
def likely_code(draw: st.DrawFn) -> Items:
    """A strategy for instructions with valid operands; registers may be read before they are written."""
    register = st.integers(0, 3)
    simple = st.one_of(
        st.builds(isa.Move, register, register), st.builds(isa.LoadConsti, register, st.just(0)), st.builds(isa.Ret, register),
        st.builds(lambda r: isa.KillRegister((r,)), register), st.builds(isa.ShapeOf, register, register),
    )  # fmt: skip
    n = draw(st.integers(1, 12))
    labels = [isa.Label() for _ in range(n + 1)]
    items: Items = []
    for i in range(n):
        ahead = st.sampled_from(labels[i + 1 :])
        jump = st.one_of(st.builds(isa.If, register, ahead, ahead), st.builds(isa.Goto, st.sampled_from(labels)))
        items += [labels[i], draw(st.one_of(simple, simple, simple, jump))]
    return [*items, labels[n], isa.Ret(0)]


@given(likely_code())
@settings(max_examples=150)
def test_assignment_agrees_with_the_slow_checker(items: Items) -> None:
    exe = executable(function(items, 1, 4))
    try:
        keeps_the_rules(exe)
    except AssertionError:
        assert not accepted(exe)
    else:
        assert accepted(exe)
