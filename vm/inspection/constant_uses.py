"""Analysis of bytecode: the constants of a program, with the kernels that read them."""

from __future__ import annotations

from collections.abc import Iterable

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import const
from ..bytecode import isa
from ..bytecode.executable import ExecutableData, VMFunction
from ..bytecode.operand_kinds import Role
from ..bytecode.register_flow import jump_targets
from ..bytecode.size_expressions import nbytes

_Registers = dict[int, int]


@frozen
class ConstantUse:
    """A constant: its number, its type, and the names of the kernels that read it, in the order of the code."""

    number: int
    type: TensorType
    kernels: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return const(nbytes(self.type)) or 0


def constants_of(exe: ExecutableData, functions: Iterable[VMFunction]) -> tuple[ConstantUse, ...]:
    """The constants that ``functions`` load, each once, in the order of their numbers.

    A kernel that gets a constant as an argument of a function, or out of a record, is not named.
    """
    found: dict[int, dict[str, None]] = {}
    for function in functions:
        _add_uses(exe, function, found)
    types = {number: TensorType.of(exe.constants[number].shape, exe.constants[number].dtype.name) for number in found}
    return tuple(ConstantUse(number, types[number], tuple(found[number])) for number in sorted(found))


def _add_uses(exe: ExecutableData, function: VMFunction, found: dict[int, dict[str, None]]) -> None:
    """Forward data flow over the code of ``function``; the join is set intersection."""
    jumped: dict[int, _Registers] = {}
    state: _Registers | None = {}
    for pc, instruction in isa.disassemble(function.code):
        here = _join(jumped.get(pc), state)
        if Role.KERNEL in instruction.roles:
            kernel = exe.packed[instruction.get(Role.KERNEL)].name
            for register in instruction.get(Role.ARGS):
                if register in here:
                    found[here[register]][kernel] = None
        for register in instruction.registers("write", "kill", "take"):
            here.pop(register, None)
        number = instruction.get(Role.CONST)
        if number is not None:
            found.setdefault(number, {})
            here |= dict.fromkeys(instruction.registers("write"), number)
        for target in jump_targets(pc, instruction):
            jumped[target] = _join(jumped.get(target), here)
        state = None if instruction.leaves() else here


def _join(one: _Registers | None, other: _Registers | None) -> _Registers:
    """The join of two states; None is the state of an unreachable predecessor."""
    if one is None or other is None:
        return dict(one or other or {})
    return dict(one.items() & other.items())
