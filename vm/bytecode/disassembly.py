"""Bytecode as text: the disassembly of an executable and the reference page of the instruction set."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import numpy as np

from ...ops.core.tensor_types import dim_text
from ...shape_funcs.symbolic.dim import ANY
from ..device_table import DEVICES
from . import isa
from .executable import ExecutableData, LateBound, MemoryNote, VMFunction
from .operand_kinds import Role
from .register_flow import jump_targets
from .size_expressions import size_text

#: Most elements of a constant that are shown; a larger constant is shown by dtype and shape only.
_MAX_ELEMENTS = 8


# ---- an executable -------------------------------------------------------------------------------------------------


def disassembly(exe: ExecutableData) -> str:
    """Disassemble the functions, with the meaning of the operands as comments, then list the tables.

    Raises EncodingError for code that does not decode.  An executable that ``verify`` accepts always decodes.
    """
    blocks = [[_title(exe)], *(list(_function(exe, f)) for f in exe.functions)]
    blocks.append(_kernels(exe))
    for i, (name, program) in enumerate(zip(exe.shape_func_names, exe.shape_funcs, strict=True)):
        blocks.append([f"shape_func[{i}] {name}", *(f"    {_one_line(line)}" for line in str(program).splitlines())])
    blocks.append([f"const[{i}] {_constant(c)}" for i, c in enumerate(exe.constants)])
    blocks.append([f"reason[{i}] {_one_line(reason.text)}" for i, reason in enumerate(exe.reasons)])
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def functions_text(exe: ExecutableData) -> str:
    """The functions of the disassembly.  Raises EncodingError for code that does not decode."""
    return "\n\n".join("\n".join(_function(exe, f)) for f in exe.functions) + "\n"


def kernels_text(exe: ExecutableData) -> str:
    """The table of kernels of the disassembly."""
    return "".join(f"{line}\n" for line in _kernels(exe))


def _kernels(exe: ExecutableData) -> list[str]:
    return [f"packed[{i}] {_packed(exe, i)}" for i in range(len(exe.packed))]


def _title(exe: ExecutableData) -> str:
    config = ", ".join(f"{key}={value}" for key, value in sorted(exe.config.items()))
    return f"executable for {exe.target}" + (f" ({config})" if config else "")


def _function(exe: ExecutableData, function: VMFunction) -> Iterator[str]:
    params = ", ".join(f"%{name}: {ty}" for name, ty in function.params)
    registers = f"{function.n_registers} register{'s' * (function.n_registers != 1)}"
    yield f"@{function.name}({params}) -> {function.result}, {registers}"
    code = isa.disassemble(function.code)
    width, notes = len(str(code[-1][0])), {note.pc: note for note in function.notes}
    for pc, instruction in code:
        comment = ", ".join([*_comment(exe, pc, instruction), *_note(notes.get(pc), instruction)])
        text = f"  {pc:>{width}}: {instruction}".rstrip()
        yield f"{text:<60}  // {comment}" if comment else text


def _comment(exe: ExecutableData, pc: int, instruction: isa.Instruction) -> list[str]:
    """The meanings of the instruction's operands: the table entries, devices and jump targets."""
    parts = []
    for name, kind in instruction.operands.items():
        number = getattr(instruction, name)
        match kind.table:
            case "function":
                parts.append(f"@{exe.functions[number].name}")
            case "packed":
                parts.append(exe.packed[number].name)
            case "shape_func":
                parts.append(exe.shape_func_names[number])
            case "const":
                parts.append(_constant(exe.constants[number]))
            case "device" if instruction.roles.get(Role.SOURCE_DEVICE) != name:
                parts.append(f"on {DEVICES[number]}")
            case "reason":
                parts.append(_one_line(exe.reasons[number].text))
    targets = jump_targets(pc, instruction)
    if targets:
        parts.append("to " + " or ".join(map(str, targets)))
    return parts


def _note(note: MemoryNote | None, instruction: isa.Instruction) -> list[str]:
    """The note on the instruction's storage (tensor, bytes, reason), or the name of its tensor."""
    if note is None:
        return []
    if Role.DONOR in instruction.roles:
        return [f"%{note.name}'s"] if note.name else []
    size = "" if note.nbytes is ANY else f"{size_text(note.nbytes)} bytes"
    return [part for part in (f"%{note.name}" * bool(note.name), size, note.why) if part]


