"""Analysis of bytecode: all transfers between the host and the device of an executable."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from ...declarations.frozen_dataclass import frozen
from ...ops.core.copy_reason import CopyKind, CopyReason
from ...ops.core.implementation import HOST
from ...ops.core.op import REGISTRY
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import Dim
from ..bytecode import isa
from ..bytecode.executable import ExecutableData, VMFunction
from ..bytecode.operand_kinds import Role
from ..bytecode.size_expressions import nbytes, parameter_sizes, portable, tensor_params
from ..device_table import CPU, DEVICES
from ..diagnostics.source import Span
from ..machine.runtime_errors import span_of
from ..runtime.tracing.trace_events import DTOH, HTOD
from ..values.output_names import leaf_outputs

#: Kinds of transfers: a copy instruction, a constant, an argument of the entry, a result of the entry.
COPY, CONSTANT, ARGUMENT, RESULT = "copy", "constant", "argument", "result"
#: Texts for transfers without a reason.
TEXTS = {CONSTANT: "a constant", ARGUMENT: "an argument", RESULT: "a result, read on the host"}
#: Folder of the package's own files.
_PACKAGE = Path(__file__).parents[2]


@frozen
class Transfer:
    """One transfer in the program.

    ``what``: ``copy``, ``constant``, ``argument`` or ``result``.  ``name``: the name of the constant, argument or result.
    ``pc``: the pc in the function's code; -1: no instruction.  ``number``: the number of the reason; -1: no reason.  Trace events
    have the same pc and number.  ``type``: the type of the value, with portable dims.
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
        """The bytes of the value, an expression over the sizes of the function's parameters."""
        return nbytes(self.type)

    @property
    def host_waits(self) -> bool:
        """Whether the host waits for the device.

        A synchronous copy waits for all queued work.  A copy started early waits for the work that computes the value.
        """
        return self.direction == DTOH

    @property
    def once(self) -> bool:
        """Whether the transfer happens only in the first run."""
        return self.what == CONSTANT

    @property
    def text(self) -> str:
        """The reason for the transfer, as a sentence; a transfer without an instruction has its name in profiles."""
        if self.reason is not None:
            return self.reason.text
        return TEXTS[self.what]


@frozen
class Registration:
    """Declaration of an operator's shape function, which makes the host read inputs: its location and its flags."""

    op: str
    place: str
    flagged: tuple[str, ...]
    upper_bound: bool
    doc: str


def registration(reason: CopyReason) -> Registration | None:
    """The declaration of the shape function that causes a copy.

    None if the reason is not a shape function, or if this process has no such operator.
    """
    if reason.kind not in (CopyKind.FLAGGED, CopyKind.PER_OP, CopyKind.COUNT):
        return None
    known = [REGISTRY[name] for name in reason.operators if name in REGISTRY]
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


# ---- the analysis ----------------------------------------------------------------------------------------------------


def reachable(exe: ExecutableData, entry: str) -> list[VMFunction]:
    """The functions reachable from ``entry``, ``entry`` first.  Raises UnknownName, a KeyError, for an unknown function."""
    pending, found = [exe.function_index(entry)], []
    while pending:
        number = pending.pop(0)
        if number in found:
            continue
        found.append(number)
        called = (i.get(Role.CALLEE, Role.BODY) for _, i in isa.disassemble(exe.functions[number].code))
        pending += [callee for callee in called if callee is not None]
    return [exe.functions[n] for n in found]


def transfers(exe: ExecutableData, entry: str = "main") -> tuple[Transfer, ...]:
    """All possible transfers of a run of ``entry``: arguments, instructions in order, results."""
    if exe.target == HOST:
        return ()
    first = exe.functions[exe.function_index(entry)]
    inside = [transfer for f in reachable(exe, entry) for transfer in _in_function(exe, f)]
    target, names = DEVICES.index(exe.target), parameter_sizes(first.params)
    taken = [p for i, p in enumerate(first.params) if first.device_of(i, target) != CPU]
    arguments = [Transfer(ARGUMENT, HTOD, first.name, portable(ty, names), f"%{path}") for path, ty in tensor_params(taken)]
    results = [
        Transfer(RESULT, DTOH, first.name, portable(output.type, names), output.name)
        for output in leaf_outputs(first)
        if isinstance(output.type, TensorType)
    ]
    return (*arguments, *inside, *results)


def _in_function(exe: ExecutableData, f: VMFunction) -> Iterator[Transfer]:
    for pc, instruction in isa.disassemble(f.code):
        span = span_of(exe, f, pc)
        device = instruction.get(Role.DEVICE) or CPU
        reason_number, constant = instruction.get(Role.REASON), instruction.get(Role.CONST)
        if reason_number is not None and instruction.get(Role.SOURCE_DEVICE) != device:
            reason = exe.reasons[reason_number]
            assert reason.type is not None, reason
            direction = DTOH if device == CPU else HTOD
            yield Transfer(COPY, direction, f.name, reason.type, "", pc, reason_number, reason, span)
        if constant is not None and device != CPU:
            data = exe.constants[constant]
            ty = TensorType.of(data.shape, data.dtype.name)
            yield Transfer(CONSTANT, HTOD, f.name, ty, f"const[{constant}]", pc, span=span)
