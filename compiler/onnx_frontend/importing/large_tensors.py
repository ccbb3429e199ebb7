"""The large tensors of a model's file, read beside the rest of it.

protobuf keeps a file in memory twice while it reads, and an array of a tensor is a third copy.  New memory takes longer than the
copy itself: a network of 100 MB so spent 0.4 s.  Here each large tensor is read into its array, once; protobuf reads a file in
which a name is in the place of such a tensor's bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader

import numpy as np

from .wire_format import Field, field_of, fields, is_whole, key_of, number_of, numbers_in

#: The least bytes of a file that is read so, and of a tensor that is read apart.
LARGE_FILE, LARGE_TENSOR = 1 << 20, 1 << 16
#: Numbers of fields: ModelProto.graph, GraphProto.initializer; of TensorProto and of its entries of external data.
_GRAPH, _INITIALIZER = 7, 5
_RAW_DATA, _EXTERNAL_DATA, _LOCATION, _KEY, _VALUE = 9, 13, 14, 1, 2
#: TensorProto.DataLocation.EXTERNAL.
_EXTERNAL = 1
_BLOCK = 1 << 16
_SHORTER = "it became shorter while it was read"

#: A part of the file, and the bytes that replace it.
_Edit = tuple[int, int, bytes]


class _FileBytes:
    """The bytes of a file by position.  A mapped file would end the process if another process made the file shorter."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._first, self._block = file, 0, b""

    def __getitem__(self, at: int) -> int:
        if not self._first <= at < self._first + len(self._block):
            self._first, self._block = at, part_of(self._file, at, at + _BLOCK)
            if not self._block:
                raise OSError(None, _SHORTER)
        return self._block[at - self._first]


def part_of(file: BufferedReader, begin: int, end: int) -> bytes:
    """The bytes of a file from ``begin`` to ``end``, or to its end."""
    file.seek(begin)
    return file.read(end - begin)


def without_large_tensors(file: BufferedReader) -> tuple[bytes, dict[str, np.ndarray]]:
    """The bytes of a model's file with names for its large tensors, and the bytes of each large tensor by name, read-only.

    In the place of its bytes a tensor has the location of external data that is such a name, which no file can contain: it is
    random.  The file stays as it is where it is small, and where it is no model.  Raises OSError.
    """
    size, found = file.seek(0, os.SEEK_END), dict[str, np.ndarray]()
    edits = sorted(_edits(file, size, found)) if size >= LARGE_FILE else []
    rest, at = [], 0
    for begin, end, replacement in edits:
        rest += [part_of(file, at, begin), replacement]
        at = end
    return b"".join([*rest, part_of(file, at, size)]), found


def _edits(file: BufferedReader, size: int, found: dict[str, np.ndarray]) -> Iterator[_Edit]:
    """The parts of the file that are replaced: the bytes of large tensors, and the lengths around them.  Fills ``found``."""
    data, secret = _FileBytes(file), os.urandom(16).hex()
    graphs = [field for field in fields(data, 0, size) if field.number == _GRAPH]
    if len(graphs) != 1:
        return
    graph, added = graphs[0], 0
    for tensor in fields(data, graph.begin, graph.end):
        raw = _raw_data(data, tensor) if tensor.number == _INITIALIZER else None
        if raw is None:
            continue
        name = f"{secret} {len(found)}"
        found[name] = _read(file, raw.begin, raw.end)
        place = _place(name)
        length = tensor.end - tensor.begin + len(place) - (raw.end - raw.key)
        head = key_of(_INITIALIZER, length)
        yield raw.key, raw.end, b""
        yield tensor.end, tensor.end, place  # of several locations the last one holds: a file may say that the bytes are its own
        yield tensor.key, tensor.begin, head
        added += len(head) + length - (tensor.end - tensor.key)
    if found:
        yield graph.key, graph.begin, key_of(_GRAPH, graph.end - graph.begin + added)


def _raw_data(data: _FileBytes, tensor: Field) -> Field | None:
    """The field of a tensor's bytes, if they are many; None for a tensor with two such fields, with external data, or damaged."""
    if tensor.end - tensor.begin < LARGE_TENSOR or any(numbers_in(data, tensor.begin, tensor.end, _LOCATION)):
        return None
    found = [field for field in fields(data, tensor.begin, tensor.end) if field.number in (_RAW_DATA, _EXTERNAL_DATA)]
    raw = found[0] if len(found) == 1 else None
    if raw is None or raw.number != _RAW_DATA or raw.end - raw.begin < LARGE_TENSOR:
        return None
    return raw if is_whole(data, tensor.begin, tensor.end) else None  # what is appended would become a part of the rest


def _place(name: str) -> bytes:
    """The fields of a tensor that say that its bytes are external data of this location."""
    entry = field_of(_KEY, b"location") + field_of(_VALUE, name.encode())
    return field_of(_EXTERNAL_DATA, entry) + number_of(_LOCATION, _EXTERNAL)


def _read(file: BufferedReader, begin: int, end: int) -> np.ndarray:
    """The bytes of a file from ``begin`` to ``end``.  Raises OSError if it is shorter by now."""
    found = np.empty(end - begin, np.uint8)  # numpy asks for huge pages
    file.seek(begin)
    if file.readinto(found.data) != len(found):
        raise OSError(None, _SHORTER)
    found.flags.writeable = False
    return found
