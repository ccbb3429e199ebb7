"""Arrays by name as bytes, in numpy's ``.npz`` format, without Python objects: ``relay.save_param_dict``.

A bfloat16 is stored as its two bytes under the dtype ``V2``, as numpy does.  Equal arrays have equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.core.ndarray import NDArray
from ...ops.core.tensor_types import DTYPES, numpy_dtype
from ..diagnostics import codes
from ..diagnostics.argument_errors import a_mapping, wrong
from ..diagnostics.source import InputError

if TYPE_CHECKING:  # imported by the functions: most programs never use it
    import zipfile

_SUFFIX = ".npy"
_RAW_BFLOAT16 = "V2"


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """The bytes of arrays by name.  Raises ArgumentError, and InputError for a dtype that programs do not have."""
    import zipfile

    given = a_mapping(params, "save_param_dict: params", "arrays by name")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(given):
            if not name.isprintable() or "\\" in name:
                raise wrong("save_param_dict: a name", "printable and without a backslash", name)
            with archive.open(zipfile.ZipInfo(name + _SUFFIX), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, _stored(name, given[name]), allow_pickle=False)
    return out.getvalue()


def _stored(name: str, value: Any) -> np.ndarray:
    try:
        array = np.array(value, order="C")
    except (TypeError, ValueError) as error:
        message = f"save_param_dict: {name} is no array: {type(value).__name__}"
        raise InputError(message, help=str(error), code=codes.Input.TYPE) from None
    if array.dtype.name not in DTYPES:
        message = f"save_param_dict: {name} has the dtype {array.dtype}"
        raise InputError(message, help=f"valid dtypes: {', '.join(DTYPES)}", code=codes.Input.TYPE)
    return array.view(_RAW_BFLOAT16) if array.dtype.name == "bfloat16" else array.astype(array.dtype.newbyteorder("<"))


def load_param_dict(param_bytes: bytes) -> dict[str, NDArray]:
    """The arrays of ``save_param_dict``, or of a ``.npz`` file, by name.

    Raises ArgumentError for an argument that is no bytes, InputError for other or damaged contents.
    """
    if not isinstance(param_bytes, (bytes, bytearray, memoryview)):
        raise wrong("load_param_dict: the argument", "bytes", param_bytes, "Path(name).read_bytes() reads a file")
    return arrays_of(param_bytes, "load_param_dict: the bytes")


def arrays_of(data: bytes | bytearray | memoryview, what: str) -> dict[str, NDArray]:
    """The arrays in ``data``, which messages call ``what``.  Raises InputError."""
    import zipfile
    import zlib

    # the exceptions of zipfile and numpy for damaged, encrypted or otherwise foreign contents
    unreadable = (ValueError, OSError, EOFError, SyntaxError, RuntimeError, zipfile.BadZipFile, zlib.error)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if len(set(archive.namelist())) < len(archive.namelist()):
                raise ValueError("a name occurs twice")
            return {entry.filename.removesuffix(_SUFFIX): _loaded(archive, entry) for entry in archive.infolist()}
    except unreadable as error:
        message = f"{what} hold no arrays by name: {error}"
        raise InputError(message, help="save_param_dict and numpy.savez make them") from None


def _loaded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray:
    with archive.open(entry) as file:
        data = file.read()
    stream = io.BytesIO(data)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version not in header:
        raise ValueError(f"{entry.filename} has the version {version}")
    shape, by_columns, dtype = header[version](stream)
    dtype = numpy_dtype("bfloat16") if dtype == _RAW_BFLOAT16 else dtype
    if dtype.name not in DTYPES:
        raise ValueError(f"{entry.filename} has the dtype {dtype}; valid dtypes: {', '.join(DTYPES)}")
    array = np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if by_columns else "C")
    return np.array(array, dtype.newbyteorder("="), order="C").view(NDArray)
