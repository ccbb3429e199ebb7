"""Tensors of a model file as arrays: stored in the file, or memory-mapped from files beside it."""

from __future__ import annotations

import functools
import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.core.tensor_types import DTYPES, ITEMSIZE, MAX_RANK, numpy_dtype, of_float8
from ...ops.kernels.weight_bits.weight_layout import unpacked
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError

#: The most bytes of a sparse tensor with its zeros: those of a file of protobuf.
MAX_DENSE_BYTES = 1 << 31
#: The dtypes by ONNX's numbers.
DTYPE_OF = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
#: Dtypes of stored tensors alone by ONNX's numbers: the name, the bits of an element, and the dtype that has all their numbers.
NARROW = {
    17: ("float8_e4m3fn", 8, "float16"), 18: ("float8_e4m3fnuz", 8, "float16"), 19: ("float8_e5m2", 8, "float16"),
    20: ("float8_e5m2fnuz", 8, "float16"), 21: ("uint4", 4, "uint8"), 22: ("int4", 4, "int8"), 25: ("uint2", 2, "uint8"),
    26: ("int2", 2, "int8"),
}  # fmt: skip


class TensorReader:
    """The reader of the tensors of one model.

    ``folder``: the folder of the model's file, None for a model without a file.  ``apart``: the bytes of tensors that were read
    from the model's file beside the rest of it, by their locations.
    """

    def __init__(self, folder: Path | None, apart: Mapping[str, np.ndarray]) -> None:
        self.folder, self._apart = folder, apart
        #: The dtypes of tensors that are stored in fewer bits than their elements have here, by name.
        self.narrow: dict[str, str] = {}
        self._mapped: dict[Path, Any] = {}  # mmap.mmap, or bytes for an empty file

    def array(self, tensor: Any) -> np.ndarray:
        """The elements of a TensorProto, read-only.  Raises ModelError for a tensor that contradicts itself."""
        what = f"the tensor {tensor.name!r}"
        if tensor.data_type in NARROW:
            return self._widened(tensor, what)
        dtype = dtype_name(tensor.data_type, what)
        dims = _dims(tensor, ITEMSIZE[dtype], what)
        count = math.prod(dims)
        if tensor.data_location == 1:
            data: Any = self._external(tensor, what)
        elif tensor.HasField("raw_data"):
            data = tensor.raw_data
        else:
            return _from_fields(tensor, dtype, dims, count, what)
        if len(data) != count * ITEMSIZE[dtype]:
            message = f"{what} is {dtype} of shape {dims}, {count * ITEMSIZE[dtype]} bytes, but {len(data)} bytes are stored"
            raise ModelError(message, code=codes.Model.TENSOR)
        array = np.frombuffer(data, np.dtype("<u1" if dtype == "bool" else numpy_dtype(dtype)), count)
        array = (array != 0) if dtype == "bool" else array
        array = array if array.flags.aligned else array.copy()
        return _frozen(array.reshape(dims))

    def _widened(self, tensor: Any, what: str) -> np.ndarray:
        """The elements of a tensor of a dtype of ``NARROW``, in the dtype that has all their numbers."""
        name, bits, dtype = NARROW[tensor.data_type]
        dims = _dims(tensor, ITEMSIZE[dtype], what)
        count = math.prod(dims)
        wanted = -(-count * bits // 8)
        data: Any = tensor.raw_data
        if tensor.data_location == 1:
            data = self._external(tensor, what)
        elif not tensor.HasField("raw_data"):
            data = (np.array(tensor.int32_data, np.int64) & 255).astype(np.uint8)
        stored = np.frombuffer(data, np.uint8)
        if len(stored) != wanted:
            message = f"{what} is {name} of shape {dims}, {wanted} bytes, but {len(stored)} bytes are stored"
            raise ModelError(message, code=codes.Model.TENSOR)
        self.narrow[tensor.name] = name
        if bits == 8:
            return _frozen(of_float8(stored, name).reshape(dims))
        numbers, sign = unpacked(stored, bits)[:count], np.uint8(1 << bits - 1)
        array = ((numbers ^ sign) - sign).view(np.int8) if dtype == "int8" else numbers
        return _frozen(array.reshape(dims))

    def dense(self, sparse: Any) -> np.ndarray:
        """The elements of a SparseTensorProto, zeros included.  Raises ModelError as ``array``."""
        what, dims = f"the sparse tensor {sparse.values.name!r}", tuple(sparse.dims)
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        if any(n < 0 for n in dims) or len(dims) > MAX_RANK or math.prod(dims) * values.itemsize > MAX_DENSE_BYTES:
            raise ModelError(f"{what} has the impossible shape {dims}", code=codes.Model.TENSOR)
        if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in ((values.size,), (values.size, len(dims))):
            message = f"{what} of shape {dims} has values of shape {values.shape} and indices of shape {indices.shape}"
            raise ModelError(message, help="int64, an index for each value, or one for each of its axes", code=codes.Model.TENSOR)
        positions = indices.reshape(-1, 1) if indices.ndim == 1 else indices
        limits = np.array([math.prod(dims)] if indices.ndim == 1 else dims, np.int64)
        if (positions < 0).any() or (positions >= limits).any():
            raise ModelError(f"{what} of shape {dims} has an index out of range", code=codes.Model.TENSOR)
        array = np.zeros(dims, values.dtype)
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims) if dims else indices.reshape(-1)
        if (np.diff(flat) <= 0).any():
            raise ModelError(f"{what} has indices that do not ascend", code=codes.Model.TENSOR)
        array.reshape(-1)[flat] = values
        return _frozen(array)

    def stored(self, graph: Any) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
        """The tensors that a graph stores: the name of each, and a function that reads it."""
        for tensor in graph.initializer:
            yield tensor.name, functools.partial(self.array, tensor)
        for sparse in graph.sparse_initializer:
            yield sparse.values.name, functools.partial(self.dense, sparse)

    def _external(self, tensor: Any, what: str) -> memoryview:
        """The bytes of a tensor that was read apart, or is in a file of the model's folder."""
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        if location in self._apart:
            return self._apart[location].data
        path = self._path(location, what)
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
            mapped = self._file(path)
        except ValueError:
            raise ModelError(f"{what}: its offset and length must be numbers", code=codes.Model.EXTERNAL) from None
        except OSError as error:
            message = f"{what}: its file {path} cannot be read: {error.strerror or error}"
            raise ModelError(message, code=codes.Model.EXTERNAL) from None
        end = len(mapped) if length < 0 else offset + length
        if not 0 <= offset <= end <= len(mapped):
            message = f"{what}: bytes {offset} to {end} are outside of {path.name}, which has {len(mapped)}"
            raise ModelError(message, code=codes.Model.EXTERNAL)
        return memoryview(mapped)[offset:end]

    def _path(self, location: str, what: str) -> Path:
        if self.folder is None:
            help = "give the path of the model's file instead of its contents"
            raise ModelError(f"{what} is stored in another file, {location!r}", help=help, code=codes.Model.EXTERNAL)
        folder = self.folder.resolve()
        try:
            path = (folder / location).resolve()
            inside = bool(location) and path.is_relative_to(folder)
        except (OSError, ValueError, RuntimeError):
            inside = False
        if not inside:
            help = "a model reads files of its own folder only"
            raise ModelError(
                f"{what} is stored outside of the model's folder: {location!r}", help=help, code=codes.Model.EXTERNAL
            )
        return path

    def files(self) -> dict[str, Path]:
        """The files that were read, by their paths from the model's folder."""
        if self.folder is None:
            return {}
        folder = self.folder.resolve()
        return {path.relative_to(folder).as_posix(): path for path in self._mapped}

    def _file(self, path: Path) -> Any:
        """The mapped file; an empty file cannot be mapped, and reading from a pipe would wait."""
        if path not in self._mapped:
            if path.exists() and not path.is_file():
                raise OSError(None, "it is no file of data")
            with path.open("rb") as file:
                empty = not path.stat().st_size
                self._mapped[path] = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._mapped[path]


