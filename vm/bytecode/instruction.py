"""Instructions: encoding, decoding and the effects that derive from a declaration (see ``isa``)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from enum import Enum, auto
from typing import Any, ClassVar, TypeAlias, dataclass_transform

import numpy as np

from ...declarations.frozen_dataclass import frozen
from .operand_kinds import Kind, Role

#: The words of a function.
Words: TypeAlias = Sequence[int] | np.ndarray


class Label:
    """A jump target in code that is being assembled."""


class Control(Enum):
    """The instruction that runs after an instruction."""

    NEXT = auto()  # the one that follows
    CALL = auto()  # the first one of a callee, which returns to the one that follows
    TAIL_CALL = auto()  # the first one of a callee, which returns to the caller
    JUMP = auto()  # the target of a jump
    RETURN = auto()  # the one that follows the call
    STOP = auto()  # none


# ---- the base class --------------------------------------------------------------------------------------------------

INSTRUCTIONS: dict[int, type[Instruction]] = {}


@dataclass_transform(frozen_default=True)
class Instruction:
    """Base class of instructions.  Subclasses declare operands as annotated fields.

    The first paragraph of a subclass's docstring is the meaning of the instruction.

    ``opcode``: the first word.  ``control``: the instruction that runs next.  ``operands``: the kinds of the operands by name, in
    order.  ``roles``: the names of the operands with a role.  ``lists``, ``jumps``: the names of lists and of jumps.
    """

    opcode: ClassVar[int]
    control: ClassVar[Control]
    operands: ClassVar[dict[str, Kind]]
    roles: ClassVar[dict[Role, str]]
    lists: ClassVar[tuple[str, ...]]
    jumps: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, opcode: int, control: Control = Control.NEXT) -> None:
        frozen(cls)
        if opcode in INSTRUCTIONS:
            raise ValueError(f"opcode {opcode} is already {INSTRUCTIONS[opcode].__name__}")
        hints = _hints(cls)
        cls.opcode, cls.control, cls.operands, cls.roles = opcode, control, {}, {}
        for f in fields(cls):  # type: ignore[arg-type]
            kind, *role = hints[f.name].__metadata__
            cls.operands[f.name] = kind
            for r in role or [kind.role] * (kind.role is not None):
                if cls.roles.setdefault(r, f.name) != f.name:
                    raise ValueError(f"{cls.__name__} has two operands with the role {r.name}")
        cls.lists = tuple(name for name, kind in cls.operands.items() if kind.many)
        cls.jumps = tuple(name for name, kind in cls.operands.items() if kind.table == "code")
        INSTRUCTIONS[opcode] = cls

    # ---- effects ---------------------------------------------------------------------------------------------------

    @classmethod
    def leaves(cls) -> bool:
        """Whether execution never continues with the next instruction: a terminator."""
        return cls.control not in (Control.NEXT, Control.CALL)

    @classmethod
    def defines(cls, holds: str) -> bool:
        """Whether the instruction defines a register with an object of the kind ``holds``."""
        return any(k.access == "write" and k.holds == holds for k in cls.operands.values())

    @classmethod
    def may_have_note(cls) -> bool:
        """Whether it may have a MemoryNote: it defines a storage, a tensor in a storage, or a tensor in a part of another one."""
        return cls.defines("storage") or Role.STORAGE in cls.roles or Role.WHOLE in cls.roles

    @classmethod
    def may_take_long(cls) -> bool:
        """Whether it may take long, or begin an iteration of a loop: it calls, launches or jumps backward."""
        backward = any(cls.operands[name].low is None for name in cls.jumps)
        return cls.control in (Control.CALL, Control.TAIL_CALL) or Role.KERNEL in cls.roles or backward

    def get(self, *roles: Role) -> Any:
        """The operand with the first of the roles that the instruction has, or None."""
        for role in roles:
            if role in self.roles:
                return getattr(self, self.roles[role])
        return None

    def registers(self, *access: str) -> list[int]:
        """The registers of the operands with one of these kinds of access, in order."""
        out: list[int] = []
        for name, kind in self.operands.items():
            if kind.access in access:
                out += getattr(self, name) if kind.many else [getattr(self, name)]
        return out

    # ---- encoding --------------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """The size of the instruction in words."""
        return 1 + len(self.operands) + sum([len(getattr(self, name)) for name in self.lists])

    def words(self) -> list[int]:
        """The encoding of the instruction."""
        out = [self.opcode]
        for name, kind in self.operands.items():
            value = getattr(self, name)
            out += [len(value), *value] if kind.many else [value]
        return out

    def __str__(self) -> str:
        shown = []
        for name, kind in self.operands.items():
            value = getattr(self, name)
            text = "(" + ", ".join(map(kind.show, value)) + ")" if kind.many else kind.show(value)
            shown.append(text if kind.table in ("register", "packed", "function", "shape_func", "const") else f"{name}={text}")
        return f"{type(self).__name__:<15} {' '.join(shown)}"


def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a class as objects.  ``typing.get_type_hints`` takes two thirds of the import of the instructions."""
    names, written = vars(sys.modules[cls.__module__]), vars(cls).get("__annotations__", {})
    return {name: names[text] if text in names else eval(text, names) for name, text in written.items()}


class EncodingError(ValueError):
    """Words that are no instruction."""


def decode(words: Words, pc: int) -> Instruction:
    """Decode the instruction at word ``pc``.  Raises EncodingError for an unknown opcode and for a truncated instruction."""
    cls = INSTRUCTIONS.get(int(words[pc]))
    if cls is None:
        raise EncodingError(f"no instruction has opcode {int(words[pc])}")
    at, end = pc + 1, len(words)
    values: list[Any] = []
    for kind in cls.operands.values():
        word = int(words[at]) if at < end else -1
        n = word if kind.many else 0
        if at >= end or n < 0 or at + 1 + n > end:
            raise EncodingError(f"{cls.__name__} at {pc} runs off the end of the code")
        values.append(tuple([int(w) for w in words[at + 1 : at + 1 + n]]) if kind.many else word)
        at += 1 + n
    return cls(*values)


def assemble(items: Iterable[Instruction | Label]) -> tuple[np.ndarray, list[int]]:
    """Assemble instructions to code (int64 words) and the pc of each instruction.  A Label marks the next instruction."""
    items = list(items)
    at, pc, starts = {}, 0, []
    for item in items:
        if isinstance(item, Label):
            at[id(item)] = pc
        else:
            starts.append(pc)
            pc += item.length
    words: list[int] = []
    for item in items:
        if not isinstance(item, Label):
            here = len(words)
            words += [at[id(w)] - here if isinstance(w, Label) else w for w in item.words()]
    return np.array(words, np.int64), starts


def disassemble(words: Words) -> list[tuple[int, Instruction]]:
    """Decode a whole function to ``(pc, instruction)`` pairs.  Raises EncodingError as ``decode``."""
    out, pc = [], 0
    while pc < len(words):
        instruction = decode(words, pc)
        out.append((pc, instruction))
        pc += instruction.length
    return out
