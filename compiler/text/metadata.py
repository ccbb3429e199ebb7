"""The metadata section of a text: constants that are no literals.

The section is ours, ``{"relay.Constant": [{"dtype": ..., "shape": ..., "data": base64}, ...]}``, or TVM's: the nodes of an object
graph, whose root maps a kind to a list of objects, and arrays in base64.  Of TVM's kinds, ``relay.Constant`` and
``VirtualDevice`` are read; a text that names an object of another kind is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import DTYPES, MAX_RANK, array_bytes, numpy_dtype
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, Span

METADATA_LINE = "#[metadata]"
#: The kinds of objects that are read.
CONSTANTS, VIRTUAL_DEVICE = "relay.Constant", "VirtualDevice"
#: The first words of an array in TVM's form, its reserved word and device, and its number of dimensions, dtype code, bits, lanes.
_ARRAY = struct.Struct("<QQiiiBBH")
_MAGIC = 0xDD5E40F096B4A13F
_DTYPE_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


@frozen
class Metadata:
    """The objects of a metadata section by number: ``constants``, and the DLPack device types of virtual ``devices``.

    ``unread``: the other kinds of objects in the section.
    """

    constants: tuple[np.ndarray, ...] = ()
    devices: tuple[int, ...] = ()
    unread: frozenset[str] = frozenset()


def metadata_text(constants: Iterable[np.ndarray]) -> str:
    """The metadata section that holds ``constants``."""
    entries = [
        {"dtype": c.dtype.name, "shape": list(c.shape), "data": base64.b64encode(c.tobytes()).decode("ascii")} for c in constants
    ]
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    return f'{METADATA_LINE}\n{{"{CONSTANTS}": [\n{lines}\n]}}\n'


def read_metadata(text: str, span: Span, problems: list[Diagnostic]) -> Metadata | None:
    """The metadata of the text after the line at ``span``; errors are appended to ``problems``."""
    data = _json(text, span, problems)
    if data is None:
        return None
    if isinstance(data, dict) and isinstance(data.get("nodes"), list):
        return _read_nodes(data, span, problems)
    entries = data.get(CONSTANTS) if isinstance(data, dict) else None
    if not isinstance(entries, list) or len(data) != 1:
        problems.append(
            Diagnostic(
                f"the metadata must be an object with the one key {CONSTANTS!r}, a list of constants",
                span,
                code=codes.Syntax.METADATA,
            )
        )
        return None
    return Metadata(_each(entries, _read_constant, "constant", span, problems))


def _json(text: str, span: Span, problems: list[Diagnostic]) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = span.end + error.pos
        problems.append(
            Diagnostic(f"the metadata is no JSON: {error.msg}", Span(span.source, at, at + 1), code=codes.Syntax.METADATA)
        )
    except RecursionError:
        help = "it is one list of constants"
        problems.append(Diagnostic("the metadata is nested too deeply", span, help=help, code=codes.Syntax.METADATA))
    except ValueError as error:  # a number with more digits than Python reads
        problems.append(Diagnostic(f"the metadata cannot be read: {error}", span, code=codes.Syntax.METADATA))
    return None


def _each(
    entries: Sequence[Any], read: Callable[[Any], np.ndarray], what: str, span: Span, problems: list[Diagnostic]
) -> tuple[np.ndarray, ...]:
    out = []
    for number, entry in enumerate(entries):
        try:
            out.append(read(entry))
        except ValueError as error:
            problems.append(Diagnostic(f"{what} {number} of the metadata: {error}", span, code=codes.Syntax.METADATA))
            out.append(np.zeros(()))
    return tuple(out)


def _read_constant(entry: Any) -> np.ndarray:
    """Raises ValueError."""
    if not isinstance(entry, dict) or sorted(entry) != ["data", "dtype", "shape"]:
        raise ValueError("it must have the keys dtype, shape and data")
    dtype, shape = entry["dtype"], entry["shape"]
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"its shape must be a list of sizes, not {shape!r}")
    try:
        raw = base64.b64decode(entry["data"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"its data is no base64: {error}") from error
    needed = array_bytes(shape, dtype)
    if len(raw) != needed:
        raise ValueError(f"its data has {len(raw)} bytes, but {dtype} of shape {tuple(shape)} has {needed}")
    return _array(raw, dtype, tuple(shape))


def _array(raw: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Raises ValueError."""
    if dtype == "bool" and raw.translate(None, b"\0\1"):
        raise ValueError("a bool is a byte 0 or 1")
    return np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape)


