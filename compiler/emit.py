"""IR with explicit allocation and lifetimes to an executable: registers, instructions, tables.

A value has one register from its binding to its ``memory.kill``; registers are used again.  The two branches of an
``if`` write one register; at the end of a function each branch returns, or calls in its frame's place, by itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ops import machine
from ..ops.op import Op
from ..ops.ty import DTYPES, FuncType, TensorType
from ..shape_funcs.dims import Dim, eq, sym
from ..shape_funcs.program import SIZE, ShapeProgram, assemble
from ..shape_funcs.registry import Check
from ..vm import isa
from ..vm.copy_reason import CopyKind, CopyReason
from ..vm.executable import DEVICES, Executable, VMFunction
from ..vm.sizes import parameter_sizes, portable
from ..vm.source import Span
from .ir import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, let_chain
from .memory.memory_notes import MemoryNotes
from .memory.storage_roots import MAKES_STORAGE, MAKES_TENSOR
from .passes.manifest_lifetimes import is_tail_call
from .passes.place import DEVICES_OF_PARAMS
from .primitive_shape import primitive
from .tables import Tables
from .versions import is_launch


def emit(mod: IRModule, target: str, config: Mapping[str, str], dependence: str = "input") -> Executable:
    """The executable of ``mod``, which is what ``manifest_lifetimes`` gives.  ``config`` is recorded in it."""
    tables = Tables(mod, target, dependence)
    taking = config.get("plan") != "off"
    functions = tuple(_FunctionEmitter(tables, name, f, taking).emit() for name, f in mod.functions.items() if not f.is_primitive)
    return Executable(
        functions=functions,
        constants=tuple(tables.constants.items),
        packed=tuple(tables.packed.items),
        shape_funcs=tuple(p for p, _ in tables.shape_funcs.items),
        shape_func_names=tuple(name for _, name in tables.shape_funcs.items),
        reasons=tuple(tables.reasons.items),
        target=target,
        config=dict(config),
        sources=tuple(tables.sources.items),
    )


# ---- registers -----------------------------------------------------------------------------------------------------


class _Registers:
    """Which registers are free; the lowest is taken first."""

    def __init__(self) -> None:
        self.count = 0
        self._free: list[int] = []

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self.count += 1
        return self.count - 1

    def give(self, register: int) -> None:
        heapq.heappush(self._free, register)

    def free(self) -> set[int]:
        return set(self._free)

    def set_free(self, registers: set[int]) -> None:
        self._free = sorted(registers)


# ---- functions -----------------------------------------------------------------------------------------------------


class _FunctionEmitter:
    """One function.  ``where`` gives a variable's register, for the vectors of a shape function a tuple of them."""

    def __init__(self, tables: Tables, name: str, function: Function, taking: bool) -> None:
        self.tables, self.name, self.function, self.taking = tables, name, function, taking
        self.registers = _Registers()
        self.where: dict[Var, Any] = {}
        self.items: list[isa.Instruction | isa.Label] = []
        self.spans: list[Span | None] = []
        self.span: Span | None = function.span
        self.notes = MemoryNotes(function)
        self.sizes = parameter_sizes((p.name, p.ty) for p in function.params if p.ty is not None)

    def emit(self) -> VMFunction:
        f = self.function
        for p in f.params:
            self.where[p] = self.registers.take()
        self.tail_chain(f.body)
        code, starts = isa.assemble(self.items)
        result = f.ty.result if isinstance(f.ty, FuncType) else f.ret_type
        assert result is not None, self.name
        params = tuple((p.name, p.ty or p.annotation) for p in f.params)
        devices = tuple(map(DEVICES.index, f.attrs.get(DEVICES_OF_PARAMS, ())))
        spans = self.span_table(starts)
        notes = self.notes.table(starts)
        return VMFunction(self.name, params, result, self.registers.count, code, spans, devices, notes)  # type: ignore[arg-type]

    def span_table(self, starts: list[int]) -> tuple[tuple[int, int, int, int], ...]:
        """``(pc, source, start, end)`` wherever the place in the source changes."""
        out: list[tuple[int, int, int, int]] = []
        last: Span | None = None
        for pc, span in zip(starts, self.spans, strict=True):
            if span is not None and span != last:
                out.append((pc, self.tables.source(span.source), span.start, span.end))
                last = span
        return tuple(out)

    def add(self, item: isa.Instruction | isa.Label) -> None:
        self.items.append(item)
        if not isinstance(item, isa.Label):
            self.spans.append(self.span)

    def reg(self, atom: Expr) -> int:
        assert isinstance(atom, Var), atom
        return self.where[atom]

    def regs(self, atoms: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple(self.reg(a) for a in atoms)

    def dst(self, var: Var) -> int:
        """The register of a new variable; the result of a branch has one already."""
        if var not in self.where:
            self.where[var] = self.registers.take()
        return self.where[var]

    # ---- chains ------------------------------------------------------------------------------------------------

    def bindings(self, bindings: list[tuple[Var, Expr]]) -> None:
        skip: set[Var] = set()
        for i, (var, value) in enumerate(bindings):
            self.span = value.span or self.span
            if isinstance(value, If):
                self.branches(var, value)
            elif isinstance(value, Call) and value.op is machine.KILL:
                self.kill([v for v in value.args if v not in skip])  # type: ignore[misc]
            else:
                if isinstance(value, Call) and value.op in (machine.ALLOC_TENSOR, machine.ALLOC_TENSOR_REG):
                    skip |= self.storage_register(var, value, bindings[i + 1 : i + 2])
                dead = self.dead_arguments(value, bindings[i + 1 : i + 2])
                self.binding(var, value, dead)
                for v in dead:
                    self.registers.give(self.where[v])
                skip.update(dead)

    def storage_register(self, var: Var, value: Call, next_: list[tuple[Var, Expr]]) -> set[Var]:
        """If the storage is killed next, its tensor takes its register and nothing is left to kill."""
        storage = value.args[0]
        if var in self.where or not next_ or not isinstance(next_[0][1], Call) or next_[0][1].op is not machine.KILL:
            return set()
        if storage not in next_[0][1].args:
            return set()
        assert isinstance(storage, Var)
        self.where[var] = self.where[storage]
        return {storage}

    def dead_arguments(self, value: Expr, next_: list[tuple[Var, Expr]]) -> list[Var]:
        """The arguments of a call that are killed next: they are dead when the function begins."""
        if not self.taking or not isinstance(value, Call) or not isinstance(value.op, GlobalVar) or not next_:
            return []
        kill = next_[0][1]
        if not isinstance(kill, Call) or kill.op is not machine.KILL:
            return []
        return [v for v in kill.args if v in value.args]  # type: ignore[misc]

    def tail_chain(self, chain: Expr) -> None:
        """A chain whose result is the function's."""
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

    def tail_branches(self, value: If) -> None:
        on_true, on_false = isa.Label(), isa.Label()
        self.add(isa.If(self.reg(value.cond), on_true, on_false))
        free, span = self.registers.free(), self.span
        for label, chain in ((on_true, value.true_branch), (on_false, value.false_branch)):
            before = self.registers.count
            self.add(label)
            self.span = span
            self.tail_chain(chain)
            free |= set(range(before, self.registers.count))
            self.registers.set_free(free)

    def branches(self, var: Var, value: If) -> None:
        """An ``if`` whose value is used: both branches write the register of ``var``; one between versions has none."""
        on_true, on_false, end = isa.Label(), isa.Label(), isa.Label()
        self.add(isa.If(self.reg(value.cond), on_true, on_false))
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
        # what one branch took first, the other never had
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
            self.registers.give(r)

    # ---- bindings ----------------------------------------------------------------------------------------------

    def binding(self, var: Var, value: Expr, dead: Sequence[Var]) -> None:
        """The instructions of ``let var = value``, but for ``if`` and ``memory.kill``; ``dead``: arguments given up by a call."""
        match value:
            case Tuple():
                fields = self.regs(value.fields)
                self.add(isa.AllocADT(self.dst(var), 0, fields))
            case TupleGetItem():
                whole = self.where[value.tuple_value]  # type: ignore[index]
                if isinstance(whole, tuple):
                    self.where[var] = whole[value.index]
                    self.notes.vector(var, value.tuple_value, value.index)
                else:
                    self.add(isa.GetField(self.dst(var), whole, value.index))
            case Call(op=Op() as op):
                if op in (*MAKES_STORAGE, machine.TAKE_STORAGE):
                    self.notes.storage(len(self.spans), var, value)
                elif op in MAKES_TENSOR:
                    self.notes.tensor(len(self.spans), var, value)
                elif op is machine.SLICE_TENSOR:
                    self.notes.part(len(self.spans), var)
                _MACHINE[op](self, var, value)
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
                self.add(isa.Move(self.dst(var), src))
            case _:
                raise AssertionError(f"emit: no instruction for {value}")

    def reason(self, call: Call) -> int:
        """The number of the reason of a copy."""
        ty, a = call.args[0].ty, call.attrs
        assert isinstance(ty, TensorType), call
        return self.tables.reason(CopyReason(CopyKind.of(a.reason), a.op, a.input, portable(ty, self.sizes)))

    def assertion(self, var: Var, call: Call, program: ShapeProgram) -> None:
        """Check the shapes of the arguments; the value is the first of them."""
        assert isinstance(call.op, Op)
        args = self.regs(call.args)
        self.add(isa.InvokeShapeFunc(self.tables.assertion(program, call.op.name), args, ()))
        self.add(isa.Move(self.dst(var), args[0]))


# ---- one rule per machine operator -----------------------------------------------------------------------------------

_Rule = Callable[[_FunctionEmitter, Var, Call], None]
_MACHINE: dict[Op, _Rule] = {}


def _rule(op: Op) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _MACHINE[op] = rule
        return rule

    return register


@_rule(machine.ALLOC_STORAGE)
def _alloc_storage(e: _FunctionEmitter, var: Var, call: Call) -> None:
    e.add(isa.AllocStorage(e.dst(var), call.attrs.nbytes, DEVICES.index(call.attrs.device)))


@_rule(machine.ALLOC_TENSOR)
def _alloc_tensor(e: _FunctionEmitter, var: Var, call: Call) -> None:
    storage, a = e.reg(call.args[0]), call.attrs
    e.add(isa.AllocTensor(e.dst(var), storage, a.offset, DTYPES.index(a.dtype), a.shape))


@_rule(machine.ALLOC_STORAGE_REG)
def _alloc_storage_reg(e: _FunctionEmitter, var: Var, call: Call) -> None:
    shape, a = e.reg(call.args[0]), call.attrs
    e.add(isa.AllocStorageReg(e.dst(var), shape, DTYPES.index(a.dtype), DEVICES.index(a.device)))


@_rule(machine.TAKE_STORAGE)
def _take_storage(e: _FunctionEmitter, var: Var, call: Call) -> None:
    source = e.reg(call.args[0])
    e.add(isa.TakeStorage(e.dst(var), source, DEVICES.index(call.attrs.device)))


@_rule(machine.ALLOC_TENSOR_REG)
def _alloc_tensor_reg(e: _FunctionEmitter, var: Var, call: Call) -> None:
    (storage, shape), a = e.regs(call.args), call.attrs
    e.add(isa.AllocTensorReg(e.dst(var), storage, a.offset, shape, DTYPES.index(a.dtype)))


@_rule(machine.LOAD_CONST)
def _load_const(e: _FunctionEmitter, var: Var, call: Call) -> None:
    constant = call.args[0]
    assert isinstance(constant, Constant)
    e.add(isa.LoadConst(e.dst(var), e.tables.constant(constant.data), DEVICES.index(call.attrs.device)))


@_rule(machine.DEVICE_COPY)
def _device_copy(e: _FunctionEmitter, var: Var, call: Call) -> None:
    register, a, number = e.reg(call.args[0]), call.attrs, e.reason(call)
    e.add(isa.DeviceCopy(e.dst(var), register, DEVICES.index(a.src), DEVICES.index(a.dst), number))


@_rule(machine.COPY_BEGIN)
def _copy_begin(e: _FunctionEmitter, var: Var, call: Call) -> None:
    register, number = e.reg(call.args[0]), e.reason(call)
    e.add(isa.CopyBegin(e.dst(var), register, DEVICES.index(call.attrs.src), number))


@_rule(machine.COPY_WAIT)
def _copy_wait(e: _FunctionEmitter, var: Var, call: Call) -> None:
    pending = e.reg(call.args[0])
    e.add(isa.CopyWait(e.dst(var), pending))
    e.registers.give(pending)  # the instruction empties it


@_rule(machine.INVOKE_OP)
def _invoke_op(e: _FunctionEmitter, var: Var, call: Call) -> None:
    function, *args = call.args
    assert isinstance(function, GlobalVar)
    n = call.attrs.n_outputs
    number = e.tables.kernel(function.name, len(args) - n, n, call.attrs.workspace)
    e.add(isa.InvokePacked(number, n, e.regs(tuple(args))))


@_rule(machine.SHAPE_FUNC)
def _shape_func(e: _FunctionEmitter, var: Var, call: Call) -> None:
    function, *args = call.args
    assert isinstance(function, GlobalVar)
    number = e.tables.shape_func(function.name)
    e.notes.shape_func(var, call, primitive(e.tables.mod[function.name], e.tables.dependence))
    sources = e.regs(tuple(args))
    e.where[var] = tuple(e.registers.take() for _ in e.tables.shape_funcs.items[number][0].outputs)
    e.add(isa.InvokeShapeFunc(number, sources, e.where[var]))


@_rule(machine.SHAPE_OF)
def _shape_of(e: _FunctionEmitter, var: Var, call: Call) -> None:
    data = e.reg(call.args[0])
    e.add(isa.ShapeOf(e.dst(var), data))


@_rule(machine.RESHAPE_TENSOR)
def _reshape_tensor(e: _FunctionEmitter, var: Var, call: Call) -> None:
    data, shape = e.regs(call.args)
    e.add(isa.ReshapeTensor(e.dst(var), data, shape))


@_rule(machine.SLICE_TENSOR)
def _slice_tensor(e: _FunctionEmitter, var: Var, call: Call) -> None:
    data, shape, offset = e.regs(call.args)
    e.add(isa.SliceTensor(e.dst(var), data, shape, offset))


@_rule(machine.SIZES)
def _sizes(e: _FunctionEmitter, var: Var, call: Call) -> None:
    a = call.attrs
    program = ShapeProgram(a.loads, a.rows, (), a.outputs)
    sources = e.regs(call.args)
    e.where[var] = tuple(e.registers.take() for _ in program.outputs)
    e.add(isa.InvokeShapeFunc(e.tables.assertion(program, machine.SIZES.name), sources, e.where[var]))


@_rule(machine.TRIM)
def _trim(e: _FunctionEmitter, var: Var, call: Call) -> None:
    (data, counts), a = e.regs(call.args), call.attrs
    e.add(isa.TrimTensor(e.dst(var), data, counts, a.index, int(a.release)))


@_rule(machine.ALLOC_CLOSURE)
def _alloc_closure(e: _FunctionEmitter, var: Var, call: Call) -> None:
    function, *captured = call.args
    assert isinstance(function, GlobalVar)
    registers = e.regs(tuple(captured))
    e.add(isa.AllocClosure(e.dst(var), e.tables.functions[function.name], registers))


@_rule(machine.ASSERT_SHAPE)
def _assert_shape(e: _FunctionEmitter, var: Var, call: Call) -> None:
    sizes = [sym(f"d{axis}") for axis in range(len(call.attrs.dims))]
    wanted = [(axis, d) for axis, d in enumerate(call.attrs.dims) if d >= 0]
    checks = [
        Check(eq(sizes[axis], d), f"axis {axis} has the size {{}}, but the program says {d}", (sizes[axis],))
        for axis, d in wanted
    ]
    e.assertion(var, call, assemble([], checks, {s: (0, SIZE, axis) for axis, s in enumerate(sizes)}))


@_rule(machine.ASSERT_SAME_SIZE)
def _assert_same_size(e: _FunctionEmitter, var: Var, call: Call) -> None:
    a, b = sym("a"), sym("b")
    check = Check(eq(a, b), call.attrs.message, (a, b))
    loads: dict[Dim, Any] = {a: (0, SIZE, call.attrs.axis), b: (1, SIZE, call.attrs.other_axis)}
    e.assertion(var, call, assemble([], [check], loads))
