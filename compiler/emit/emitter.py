"""Emit IR with explicit allocation and lifetimes as an executable: registers, instructions, tables.

A value has one register from its binding to its ``memory.kill``; registers are reused.  The two branches of an ``if`` write one
register; in tail position, each branch returns or makes a tail call itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ops.core.op import Op
from ...ops.core.tensor_types import FuncType
from ...ops.defs.machine import machine_ops
from ...ops.defs.machine.adt_ops import ADT_FIELDS
from ...vm.api.executable import Executable
from ...vm.bytecode import isa
from ...vm.bytecode.executable import VMFunction
from ...vm.bytecode.operand_kinds import Role
from ...vm.bytecode.trusted import register
from ...vm.device_table import DEVICES
from ...vm.diagnostics import codes
from ...vm.diagnostics.printable import printable_name
from ...vm.diagnostics.source import Span, TypeCheckError
from ...vm.state.state_layout import MAX_ARGS
from ..device_placement.place import DEVICES_OF_PARAMS
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, let_chain, type_of
from ..ir.lowering_context import LoweringContext
from ..ir.multi_version import is_launch
from ..ir.signature_attrs import defaults_of, output_names
from ..lowering.manifest_lifetimes import is_tail_call
from . import adt_instructions  # noqa: F401  declares rules
from .code_builder import CAPTURES_HELP, CodeBuilder
from .executable_tables import Tables
from .instruction_rules import INSTRUCTIONS_OF


def emit(mod: IRModule, context: LoweringContext, config: Mapping[str, str]) -> Executable:
    """The executable of ``mod``, the output of ``manifest_lifetimes``.  ``config`` is recorded in it."""
    tables = Tables(mod, context)
    taking = config.get("plan") != "off"
    functions = tuple(FunctionEmitter(tables, name, f, taking).emit() for name, f in mod.functions.items() if not f.is_primitive)
    exe = Executable(
        functions=functions,
        constants=tuple(tables.constants.items),
        packed=tuple(tables.packed.items),
        shape_funcs=tuple(p for p, _ in tables.shape_funcs.items),
        shape_func_names=tuple(name for _, name in tables.shape_funcs.items),
        reasons=tuple(tables.reasons.items),
        target=context.target,
        config=dict(config),
        sources=tuple(tables.sources.items),
        adts=tables.adts(functions),
        host_fields=tables.host_fields,
        float_products=mod.float_products,
    )
    return register(exe)


# ---- functions -----------------------------------------------------------------------------------------------------


class FunctionEmitter(CodeBuilder):
    """The emitter of one function."""

    def __init__(self, tables: Tables, name: str, function: Function, taking: bool) -> None:
        super().__init__(tables, name, function)
        self.taking = taking

    def emit(self) -> VMFunction:
        """The function in bytecode."""
        f = self.function
        if len(f.params) > MAX_ARGS:
            message = f"@{self.name} has {len(f.params)} parameters; at most {MAX_ARGS} are possible"
            raise TypeCheckError(message, f.span, help=CAPTURES_HELP, code=codes.Type.SIZE)
        for p in f.params:
            self.where[p] = self.registers.take()
        self.tail_chain(f.body)
        code, starts = isa.assemble(self.items)
        result = f.ty.result if isinstance(f.ty, FuncType) else f.ret_type
        assert result is not None, self.name
        types = (p.annotation if p.ty is None and p.annotation is not None else type_of(p) for p in f.params)
        params = tuple((printable_name(p.name), ty) for p, ty in zip(f.params, types, strict=True))
        devices = tuple(map(DEVICES.index, f.attrs.get(DEVICES_OF_PARAMS, ())))
        spans = self.span_table(starts)
        notes = self.notes.table(starts)
        names, defaults = output_names(f, self.name, result), defaults_of(f)
        return VMFunction(self.name, params, result, self.registers.count, code, spans, devices, notes, names, defaults)

    def span_table(self, starts: list[int]) -> tuple[tuple[int, int, int, int], ...]:
        """``(pc, source, start, end)`` for each change of the source place."""
        out: list[tuple[int, int, int, int]] = []
        last: Span | None = None
        for pc, span in zip(starts, self.spans, strict=True):
            if span is not None and span != last:
                out.append((pc, *self.tables.place(span)))
                last = span
        return tuple(out)

    # ---- chains ------------------------------------------------------------------------------------------------

    def bindings(self, bindings: list[tuple[Var, Expr]]) -> None:
        skip: set[Var] = set()
        for i, (var, value) in enumerate(bindings):
            self.span = value.span or self.span
            if isinstance(value, If):
                self.branches(var, value)
            elif isinstance(value, Call) and value.op is machine_ops.KILL:
                self.kill([v for v in value.args if isinstance(v, Var) and v not in skip])
            else:
                if isinstance(value, Call) and (effect_of(value).makes_tensor or value.op is ADT_FIELDS):
                    taken = self.register_of_dead(var, value, bindings[i + 1 : i + 2])
                    skip |= taken
                    if taken and value.op is ADT_FIELDS:
                        continue  # the same object in the same register
                dead = self.dead_arguments(value, bindings[i + 1 : i + 2])
                self.binding(var, value, dead)
                for v in dead:
                    self.registers.release(self.where[v])
                skip.update(dead)

    def register_of_dead(self, var: Var, value: Call, next_: list[tuple[Var, Expr]]) -> set[Var]:
        """If the first argument, a storage or a record, is killed next, ``var`` takes its register, and the kill is omitted."""
        dead = value.args[0]
        if var in self.where or not next_ or not isinstance(next_[0][1], Call) or next_[0][1].op is not machine_ops.KILL:
            return set()
        if dead not in next_[0][1].args:
            return set()
        assert isinstance(dead, Var)
        self.where[var] = self.where[dead]
        return {dead}

    def dead_arguments(self, value: Expr, next_: list[tuple[Var, Expr]]) -> list[Var]:
        """The arguments of a call that are killed next: they are dead when the function begins."""
        if not self.taking or not isinstance(value, Call) or not isinstance(value.op, GlobalVar) or not next_:
            return []
        kill = next_[0][1]
        if not isinstance(kill, Call) or kill.op is not machine_ops.KILL:
            return []
        return [v for v in kill.args if isinstance(v, Var) and v in value.args]

    def tail_chain(self, chain: Expr) -> None:
        """A chain whose result is the function's result."""
        bindings, result = let_chain(chain)
        var, value = bindings[-1] if bindings else (None, None)
        if var is not None and result is var and isinstance(value, If):
            self.bindings(bindings[:-1])
            self.tail_branches(value)
        elif var is not None and value is not None and is_tail_call(var, value, result):
            self.bindings(bindings[:-1])
            self.span = value.span or self.span
            assert isinstance(value, Call) and not isinstance(value.op, Op)
            args = self.regs(value.args)
            if isinstance(value.op, GlobalVar):
                self.add(isa.InvokeTail(self.tables.functions[value.op.name], args))
            else:
                self.add(isa.InvokeClosureTail(self.reg(value.op), args))
        else:
            self.bindings(bindings)
            self.add(isa.Ret(self.reg(result)))

    def jump(self, value: If, on_true: isa.Label, on_false: isa.Label) -> None:
        """The instruction that chooses a branch."""
        if value.constructor:
            tag = self.tables.tag(value.cond.ty, value.constructor)
            self.add(isa.IfTag(self.reg(value.cond), tag, on_true, on_false))
        else:
            self.add(isa.If(self.reg(value.cond), on_true, on_false))

    def tail_branches(self, value: If) -> None:
        on_true, on_false = isa.Label(), isa.Label()
        self.jump(value, on_true, on_false)
        free, span = self.registers.free(), self.span
        for label, chain in ((on_true, value.true_branch), (on_false, value.false_branch)):
            before = self.registers.count
            self.add(label)
            self.span = span
            self.tail_chain(chain)
            free |= set(range(before, self.registers.count))
            self.registers.set_free(free)

    def branches(self, var: Var, value: If) -> None:
        """An ``if`` whose value is used: both branches write the register of ``var``; an ``if`` between versions has none."""
        on_true, on_false, end = isa.Label(), isa.Label(), isa.Label()
        self.jump(value, on_true, on_false)
        merge = None if is_launch(value) else self.dst(var)
        free, span = self.registers.free(), self.span
        after = []
        for label, chain in ((on_true, value.true_branch), (on_false, value.false_branch)):
            before = self.registers.count
            self.add(label)
            self.span = span
            self.branch(chain, merge)
            if label is on_true:
                self.add(isa.Goto(end))
            after.append((self.registers.free(), set(range(before, self.registers.count))))
            free |= after[-1][1]
            self.registers.set_free(free)
        self.add(end)
        # a register that one branch allocated first does not exist in the other
        (free_a, _), (free_b, new_b) = after
        self.registers.set_free((free_a | new_b) & free_b)

    def branch(self, chain: Expr, merge: int | None) -> None:
        bindings, result = let_chain(chain)
        if merge is None:
            self.bindings(bindings)
            return
        assert isinstance(result, Var)
        if any(v is result for v, _ in bindings):
            self.where[result] = merge
            self.bindings(bindings)
            if self.where[result] != merge:
                self.add(isa.Move(merge, self.where[result]))
        else:
            self.bindings(bindings)
            self.add(isa.Move(merge, self.reg(result)))

    def kill(self, dead: list[Var]) -> None:
        registers = tuple(self.where[v] for v in dead)
        if registers:
            self.add(isa.KillRegister(registers))
        for r in registers:
            self.registers.release(r)

    # ---- bindings ----------------------------------------------------------------------------------------------

    def binding(self, var: Var, value: Expr, dead: Sequence[Var]) -> None:
        """The instructions of ``let var = value``, except ``if`` and ``memory.kill``; ``dead``: the arguments released by a
        call."""
        match value:
            case Tuple():
                fields = self.regs(value.fields)
                self.add(isa.AllocADT(self.dst(var), 0, fields))
            case TupleGetItem():
                assert isinstance(value.tuple_value, Var)
                whole = self.where[value.tuple_value]
                if isinstance(whole, tuple):
                    self.where[var] = whole[value.index]
                    self.notes.vector(var, value.tuple_value, value.index)
                else:
                    self.add(isa.GetField(self.dst(var), whole, value.index))
            case Call(op=Op() as op):
                INSTRUCTIONS_OF[op](self, var, value)
                self.note(var, value)
            case Call(op=GlobalVar() as callee):
                args, function = self.regs(value.args), self.tables.functions[callee.name]
                if dead:
                    self.add(isa.InvokeTaking(self.dst(var), function, args, tuple(self.where[v] for v in dead)))
                else:
                    self.add(isa.Invoke(self.dst(var), function, args))
            case Call(op=Var() as callee):
                args = self.regs(value.args)
                self.add(isa.InvokeClosure(self.dst(var), self.reg(callee), args))
            case Var():
                src = self.reg(value)
                self.move(var, src)
            case _:
                raise AssertionError(f"emit: no instruction for {value}")

    def note(self, var: Var, call: Call) -> None:
        """Note the memory that the last instruction, of ``let var = call``, defines."""
        number, instruction = len(self.spans) - 1, self.items[-1]
        assert isinstance(instruction, isa.Instruction)
        if instruction.defines("storage"):
            self.notes.storage(number, var, call)
        elif Role.STORAGE in instruction.roles:
            self.notes.tensor(number, var, call)
        elif Role.WHOLE in instruction.roles:
            self.notes.part(number, var)
