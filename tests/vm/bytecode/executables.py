"""Executables for the tests of the file and the verifier: compiled programs of every kind, and an executable built by hand."""

from __future__ import annotations

import functools

import numpy as np

from relayvm.compiler.compile import compile
from relayvm.ops.core.copy_reason import CopyKind, CopyReason
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.op import NoAttrs
from relayvm.ops.core.tensor_types import DTYPES, FuncType, Tensor, TensorType, TupleType, scalar
from relayvm.ops.core.type_relation import build_group, shape_program
from relayvm.shape_funcs.symbolic.dim import fresh, sym
from relayvm.vm.api.executable import Executable
from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.executable import MemoryNote, PackedFunc, VMFunction
from relayvm.vm.diagnostics.source import SourceText

from ...devices import DEVICES

PROGRAMS = {
    "upper_bound": """def @main(%x: Tensor[(?n, 4), float32]) {
  // Schlüssel
  let %y = argwhere(%x); (%y, exp(%x) + 1f) }""",
    "recursion": """def @loop(%i: int64, %n: int64, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
  if (less(%i, %n)) { @loop(%i + 1i64, %n, concatenate((%x, %x), axis=0)) } else { %x } }
def @main(%n: int64, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { @loop(0i64, %n, %x) }""",
    "closure": """def @main(%x: Tensor[(?, 4), float32], %c: bool) {
  let %f = fn (%y: Tensor[(?, 4), float32]) { add(%y, %x) };
  let %r = if (%c) { %f(%x) } else { exp(%x) }; let %t = (%r, %x); multiply(%t.0, %t.1) }""",
    "data_dependent": "def @main(%x: Tensor[(?, 4), float32], %s: Tensor[(2), int64]) { dyn.reshape(exp(%x), %s) }",
    "copy_begun_early": """def @main(%x: Tensor[(?, 4), float32]) {
  let %c = less(sum(%x), 3f); let %y = nn.softmax(exp(%x)); if (%c) { %y } else { %x } }""",
    "tuple": """def @main(%t: (Tensor[(?, 2), float32], (int32, Tensor[(3), bool]))) {
  (cast(%t.1.1, dtype="float32"), sum(%t.0, axis=[1], keepdims=True), %t.1.0) }""",
}
F32, I64 = DTYPES.index("float32"), DTYPES.index("int64")


@functools.cache
def compiled(name: str, target: str = "sim") -> Executable:
    """The compiled program ``name`` of PROGRAMS."""
    return compile('#[version = "0.0.5"]\n' + PROGRAMS[name], target)


@functools.cache
def with_constants() -> Executable:
    """A program with constants of every rank up to 2, an empty constant and a bool constant."""
    program = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 2), float32], %w: Tensor[(3, 2), float32], %b: float32, %m: Tensor[(2), bool],
          %e: Tensor[(0, 2), float32]) {
  (add(nn.dense(%x, %w), %b), where(%m, %x, exp(%x)), concatenate((%x, %e), axis=0)) }"""
    params = {
        "w": np.arange(6, dtype=np.float32).reshape(3, 2),
        "b": np.float32(np.nan),
        "m": np.array([True, False]),
        "e": np.zeros((0, 2), np.float32),
    }
    return compile(program, "sim", params)


def all_executables() -> dict[str, Executable]:
    """All executables by name."""
    out = {f"{name} on {target}": compiled(name, target) for name in PROGRAMS for target in DEVICES}
    return {**out, "constants": with_constants(), "by hand": by_hand()}


def function(items: list[isa.Instruction | isa.Label], n_params: int = 1, n_registers: int = 8, name: str = "main") -> VMFunction:
    """A function over float32 tensors."""
    tensor = TensorType.of((fresh(), 4))
    code, _ = isa.assemble(items)
    return VMFunction(name, tuple((f"p{i}", tensor) for i in range(n_params)), tensor, n_registers, code)


def exp_group() -> Group:
    """``exp`` of a float32 matrix with 4 columns."""
    return build_group(
        [Tensor("float32", (sym("d0"), TensorType.of((4,)).shape[0]))], [], [Node("exp", NoAttrs(), (0,), ())], [1]
    )


def executable(*functions: VMFunction) -> Executable:
    """The functions with a kernel (``exp``), its shape function, two constants and a reason, for the device ``sim``."""
    group = exp_group()
    return Executable(
        functions=functions,
        constants=(np.array(7, np.int64), np.zeros((2, 3), np.float32)),
        packed=(PackedFunc(group, 1, 1, 1),),
        shape_funcs=(shape_program(group).program,),
        shape_func_names=(group.name,),
        reasons=(CopyReason(CopyKind.FLAGGED, "reshape", "newshape", TensorType.of((sym("n"), 4))),),
        target="sim",
        config={"fuse": "on"},
        sources=(SourceText("hand.relay", "exp(%x)\n"),),
    )


@functools.cache
def by_hand() -> Executable:
    """An executable that contains every instruction at least once."""
    other, end, back, tagged = isa.Label(), isa.Label(), isa.Label(), isa.Label()
    items = [
        isa.InvokeShapeFunc(0, (0,), (2,)),
        isa.AllocStorageReg(3, 2, F32, 1),
        isa.AllocTensorReg(3, 3, 0, 2, F32),
        isa.InvokePacked(0, 1, (0, 3)),
        isa.TakeStorage(6, 3, 1),
        isa.ShapeOf(4, 3),
        isa.ReshapeTensor(5, 3, 4),
        isa.DeviceCopy(5, 5, 1, 0, 0),
        isa.CopyBegin(6, 3, 1, 0),
        isa.CopyWait(4, 6),
        isa.LoadConst(6, 0, 0),
        isa.LoadConsti(7, -3),
        isa.AllocADT(7, 0, (5, 6)),
        isa.GetTag(4, 7),
        isa.If(4, other, end),
        other,
        isa.GetField(4, 7, 1),
        isa.SetField(7, 1, 6),
        isa.IfTag(7, 0, tagged, tagged),
        tagged,
        isa.AllocStorage(1, 64, 0),
        isa.AllocTensor(1, 1, 16, I64, (2, 3)),
        isa.TrimTensor(1, 1, 4, 0, 1),
        isa.SliceTensor(1, 1, 4, 4),
        isa.Move(5, 1),
        isa.KillRegister((1, 4)),
        end,
        isa.AllocClosure(6, 1, (5,)),
        isa.InvokeClosure(7, 6, (5,)),
        isa.Invoke(7, 1, (5, 7)),
        isa.InvokeTaking(7, 1, (5, 7), (7,)),
        isa.InvokeTail(2, (6, 7)),
    ]
    main = function(items)
    tensor = main.result
    notes = (
        MemoryNote(6, "", sym("n") * 16, "%x is not this function's own"),
        MemoryNote(11, "a"),
        MemoryNote(23, "a", sym("n") * 16),
    )
    main = VMFunction("main", main.params, tensor, 8, main.code, ((0, 0, 0, 7), (6, 0, 4, 6)), notes=notes)
    callee = function(
        [back, isa.If(0, end2 := isa.Label(), fatal := isa.Label()), end2, isa.Goto(back), fatal, isa.Fatal()], 2, 2, "loop"
    )
    closure_type = FuncType((tensor,), TupleType((tensor, scalar("int64"))))
    code, _ = isa.assemble([isa.InvokeClosureTail(0, (1,))])
    apply = VMFunction("apply", (("f", closure_type), ("x", tensor)), closure_type.result, 2, code)
    ret = function([isa.Ret(0)], name="identity")
    return executable(main, callee, apply, ret)
