"""Malicious executables: the verifier refuses them, or the machine fails; only memory allocated by the program is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.op import NoAttrs, get
from relayvm.ops.core.tensor_types import Tensor, TensorType
from relayvm.ops.core.type_relation import build_group
from relayvm.shape_funcs.symbolic.dim import dim, fresh, sym
from relayvm.shape_funcs.symbolic.dim_operations import eq
from relayvm.shape_funcs.symbolic.program import SIZE, assemble
from relayvm.shape_funcs.symbolic.registry import Check
from relayvm.vm.api.executable import Executable
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.executable import PackedFunc
from relayvm.vm.diagnostics.source import ExecutableFormatError

from .executables import F32, executable, exp_group, function

ADD = build_group(
    [Tensor("float32", (sym("d0"), dim(4))), Tensor("float32", (sym("d0"), dim(4)))],
    [],
    [Node("add", NoAttrs(), (0, 1), ())],
    [2],
)

#: A group whose result reads its parameter at other indices than it is written.
EXP_OF_SUMS = build_group(
    [Tensor("float32", (dim(4), dim(4)))],
    [],
    [Node("transpose", get("transpose").attrs(), (0,), ()), Node("exp", NoAttrs(), (1,), ())],
    [2],
)
SORT = build_group([Tensor("float32", (dim(4),))], [], [Node("topk", get("topk").attrs(), (0,), ())], [1, 2])


def program(
    *items: isa.Instruction | isa.Label, groups: tuple[Group, ...] = (), target: str = "cpu", **changes: Any
) -> Executable:
    """``main`` with two parameters and these instructions; kernels ``exp`` and ``add`` over rows of four, then ``groups``."""
    main = function(list(items), n_params=2)
    # two named dims: the sizes may differ after the checks of the C-API fast path
    main = replace(main, params=tuple((name, TensorType((fresh(), dim(4)), "float32")) for name, _ in main.params))
    base = executable(main)
    device = 1 if target == "sim" else 0
    packed = tuple(PackedFunc(g, device, len(g.params), g.n_outputs) for g in (exp_group(), ADD, *groups))
    constants = (np.zeros((2, 4), np.float32), np.array([0, 1 << 40], np.int64), np.zeros((0,), np.int64))
    for c in constants:
        c.setflags(write=False)
    return replace(base, packed=packed, constants=constants, target=target, **changes)


EXP, SUM = 0, 1
ROWS, EMPTY, NOTHING = range(3)
OUT = [isa.AllocStorage(6, 64, 0), isa.AllocTensor(7, 6, 0, F32, (2, 4))]
A, B = isa.Label(), isa.Label()

#: Executables that the verifier refuses: instructions, and a part of the message.
REFUSED = {
    "a kernel that writes a parameter": ([isa.InvokePacked(EXP, 1, (0, 0)), isa.Ret(0)], r"pc 0.* \$0 is written, but"),
    "a constant": ([isa.LoadConst(2, ROWS, 0), isa.InvokePacked(EXP, 1, (0, 2)), isa.Ret(2)], r"\$2 is written, but"),
    "a view of a parameter": (
        [isa.ShapeOf(2, 0), isa.ReshapeTensor(3, 0, 2), isa.InvokePacked(EXP, 1, (0, 3)), isa.Ret(3)],
        r"\$3 is written, but",
    ),
    "a small vector": ([isa.ShapeOf(2, 0), isa.InvokePacked(EXP, 1, (0, 2)), isa.Ret(2)], r"\$2 is written, but"),
    "a field": (
        [isa.AllocADT(2, 0, (0,)), isa.GetField(3, 2, 0), isa.InvokePacked(EXP, 1, (0, 3)), isa.Ret(3)],
        r"\$3 is written, but",
    ),
    "its own tensor on one path only": (
        [*OUT, isa.If(0, A, B), A, isa.Move(7, 0), B, isa.InvokePacked(EXP, 1, (0, 7)), isa.Ret(7)],
        r"\$7 is written, but on some path",
    ),
    "a copy that may be none": ([isa.DeviceCopy(2, 0, 0, 0, 0), isa.InvokePacked(EXP, 1, (0, 2)), isa.Ret(2)], r"\$2 is written"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_only_what_the_frame_allocated_is_written(name: str) -> None:
    items, message = REFUSED[name]
    with pytest.raises(ExecutableFormatError, match=message):
        VirtualMachine(program(*items))


def rows(n: int, columns: int = 4) -> np.ndarray:
    out = np.arange(float(n * columns), dtype=np.float32).reshape(n, columns)
    out.setflags(write=False)
    return out


def fails(exe: Executable, message: str, *args: np.ndarray) -> None:
    """Check that a run ends with this error and leaves the arguments unchanged."""
    vm = VirtualMachine(exe)
    before = [a.copy() for a in args]
    for _ in range(2):
        with pytest.raises(relay.VMError, match=message):
            vm.run(*args).numpy()
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b)
    assert vm.memory["live_bytes"] == 0


MISFIT = "the tensors of a launch are not such as its kernel takes: the executable is damaged"

#: Executables that fail at run time: the arguments' rows, and instructions.
FAILING: dict[str, tuple[tuple[int, int], list[Any]]] = {
    "a result with fewer rows": ((5, 5), [*OUT, isa.InvokePacked(EXP, 1, (0, 7)), isa.Ret(7)]),
    "a result with more rows": ((1, 1), [*OUT, isa.InvokePacked(EXP, 1, (0, 7)), isa.Ret(7)]),
    "other columns": ((2, 2), [OUT[0], isa.AllocTensor(7, 6, 0, F32, (2, 3)), isa.InvokePacked(EXP, 1, (0, 7)), isa.Ret(7)]),
    "operands of two sizes": ((2, 3), [*OUT, isa.InvokePacked(SUM, 1, (0, 1, 7)), isa.Ret(7)]),
    "a result that overlaps an input": (
        (2, 2),
        [
            isa.AllocStorage(6, 128, 0),
            isa.AllocTensor(7, 6, 0, F32, (2, 4)),
            isa.AllocTensor(5, 6, 16, F32, (2, 4)),
            isa.InvokePacked(EXP, 1, (7, 5)),
            isa.Ret(5),
        ],
    ),
    "a result over an input that its kernel does not write over": (
        (2, 2),
        [*OUT, isa.InvokePacked(EXP, 1, (7, 7)), isa.Ret(7)],
    ),
    "a tuple for a tensor": (
        (2, 2),
        [*OUT, isa.AllocADT(4, 9, (0, 0, 0)), isa.Invoke(7, 1, (4, 0)), isa.Ret(7)],
    ),
}


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("name", FAILING)
def test_tensors_that_do_not_fit_a_kernel_are_not_given_to_it(name: str, target: str) -> None:
    sizes, items = FAILING[name]
    device = 1 if target == "sim" else 0
    items = [isa.AllocStorage(i.dst, i.nbytes, device) if isinstance(i, isa.AllocStorage) else i for i in items]
    exe = program(*items, target=target)
    other = [isa.AllocStorage(3, 64, device), isa.AllocTensor(3, 3, 0, F32, (2, 4)), isa.InvokePacked(EXP, 1, (0, 3)), isa.Ret(3)]
    exe = replace(exe, functions=(*exe.functions, function(other, n_params=2, name="other")))
    wanted = "the machine is in a state it must never be in|" + MISFIT if name == "a tuple for a tensor" else MISFIT
    fails(exe, wanted, *map(rows, sizes))


def test_a_condition_has_one_element() -> None:
    test = [isa.LoadConst(2, NOTHING, 0), isa.If(2, A, B), A, isa.Ret(0), B, isa.Ret(1)]
    fails(program(*test), "the machine is in a state", rows(1), rows(1))


def test_the_compilers_own_executables_are_not_checked_and_loaded_ones_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("RELAYVM_CHECK", "0")
    exe = relay.compile('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 4), float32]) { exp(%x) }')
    exe.save(tmp_path / "exp.rvm")
    assert VirtualMachine(exe)._runtime.tables.demands == ()
    for other in (relay.Executable.load(tmp_path / "exp.rvm"), replace(exe)):
        assert len(VirtualMachine(other)._runtime.tables.demands) == 1


def test_sizes_beside_an_empty_axis_are_bounded() -> None:
    # a loop over so many elements would never end, and numpy has no such array
    items = [
        isa.LoadConst(2, EMPTY, 0),
        isa.AllocStorageReg(3, 2, F32, 0),
        isa.AllocTensorReg(3, 3, 0, 2, F32),
        isa.Ret(3),
    ]
    fails(program(*items), "a size is negative or too large", rows(1), rows(1))


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"graphs": "\x1b[31m"}},
        {"config": {"graphs": "now"}},
        {"config": {"fuse\n": "on"}},
        {"shape_func_names": ("\x1b[31m",)},
    ],
)
def test_tables_hold_what_can_be_shown_and_used(change: Any) -> None:
    with pytest.raises(ExecutableFormatError, match=r"its configuration has graphs=|cannot be printed"):
        VirtualMachine(program(isa.Ret(0), **change))


def test_a_shape_function_that_fails_leaves_its_arguments_in_their_registers() -> None:
    rows, four = sym("rows"), (sym("four"), dim(4))
    checked = assemble([(rows,)], [Check(eq(*four), "{} is not {}", four)], {rows: (0, SIZE, 0), four[0]: (1, SIZE, 0)})
    exe = program(isa.InvokeShapeFunc(0, (0, 1), (1,)), isa.Ret(1), shape_funcs=(checked,))
    exe = replace(exe, functions=(replace(exe.functions[0], result=TensorType((dim(1),), "int64")),))
    vm, x = VirtualMachine(exe), np.zeros((4, 4), np.float32)
    assert vm.run(np.zeros((2, 4), np.float32), x).numpy().tolist() == [2]
    for _ in range(2):
        with pytest.raises(relay.VMError, match="exp: 3 is not 4"):
            vm.run(x, x[:3])
    assert vm.memory["live_objects"] == 0


#: Groups that are valid in a file and refused for kernels: the fault, the group, a part of the message.
GROUPS = {
    "written in place, not by this kernel": (replace(EXP_OF_SUMS, in_place=((0, 0),)), "does not write over parameters"),
    "two results over one parameter": (
        replace(exp_group(), results=(1, 1), in_place=((0, 0), (0, 1))),
        "does not write over parameters",
    ),
    "not all outputs": (replace(SORT, results=SORT.results[::-1], params=SORT.params), "packed.2."),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_without_a_kernel_is_refused(name: str) -> None:
    group, message = GROUPS[name]
    with pytest.raises(ExecutableFormatError, match=message):
        VirtualMachine(program(isa.Ret(0), groups=(group,)))
