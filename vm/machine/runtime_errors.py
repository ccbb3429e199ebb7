"""Exceptions for run-time failures: the failed operation, its location in the program, and the shapes of its operands."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.core.op import REGISTRY
from ...ops.core.tensor_types import DTYPES, TensorType, array_bytes, numpy_dtype
from ...ops.native.memory import load_i64
from ...ops.native.memory import tensor as record_at
from ...ops.native.object_layout import TAG_TENSOR
from ...ops.native.status import BAD_COUNT, DEVICE_ERROR, OUT_OF_MEMORY, SHAPE_CHECK, STACK_OVERFLOW, STATUS
from ..bytecode import isa
from ..bytecode.executable import ExecutableData, VMFunction
from ..bytecode.operand_kinds import Role
from ..diagnostics import codes
from ..diagnostics.source import Diagnostic, Span, VMError
from .runtime import Runtime


def runtime_error(runtime: Runtime) -> VMError:
    """The exception for a machine whose run failed; call it before the frames are unwound."""
    state = runtime.view
    status, pc = int(state["status"]), int(state["error_pc"])
    if status == OUT_OF_MEMORY and gpu_failed(runtime):
        status = DEVICE_ERROR  # after an error a GPU refuses allocations
    if status == DEVICE_ERROR and pc < 0:  # reported between two runs
        pc = int(state["first_pc"])
    function, local = locate(runtime.exe, runtime.tables.starts, pc)
    instruction = isa.decode(function.code, local)
    here = pc == int(state["pc"])  # a queued kernel fails later, when its registers have changed
    registers = _registers(runtime) if here else {}
    reads, kernel = instruction.registers("read", "take"), instruction.get(Role.KERNEL)
    if kernel is not None and runtime.exe.packed[kernel].group.workspace:
        reads.pop()
    shown = [_show(registers[r]) for r in reads if r in registers and _is_tensor(registers[r])]
    message = _message(runtime, instruction, status, registers)
    notes: list[tuple[str, Span | None]] = [(f"in @{function.name} at pc {local}: {instruction}", None)]
    if status == DEVICE_ERROR:
        message, extra = _device_error(runtime)
        notes += extra
    if shown:
        notes.append((f"operands: {', '.join(shown)}", None))
    error = VMError(
        Diagnostic(
            message, span_of(runtime.exe, function, local), tuple(notes), _help(runtime, status), code=codes.of_status(status)
        )
    )
    error.status = status
    return error


def gpu_failed(runtime: Runtime) -> bool:
    """Whether the GPU of this machine has reported an error."""
    return runtime.session is not None and runtime.session.error != 0


def _device_error(runtime: Runtime) -> tuple[str, list[tuple[str, Span | None]]]:
    """The GPU's error message, and notes on the launches since the last synchronisation, one of which may have failed."""
    state, session = runtime.view, runtime.session
    assert session is not None
    words = session.describe_error(session.error)
    n = int(state["n_launched"])
    if n == 0:
        return words, []
    found = []
    for pc in dict.fromkeys((int(state["first_pc"]), int(state["last_pc"]))):
        function, local = locate(runtime.exe, runtime.tables.starts, pc)
        found.append(f"@{function.name} pc {local}")
    which = f"the launch at {found[0]}" if n == 1 else f"one of {n} launches, from {found[0]} to {found[-1]}"
    return words, [(f"it was found while waiting for {which}", None)]


def locate(exe: ExecutableData, starts: list[int], pc: int) -> tuple[VMFunction, int]:
    """The function that contains word ``pc`` of the concatenated code, and the pc in that function."""
    i = bisect.bisect_right(starts, max(pc, 0)) - 1
    return exe.functions[i], max(pc, 0) - starts[i]


def span_of(exe: ExecutableData, function: VMFunction, pc: int) -> Span | None:
    """The source span of the instruction at ``pc`` of ``function``; None if it has none."""
    return spans_of(exe, function)(pc)


def spans_of(exe: ExecutableData, function: VMFunction) -> Callable[[int], Span | None]:
    """The source spans of the instructions of ``function`` by pc, for many questions."""
    starts = [s[0] for s in function.spans]

    def span(pc: int) -> Span | None:
        i = bisect.bisect_right(starts, pc) - 1
        if i < 0:
            return None
        _, source, start, end = function.spans[i]
        return Span(exe.sources[source], start, end) if source >= 0 else None

    return span


def _registers(runtime: Runtime) -> dict[int, int]:
    state = runtime.view
    base = int(state["stack"]) + 8 * int(state["base"])
    held = {r: load_i64(base + 8 * r) for r in range(int(state["n_registers"]))}
    return {r: at for r, at in held.items() if at}


def _is_tensor(at: int) -> bool:
    return bool(record_at(at).tag == TAG_TENSOR)


def _show(at: int) -> str:
    t = record_at(at)
    return str(TensorType.of([t.shape[i] for i in range(t.ndim)], DTYPES[t.dtype]))


