"""The file format of executables (``.rvm``): data without machine code; the reader accepts files from untrusted sources.

::

    magic                                  8 bytes
    format version                         uint64; all numbers are little-endian
    bytes of header, code, constants       3 x uint64
    header                                 JSON, UTF-8: everything but the two sections that follow
    code                                   the words of all functions, int64
    zeros                                  up to a multiple of 64 bytes
    constants                              their elements, row-major, each at a multiple of 64 bytes with zeros between them, but
                                           for late-bound constants (see ``late_bound``)
    SHA-256 of the constants               32 bytes
    SHA-256 of the rest                    32 bytes; of all before the constants, and of the SHA-256 of the constants

Equal executables have equal bytes: ``to_bytes(from_bytes(b))`` equals ``b``.  The checksums detect damage.  ``verify`` detects
inconsistent numbers, also in a maliciously crafted file.

More than MAPPED_BYTES of constants are not read, but mapped into memory: a page is read when a kernel reads it.  Therefore their
checksum is not compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...declarations.deferred import Deferred
from ...ops.core.copy_reason import CopyKind, CopyReason
from ...ops.core.tensor_types import DTYPES, ITEMSIZE, MAX_RANK, Type, numpy_dtype
from ...shape_funcs.symbolic.dim import ANY, Dim
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...shape_funcs.symbolic.program import ShapeProgram
from ..diagnostics.source import ExecutableFormatError, FileError, SourceText
from .atomic_file import whole_file
from .executable import ExecutableData, FloatProduct, LateBound, MemoryNote, PackedFunc, VMFunction
from .size_expressions import dim_from_json, dim_to_json, tensor_from_json, tensor_to_json
from .types_json import definition_from_json, definition_to_json, type_from_json, type_to_json
from .verify import assume_verified, verify

if TYPE_CHECKING:
    from ...ops.core.group import Group

#: Magic bytes as in PNG: no text file begins with them, and a transfer that changes line ends or the eighth bit alters them.
MAGIC = b"\x89RVM\r\n\x1a\n"
#: Version of the format, incremented with every incompatible change.
FORMAT_VERSION = 11
#: Constants in a file that are mapped; fewer bytes are read, and stay as they are if the file changes.
MAPPED_BYTES = 16 << 20
#: The contents of a file: read, mapped, or a part of a mapped file.
Contents = bytes | mmap.mmap | memoryview
#: The class of the executable that is read.
_T = TypeVar("_T")
_E = TypeVar("_E", bound=ExecutableData)
_DIGEST = re.compile("[0-9a-f]{64}")
_HEAD = struct.Struct("<8s4Q")
_DIGEST_BYTES = hashlib.sha256().digest_size
#: Both checksums.
_CHECKSUM_BYTES = 2 * _DIGEST_BYTES
#: Constants begin at multiples of this number of bytes, as the lines of a CPU's cache do.
_ALIGNMENT = 64


# ---- writing -------------------------------------------------------------------------------------------------------


def to_bytes(exe: ExecutableData) -> bytes:
    """Serialise the executable to the contents of a file."""
    return b"".join(sections(exe))


def sections(exe: ExecutableData, for_cache: bool = False) -> Iterator[bytes | memoryview]:
    """The contents of a file in order; elements are not copied.

    ``for_cache``: whether the contents are part of a file that is checked as a whole; zeros then stand for the checksums.
    """
    # a lone surrogate, valid in a Python str but not in UTF-8, becomes "?": the character offsets of spans stay valid
    header = json.dumps(_header(exe), separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    code = b"".join(f.code.astype("<i8").tobytes() for f in exe.functions)
    constants = [_elements(c) for c in exe.constants if isinstance(c, np.ndarray)]
    at = 0
    for elements in constants:
        at = _aligned(at) + len(elements)
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, len(header), len(code), at) + header + code
    head += bytes(_aligned(len(head)) - len(head))
    yield head
    digest, at = hashlib.sha256(), 0
    for elements in constants:
        for part in (bytes(_aligned(at) - at), elements):
            if not for_cache:
                digest.update(part)
            yield part
        at = _aligned(at) + len(elements)
    first = digest.digest()
    yield bytes(_CHECKSUM_BYTES) if for_cache else first + hashlib.sha256(head + first).digest()


def _elements(constant: np.ndarray) -> memoryview:
    """The bytes of an array, little-endian and row-major."""
    stored = np.ascontiguousarray(constant.astype(constant.dtype.newbyteorder("<"), copy=False))
    return stored.reshape(-1).view(np.uint8).data


def _aligned(at: int) -> int:
    """The next multiple of the alignment."""
    return -(-at // _ALIGNMENT) * _ALIGNMENT


def _header(exe: ExecutableData) -> dict[str, Any]:
    notes = [note for f in exe.functions for note in f.notes]
    sizes = _numbered((ANY, *(note.nbytes for note in notes)))
    whys = _numbered(("", *(note.why for note in notes)))
    return {
        "target": exe.target,
        "config": dict(exe.config),
        "functions": [
            {
                "name": f.name,
                "params": [[name, type_to_json(ty)] for name, ty in f.params],
                "result": type_to_json(f.result),
                "registers": f.n_registers,
                "words": len(f.code),
                "spans": [list(span) for span in f.spans],
                "devices": list(f.devices),
                "notes": [[n.pc, n.name, sizes[n.nbytes], whys[n.why]] for n in f.notes],
                "outputs": list(f.output_names),
                "defaults": [[d.dtype.name, list(d.shape), _elements(d).hex()] for d in f.defaults],
            }
            for f in exe.functions
        ],
        "constants": [_constant_to_json(c) for c in exe.constants],
        "packed": [
            {
                "group": p.group.to_json(),
                "device": p.device,
                "inputs": p.n_inputs,
                "outputs": p.n_outputs,
                "because": p.because,
            }
            for p in exe.packed
        ],
        "shape_funcs": [[name, p.to_json()] for name, p in zip(exe.shape_func_names, exe.shape_funcs, strict=True)],
        "reasons": [_reason_to_json(r) for r in exe.reasons],
        "sizes": [dim_to_json(d) for d in sizes],
        "whys": list(whys),
        "sources": [[s.name, s.text] for s in exe.sources],
        "adts": [definition_to_json(a) for a in exe.adts],
        "host_fields": [[*key, list(numbers)] for key, numbers in exe.host_fields.items()],
        "float_products": [[p.op, p.place, p.because] for p in exe.float_products],
    }


def _constant_to_json(constant: np.ndarray | LateBound) -> list[Any]:
    """The type of a constant; of a late-bound one also the name and the digest, for its elements are not in the file."""
    late = [constant.name, constant.digest] if isinstance(constant, LateBound) else []
    return [constant.dtype.name, list(constant.shape), *late]


def _numbered(items: Iterable[Any]) -> dict[Any, int]:
    return {item: number for number, item in enumerate(dict.fromkeys(items))}


def _reason_to_json(reason: CopyReason) -> list[Any]:
    assert reason.type is not None, reason
    return [reason.kind.key, reason.op, reason.input, *tensor_to_json(reason.type)]


def save(exe: ExecutableData, path: str | os.PathLike[str]) -> None:
    """Write the file atomically.  Raises FileError if the file cannot be written."""
    with whole_file(path) as file:
        file.writelines(sections(exe))


# ---- reading -------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], cls: type[_E]) -> _E:
    """Load and verify the executable in a file.

    Raises FileError if the file cannot be read.  Raises ExecutableFormatError for a file that is no executable, is of another
    format version, was truncated, lengthened or altered, or does not verify.
    """
    try:
        with open(path, "rb") as file:
            # the declared sizes are compared with the size of the file before the sections are read
            size = os.fstat(file.fileno()).st_size
            head = file.read(_HEAD.size)
            *_, constants = _check_size(head, size)
            large = constants > MAPPED_BYTES
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if large else head + file.read(size - len(head))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except ExecutableFormatError as error:
        raise _named(error, path) from None
    return load_bytes(data, str(path), cls)


def load_bytes(data: Contents, name: str, cls: type[_E]) -> _E:
    """Deserialise and verify the contents of the file ``name``.  Raises ExecutableFormatError as ``load``."""
    try:
        exe = from_bytes(data, cls)
        verify(exe)
    except ExecutableFormatError as error:
        raise _named(error, name) from None
    return exe


def from_cache(contents: Contents, cls: type[_E]) -> _E:
    """Deserialise what ``sections`` made for the cache of an executable that verifies, in a file that is checked as a whole.

    The descriptions of kernels are read when they are first asked for.  Raises ExecutableFormatError, see ``load``.
    """
    exe = _read(contents, cls, of_cache=True)
    assume_verified(exe)
    return exe


def _named(error: ExecutableFormatError, name: str | os.PathLike[str]) -> ExecutableFormatError:
    first = error.diagnostics[0]
    return ExecutableFormatError(f"{name}: {first.message}", help=first.help)


def from_bytes(contents: Contents, cls: type[_E]) -> _E:
    """Deserialise the contents of a file without ``verify``.  Raises ExecutableFormatError, see ``load``."""
    return _read(contents, cls)


def _read(contents: Contents, cls: type[_E], of_cache: bool = False) -> _E:
    data = memoryview(contents)
    header_bytes, code_bytes, _ = _check_size(bytes(data[: _HEAD.size]), len(data))
    code_at = _HEAD.size + header_bytes
    end = code_at + code_bytes
    constants = data[_aligned(end) : -_CHECKSUM_BYTES]
    is_mapped = isinstance(data.obj, mmap.mmap)
    if not of_cache:
        _check_digests(bytes(data[: _aligned(end)]), constants, bytes(data[-_CHECKSUM_BYTES:]), is_mapped)
    try:
        header = _Fields("the header", _json(bytes(data[_HEAD.size : code_at])))
        return _executable(header, bytes(data[code_at:end]), constants, is_mapped, cls, of_cache)
    except (ValueError, RecursionError) as error:
        # RecursionError: deeply nested lists
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ExecutableFormatError(f"the file is damaged: {text}") from None


def _check_digests(before: bytes, constants: memoryview, digests: bytes, is_mapped: bool) -> None:
    """Compare the checksums; that of mapped constants would read them all."""
    first, second = digests[:_DIGEST_BYTES], digests[_DIGEST_BYTES:]
    same = hashlib.sha256(before + first).digest() == second
    if not same or not (is_mapped or hashlib.sha256(constants).digest() == first):
        raise ExecutableFormatError("the file is damaged: its checksum does not match its contents", help="compile it again")


def _check_size(head: bytes, size: int) -> tuple[int, int, int]:
    """The sizes of the sections declared in ``head``, checked against a file of ``size`` bytes."""
    if not size:
        raise ExecutableFormatError("not an executable: the file is empty")
    if not head.startswith(MAGIC[: max(1, size)]):
        raise ExecutableFormatError(
            f"not an executable: the file does not begin as one, but with {head[:8]!r}",
            help="`relayvm compile` makes executables",
        )
    if size < _HEAD.size:
        raise ExecutableFormatError(f"the file is truncated: it ends after {size} bytes, within its first {_HEAD.size}")
    _, version, *sizes = _HEAD.unpack(head)
    if version != FORMAT_VERSION:
        age = "a newer" if version > FORMAT_VERSION else "an older"
        raise ExecutableFormatError(
            f"the file has the format version {version}, made by {age} relayvm; this one reads version {FORMAT_VERSION}",
            help="compile the program again with this relayvm",
        )
    header, code, constants = sizes
    expected = _aligned(_HEAD.size + header + code) + constants + _CHECKSUM_BYTES
    if expected > size:
        raise ExecutableFormatError(f"the file is truncated: it has {size} bytes of {expected}")
    if expected < size:
        raise ExecutableFormatError(f"the file is damaged: {size - expected} bytes follow its end")
    return header, code, constants


def _json(data: bytes) -> Any:
    try:
        header = json.loads(data.decode("utf-8"))
        if b"\\u" in data:
            # an escape can encode a lone surrogate, which cannot be printed
            json.dumps(header, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise ValueError(f"its header is no JSON: {error}") from None
    return header


class _Fields:
    """Typed access to the fields of a JSON object.  ``where`` names the object in messages; errors are ValueErrors."""

    def __init__(self, where: str, data: Any) -> None:
        if type(data) is not dict:
            raise ValueError(f"{where} is not a JSON object")
        self.where, self.data = where, data

    def get(self, name: str, kind: type) -> Any:
        if name not in self.data:
            raise ValueError(f"{self.where} has no {name!r}")
        return _as(kind, self.data[name], f"{name!r} of {self.where}")

    def each(self, name: str, read: Callable[[str, Any], Any]) -> tuple[Any, ...]:
        """The items of a list, each converted by ``read(where, item)``."""
        return tuple(read(f"{name}[{i}]", item) for i, item in enumerate(self.get(name, list)))


def _as(kind: type, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{where} is {str(value)[:80]!r}, not a {kind.__name__}")
    if isinstance(value, int) and kind is int and not 0 <= value <= INT64_MAX:
        raise ValueError(f"{where} is out of range: {value}")
    return value


def _row(where: str, value: Any, *kinds: type) -> list[Any]:
    """Check a list of values of these types."""
    if len(_as(list, value, where)) != len(kinds):
        raise ValueError(f"{where} has {len(value)} entries, not {len(kinds)}")
    return [_as(kind, v, where) for kind, v in zip(kinds, value, strict=True)]


# ---- the parts of an executable ------------------------------------------------------------------------------------


def _executable(
    header: _Fields, code: bytes, constants: memoryview, is_mapped: bool, cls: type[_E], is_deferred: bool
) -> _E:  # fmt: skip
    def packed() -> tuple[PackedFunc, ...]:
        return header.each("packed", _packed)

    programs = header.each("shape_funcs", _named_program)
    config = header.get("config", dict)
    return cls(
        functions=_functions(header, code),
        constants=_constants(header, constants, is_mapped),
        packed=Deferred(len(header.get("packed", list)), packed) if is_deferred else packed(),
        shape_funcs=tuple(program for _, program in programs),
        shape_func_names=tuple(name for name, _ in programs),
        reasons=header.each("reasons", _reason),
        target=header.get("target", str),
        config={key: _as(str, value, f"the value of {key!r} in 'config'") for key, value in config.items()},
        sources=header.each("sources", lambda where, row: SourceText(*_row(where, row, str, str))),
        adts=header.each("adts", lambda where, data: _converted(where, definition_from_json, data)),
        host_fields=dict(header.each("host_fields", _host_fields)),
        float_products=header.each("float_products", lambda where, row: FloatProduct(*_row(where, row, str, str, str))),
    )


def _host_fields(where: str, row: Any) -> tuple[tuple[str, str], tuple[int, ...]]:
    name, constructor, numbers = _row(where, row, str, str, list)
    return (name, constructor), tuple(_as(int, n, where) for n in numbers)


def _functions(header: _Fields, code: bytes) -> tuple[VMFunction, ...]:
    rows = header.each("functions", _Fields)
    sizes, whys = header.each("sizes", _size), header.each("whys", lambda where, why: _as(str, why, where))
    lengths = [row.get("words", int) for row in rows]
    if 8 * sum(lengths) != len(code):
        raise ValueError(f"the functions have {8 * sum(lengths)} bytes of code, but there are {len(code)}")
    out, at = [], 0
    for row, n in zip(rows, lengths, strict=True):
        words = _read_only(np.frombuffer(code, "<i8", n, 8 * at).astype(np.int64))
        at += n
        out.append(
            VMFunction(
                name=row.get("name", str),
                params=row.each("params", lambda where, p, row=row: _param(f"{row.where}.{where}", p)),
                result=_type(f"the result of {row.where}", row.get("result", list)),
                n_registers=row.get("registers", int),
                code=words,
                spans=row.each("spans", lambda where, s, row=row: tuple(_row(f"{row.where}.{where}", s, *[int] * 4))),
                devices=row.each("devices", lambda where, d, row=row: _as(int, d, f"{row.where}.{where}")),
                notes=row.each("notes", lambda where, n, row=row: _note(f"{row.where}.{where}", n, sizes, whys)),
                output_names=row.each("outputs", lambda where, n, row=row: _as(str, n, f"{row.where}.{where}")),
                defaults=row.each("defaults", lambda where, d, row=row: _default(f"{row.where}.{where}", d)),
            )
        )
    return tuple(out)


def _default(where: str, data: Any) -> np.ndarray:
    dtype, sizes, elements = _row(where, data, str, list, str)
    shape = tuple(_as(int, n, where) for n in sizes)
    if dtype not in DTYPES or len(shape) > MAX_RANK or any(n < 0 for n in shape):
        raise ValueError(f"{where} has the dtype {dtype!r} and the shape {shape}")
    content = _converted(where, bytes.fromhex, elements)
    if len(content) != math.prod(shape) * ITEMSIZE[dtype]:
        raise ValueError(f"{where} has {len(content)} bytes")
    stored = np.frombuffer(content, numpy_dtype(dtype).newbyteorder("<")).astype(numpy_dtype(dtype))
    return _read_only(stored.reshape(shape))


def _note(where: str, data: Any, sizes: Sequence[Dim], whys: Sequence[str]) -> MemoryNote:
    pc, name, size, why = _row(where, data, int, str, int, int)
    if size >= len(sizes) or why >= len(whys):
        raise ValueError(f"{where} refers to size {size} of {len(sizes)} and reason {why} of {len(whys)}")
    return MemoryNote(pc, name, sizes[size], whys[why])


def _converted(where: str, convert: Callable[..., _T], *data: Any) -> _T:
    """``convert(*data)``.  Raises ValueError that begins with ``where``."""
    try:
        return convert(*data)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _size(where: str, data: Any) -> Dim:
    return _converted(where, dim_from_json, data)


def _param(where: str, data: Any) -> tuple[str, Type]:
    name, ty = _row(where, data, str, list)
    return name, _type(where, ty)


def _type(where: str, data: Any) -> Type:
    return _converted(where, type_from_json, data)


def _packed(where: str, data: Any) -> PackedFunc:
    fields = _Fields(where, data)
    device, inputs, outputs = (fields.get(name, int) for name in ("device", "inputs", "outputs"))
    return PackedFunc(_group(where, fields.get("group", dict)), device, inputs, outputs, fields.get("because", str))


def _reason(where: str, data: Any) -> CopyReason:
    key, op, name, dtype, dims = _row(where, data, str, str, str, str, list)
    kind, ty = _converted(where, CopyKind.of, key), _converted(where, tensor_from_json, dtype, dims)
    return _converted(where, CopyReason, kind, op, name, ty)


def _group(where: str, data: Any) -> Group:
    from ...ops.analysis.untrusted_group import group_from_json  # operators, which a prepared executable runs without

    return _converted(where, group_from_json, data)


def _named_program(where: str, data: Any) -> tuple[str, ShapeProgram]:
    name, program = _row(where, data, str, dict)
    return name, _converted(where, ShapeProgram.from_json, program)


def _constants(header: _Fields, data: memoryview, is_mapped: bool) -> tuple[np.ndarray | LateBound, ...]:
    rows = header.each("constants", lambda where, row: (where, *_constant_row(where, row)))
    out: list[np.ndarray | LateBound] = []
    at = 0
    for where, dtype, shape, late in rows:
        if dtype not in DTYPES:
            raise ValueError(f"{where}: unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
        if len(shape) > MAX_RANK:
            raise ValueError(f"{where}: has {len(shape)} dimensions; at most {MAX_RANK} are possible")
        count = math.prod(_as(int, size, where) for size in shape)
        if late:
            out.append(LateBound(late[0], numpy_dtype(dtype), tuple(shape), late[1]))
            continue
        at = _aligned(at)
        end = at + count * ITEMSIZE[dtype]
        if end > len(data):
            raise ValueError(f"{where}: ends at byte {end} of the {len(data)} bytes of constants")
        out.append(_constant(where, data, dtype, shape, count, at, is_mapped))
        at = end
    if at != len(data):
        raise ValueError(f"the constants have {at} bytes, but there are {len(data)}")
    return tuple(out)


def _constant_row(where: str, row: Any) -> tuple[str, list[int], list[str]]:
    """Dtype and sizes; name and digest of a late-bound constant, else []."""
    is_late = type(row) is list and len(row) == 4
    dtype, shape, *late = _row(where, row, str, list, *((str, str) if is_late else ()))
    if is_late and not _DIGEST.fullmatch(late[1]):
        raise ValueError(f"{where}: {late[1][:80]!r} is no SHA-256")
    return dtype, shape, late


def _constant(
    where: str, data: memoryview, dtype: str, shape: list[int], count: int, at: int, is_mapped: bool
) -> np.ndarray:  # fmt: skip
    if dtype == "bool" and (np.frombuffer(data, np.uint8, count, at) > 1).any():
        raise ValueError(f"{where}: a bool is neither 0 nor 1")
    element = numpy_dtype(dtype)
    stored = np.frombuffer(data, element.newbyteorder("<"), count, at)
    portions = is_mapped and sys.byteorder == "little"
    return _read_only((stored if portions else stored.astype(element)).reshape(shape))


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
