"""Registers, instructions and source places of one function of bytecode while it is emitted."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any

from ...ops.core.copy_reason import CopyReason
from ...ops.core.tensor_types import TensorType
from ...vm.bytecode import isa
from ...vm.bytecode.size_expressions import parameter_sizes, portable
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Span, TypeCheckError
from ...vm.state.state_layout import MAX_ARGS
from ..ir.expr import Call, Expr, Function, Var
from .executable_tables import Tables
from .storage_notes import MemoryNotes

#: Help for a function or a call with too many operands.
CAPTURES_HELP = "values captured from enclosing functions count, too: put some of them together in a tuple"
#: The operands of each instruction that are lists of limited length.
_LISTS = {
    kind: tuple(name for name, operand in kind.operands.items() if operand.many and operand.access != "kill")
    for kind in isa.INSTRUCTIONS.values()
}


# ---- registers -----------------------------------------------------------------------------------------------------


class Registers:
    """The free registers; the lowest is allocated first."""

    def __init__(self) -> None:
        self.count = 0
        self._free: list[int] = []

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self.count += 1
        return self.count - 1

    def release(self, register: int) -> None:
        heapq.heappush(self._free, register)

    def free(self) -> set[int]:
        return set(self._free)

    def set_free(self, registers: set[int]) -> None:
        self._free = sorted(registers)


# ---- code ----------------------------------------------------------------------------------------------------------


class CodeBuilder:
    """The code of one function.  ``where``: each variable's register, for the vectors of a shape function a tuple of
    registers."""

    def __init__(self, tables: Tables, name: str, function: Function) -> None:
        self.tables, self.name, self.function = tables, name, function
        self.registers = Registers()
        self.where: dict[Var, Any] = {}
        self.items: list[isa.Instruction | isa.Label] = []
        self.spans: list[Span | None] = []
        self.span: Span | None = function.span
        self.notes = MemoryNotes(function)
        self.sizes = parameter_sizes((p.name, p.ty) for p in function.params if p.ty is not None)

    def add(self, item: isa.Instruction | isa.Label) -> None:
        """Append the next instruction, at the current source place, or a label before it."""
        self.items.append(item)
        if not isinstance(item, isa.Label):
            self.spans.append(self.span)
            if any(len(getattr(item, name)) > MAX_ARGS for name in _LISTS[type(item)]):
                message = f"a call in @{self.name} has more than {MAX_ARGS} arguments"
                raise TypeCheckError(message, self.span, help=CAPTURES_HELP, code=codes.Type.SIZE)

    def reg(self, atom: Expr) -> int:
        """The register of a variable."""
        assert isinstance(atom, Var), atom
        register: int = self.where[atom]
        return register

    def regs(self, atoms: tuple[Expr, ...]) -> tuple[int, ...]:
        """The registers of variables."""
        return tuple(self.reg(a) for a in atoms)

    def dst(self, var: Var) -> int:
        """The register of a new variable; the result of a branch already has one."""
        if var not in self.where:
            self.where[var] = self.registers.take()
        register: int = self.where[var]
        return register

    def move(self, var: Var, source: int) -> None:
        """Make a variable the object in a register."""
        self.add(isa.Move(self.dst(var), source))

    def reason(self, call: Call) -> int:
        """The number of a copy's reason."""
        ty, reason = call.args[0].ty, call.attrs.reason
        assert isinstance(ty, TensorType) and isinstance(reason, CopyReason), call
        return self.tables.reason(replace(reason, type=portable(ty, self.sizes)))
