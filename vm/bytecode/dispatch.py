"""The dispatch of the interpreter loop as text: for each instruction, decode its operands, call its handler, find the next one.

The text derives from the declaration of the instruction (``isa``) and from the names of the handler's parameters:

==================  ====================================================================================================
an operand's name   a register that is read: the object in it; a register that is written or taken from: its address;
                    a list: the address of its first item; else the number itself
``n_`` before it    the length of the list
``state``, ``pc``   the machine's state; the instruction's first word
``regs``            the address of the frame's registers
``following``       the first word of the next instruction
==================  ====================================================================================================

A handler returns a status.  Several instructions may have one handler: an operand that one of them lacks is 0.  The handler of a
jump with several targets returns the position of one among them, or a negated status; a jump with one target needs no handler.  A
handler that changes the frame stores the next instruction in the state.

The branches are in the order in which the handlers are defined, those of frequent instructions first: LLVM expects the first
branch most often.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TypeVar

from .isa import INSTRUCTIONS, Control, Instruction, Kind

F = TypeVar("F", bound=Callable[..., int])
Handlers = dict[type[Instruction], Callable[..., int]]


def handles(*instructions: type[Instruction]) -> Callable[[F], F]:
    """Declare a function as the handler of instructions."""

    def declare(handler: F) -> F:
        vars(handler)["__handles__"] = instructions
        return handler

    return declare


def handlers_in(modules: Iterable[ModuleType]) -> Handlers:
    """The handler of each instruction, in the order in which the modules define them."""
    found: Handlers = {}
    for module in modules:
        for value in vars(module).values():
            for instruction in getattr(value, "__handles__", ()):
                if found.setdefault(instruction, value) is not value:
                    raise ValueError(f"{instruction.__name__} has a handler already")
    return found


def branches(handlers: Handlers, before_long: str) -> str:
    """The branches on ``op``, one for each handler and one for each jump without one.

    ``before_long``: text in front of the instructions that may take long.
    """
    groups: dict[object, list[type[Instruction]]] = {}
    for cls in [*handlers, *(cls for cls in INSTRUCTIONS.values() if cls not in handlers)]:
        groups.setdefault(handlers.get(cls, cls), []).append(cls)
    lines: list[str] = []
    for group in groups.values():
        names = ", ".join(cls.__name__ for cls in group)
        lines.append(f"{'elif' if lines else 'if'} {_is_one_of(group)}:  # {names}")
        if any(cls.may_take_long() for cls in group):
            lines += [f"    {line}" for line in before_long.splitlines()]
        lines += [f"    {line}" for line in _branch(group, handlers)]
    return "\n".join(lines)


def _is_one_of(instructions: Iterable[type[Instruction]]) -> str:
    return " or ".join(f"op == {opcode}" for opcode in sorted(cls.opcode for cls in instructions))


def _branch(group: list[type[Instruction]], handlers: Handlers) -> Iterator[str]:
    first, values = group[0], _values(group[0])
    targets = [values[name] for name, kind in first.operands.items() if kind.table == "code"]
    if len(targets) == 1:
        yield f"step = {targets[0]}"
        return
    handler = handlers[first]
    parameters = tuple(inspect.signature(handler).parameters)
    if len(group) > 1:
        yield from _decode(group, parameters)
        values = dict(zip(parameters, parameters, strict=True))
    called = f"{handler.__name__}({', '.join(values[name] for name in parameters)})"
    if targets:
        yield f"taken = {called}"
        yield "if taken < 0:"
        yield "    status = -taken"
        yield f"step = {' else '.join(f'{step} if taken == {i}' for i, step in enumerate(targets[:-1]))} else {targets[-1]}"
        return
    yield f"status = {called}"
    if first.control is Control.NEXT:
        yield f"step = {_length(first)}"
    elif first.control is not Control.STOP:
        yield "if status != 0 or s.base == 0:" if first.control is Control.RETURN else "if status != 0:"
        yield "    break"
        yield "pc, regs, step = s.pc, s.stack + 8 * s.base, 0"


def _decode(group: list[type[Instruction]], parameters: Iterable[str]) -> Iterator[str]:
    """Assign the parameters that differ between the instructions of one handler."""
    for i, cls in enumerate(group):
        values = _values(cls)
        yield "else:" if i == len(group) - 1 else f"{'elif' if i else 'if'} op == {cls.opcode}:"
        for name in parameters:
            if values.get(name) != name:
                yield f"    {name} = {values.get(name, '0')}"


def _values(cls: type[Instruction]) -> dict[str, str]:
    """The values of parameters by name."""
    values = {"state": "state", "pc": "pc", "regs": "regs", "following": f"pc + {_length(cls)}"}
    lengths: list[str] = []
    for words, (name, kind) in enumerate(cls.operands.items(), 1):
        word = f"load_i64({_address(words, lengths)})"
        if kind.many:
            values[f"n_{name}"], values[name] = word, _address(words + 1, lengths)
            lengths.append(word)
        else:
            values[name] = _value(kind, word)
    return values


def _length(cls: type[Instruction]) -> str:
    """The length of the instruction in words."""
    lengths: list[str] = []
    for words, kind in enumerate(cls.operands.values(), 1):
        lengths += [f"load_i64({_address(words, lengths)})"] * kind.many
    return " + ".join([str(1 + len(cls.operands)), *lengths])


def _address(words: int, lengths: Iterable[str]) -> str:
    """The address of the word of an instruction behind ``words`` words and the items of lists of these lengths."""
    return " + ".join([f"at + {8 * words}", *(f"8 * {length}" for length in lengths)])


def _value(kind: Kind, word: str) -> str:
    if kind.table != "register":
        return word
    return f"load_i64(regs + 8 * {word})" if kind.access == "read" else f"regs + 8 * {word}"
