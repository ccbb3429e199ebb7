"""Every place at which an executable moves data between the host and its device, found in the bytecode alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..ops.op import REGISTRY
from ..ops.ty import TensorType
from ..shape_funcs.dims import Dim
from . import isa
from .copy_reason import CopyKind, CopyReason
from .executable import DEVICES, Executable, VMFunction
from .failure import span_of
from .sizes import nbytes, parameter_sizes, portable, tensor_params
from .source import Span

_HOST = 0
#: Directions, as the kinds of the events of a trace.
DTOH, HTOD = "dtoh", "htod"
#: What an edge moves: a value because of an instruction, a constant, an argument of the entry, its result.
COPY, CONSTANT, ARGUMENT, RESULT = "copy", "constant", "argument", "result"
#: Where paths of the package's own files begin.
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Edge:
    """One place at which data crosses.

    ``what``: ``copy``, ``constant``, ``argument`` or ``result``; ``name``: which constant, argument or result.  ``pc``: the
    word in the function's code, ``number``: the reason's; -1: no instruction, no reason of its own.  Events of a trace have
    both too.  ``type``: what crosses, with portable dims.
    """

    what: str
    direction: str
    function: str
    type: TensorType
    name: str = ""
    pc: int = -1
    number: int = -1
    reason: CopyReason | None = None
    span: Span | None = None

    @property
    def nbytes(self) -> Dim:
        """The bytes that cross, an expression over the sizes of the function's parameters."""
        return nbytes(self.type)

    @property
    def host_waits(self) -> bool:
        """Must the host wait for the device: for all that was asked of it before, or, where the copy was begun early, for what
        makes the value?"""
        return self.direction == DTOH

    @property
    def once(self) -> bool:
        """Does this happen in the first run only?"""
        return self.what == CONSTANT

    @property
    def text(self) -> str:
        """Why it crosses, as a sentence; for what is no instruction, as profiles call it."""
        if self.reason is not None:
            return self.reason.text
        return {CONSTANT: "a constant", ARGUMENT: "an argument", RESULT: "a result, read on the host"}[self.what]


@dataclass(frozen=True)
class Registration:
    """The declaration that makes the host read an operator's inputs: where it is and what it says."""

    op: str
    place: str
    flagged: tuple[str, ...]
    upper_bound: bool
    doc: str


def registration(reason: CopyReason) -> Registration | None:
    """The shape function of the operator that a reason names; None where none is behind it, or this process has no such
    operator."""
    if reason.kind not in (CopyKind.FLAGGED, CopyKind.PER_OP, CopyKind.COUNT):
        return None
    known = [REGISTRY[name] for name in reason.op.split(", ") if name in REGISTRY]
    found = [op for op in known if reason.kind is not CopyKind.COUNT or op.shape_func.upper_bound]
    if not found:
        return None
    op, func = found[0], found[0].shape_func
    code = inspect.unwrap(func.body).__code__
    file = Path(code.co_filename)
    if file.is_relative_to(_PACKAGE):
        file = "relayvm" / file.relative_to(_PACKAGE)
    flagged = tuple(n.rstrip("*") for n, flag in zip(op.inputs, op.data_dependent, strict=True) if flag)
    return Registration(op.name, f"{file.as_posix()}:{code.co_firstlineno}", flagged, func.upper_bound, op.doc)


# ---- finding them ----------------------------------------------------------------------------------------------------


def reachable(exe: Executable, entry: str) -> list[VMFunction]:
    """The functions that a run of ``entry`` may enter, ``entry`` first.  Raises KeyError when there is none of that name."""
    pending, found = [exe.function_index(entry)], []
    while pending:
        number = pending.pop(0)
        if number in found:
            continue
        found.append(number)
        pending += [i.func for _, i in isa.disassemble(exe.functions[number].code) if isinstance(i, _CALLS)]
    return [exe.functions[n] for n in found]


_CALLS = (isa.Invoke, isa.InvokeTail, isa.InvokeTaking, isa.AllocClosure)


def edges(exe: Executable, entry: str = "main") -> tuple[Edge, ...]:
    """Every place at which a run of ``entry`` may move data: arguments, instructions in order, results."""
    if DEVICES[_HOST] == exe.target:
        return ()
    first = exe.functions[exe.function_index(entry)]
    inside = [edge for f in reachable(exe, entry) for edge in _in_function(exe, f)]
    target, names = DEVICES.index(exe.target), parameter_sizes(first.params)
    taken = [p for i, p in enumerate(first.params) if first.device_of(i, target) != _HOST]
    arguments = [Edge(ARGUMENT, HTOD, first.name, portable(ty, names), f"%{path}") for path, ty in tensor_params(taken)]
    results = [
        Edge(RESULT, DTOH, first.name, portable(ty, names), path) for path, ty in tensor_params([("result", first.result)])
    ]
    return (*arguments, *inside, *results)


def _in_function(exe: Executable, f: VMFunction) -> Iterator[Edge]:
    for pc, instruction in isa.disassemble(f.code):
        span = span_of(exe, f, pc)
        match instruction:
            case isa.DeviceCopy(src_device=src, dst_device=dst, reason=number) if src != dst:
                reason = exe.reasons[number]
                assert reason.type is not None, reason
                direction = DTOH if dst == _HOST else HTOD
                yield Edge(COPY, direction, f.name, reason.type, "", pc, number, reason, span)
            case isa.CopyBegin(reason=number):
                reason = exe.reasons[number]
                assert reason.type is not None, reason
                yield Edge(COPY, DTOH, f.name, reason.type, "", pc, number, reason, span)
            case isa.LoadConst(const=number, device=device) if device != _HOST:
                data = exe.constants[number]
                ty = TensorType.of(data.shape, data.dtype.name)
                yield Edge(CONSTANT, HTOD, f.name, ty, f"const[{number}]", pc, span=span)