def _dims(tensor: Any, itemsize: int, what: str) -> tuple[int, ...]:
    """The shape of a TensorProto.  Raises ModelError for one that no array has."""
    dims = tuple(tensor.dims)
    # numpy counts the bytes of an empty array without its axes of size 0
    too_many = math.prod(n for n in dims if n) * itemsize > INT64_MAX
    if any(n < 0 for n in dims) or len(dims) > MAX_RANK or too_many:
        raise ModelError(f"{what} has the impossible shape {dims}", code=codes.Model.TENSOR)
    return dims


def stored_names(graph: Any) -> set[str]:
    """The names of the tensors that a graph stores; of the body of a function, none."""
    dense, sparse = getattr(graph, "initializer", ()), getattr(graph, "sparse_initializer", ())
    return {t.name for t in dense} | {s.values.name for s in sparse}


#: The remedy for a model that reads or writes texts.
TEXTS_HELP = "encode texts outside of the model, and cut the model apart there: onnx.utils.extract_model"
#: ONNX's number of the dtype of texts.
TEXTS = 8


def dtype_name(number: int, what: str) -> str:
    """The dtype of one of ONNX's numbers.  Raises ModelError for a dtype that no tensor here has."""
    name = DTYPE_OF.get(number)
    if name is None:
        from onnx import TensorProto

        known = number in TensorProto.DataType.values() and number != 0
        described = TensorProto.DataType.Name(number).lower() if known else f"of the unknown number {number}"
        help = TEXTS_HELP if number == TEXTS else f"the dtypes are {', '.join(DTYPES)}"
        raise ModelError(f"{what} has the dtype {described}", help=help, code=codes.Model.DTYPE)
    return name


def _from_fields(tensor: Any, dtype: str, dims: tuple[int, ...], count: int, what: str) -> np.ndarray:
    """The elements of the fields of numbers, as ``float_data``."""
    field = {"float32": "float_data", "float64": "double_data", "int64": "int64_data", "uint32": "uint64_data",
             "uint64": "uint64_data"}.get(dtype, "int32_data")  # fmt: skip
    numbers = getattr(tensor, field)
    if len(numbers) != count:
        message = f"{what} is {dtype} of shape {dims}, {count} elements, but {len(numbers)} are stored"
        raise ModelError(message, code=codes.Model.TENSOR)
    if dtype in ("float16", "bfloat16"):  # their bits
        array = np.array(numbers, np.int32).astype(np.uint16).view(numpy_dtype(dtype))
    else:
        array = np.array(numbers).astype(numpy_dtype(dtype))
    return _frozen(array.reshape(dims))


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