class _TensorDescriptor:
    """Descriptor of a tensor for shape programs: its shape, and its data if it is on the host."""

    def __init__(self, at: int) -> None:
        t = record_at(at)
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        self.at, self.dtype, self.on_host = t.data, DTYPES[t.dtype], t.device == 0

    def reshape(self, n: int) -> np.ndarray:
        import ctypes

        count = int(np.prod(self.shape, dtype=np.int64))
        raw: Any = (ctypes.c_char * array_bytes(self.shape, self.dtype)).from_address(self.at)
        elements: np.ndarray = np.frombuffer(raw, numpy_dtype(self.dtype), count)
        return elements


def _message(runtime: Runtime, instruction: isa.Instruction, status: int, registers: dict[int, int]) -> str:
    exe, words = runtime.exe, STATUS.get(status, f"status {status}")
    kernel, shape_func = instruction.get(Role.KERNEL), instruction.get(Role.SHAPE_FUNC)
    if kernel is not None and status == OUT_OF_MEMORY:
        return f"out of memory: no room for the workspace of {operators(exe, kernel)}"
    if kernel is not None:
        return f"{operators(exe, kernel)}: {words}"
    if shape_func is not None:
        from ...ops.defs.machine.machine_ops import ASSERT_SAME_SIZE, ASSERT_SHAPE  # operators, which a run does without

        name = exe.shape_func_names[shape_func]
        if status == SHAPE_CHECK:
            args = [_TensorDescriptor(registers[r]) for r in instruction.get(Role.ARGS)]
            text = exe.shape_funcs[shape_func].describe_failure(args) or words
            if name in (ASSERT_SHAPE.name, ASSERT_SAME_SIZE.name):  # inserted by type inference, not part of the program
                return text
            # in a fused kernel the message begins with the operator
            return text if text.partition(":")[0] in REGISTRY else f"{name}: {text}"
        return f"{name}: {words}"
    if Role.ALIASED in instruction.roles and status == SHAPE_CHECK:
        shape = _TensorDescriptor(registers[instruction.get(Role.ALIASED)]).shape
        wanted = _TensorDescriptor(registers[instruction.get(Role.SHAPE)]).reshape(-1).tolist()
        return f"reshape: a tensor of shape {shape} cannot be viewed as {tuple(wanted)}"
    if status == BAD_COUNT and registers:
        return _beyond_the_bound(instruction, registers)
    if instruction.defines("storage") and status == OUT_OF_MEMORY:
        return _does_not_fit(instruction, registers)
    return words


def _beyond_the_bound(instruction: isa.Instruction, registers: dict[int, int]) -> str:
    """The count that a kernel reports, and the bound: the first size of the tensor that the kernel writes."""
    counts = _TensorDescriptor(registers[instruction.get(Role.COUNTS)]).reshape(-1)
    count, bound = counts[instruction.get(Role.COUNT_INDEX)], _TensorDescriptor(registers[instruction.get(Role.ALIASED)]).shape[0]
    return f"a kernel reports the size {count}, which is not from 0 to its upper bound {bound}"


def _does_not_fit(instruction: isa.Instruction, registers: dict[int, int]) -> str:
    nbytes, donor = instruction.get(Role.NBYTES), instruction.get(Role.DONOR)
    if nbytes is not None:
        return f"out of memory: {nbytes} bytes are needed"
    if donor is not None:
        like = _TensorDescriptor(registers[donor])
        sizes, dtype = like.shape, like.dtype
    else:
        sizes = tuple(_TensorDescriptor(registers[instruction.get(Role.SHAPE)]).reshape(-1).tolist())
        dtype = DTYPES[instruction.get(Role.DTYPE)]
    return f"out of memory: {array_bytes(sizes, dtype)} bytes are needed for {dtype}{list(sizes)}"


def operators(exe: ExecutableData, packed: int) -> str:
    """The distinct operators of a kernel: ``add, exp``."""
    return ", ".join(dict.fromkeys(n.op for n in exe.packed[packed].group.nodes))


def memory_help(runtime: Runtime) -> str:
    """The help for out of memory: the bytes in use, the limit, and the use of GPU memory."""
    limit, live = runtime.options.memory_limit_bytes, int(runtime.view["live_bytes"])
    cap = f", the limit is {limit}" if limit is not None else ""
    text = f"{live} bytes are in use{cap}"
    device = runtime.session.memory_text() if runtime.session is not None else ""
    return f"{text}; {device}" if device else text


def _help(runtime: Runtime, status: int) -> str | None:
    state = runtime.view
    if status == OUT_OF_MEMORY:
        return memory_help(runtime)
    if status == DEVICE_ERROR:
        assert runtime.session is not None
        return runtime.session.help
    if status == STACK_OVERFLOW:
        return (
            f"the stack holds {int(state['stack_limit']) * 8 >> 20} MiB; a call in tail position needs none, "
            "and VirtualMachine(exe, stack_limit_bytes=...) raises the limit"
        )
    return None
