"""Instruction rules: the instructions of each machine operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.core.op import Op
from ...ops.core.tensor_types import DTYPES
from ...ops.defs import machine_ops
from ...shape_funcs.symbolic.dim import Dim, eq, sym
from ...shape_funcs.symbolic.program import SIZE, ShapeProgram, assemble
from ...shape_funcs.symbolic.registry import Check
from ...vm.bytecode import isa
from ...vm.bytecode.executable import DEVICES
from ..ir.expr import Call, Constant, GlobalVar, Var
from ..ir.primitive_shape import primitive
from .code_builder import CodeBuilder

_Rule = Callable[[CodeBuilder, Var, Call], None]
#: ``(emitter, variable, call)`` adds the instructions of ``let variable = call``.
INSTRUCTIONS_OF: dict[Op, _Rule] = {}


def _rule(op: Op) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        INSTRUCTIONS_OF[op] = rule
        return rule

    return register


@_rule(machine_ops.ALLOC_STORAGE)
def _alloc_storage(e: CodeBuilder, var: Var, call: Call) -> None:
    e.add(isa.AllocStorage(e.dst(var), call.attrs.nbytes, DEVICES.index(call.attrs.device)))


@_rule(machine_ops.ALLOC_TENSOR)
def _alloc_tensor(e: CodeBuilder, var: Var, call: Call) -> None:
    storage, a = e.reg(call.args[0]), call.attrs
    e.add(isa.AllocTensor(e.dst(var), storage, a.offset, DTYPES.index(a.dtype), a.shape))


@_rule(machine_ops.ALLOC_STORAGE_REG)
def _alloc_storage_reg(e: CodeBuilder, var: Var, call: Call) -> None:
    shape, a = e.reg(call.args[0]), call.attrs
    e.add(isa.AllocStorageReg(e.dst(var), shape, DTYPES.index(a.dtype), DEVICES.index(a.device)))


@_rule(machine_ops.TAKE_STORAGE)
def _take_storage(e: CodeBuilder, var: Var, call: Call) -> None:
    source = e.reg(call.args[0])
    e.add(isa.TakeStorage(e.dst(var), source, DEVICES.index(call.attrs.device)))


@_rule(machine_ops.ALLOC_TENSOR_REG)
def _alloc_tensor_reg(e: CodeBuilder, var: Var, call: Call) -> None:
    (storage, shape), a = e.regs(call.args), call.attrs
    e.add(isa.AllocTensorReg(e.dst(var), storage, a.offset, shape, DTYPES.index(a.dtype)))


@_rule(machine_ops.LOAD_CONST)
def _load_const(e: CodeBuilder, var: Var, call: Call) -> None:
    constant = call.args[0]
    assert isinstance(constant, Constant)
    e.add(isa.LoadConst(e.dst(var), e.tables.constant(constant.data), DEVICES.index(call.attrs.device)))


@_rule(machine_ops.DEVICE_COPY)
def _device_copy(e: CodeBuilder, var: Var, call: Call) -> None:
    register, a, number = e.reg(call.args[0]), call.attrs, e.reason(call)
    e.add(isa.DeviceCopy(e.dst(var), register, DEVICES.index(a.src), DEVICES.index(a.dst), number))


@_rule(machine_ops.COPY_BEGIN)
def _copy_begin(e: CodeBuilder, var: Var, call: Call) -> None:
    register, number = e.reg(call.args[0]), e.reason(call)
    e.add(isa.CopyBegin(e.dst(var), register, DEVICES.index(call.attrs.src), number))


@_rule(machine_ops.COPY_WAIT)
def _copy_wait(e: CodeBuilder, var: Var, call: Call) -> None:
    pending = e.reg(call.args[0])
    e.add(isa.CopyWait(e.dst(var), pending))
    e.registers.release(pending)  # the instruction empties it


@_rule(machine_ops.INVOKE_OP)
def _invoke_op(e: CodeBuilder, var: Var, call: Call) -> None:
    function, *args = call.args
    assert isinstance(function, GlobalVar)
    n = call.attrs.n_outputs
    number = e.tables.kernel(function.name, len(args) - n, n, call.attrs.workspace)
    e.add(isa.InvokePacked(number, n, e.regs(tuple(args))))


@_rule(machine_ops.SHAPE_FUNC)
def _shape_func(e: CodeBuilder, var: Var, call: Call) -> None:
    function, *args = call.args
    assert isinstance(function, GlobalVar)
    number = e.tables.shape_func(function.name)
    e.notes.shape_func(var, call, primitive(e.tables.mod[function.name], e.tables.context))
    sources = e.regs(tuple(args))
    e.where[var] = tuple(e.registers.take() for _ in e.tables.shape_funcs.items[number][0].outputs)
    e.add(isa.InvokeShapeFunc(number, sources, e.where[var]))


@_rule(machine_ops.SHAPE_OF)
def _shape_of(e: CodeBuilder, var: Var, call: Call) -> None:
    data = e.reg(call.args[0])
    e.add(isa.ShapeOf(e.dst(var), data))


@_rule(machine_ops.RESHAPE_TENSOR)
def _reshape_tensor(e: CodeBuilder, var: Var, call: Call) -> None:
    data, shape = e.regs(call.args)
    e.add(isa.ReshapeTensor(e.dst(var), data, shape))


@_rule(machine_ops.SLICE_TENSOR)
def _slice_tensor(e: CodeBuilder, var: Var, call: Call) -> None:
    data, shape, offset = e.regs(call.args)
    e.add(isa.SliceTensor(e.dst(var), data, shape, offset))


@_rule(machine_ops.SIZES)
def _sizes(e: CodeBuilder, var: Var, call: Call) -> None:
    a = call.attrs
    program = ShapeProgram(a.loads, a.rows, (), a.outputs)
    sources = e.regs(call.args)
    e.where[var] = tuple(e.registers.take() for _ in program.outputs)
    e.add(isa.InvokeShapeFunc(e.tables.assertion(program, machine_ops.SIZES.name), sources, e.where[var]))


@_rule(machine_ops.TRIM)
def _trim(e: CodeBuilder, var: Var, call: Call) -> None:
    (data, counts), a = e.regs(call.args), call.attrs
    e.add(isa.TrimTensor(e.dst(var), data, counts, a.index, int(a.release)))


@_rule(machine_ops.ALLOC_CLOSURE)
def _alloc_closure(e: CodeBuilder, var: Var, call: Call) -> None:
    function, *captured = call.args
    assert isinstance(function, GlobalVar)
    registers = e.regs(tuple(captured))
    e.add(isa.AllocClosure(e.dst(var), e.tables.functions[function.name], registers))


@_rule(machine_ops.ASSERT_SHAPE)
def _assert_shape(e: CodeBuilder, var: Var, call: Call) -> None:
    sizes = [sym(f"d{axis}") for axis in range(len(call.attrs.dims))]
    wanted = [(axis, d) for axis, d in enumerate(call.attrs.dims) if d >= 0]
    checks = [
        Check(eq(sizes[axis], d), f"axis {axis} has the size {{}}, but the program declares {d}", (sizes[axis],))
        for axis, d in wanted
    ]
    e.assertion(var, call, assemble([], checks, {s: (0, SIZE, axis) for axis, s in enumerate(sizes)}))


@_rule(machine_ops.ASSERT_SAME_SIZE)
def _assert_same_size(e: CodeBuilder, var: Var, call: Call) -> None:
    a, b = sym("a"), sym("b")
    check = Check(eq(a, b), call.attrs.message, (a, b))
    loads: dict[Dim, Any] = {a: (0, SIZE, call.attrs.axis), b: (1, SIZE, call.attrs.other_axis)}
    e.assertion(var, call, assemble([], [check], loads))