def _packed(exe: ExecutableData, number: int) -> str:
    """Describe a kernel: types of its arguments, numbers of inputs and outputs, device, implementation."""
    packed = exe.packed[number]
    values = packed.group.values()
    params = ", ".join(f"{t.dtype}[{', '.join(_size(d) for d in t.shape)}]" for t in packed.group.params)
    results = ", ".join(f"{values[r].dtype}[{', '.join(_size(d) for d in values[r].shape)}]" for r in packed.group.results)
    chosen = f", {packed.group.implementation}: {packed.because}" if packed.because else ""
    workspace = packed.group.workspace
    counts = f"{packed.n_inputs} in, {packed.n_outputs - workspace} out{', workspace' * workspace}"
    return f"{packed.name}({params}) -> ({results}), {counts}, on {DEVICES[packed.device]}{chosen}"


def _size(d: object) -> str:
    return dim_text(d).removeprefix("?") or "?"  # type: ignore[arg-type]


def _constant(data: np.ndarray | LateBound) -> str:
    shape = f"[{', '.join(map(str, data.shape))}]" if data.shape else ""
    if isinstance(data, LateBound):
        return f"{data.dtype.name}{shape}, late-bound as {data.name}"
    return f"{data.dtype.name}{shape}" + (f" = {data.tolist()}" if data.size <= _MAX_ELEMENTS else "")


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ---- the instruction set -------------------------------------------------------------------------------------------

_INTRODUCTION = """\
# Instruction set

<!-- generated from `vm/bytecode/isa.py` by `make docs`: do not edit -->

An instruction is a row of int64 words: its opcode, then its operands in order; a list operand is its length, then its items.
Registers belong to a frame and hold an object or nothing; parameters are in registers 0, 1, ... on entry.  A register that is
written releases its old object.  The verifier refuses code that may read an empty register, or a register with an object of
another kind than the operand column declares.

"""

_HOLDS = {
    "any": "register",
    "value": "register with a value",
    "tensor": "register with a tensor",
    "storage": "register with a storage",
    "pending": "register with a pending copy",
    "record": "register with a tuple",
    "closure": "register with a function",
}
_TABLES = {
    "function": "number of a function",
    "packed": "number of a kernel",
    "shape_func": "number of a shape function",
    "const": "number of a constant",
    "dtype": "number of a dtype",
    "device": "number of a device; 0 is the host",
    "reason": "number of a reason",
}
_ACCESS = {"read": "", "take": ", emptied", "write": ", written", "kill": ", emptied"}


def isa_markdown() -> str:
    """The page ``docs/isa.md``: every instruction with its meaning and its operands."""
    rows = [
        f"| {number} | [{i.__name__}](#{i.__name__.lower()}) | {_meaning(i)[0]} |"
        for number, i in sorted(isa.INSTRUCTIONS.items())
    ]
    table = "\n".join(["| opcode | instruction | |", "|---|---|---|", *rows])
    return _INTRODUCTION + table + "\n" + "".join(f"\n{instruction_markdown(i)}" for _, i in sorted(isa.INSTRUCTIONS.items()))


def instruction_markdown(instruction: type[isa.Instruction]) -> str:
    """The section of the page on one instruction."""
    lines = [f"## {instruction.__name__}", "", f"Opcode {instruction.opcode}.  " + "\n\n".join(_meaning(instruction)), ""]
    if instruction.operands:
        lines += ["| operand | |", "|---|---|"]
        lines += [f"| `{name}` | {_operand(kind)} |" for name, kind in instruction.operands.items()]
    else:
        lines.append("No operands.")
    return "\n".join(lines) + "\n"


def _meaning(instruction: type[isa.Instruction]) -> list[str]:
    """The paragraphs of the instruction's docstring, as Markdown."""
    text = inspect.cleandoc(instruction.__doc__ or "").replace("``", "`")
    return [re.sub(r"\s*\n\s*", " ", part) for part in text.split("\n\n")]


def _operand(kind: isa.Kind) -> str:
    if kind.table == "register":
        text = _HOLDS[kind.holds] + _ACCESS[kind.access or "read"]
    elif kind.table == "code":
        text = "jump in words from this instruction's start" + (", forward" if kind.low else "")
    elif kind.table:
        text = _TABLES[kind.table]
    else:
        limits = (("at least", kind.low), ("at most", kind.high))
        text = "number" + "".join(f", {which} {limit}" for which, limit in limits if limit is not None)
    return f"list: {text}" if kind.many else text
