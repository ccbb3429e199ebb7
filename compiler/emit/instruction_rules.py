"""Instruction rules: the instructions of each machine operator.

A machine operator with the name of an instruction needs no rule: its arguments and attributes are the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...ops.core.op import REGISTRY, Op, OpPattern
from ...ops.core.tensor_types import DTYPES
from ...ops.defs.machine import machine_ops
from ...shape_funcs.symbolic.dim import Dim, sym
from ...shape_funcs.symbolic.dim_operations import eq
from ...shape_funcs.symbolic.program import SIZE, ShapeProgram, assemble
from ...shape_funcs.symbolic.registry import Check
from ...vm.bytecode import isa
from ...vm.device_table import DEVICES
from ..ir.expr import Call, Constant, Expr, GlobalVar, Var
from ..ir.primitive_shape import primitive
from .code_builder import CodeBuilder

_Rule = Callable[[CodeBuilder, Var, Call], None]
#: ``(emitter, variable, call)`` adds the instructions of ``let variable = call``.
INSTRUCTIONS_OF: dict[Op, _Rule] = {}


def rule(op: Op) -> Callable[[_Rule], _Rule]:
    """The decorator that makes a function the rule of ``op``."""

    def register(rule: _Rule) -> _Rule:
        INSTRUCTIONS_OF[op] = rule
        return rule

    return register


@rule(machine_ops.INVOKE_OP)
def _invoke_op(e: CodeBuilder, var: Var, call: Call) -> None:
    function, *args = call.args
    assert isinstance(function, GlobalVar)
    n = call.attrs.n_outputs
    number = e.tables.kernel(function.name, len(args) - n, n, call.attrs.workspace)
    e.add(isa.InvokePacked(number, n, e.regs(tuple(args))))


@rule(machine_ops.SHAPE_FUNC)
def _shape_func(e: CodeBuilder, var: Var, call: Call) -> None:
    function, *args = call.args
    assert isinstance(function, GlobalVar)
    number = e.tables.shape_func(function.name)
    e.notes.shape_func(var, call, primitive(e.tables.mod[function.name], e.tables.context))
    sources = e.regs(tuple(args))
    e.where[var] = tuple(e.registers.take() for _ in e.tables.shape_funcs.items[number][0].outputs)
    e.add(isa.InvokeShapeFunc(number, sources, e.where[var]))


@rule(machine_ops.SIZES)
def _sizes(e: CodeBuilder, var: Var, call: Call) -> None:
    a = call.attrs
    program = ShapeProgram(a.loads, a.rows, (), a.outputs)
    sources = e.regs(call.args)
    e.where[var] = tuple(e.registers.take() for _ in program.outputs)
    e.add(isa.InvokeShapeFunc(e.tables.assertion(program, machine_ops.SIZES.name), sources, e.where[var]))


@rule(machine_ops.TRIM)
def _trim(e: CodeBuilder, var: Var, call: Call) -> None:
    (data, counts), a = e.regs(call.args), call.attrs
    e.add(isa.TrimTensor(e.dst(var), data, counts, a.index, int(a.release)))


@rule(machine_ops.ASSERT_SHAPE)
def _assert_shape(e: CodeBuilder, var: Var, call: Call) -> None:
    sizes = [sym(f"d{axis}") for axis in range(len(call.attrs.dims))]
    wanted = [(axis, d) for axis, d in enumerate(call.attrs.dims) if d >= 0]
    checks = [
        Check(eq(sizes[axis], d), f"axis {axis} has the size {{}}, but the program declares {d}", (sizes[axis],))
        for axis, d in wanted
    ]
    _assertion(e, var, call, assemble([], checks, {s: (0, SIZE, axis) for axis, s in enumerate(sizes)}))


@rule(machine_ops.ASSERT_SAME_SIZE)
def _assert_same_size(e: CodeBuilder, var: Var, call: Call) -> None:
    a, b = sym("a"), sym("b")
    check = Check(eq(a, b), call.attrs.message, (a, b))
    loads: dict[Dim, Any] = {a: (0, SIZE, call.attrs.axis), b: (1, SIZE, call.attrs.other_axis)}
    _assertion(e, var, call, assemble([], [check], loads))


def _assertion(e: CodeBuilder, var: Var, call: Call, program: ShapeProgram) -> None:
    """Check the shapes of the arguments; the value is the first argument."""
    assert isinstance(call.op, Op)
    args = e.regs(call.args)
    e.add(isa.InvokeShapeFunc(e.tables.assertion(program, call.op.name), args, ()))
    e.move(var, args[0])


# ---- operators with the name of an instruction ----------------------------------------------------------------------

#: The attributes with another name than their operand.
_ATTRIBUTES = {"dims": "shape", "src_device": "src", "dst_device": "dst"}


def _same_name(op: Op) -> str:
    """The instruction's name: ``AllocTensor`` for ``memory.alloc_tensor``."""
    return "".join(word.capitalize() for word in op.name.rpartition(".")[2].split("_"))


def _instruction(cls: type[isa.Instruction], e: CodeBuilder, var: Var, call: Call) -> None:
    """Add the instruction ``cls``: registers and table entries are the arguments in order, immediates the attributes by name."""
    args = list(call.args)
    operands = [_operand(kind, name, args, e, var, call) for name, kind in cls.operands.items()]
    e.add(cls(*operands))
    for operand, kind in zip(operands, cls.operands.values(), strict=True):
        if kind.access == "take":
            e.registers.release(operand)  # the instruction empties it


def _operand(kind: isa.Kind, name: str, args: list[Expr], e: CodeBuilder, var: Var, call: Call) -> Any:
    """One operand; an argument is removed from ``args``."""
    if kind.access == "write":
        return e.dst(var)
    if kind.table == "register":
        return e.regs(tuple(args)) if kind.many else e.reg(args.pop(0))
    if kind.table == "reason":
        return e.reason(call)
    if kind.table in ("const", "function"):
        entry = args.pop(0)
        if isinstance(entry, Constant):
            return e.tables.constant(entry.data)
        assert isinstance(entry, GlobalVar)
        return e.tables.functions[entry.name]
    value = getattr(call.attrs, _ATTRIBUTES.get(name, name))
    names = {"device": DEVICES, "dtype": DTYPES}.get(kind.table or "")
    return value if names is None else names.index(value)


_BY_NAME = {cls.__name__: cls for cls in isa.INSTRUCTIONS.values()}
INSTRUCTIONS_OF |= {
    op: partial(_instruction, _BY_NAME[_same_name(op)])
    for op in REGISTRY.values()
    if op.pattern is OpPattern.MACHINE and op not in INSTRUCTIONS_OF and _same_name(op) in _BY_NAME
}
