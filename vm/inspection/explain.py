"""Explain an executable: copies with causes, kernel placement, memory plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.codegen.cuda import cuda_source, has_kernel
from ...ops.codegen.cuda.cuda_program import Launch, Turns
from ...ops.core.copy_reason import CopyKind, CopyReason
from ...ops.core.implementation import GPU, HOST
from ...ops.core.tensor_types import TensorType, dim_text
from ...shape_funcs.symbolic.dim import ANY, SYM, Dim, const, dim
from ..bytecode import isa
from ..bytecode.executable import ExecutableData, FloatProduct, PackedFunc, VMFunction
from ..bytecode.operand_kinds import Role
from ..bytecode.size_expressions import known_value, parameter_sizes, portable, shape_text, size_text, tensor_params
from ..device_table import DEVICES, machine_of
from ..diagnostics import codes
from ..diagnostics.argument_errors import a_count, a_mapping, a_sequence, a_text
from ..diagnostics.source import InputError, Span
from ..machine.runtime_errors import span_of
from ..runtime.tracing.trace_events import DTOH, HTOD
from .constant_uses import ConstantUse, constants_of
from .figures import align
from .storage import FunctionMemory, InPlaceResult, StorageUse, memory_of
from .transfers import ARGUMENT, CONSTANT, RESULT, Transfer, reachable, registration, transfers

#: Version of the JSON form.
SCHEMA = 1
#: The bytes from which the text lists a constant.
LISTED_BYTES = 4096


@frozen
class KernelCall:
    """One kernel launch in the code: its operators, its implementation with the reason for the choice, and its device.

    ``formats``: the dtypes of its inputs and of its results.  ``calls_library``: at some sizes a library of CUDA does the work,
    or Python.
    """

    function: str
    pc: int
    kernel: str
    ops: tuple[str, ...]
    implementation: str
    because: str
    formats: str
    device: str
    span: Span | None
    calls_library: bool = False


@frozen
class Explanation:
    """Result of ``Executable.explain``; ``str`` gives the text for people.

    ``transfers``: all possible transfers between host and device.  ``calls``: all kernel launches.  ``memory``: the storages of
    each function that allocates, with their contents.  ``constants``: the constants that the code loads.  ``sizes``: the known
    sizes of the entry's parameters, by name.  ``host_fields``: the constructors with tensors on the host in a program for
    another device (``Cons of List[float32]``).  ``float_products``: the products of quantised tensors that are computed with
    floats, with the reasons.
    """

    entry: str
    device: str
    config: Mapping[str, str]
    transfers: tuple[Transfer, ...]
    calls: tuple[KernelCall, ...]
    memory: tuple[FunctionMemory, ...]
    sizes: Mapping[str, int]
    host_fields: tuple[str, ...] = ()
    constants: tuple[ConstantUse, ...] = ()
    float_products: tuple[FloatProduct, ...] = ()

    @property
    def edges(self) -> tuple[Transfer, ...]:
        """The earlier name of ``transfers``."""
        return self.transfers

    @property
    def on_host(self) -> tuple[KernelCall, ...]:
        """The launches on the host in a program for another device."""
        return tuple(c for c in self.calls if c.device != self.device)

    def nbytes(self, transfer: Transfer) -> int | None:
        """The bytes of a transfer; None if the known sizes do not determine them."""
        return self.value_of(transfer.nbytes, transfer.function)

    def value_of(self, size: Dim, function: str) -> int | None:
        """The value of a portable dim of a function; None if the known sizes do not determine it."""
        # the same name denotes another size in another function
        return known_value(size, self.sizes if function == self.entry else {})

    def remedy(self, transfer: Transfer) -> str:
        """The change that would remove a transfer."""
        return _remedy(transfer, self.config)

    def __str__(self) -> str:
        copies = (_transfer_text(self, i, e) for i, e in enumerate(self.transfers, 1))
        memory = (_memory_text(self, m) for m in self.memory)
        products = _products_text(self.float_products)
        return "\n\n".join([_title(self), *copies, _calls_text(self), *products, *memory, *_constants_text(self.constants)])

    def as_data(self) -> dict[str, Any]:
        """The explanation as plain data, as in the JSON form."""
        return {
            "schema": SCHEMA,
            "entry": self.entry,
            "device": self.device,
            "config": dict(self.config),
            "sizes": dict(self.sizes),
            "copies": [_transfer_data(self, e) for e in self.transfers],
            "calls": [_call_data(c) for c in self.calls],
            "on_host": [_call_data(c) for c in self.on_host],
            "host_fields": list(self.host_fields),
            "float_products": [{"op": p.op, "place": p.place, "because": p.because} for p in self.float_products],
            "memory": [_memory_data(self, m) for m in self.memory],
            "constants": [_constant_data(c) for c in self.constants],
        }

    def to_json(self) -> str:
        """The explanation as JSON text; ``schema`` is the version of the form."""
        return json.dumps(self.as_data())


def explain(
    exe: ExecutableData,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    entry: str = "main",
) -> Explanation:
    """Explain the runs of ``entry``: transfers, kernels and memory.

    ``shapes`` by parameter (``x``, in a tuple ``x.0``) and ``dims`` by name make the numbers of bytes exact, if they determine
    them.  Raises InputError for an unknown function, parameter or dimension, and for sizes that do not fit.
    """
    shapes = {k: a_sequence(v, f"explain: the shape of {k}") for k, v in a_mapping(shapes, "explain: shapes").items()}
    dims = {k: a_count(v, f"explain: the size of {k}") for k, v in a_mapping(dims, "explain: dims").items()}
    names = [f.name for f in exe.functions]
    if a_text(entry, "explain: the entry") not in names:
        raise InputError(
            f"the program has no function @{entry}",
            help=f"its functions: {', '.join('@' + n for n in names)}",
            code=codes.Config.FUNCTION,
        )
    functions = reachable(exe, entry)
    sizes = _sizes(functions[0], dict(shapes or {}), dict(dims or {}))
    called = {i.get(Role.CALLEE) for f in functions for _, i in isa.disassemble(f.code) if Role.CALLEE in i.roles}
    if exe.function_index(entry) in called:
        sizes = {}  # a recursive function: its calls may have any sizes
    calls = tuple(
        _call(exe, f, pc, exe.packed[i.get(Role.KERNEL)])
        for f in functions
        for pc, i in isa.disassemble(f.code)
        if Role.KERNEL in i.roles
    )
    memory = tuple(found for f in functions if (found := memory_of(exe, f)).storages)
    fields = tuple(f"{constructor} of {name}" if constructor else name for name, constructor in sorted(exe.host_fields))
    constants = constants_of(exe, functions)
    moved = transfers(exe, entry)
    return Explanation(
        entry, exe.target, dict(exe.config), moved, calls, memory, sizes, fields, constants, exe.float_products
    )  # fmt: skip


def _call(exe: ExecutableData, f: VMFunction, pc: int, packed: PackedFunc) -> KernelCall:
    nodes = packed.group.nodes
    implementation = packed.group.implementation or ", ".join(dict.fromkeys(n.operator.implementations[-1] for n in nodes))
    ops = tuple(n.op for n in nodes)
    device, span = DEVICES[packed.device], span_of(exe, f, pc)
    return KernelCall(
        f.name, pc, packed.name, ops, implementation, packed.because, packed.formats, device, span, _calls_library(packed)
    )


def _calls_library(packed: PackedFunc) -> bool:
    """Whether the launch on a GPU may be more than kernels of the package."""
    if packed.machine != GPU:
        return False
    steps = cuda_source(packed.group).steps if has_kernel(packed.group) else ()
    return not steps or not all(isinstance(step, (Launch, Turns)) for step in steps)


def _sizes(f: VMFunction, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> dict[str, int]:
    """The sizes of parameters determined by ``shapes`` and ``dims``, by their names in portable dims."""
    params = dict(tensor_params(f.params))
    for path in shapes:
        if path not in params:
            raise InputError(
                f"@{f.name} has no parameter %{path}", help=f"its tensors: {_listed(params)}", code=codes.Input.ARGUMENTS
            )
    known, known_sizes = parameter_sizes(f.params), {}
    named = {d.args[0] for ty in params.values() for d in ty.shape if d.op == SYM and d not in known}
    for name, size in dims.items():
        if name not in named:
            listed = ", ".join(sorted(named)) or "none"
            raise InputError(
                f"no parameter of @{f.name} has a dimension ?{name}",
                help=f"its named dimensions: {listed}",
                code=codes.Input.ARGUMENTS,
            )
        known_sizes[name] = (size, f"?{name} is given as {size}")
    for path, shape in shapes.items():
        ty = params[path]
        if len(shape) != ty.rank:
            raise InputError(f"%{path} is declared {ty}: a shape of {len(shape)} sizes does not fit", code=codes.Input.TYPE)
        for axis, (size, d, p) in enumerate(zip(shape, ty.shape, portable(ty, known).shape, strict=True)):
            fixed, why = (const(d), f"axis {axis} of %{path} is declared {dim_text(d)}")
            if fixed is None:
                fixed, why = known_sizes.setdefault(p.args[0], (size, f"axis {axis} of %{path} is {size}"))
            if fixed != size:
                raise InputError(f"%{path} cannot have the size {size} on axis {axis}", help=why)
    return {name: size for name, (size, _) in known_sizes.items()}


def _listed(params: Mapping[str, TensorType]) -> str:
    return ", ".join(f"%{path}: {ty}" for path, ty in params.items()) or "none"


# ---- remedies: changes that would remove a transfer --------------------------------------------------------------------

_BY_A_FUNCTION = "nothing: functions take and give back values on the device"
_AT_LEAST_AS_MUCH = "nothing: every other placement copies at least as much"
_REMEDIES = {
    CopyKind.PER_OP: "data_dependence=input: only flagged inputs are copied",
    CopyKind.COUNT: "nothing: the kernel's count is data",
    CopyKind.ARGUMENT: _BY_A_FUNCTION,
    CopyKind.RESULT: _BY_A_FUNCTION,
    CopyKind.BRANCH: "nothing: an if has its value on the device",
    CopyKind.CLOSURE: _BY_A_FUNCTION,
    CopyKind.ON_DEVICE: "remove it from the program",
}
#: Remedies with ``place`` off and on.
_PLACED = {
    CopyKind.FLAGGED: (
        "compute it on the host (place=on), or make it a constant",
        "make it a constant, or compute it from shapes and small values; work on large values stays on the device",
    ),
    CopyKind.CONDITION: (
        "compute it on the host (place=on)",
        "where(condition, a, b) instead of an if, if both are cheap and neither fails; "
        "or compute the condition from shapes and small values",
    ),
    CopyKind.INPUT: ("compute both on one device (place=on)", _AT_LEAST_AS_MUCH),
    CopyKind.RECORD: ("let the field be on the host (place=on)", _AT_LEAST_AS_MUCH),
}
_WITHOUT_REASON = {
    ARGUMENT: "pass a tensor that is on the device already, such as the result of another run",
    RESULT: "do not read it: pass it on to another run as it is",
    CONSTANT: "nothing: it is copied in the first run and kept",
}


def _remedy(transfer: Transfer, config: Mapping[str, str]) -> str:
    if transfer.reason is None:
        return _WITHOUT_REASON[transfer.what]
    kind = transfer.reason.kind
    return _PLACED[kind][config.get("place") == "on"] if kind in _PLACED else _REMEDIES[kind]


# ---- as text and data ----------------------------------------------------------------------------------------------------


def _title(e: Explanation) -> str:
    settings = ", ".join(f"{k}={v}" for k, v in sorted(e.config.items()))
    first = f"@{e.entry} on {e.device}" + (f" ({settings})" if settings else "")
    if e.device == HOST:
        return f"{first}\nno copies: the host is the device"
    lines = [first]
    for direction, words in ((HTOD, "to the device"), (DTOH, "to the host")):
        found = [x for x in e.transfers if x.direction == direction]
        inside = sum(x.reason is not None for x in found)
        lines.append(f"{_positions(len(found))} {words}, {inside} of them inside the program")
    return "\n".join([*lines, *_graphs_text(e)])


def _graphs_text(e: Explanation) -> list[str]:
    """Lines about launches that are combined to graphs."""
    launched = [c for c in e.calls if machine_of(c.device) == GPU]
    mode = e.config.get("graphs", "off")
    if mode == "off" or not launched:
        return []
    calling = [c for c in launched if c.calls_library]
    lines = [f"graphs={mode}: {len(launched) - len(calling)} of {len(launched)} kernels are replayed at any sizes"]
    if calling:
        names = dict.fromkeys(f"{c.kernel} in @{c.function} at {c.pc}" for c in calling)
        lines += ["at sizes that have occurred, for they may call a library:", *(f"    {name}" for name in names)]
    return lines


def _positions(n: int) -> str:
    return f"{n} place{'' if n == 1 else 's'} of a copy"


def _transfer_text(e: Explanation, number: int, transfer: Transfer) -> str:
    arrow = f"{e.device} -> {HOST}" if transfer.direction == DTOH else f"{HOST} -> {e.device}"
    what = f"{transfer.name}, " if transfer.name else ""
    notes = [f"{what}{shape_text(transfer.type)}", _bytes(e, transfer)]
    notes += ["the host waits for the device"] * transfer.host_waits + ["in the first run only"] * transfer.once
    lines = [f"[{number}] {arrow}: {'; '.join(notes)}", f"    because: {transfer.text}" + _kind_text(transfer.reason)]
    found = transfer.reason and registration(transfer.reason)
    if found:
        flags = f"data_dependent: {', '.join(found.flagged) or 'nothing'}" + (", upper_bound" if found.upper_bound else "")
        lines += [f"    registered: {found.place} ({flags})", f"    {found.op}: {' '.join(found.doc.split())}"]
    if transfer.span is not None:
        lines += [f"    {line}" for line in transfer.span.render().splitlines()]
    return "\n".join([*lines, f"    removed by: {e.remedy(transfer)}"])


def _kind_text(reason: CopyReason | None) -> str:
    return f" ({reason.kind.meaning})" if reason else ""


def _bytes(e: Explanation, transfer: Transfer) -> str:
    text = size_text(transfer.nbytes)
    if text == "?":
        return "the size is known at run time"
    return f"{_size(e, transfer.nbytes, transfer.function)} byte{'s' * (text != '1')}"


def _size(e: Explanation, size: Dim, function: str) -> str:
    """The text of a size: ``16·?n``, followed by ``= 80`` if the value is known."""
    exact, text = e.value_of(size, function), size_text(size)
    return text if exact is None or text == str(exact) else f"{text} = {exact}"


def _calls_text(e: Explanation) -> str:
    moved = [f"    {c.kernel} in @{c.function} at {c.pc}" + _place(c.span) for c in e.on_host]
    moved += [f"    fields of {text}: the host reads them or work that takes them" for text in e.host_fields]
    rows = [
        (f"@{c.function}", str(c.pc), c.device, c.kernel, c.formats, _implementation(c), c.span.place if c.span else "")
        for c in e.calls
    ]
    table = align([("In", "At", "On", "Kernel", "Formats", "Implementation", "Source"), *rows], left=(0, 2, 3, 4, 5, 6))
    heading = "on the host instead of the device:" + (" nothing" if not moved else "")
    host = [heading, *moved, ""] if e.device != HOST else []
    return "\n".join([*host, "kernels:" + (" none" if not rows else ""), *([table] if rows else [])])


def _implementation(call: KernelCall) -> str:
    return f"{call.implementation} ({call.because})" if call.because else call.implementation


def _place(span: Span | None) -> str:
    return f", {span.place}" if span is not None else ""


def _memory_text(e: Explanation, m: FunctionMemory) -> str:
    rows = [(str(s.pc), s.device, _size(e, s.nbytes, m.function), _held_text(s), _why_text(s)) for s in m.storages]
    table = align([("At", "On", "Bytes", "Holds", "Why it is a storage of its own"), *rows], left=(1, 2, 3, 4))
    over = [f"    {_value(o.value)} is written over {_value(o.over)} by {o.kernel} at {o.pc}" for o in m.in_place]
    values, (known, unknown) = _values(m), _total(m)
    total = _size(e, known, m.function) + f" and {unknown} of a size known at run time" * (unknown > 0)
    counts = f"{values} value{'s' * (values != 1)} in {len(rows)} storage{'s' * (len(rows) != 1)}, {len(over)} in place"
    return "\n".join([f"memory of @{m.function}: {counts}; bytes: {total}", table, *over])


def _constants_text(constants: Sequence[ConstantUse]) -> list[str]:
    """The table of the large constants, after the bytes of all; nothing without large constants."""
    large = [c for c in constants if c.nbytes >= LISTED_BYTES]
    if not large:
        return []
    heading = f"constants: {len(constants)}; bytes: {sum(c.nbytes for c in constants)}; of at least {LISTED_BYTES} bytes:"
    rows = [(str(c.nbytes), f"const[{c.number}]", str(c.type), ", ".join(c.kernels)) for c in large]
    return ["\n".join([heading, align([("Bytes", "Constant", "Type", "Read by"), *rows], left=(1, 2, 3))])]


def _products_text(products: Sequence[FloatProduct]) -> list[str]:
    """The products of quantised tensors that are computed with floats; nothing without such."""
    lines = [f"    {p.op}{f', {p.place}' if p.place else ''}: {p.because}" for p in products]
    return ["\n".join(["products of quantised tensors in floats:", *lines])] if lines else []


def _held_text(s: StorageUse) -> str:
    text = f"an arena of {len(s.values)} values" if s.arena else ", then ".join(map(_value, s.values))
    text += f", with {', '.join(map(_value, s.parts))} in it" * bool(s.parts)
    return text + ", whose rows move out if they are few" * s.released


def _why_text(s: StorageUse) -> str:
    return f"{_value(s.over)}'s own, if nothing else refers to it" if s.over else s.why


def _value(name: str) -> str:
    return name if name.startswith("$") else f"%{name}"


def _values(m: FunctionMemory) -> int:
    return sum(len(s.values) + len(s.parts) for s in m.storages)


def _total(m: FunctionMemory) -> tuple[Dim, int]:
    """The bytes of all storages of known size, and the number of the other storages."""
    known = [s.nbytes for s in m.storages if s.nbytes is not ANY]
    return sum(known, dim(0)), len(m.storages) - len(known)


def _transfer_data(e: Explanation, transfer: Transfer) -> dict[str, Any]:
    found = transfer.reason and registration(transfer.reason)
    return {
        "what": transfer.what,
        "direction": transfer.direction,
        "function": transfer.function,
        "pc": transfer.pc,
        "reason": transfer.number,
        "name": transfer.name,
        "dtype": transfer.type.dtype,
        "shape": [size_text(d) for d in transfer.type.shape],
        "bytes": size_text(transfer.nbytes),
        "exact_bytes": e.nbytes(transfer),
        "host_waits": transfer.host_waits,
        "first_run_only": transfer.once,
        "because": transfer.text,
        "kind": transfer.reason.kind.key if transfer.reason else None,
        "op": transfer.reason.op if transfer.reason else None,
        "input": transfer.reason.input if transfer.reason else None,
        "registered": found.place if found else None,
        "data_dependent": list(found.flagged) if found else None,
        "doc": found.doc if found else None,
        "source": _span_data(transfer.span),
        "removed_by": e.remedy(transfer),
    }


def _call_data(call: KernelCall) -> dict[str, Any]:
    return {
        "function": call.function,
        "pc": call.pc,
        "kernel": call.kernel,
        "ops": list(call.ops),
        "implementation": call.implementation,
        "because": call.because,
        "formats": call.formats,
        "device": call.device,
        "calls_library": call.calls_library,
        "source": _span_data(call.span),
    }


def _memory_data(e: Explanation, m: FunctionMemory) -> dict[str, Any]:
    known, unknown = _total(m)
    return {
        "function": m.function,
        "storages": [_storage_data(e, m, s) for s in m.storages],
        "in_place": [_in_place_data(o) for o in m.in_place],
        "values": _values(m),
        "bytes": size_text(known),
        "exact_bytes": e.value_of(known, m.function),
        "storages_of_unknown_size": unknown,
    }


def _storage_data(e: Explanation, m: FunctionMemory, s: StorageUse) -> dict[str, Any]:
    return {
        "pc": s.pc,
        "device": s.device,
        "bytes": size_text(s.nbytes),
        "exact_bytes": e.value_of(s.nbytes, m.function),
        "values": s.values,
        "parts": s.parts,
        "arena": s.arena,
        "over": s.over or None,
        "why": s.why or None,
        "released": s.released,
        "source": _span_data(s.span),
    }


def _constant_data(c: ConstantUse) -> dict[str, Any]:
    return {
        "number": c.number,
        "dtype": c.type.dtype,
        "shape": [size_text(d) for d in c.type.shape],
        "bytes": c.nbytes,
        "kernels": list(c.kernels),
    }


def _in_place_data(o: InPlaceResult) -> dict[str, Any]:
    return {"pc": o.pc, "kernel": o.kernel, "value": o.value, "over": o.over}


def _span_data(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    line, column = span.source.position(span.start)
    return {"file": span.source.name, "line": line, "column": column, "text": span.source.line(line)}
