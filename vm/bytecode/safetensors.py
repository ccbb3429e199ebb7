"""Arrays by name in the format of safetensors: a header in JSON, then the elements.

The bytes: the length of the header as a little-endian uint64, the header, the data.  The header maps a name to dtype, shape and
place of the data.  A file is mapped into memory, and its arrays are read-only views of it.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.core.tensor_types import DTYPES, ITEMSIZE, MAX_RANK, numpy_dtype
from ..diagnostics.source import FileError, InputError
from .atomic_file import write_whole

SUFFIX = ".safetensors"
#: The format's names of the dtypes.
_NAMES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int8": "I8", "int16": "I16", "int32": "I32",
    "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
}  # fmt: skip
_DTYPES = {short: name for name, short in _NAMES.items()}
#: The header's entry that is no array, and the alignment of the data.
_METADATA, _ALIGNMENT = "__metadata__", 64
#: The longest header that is read.
MAX_HEADER = 1 << 28


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of the dtypes of programs.  Raises FileError, and InputError for another dtype or the name of no array."""
    header: dict[str, Any] = {}
    end, parts = 0, []
    # the widest elements first: then every array is aligned
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        dtype = array.dtype.name
        if dtype not in _NAMES or name == _METADATA:
            raise InputError(f"{path}: {name} of {dtype} cannot be stored", help=f"valid dtypes: {', '.join(DTYPES)}")
        data = np.ascontiguousarray(array)
        header[name] = {"dtype": _NAMES[dtype], "shape": list(array.shape), "data_offsets": [end, end + data.nbytes]}
        end += data.nbytes
        parts.append(data.reshape(-1).view(np.uint8).tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    write_whole(path, b"".join([struct.pack("<Q", len(text)), text, *parts]))


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name.  Raises FileError, and InputError for a file of another format or a damaged one."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    start, header = _header(path, data)
    body = memoryview(data)[start:]
    return dict(_arrays(path, header, body))


def _header(path: Path, data: Any) -> tuple[int, dict[str, Any]]:
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else -1
    if not 0 <= length <= min(len(data) - 8, MAX_HEADER):
        raise InputError(f"{path} is no {SUFFIX} file, or it is damaged")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InputError(f"{path} is no {SUFFIX} file, or it is damaged")
    header.pop(_METADATA, None)
    return 8 + length, header


def _arrays(path: Path, header: dict[str, Any], body: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    for name, entry in header.items():
        fields = entry if isinstance(entry, dict) else {}
        shape, place = _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
        if shape is None or place is None or len(shape) > MAX_RANK or len(place) != 2:
            raise InputError(f"{path}: {name} has no valid shape and place")
        dtype = _DTYPES.get(fields.get("dtype", ""))
        if dtype is None:
            raise InputError(f"{path}: {name} has the dtype {fields.get('dtype')}", help=f"valid dtypes: {', '.join(DTYPES)}")
        begin, end = place
        if not begin <= end <= len(body) or end - begin != math.prod(shape) * ITEMSIZE[dtype]:
            raise InputError(f"{path}: {name} is {dtype} of shape {tuple(shape)}, but bytes {begin} to {end} are stored")
        array = np.frombuffer(body[begin:end], numpy_dtype(dtype)).reshape(shape)
        yield name, array if array.flags.aligned else array.copy()


def _sizes(value: Any) -> list[int] | None:
    """The value if it is a list of sizes."""
    is_list = isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)
    return value if is_list else None
