"""Arrays from files named on the command line: ``.npy``, and ``.npz`` with one array per key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import DTYPES, numpy_dtype
from ...vm.bytecode.safetensors import SUFFIX as SAFETENSORS
from ...vm.bytecode.safetensors import read_safetensors
from ...vm.diagnostics.source import FileError, InputError


def read_array(option: str, where: str) -> np.ndarray:
    """The array in ``file.npy`` or ``file.npz:key``, the value of ``option`` (``--input x``).

    Raises FileError, and InputError that names the file and its keys.
    """
    path, key = where, None
    if ".npz:" in where:
        path, _, key = where.rpartition(":")
    loaded = _load(option, path)
    if isinstance(loaded, np.ndarray):
        return _checked(option, path, loaded)
    with loaded:
        key = _key(option, path, key, list(loaded.files))
        return _checked(option, where, _member(option, path, key, loaded))


def read_arrays(option: str, path: str) -> Mapping[str, np.ndarray] | np.ndarray:
    """The array in a ``.npy`` file, or the arrays of a ``.npz`` file by key.  Raises as ``read_array``."""
    loaded = _load(option, path)
    if isinstance(loaded, np.ndarray):
        return _checked(option, path, loaded)
    with loaded:
        return {key: _checked(option, f"{path}:{key}", _member(option, path, key, loaded)) for key in loaded.files}


def read_weights(path: Path) -> Mapping[str, np.ndarray]:
    """The arrays of a ``.npz`` or ``.safetensors`` file by name, the value of ``--params``.

    Raises FileError, and InputError for another file.
    """
    if path.suffix == SAFETENSORS:
        return read_safetensors(path)
    found = read_arrays("--params", str(path))
    if isinstance(found, np.ndarray):
        raise InputError(f"--params: {path} holds one array without a name", help=f"give a .npz or a {SAFETENSORS} file")
    return found


def _load(option: str, path: str) -> Any:
    import zipfile  # as numpy, for files only

    try:
        return np.load(Path(path), allow_pickle=False)
    except OSError as error:
        raise FileError(f"{option}: cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile, SyntaxError) as error:
        message = f"{option}: {path} is no .npy or .npz file of numbers"
        raise InputError(message, help="numpy.save and numpy.savez write such files") from error


def _key(option: str, path: str, key: str | None, keys: list[str]) -> str:
    listed = ", ".join(keys) or "nothing"
    if key is None and len(keys) == 1:
        key = keys[0]
    if key is None:
        raise InputError(f"{option}: which array of {path}?", help=f"write {option}=@{path}:KEY; it holds {listed}")
    if key not in keys:
        raise InputError(f"{option}: {path} has no array {key}{did_you_mean(key, keys)}", help=f"it holds {listed}")
    return key


def _member(option: str, path: str, key: str, loaded: Any) -> Any:
    import zipfile
    import zlib

    try:
        return loaded[key]
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{option}: {key} in {path} cannot be read: {error}") from error


def _checked(option: str, where: str, array: np.ndarray) -> np.ndarray:
    """The array in native byte order.  Raises InputError for a dtype that the machine does not have."""
    if array.dtype == "V2":  # numpy's files store bfloat16 under this dtype
        array = array.view(numpy_dtype("bfloat16"))
    if array.dtype.name not in DTYPES:
        raise InputError(f"{option}: {where} has the dtype {array.dtype}", help=f"valid dtypes: {', '.join(DTYPES)}")
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")