# ---- TVM's form --------------------------------------------------------------------------------------------------------


def _read_nodes(data: dict[str, Any], span: Span, problems: list[Diagnostic]) -> Metadata | None:
    """The metadata of an object graph."""
    try:
        kinds = _kinds(data)
        arrays = data.get("b64ndarrays", [])
        if not isinstance(arrays, list):
            raise ValueError("b64ndarrays is no list")
        devices = tuple(_number(_attribute(node, "device_type_int")) for node in kinds.get(VIRTUAL_DEVICE, ()))
        numbers = [_number(_attribute(node, "data")) for node in kinds.get(CONSTANTS, ())]
        if any(n >= len(arrays) for n in numbers):
            raise ValueError("a relay.Constant has an array that is not in b64ndarrays")
    except ValueError as error:
        message = f"the metadata has nodes, but is not as TVM writes it: {error}"
        problems.append(Diagnostic(message, span, code=codes.Syntax.METADATA))
        return None
    constants = _each([arrays[n] for n in numbers], _read_array, "constant", span, problems)
    return Metadata(constants, devices, frozenset(kinds) - {CONSTANTS, VIRTUAL_DEVICE})


def _kinds(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The nodes of each kind that the root names.  Raises ValueError."""
    nodes = data["nodes"]

    def node(number: Any) -> dict[str, Any]:
        if type(number) is not int or not 0 <= number < len(nodes) or not isinstance(nodes[number], dict):
            raise ValueError(f"there is no node {str(number)[:80]}")
        found: dict[str, Any] = nodes[number]
        return found

    def numbers(of: dict[str, Any]) -> list[Any]:
        found = of.get("data", [])
        if not isinstance(found, list):
            raise ValueError("the data of a node is no list")
        return found

    root = node(data.get("root"))
    keys, lists = root.get("keys", []), numbers(root)
    if not isinstance(keys, list) or len(keys) != len(lists):
        raise ValueError("its root is no map")
    return {str(key): [node(n) for n in numbers(node(items))] for key, items in zip(keys, lists, strict=True)}


def _attribute(node: dict[str, Any], name: str) -> Any:
    attributes = node.get("attrs")
    return attributes.get(name) if isinstance(attributes, dict) else None


def _number(value: Any) -> int:
    """Raises ValueError."""
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 9:
        raise ValueError(f"{str(value)[:80]!r} is no number of an array or a device")
    return int(value)


def _read_array(text: str) -> np.ndarray:
    """An array in TVM's form.  Raises ValueError."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"its array is no base64: {error}") from error
    if len(raw) < _ARRAY.size:
        raise ValueError("its array is cut off")
    magic, _, _, _, rank, code, bits, lanes = _ARRAY.unpack_from(raw)
    dtype = "bool" if (code, bits) == (1, 1) else f"{_DTYPE_CODES.get(code, f'type code {code}, ')}{bits}"
    if magic != _MAGIC or not 0 <= rank <= MAX_RANK or len(raw) < _ARRAY.size + 8 * rank + 8:
        raise ValueError("its array is not as TVM writes it")
    if dtype not in DTYPES or lanes != 1:
        raise ValueError(f"unknown dtype {dtype}{f'x{lanes}' * (lanes != 1)}; there are {', '.join(DTYPES)}")
    *shape, nbytes = struct.unpack_from(f"<{rank + 1}q", raw, _ARRAY.size)
    content = raw[_ARRAY.size + 8 * rank + 8 :]
    if min(shape, default=0) < 0 or array_bytes(shape, dtype) != nbytes or len(content) != nbytes:
        raise ValueError(f"its array has {len(content)} bytes, which are not those of {dtype} of shape {tuple(shape)}")
    return _array(content, dtype, tuple(shape))
