"""The verifier of executables.  Every executable is verified before it runs, since the interpreter loop does not check operands.

The verifier checks the tables, then each function: decoding, operand ranges, argument counts of calls, jump targets, and the
kinds of objects in registers (``register_flow``).  The interpreter loop itself checks the properties that depend on values:
devices of tensors, sizes, functions of closures.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import AdtDefinition, RefType, TypeCall, TypeVar
from ...ops.core.tensor_types import DTYPES, ITEMSIZE, MAX_RANK, FuncType, TensorType, TupleType, Type
from ...shape_funcs.symbolic.program import ShapeProgram
from ..device_table import DEVICES
from ..diagnostics.source import ExecutableFormatError
from ..state.state_layout import MAX_ARGS
from . import isa
from .executable import ExecutableData, LateBound, PackedFunc, VMFunction
from .operand_kinds import Role
from .register_flow import check_registers, jump_targets

#: Largest number of registers of a function.
MAX_REGISTERS = 1 << 20
#: Largest offset into a storage, in bytes: larger than any storage, and the sum with a size never overflows.
MAX_OFFSET = 1 << 48
#: Largest number of characters of an instruction in a message.
_MAX_SHOWN = 160

#: The executables whose functions were checked: a load checks them, and each machine asks again.  Functions never change, nor
#: do the tables that the checks of functions read, except for constants, of which the checks read the number alone.
_with_checked_functions: weakref.WeakSet[ExecutableData] = weakref.WeakSet()
#: Those all of whose tables were checked before they were stored in this user's cache, except for constants, which may change.
_checked_before: weakref.WeakSet[ExecutableData] = weakref.WeakSet()


def verify(exe: ExecutableData) -> None:
    """Check the whole executable.

    Raises ExecutableFormatError; the message has the fault and its location: the table entry, or function, pc and instruction.
    """
    _check_constants(exe)
    if exe in _checked_before:
        return
    _check_tables(exe)
    if exe in _with_checked_functions:
        return
    tables = _Tables.of(exe)
    for function in exe.functions:
        _check_function(tables, function)
    _with_checked_functions.add(exe)


def assume_verified(exe: ExecutableData) -> None:
    """Take an executable for verified, whose bytes are those of one that was."""
    _checked_before.add(exe)


def _refuse(what: str) -> ExecutableFormatError:
    return ExecutableFormatError(f"the executable does not verify: {what}")


def _need(ok: object, what: str) -> None:
    if not ok:
        raise _refuse(what)


# ---- tables --------------------------------------------------------------------------------------------------------


def _check_tables(exe: ExecutableData) -> None:
    _need(exe.target in DEVICES, f"its target is {exe.target!r}; devices: {', '.join(DEVICES)}")
    from ..state.gpu_layout import GRAPHS  # not for executables that were checked before

    graphs = exe.config.get("graphs", "auto")
    _need(graphs in GRAPHS, f"its configuration has graphs={graphs!r}; there are {', '.join(GRAPHS)}")
    names = [f.name for f in exe.functions]
    for i, name in enumerate(names):
        _need(name and name.isprintable(), f"function[{i}] has the name {name!r}")
    _need(len(set(names)) == len(names), f"two functions have one name: {', '.join(sorted(names))}")
    for i, packed in enumerate(exe.packed):
        _check_packed(exe, f"packed[{i}] ({packed.name})", packed)
    _check_adts(exe)
    _check_texts(exe)
    named = len(exe.shape_func_names) == len(exe.shape_funcs)
    _need(named, f"there are {len(exe.shape_funcs)} shape functions and {len(exe.shape_func_names)} names for them")
    for i, program in enumerate(exe.shape_funcs):
        _check_program(f"shape_func[{i}] ({exe.shape_func_names[i]})", program)


def _check_constants(exe: ExecutableData) -> None:
    for i, constant in enumerate(exe.constants):
        fits = constant.dtype.name in DTYPES and constant.dtype.isnative
        _need(fits, f"const[{i}] has the dtype {constant.dtype}; there are {', '.join(DTYPES)}")
        _need(constant.ndim <= MAX_RANK, f"const[{i}] has {constant.ndim} dimensions; at most {MAX_RANK} are possible")


def _check_texts(exe: ExecutableData) -> None:
    """Check that the texts shown in messages and reports are printable."""
    shown = {
        "shape_func": exe.shape_func_names,
        "const": [c.name for c in exe.constants if isinstance(c, LateBound)],
        "packed": [p.because for p in exe.packed],
        "reason": [r.op + r.input for r in exe.reasons],
        "float_products": [p.op + p.place + p.because for p in exe.float_products],
        "config": [key + value for key, value in exe.config.items()],
    }
    for table, texts in shown.items():
        for i, text in enumerate(texts):
            _need(text.isprintable(), f"{table}[{i}] cannot be printed: {text!r}")


def _check_packed(exe: ExecutableData, where: str, packed: PackedFunc) -> None:
    group = packed.group
    outputs = group.n_outputs
    target = DEVICES.index(exe.target)
    _need(packed.device in (0, target), f"{where}: there is no device[{packed.device}] in a program for {exe.target}")
    _need(packed.n_inputs == len(group.params), f"{where}: has {packed.n_inputs} inputs, but its group {len(group.params)}")
    _need(packed.n_outputs == outputs, f"{where}: has {packed.n_outputs} outputs, but its group {outputs}")
    _need(
        packed.n_inputs + outputs <= MAX_ARGS,
        f"{where}: has {packed.n_inputs + outputs} arguments; at most {MAX_ARGS} are possible",
    )


def _check_program(where: str, program: ShapeProgram) -> None:
    try:
        program.verify(MAX_ARGS)
    except ValueError as error:
        raise _refuse(f"{where}: {error}") from None


@frozen
class _Tables:
    """Tables that instructions refer to.

    ``sizes``: sizes of the tables by name.  ``inputs``: numbers of inputs that the shape programs read.
    """

    exe: ExecutableData
    sizes: dict[str, int]
    inputs: tuple[int, ...]

    @staticmethod
    def of(exe: ExecutableData) -> _Tables:
        sizes = {
            "function": len(exe.functions),
            "packed": len(exe.packed),
            "shape_func": len(exe.shape_funcs),
            "const": len(exe.constants),
            "dtype": len(DTYPES),
            "device": len(DEVICES),
            "reason": len(exe.reasons),
        }
        return _Tables(exe, sizes, tuple(max((i + 1 for i, _, _ in p.loads), default=0) for p in exe.shape_funcs))


# ---- functions -----------------------------------------------------------------------------------------------------


def _check_function(tables: _Tables, function: VMFunction) -> None:
    where, n = f"@{function.name}", function.n_registers
    _need(0 <= n <= MAX_REGISTERS, f"{where}: has {n} registers; at most {MAX_REGISTERS} are possible")
    _need(len(function.params) <= min(n, MAX_ARGS), f"{where}: has {len(function.params)} parameters and {n} registers")
    for name, ty in function.params:
        _need(name and name.isprintable(), f"{where}: a parameter has the name {name!r}")
        _check_type(f"{where}: %{name}", ty, tables.exe.adts)
    _check_type(f"{where}: its result", function.result, tables.exe.adts)
    _check_output_names(where, function)
    _check_defaults(where, function)
    _check_devices(tables.exe, function)
    code = _decoded(function)

    def fail(pc: int, instruction: isa.Instruction, what: str) -> ExecutableFormatError:
        text = " ".join(str(instruction).split())
        shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + " ..."
        return _refuse(f"{where}, pc {pc}, {shown}: {what}")

    for pc, instruction in code.items():
        _check_operands(tables, function, instruction, lambda what, pc=pc, i=instruction: fail(pc, i, what))  # type: ignore[misc]
        for target in jump_targets(pc, instruction):
            if target not in code:
                raise fail(pc, instruction, f"jumps to {target}, where no instruction starts")
    last = max(code)
    if not code[last].leaves():
        raise fail(last, code[last], "the function ends here without returning")
    check_registers(code, len(function.params), n, fail)
    _check_spans(tables.exe, function, code)
    _check_notes(function, code)


def _check_output_names(where: str, function: VMFunction) -> None:
    names = function.output_names
    count = len(function.result.fields) if isinstance(function.result, TupleType) else 1
    _need(len(names) in (0, count), f"{where}: has {len(names)} names for {count} results")
    for name in names:
        _need(name and name.isprintable(), f"{where}: a result has the name {name!r}")
    _need(len(set(names)) == len(names), f"{where}: two results have one name: {', '.join(sorted(names))}")


def _check_defaults(where: str, function: VMFunction) -> None:
    params, defaults = function.params, function.defaults
    _need(len(defaults) <= len(params), f"{where}: has {len(defaults)} defaults for {len(params)} parameters")
    for (name, ty), default in zip(params[len(params) - len(defaults) :], defaults, strict=True):
        found = TensorType.of(default.shape, default.dtype.name)
        _need(ty == found, f"{where}: %{name} is {ty}, its default {found}")


def _check_devices(exe: ExecutableData, function: VMFunction) -> None:
    where, devices = f"@{function.name}", function.devices
    n = len(function.params)
    _need(len(devices) in (0, n), f"{where}: has devices for {len(devices)} of {n} parameters")
    target = DEVICES.index(exe.target)
    for (name, ty), device in zip(function.params, devices, strict=False):
        valid = (0, target) if isinstance(ty, TensorType) else (target,)
        _need(device in valid, f"{where}: %{name} cannot be taken on device[{device}]")


def _check_adts(exe: ExecutableData) -> None:
    """Check the type definitions: names are unique, and fields have valid types."""
    names = [a.name for a in exe.adts]
    _need(len(set(names)) == len(names), "two type definitions have one name")
    for adt in exe.adts:
        for name, fields in adt.constructors:
            for ty in fields:
                _check_type(f"{name} of {adt.name}", ty, exe.adts, adt.type_vars)


def _check_type(where: str, ty: Type, adts: tuple[AdtDefinition, ...] = (), type_vars: tuple[TypeVar, ...] = ()) -> None:
    waiting, arity = [ty], {a.name: len(a.type_vars) for a in adts}
    while waiting:
        ty = waiting.pop()
        if isinstance(ty, TupleType):
            waiting += ty.fields
        elif isinstance(ty, FuncType):
            waiting += [*ty.params, ty.result]
        elif isinstance(ty, TypeCall):
            _need(arity.get(ty.func.name) == len(ty.args), f"{where} has the type {ty}, which is not defined so")
            waiting += ty.args
        elif isinstance(ty, RefType):
            waiting.append(ty.value)
        elif ty not in type_vars:
            _need(isinstance(ty, TensorType), f"{where} has the type {ty!r}")
            _need(ty.dtype in DTYPES, f"{where} has the dtype {ty.dtype!r}; there are {', '.join(DTYPES)}")  # type: ignore[attr-defined]
            _need(ty.rank <= MAX_RANK, f"{where} has {ty.rank} dimensions; at most {MAX_RANK} are possible")  # type: ignore[attr-defined]


def _decoded(function: VMFunction) -> dict[int, isa.Instruction]:
    """The instructions by pc."""
    where = f"@{function.name}"
    flat = isinstance(function.code, np.ndarray) and function.code.dtype == np.int64 and function.code.ndim == 1
    _need(flat and len(function.code), f"{where}: its code is not a sequence of int64 words")
    words, out, pc = function.code.tolist(), {}, 0
    while pc < len(words):
        try:
            out[pc] = isa.decode(words, pc)
        except isa.EncodingError as error:
            raise _refuse(f"{where}, pc {pc}: {error}") from None
        pc += out[pc].length
    return out


def _check_spans(exe: ExecutableData, function: VMFunction, code: dict[int, isa.Instruction]) -> None:
    before = -1
    for pc, source, start, end in function.spans:
        where = f"@{function.name}: the place in the source of pc {pc}"
        _need(pc in code and pc > before, f"{where} is out of order, or of no instruction")
        _need(0 <= source < len(exe.sources), f"{where} is in source {source} of {len(exe.sources)}")
        _need(0 <= start <= end <= len(exe.sources[source].text), f"{where} is outside of {exe.sources[source].name}")
        before = pc


def _check_notes(function: VMFunction, code: dict[int, isa.Instruction]) -> None:
    before = -1
    for note in function.notes:
        where = f"@{function.name}: the note on memory of pc {note.pc}"
        _need(
            note.pc in code and code[note.pc].may_have_note() and note.pc > before,
            f"{where} is out of order, or of no instruction that makes one",
        )
        _need((note.name + note.why).isprintable(), f"{where} cannot be printed: {note.name!r}, {note.why!r}")
        before = note.pc


# ---- operands ------------------------------------------------------------------------------------------------------

_Fail = Callable[[str], Exception]


def _check_operands(tables: _Tables, function: VMFunction, instruction: isa.Instruction, fail: _Fail) -> None:
    """Check each operand alone, then the relations between operands (``_RULES``)."""
    for name, kind in instruction.operands.items():
        value = getattr(instruction, name)
        numbers = value if kind.many else (value,)
        if kind.many and kind.access != "kill" and len(numbers) > MAX_ARGS:
            raise fail(f"{name} has {len(numbers)} entries; at most {MAX_ARGS} are possible")
        size = function.n_registers if kind.table == "register" else tables.sizes.get(kind.table or "")
        for number in numbers:
            if size is not None and not 0 <= number < size:
                raise fail(f"there is no {kind.table} {number}; the {_holder(kind, function)} has {size}")
            if kind.table == "device" and number not in (0, DEVICES.index(tables.exe.target)):
                raise fail(f"there is no device {number} in a program for {tables.exe.target}")
            if kind.low is not None and number < kind.low:
                raise fail(f"{name} is {number}; it must be at least {kind.low}")
            if kind.high is not None and number > kind.high:
                raise fail(f"{name} is {number}; it must be at most {kind.high}")
    for role in instruction.roles:
        rule = _RULES.get(role)
        wrong = rule(tables, instruction) if rule else None
        if wrong:
            raise fail(wrong)


def _holder(kind: isa.Kind, function: VMFunction) -> str:
    return f"function @{function.name}" if kind.table == "register" else "table"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _call(tables: _Tables, i: isa.Instruction) -> str | None:
    callee, args = tables.exe.functions[i.get(Role.CALLEE)], i.get(Role.ARGS)
    if len(args) == len(callee.params):
        return None
    return f"@{callee.name} takes {_count(len(callee.params), 'argument')}, not {len(args)}"


def _closure(tables: _Tables, i: isa.Instruction) -> str | None:
    callee, captured = tables.exe.functions[i.get(Role.BODY)], i.get(Role.CAPTURED)
    if len(captured) <= len(callee.params):
        return None
    return f"@{callee.name} has {_count(len(callee.params), 'parameter')}, {len(captured)} are captured"


def _kernel(tables: _Tables, i: isa.Instruction) -> str | None:
    packed, args, n_outputs = tables.exe.packed[i.get(Role.KERNEL)], i.get(Role.ARGS), i.get(Role.N_OUTPUTS)
    if (len(args), n_outputs) == (packed.n_inputs + packed.n_outputs, packed.n_outputs):
        return None
    given = f"{_count(len(args), 'argument')}, {n_outputs} of them outputs"
    return f"{packed.name} takes {_count(packed.n_inputs, 'input')} and {_count(packed.n_outputs, 'output')}, not {given}"


def _shape_func(tables: _Tables, i: isa.Instruction) -> str | None:
    number, args, results = i.get(Role.SHAPE_FUNC), i.get(Role.ARGS), i.get(Role.RESULTS)
    needed, outputs = tables.inputs[number], len(tables.exe.shape_funcs[number].outputs)
    if needed > len(args):
        return f"the shape function reads {_count(needed, 'argument')}, {len(args)} are given"
    if len(args) + outputs > MAX_ARGS:
        return f"it has {len(args) + outputs} arguments and results; at most {MAX_ARGS} are possible"
    return None if outputs == len(results) else f"the shape function has {_count(outputs, 'result')}, not {len(results)}"


def _offset(tables: _Tables, i: isa.Instruction) -> str | None:
    offset, dtype = i.get(Role.OFFSET), DTYPES[i.get(Role.DTYPE)]
    if offset > MAX_OFFSET:
        return f"the offset {offset} is too large; at most {MAX_OFFSET} is possible"
    return f"the offset {offset} is no multiple of the size of a {dtype}" if offset % ITEMSIZE[dtype] else None


def _rank(tables: _Tables, i: isa.Instruction) -> str | None:
    rank = len(i.get(Role.DIMS))
    return None if rank <= MAX_RANK else f"the tensor has {rank} dimensions; at most {MAX_RANK} are possible"


#: The rule for the operand of each role, which may relate it to others.
_RULES: dict[Role, Callable[[_Tables, isa.Instruction], str | None]] = {
    Role.CALLEE: _call,
    Role.BODY: _closure,
    Role.KERNEL: _kernel,
    Role.SHAPE_FUNC: _shape_func,
    Role.OFFSET: _offset,
    Role.DIMS: _rank,
}
