"""Raw memory: the primitives by which typed code accesses addresses.

Machine code is written as plain Python functions marked ``@native``.  Their primitives are defined here, each name once, as
*twins*: ordinary Python functions over ctypes.  The compiler replaces a twin by the machine form of the same name
(``front_end.values.machine_forms``).  Un-jitted, the very same functions run over the twins, under a debugger, and range-checked
(``watch``).

Nothing here imports the compiler.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import math
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..core.tensor_types import DTYPES, EXACT, HALVES, SHORT_NANS, numpy_dtype
from .object_layout import TENSOR

F = TypeVar("F", bound=Callable[..., Any])

# Types of native functions, for readers and mypy; the compiler infers its own.  All else is a word, ``int`` or ``bool``.

#: A word or an index: numpy's integers where a function converts to a width.
Word: TypeAlias = int | np.integer[Any]
#: The elements of a tensor or of a scratch buffer, of any dtype.
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: A parameter that kernels of other sizes may share: machine code takes its argument from a table (see ``given_literals``).
Size: TypeAlias = int
#: Sizes, strides, positions or layouts, one for each axis.
Axes: TypeAlias = tuple[int, ...]
#: One element: its type is that of the array at compile time.
Element: TypeAlias = Any


def _mark(value: Callable[..., Any], kind: str, **properties: Any) -> None:
    vars(value).update(__native__=kind, **properties)


def native(function: F) -> F:
    """Mark a function as machine code, called by other machine code or through an entry point."""
    _mark(function, "function")
    return function


def generic(function: F) -> F:
    """As ``native``, for functions of arrays (the bodies of kernels): compiled for the types of its arguments."""
    _mark(function, "generic")
    return function


def twin(function: F) -> F:
    """Mark the Python form of a primitive: ``front_end.values.machine_forms`` has the machine form under the same name."""
    _mark(function, "twin")
    return function


def instruction(emission: Callable[..., Any]) -> Callable[[F], F]:
    """Mark the Python form of an instruction: ``emission(e, *arguments)`` emits it (see ``front_end.vectors.emission``)."""

    def mark(meaning: F) -> F:
        _mark(meaning, "instruction", __emission__=emission)
        return meaning

    return mark


def set_machine_form(function: Callable[..., Any], provider: Callable[[], Any]) -> None:
    """Let ``provider`` make the machine form of a twin that is declared outside this module."""
    vars(function)["__machine__"] = provider


# ---- range checking (tests only) ---------------------------------------------------------------------------------


class WildAddress(Exception):
    """A load or store outside every announced block."""


class _Blocks:
    """The blocks of memory that may be accessed."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.sizes: dict[int, int] = {}

    def add(self, address: int, nbytes: int) -> None:
        if address not in self.sizes:
            bisect.insort(self.starts, address)
        self.sizes[address] = max(nbytes, self.sizes.get(address, 0))

    def remove(self, address: int) -> None:
        if self.sizes.pop(address, None) is not None:
            self.starts.pop(bisect.bisect_left(self.starts, address))

    def check(self, address: int, nbytes: int) -> None:
        i = bisect.bisect_right(self.starts, address) - 1
        if i < 0 or address + nbytes > self.starts[i] + self.sizes[self.starts[i]]:
            raise WildAddress(f"{nbytes} bytes at {address:#x}")


_watch: _Blocks | None = None


@contextlib.contextmanager
def watch() -> Iterator[Callable[[int, int], None]]:
    """Check every load and store of un-jitted code; yields a function that announces ``(address, nbytes)``."""
    global _watch
    before, _watch = _watch, _Blocks()
    try:
        yield _watch.add
    finally:
        _watch = before


def _check_access(address: int, nbytes: int) -> int:
    if _watch is not None:
        _watch.check(address, nbytes)
    return address


# ---- loads and stores --------------------------------------------------------------------------------------------


@twin
def load_i64(address: int) -> int:
    """Load the int64 at an address."""
    return ctypes.c_int64.from_address(_check_access(address, 8)).value


@twin
def store_i64(address: int, value: int) -> None:
    """Store an int64."""
    ctypes.c_int64.from_address(_check_access(address, 8)).value = int(value)


@twin
def load_i32(address: int) -> int:
    """Load the int32 at an address."""
    return ctypes.c_int32.from_address(_check_access(address, 4)).value


@twin
def store_i32(address: int, value: int) -> None:
    """Store an int32."""
    ctypes.c_int32.from_address(_check_access(address, 4)).value = int(value)


@twin
def load_u8(address: int) -> int:
    """Load the byte at an address."""
    return ctypes.c_uint8.from_address(_check_access(address, 1)).value


@twin
def store_u8(address: int, value: int) -> None:
    """Store a byte."""
    ctypes.c_uint8.from_address(_check_access(address, 1)).value = int(value)


_C_NAMES = {"float32": "float", "float64": "double", **dict.fromkeys(HALVES, "uint16")}
_SCALARS = {name: getattr(ctypes, f"c_{_C_NAMES.get(name, name)}") for name in DTYPES}


@twin
def float_bits(value: float) -> int:
    """The bit pattern of a float64, as an int64."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


@twin
def bits_float(bits: int) -> float:
    """The float64 with this bit pattern."""
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)


@twin
def float32_bits(value: Element) -> int:
    """The bit pattern of a float32, as a non-negative int64."""
    return int(np.float32(value).view(np.uint32))


@twin
def bits_float32(bits: Word) -> Element:
    """The float32 whose bit pattern is the low 32 bits."""
    return np.uint32(int(bits) & 0xFFFFFFFF).view(np.float32)


# ---- records: views of structured dtypes at an address ------------------------------------------------------------


class _Words:
    """An array field of a record."""

    __slots__ = ("address", "length")

    def __init__(self, address: int, length: int) -> None:
        self.address, self.length = address, length

    def __getitem__(self, i: int) -> int:
        assert 0 <= i < self.length, f"field index {i} of {self.length}"
        return load_i64(self.address + 8 * int(i))

    def __setitem__(self, i: int, value: int) -> None:
        assert 0 <= i < self.length, f"field index {i} of {self.length}"
        store_i64(self.address + 8 * int(i), value)


def record(dtype: np.dtype) -> Callable[[int], Any]:
    """A function ``view(address)`` that returns the record at an address: ``view(a).ndim``, ``view(a).shape[i] = 3``.

    ``dtype`` is a structured dtype of int64 fields and arrays of int64.
    """
    assert dtype.fields is not None

    def scalar_field(offset: int) -> property:
        return property(lambda self: load_i64(self.address + offset), lambda self, value: store_i64(self.address + offset, value))

    def array_field(offset: int, length: int) -> property:
        return property(lambda self: _Words(self.address + offset, length))

    members: dict[str, Any] = {"__slots__": ("address",)}
    for name, (field, offset, *_) in dtype.fields.items():
        members[name] = scalar_field(offset) if field.shape == () else array_field(offset, field.shape[0])
    cls = type("Record", (), members)

    def view(address: int) -> Any:
        self = cls()
        self.address = int(address)
        return self

    _mark(view, "record", dtype=dtype)
    return view


#: The tensor (or storage, tuple, closure) at an address: see object_layout.TENSOR.
tensor = record(TENSOR)


# ---- typed arrays over raw memory -----------------------------------------------------------------------------------


class _Halves(np.ndarray):
    """An array of a storage-only dtype: its elements are read as float32, as machine code reads them."""

    def __getitem__(self, index: Any) -> Any:
        element = super().__getitem__(index)
        return np.float32(element) if isinstance(element, np.generic) else element


def _array(dtype: str, rank: int, stored: str = "") -> Callable[[int, Any], np.ndarray]:
    scalar = _SCALARS[dtype]

    def view(address: int, shape: Any) -> np.ndarray:
        dims = tuple(int(d) for d in shape) if rank > 1 else (int(shape),)
        n = math.prod(dims)
        if n == 0:
            return np.empty(dims, numpy_dtype(dtype))
        _check_access(address, n * ctypes.sizeof(scalar))
        array = np.frombuffer((scalar * n).from_address(int(address)), numpy_dtype(dtype)).reshape(dims)
        return array.view(_Halves) if dtype in HALVES else array

    _mark(view, "array", dtype=dtype, rank=rank, stored=stored)
    return view


#: ``array_float32(address, n)`` is a C-contiguous array of n elements at an address; ``array_float32_3d(address, (a, b, c))`` has
#: three axes.  One for each dtype and rank 1 to 8, by name.  Elements of float16 and bfloat16 are read as float32, and rounded
#: when they are written (``halves``).
ARRAYS = {f"array_{d}" + ("" if r == 1 else f"_{r}d"): _array(d, r) for d in DTYPES for r in range(1, 9)}
#: Arrays of bfloat16, such as ``array_bfloat16_exact(address, n)``, of which more is known.
ARRAYS |= {f"array_bfloat16_{stored}": _array("bfloat16", 1, stored) for stored in (EXACT, SHORT_NANS)}
globals().update(ARRAYS)
#: Those that functions written here use by name; generated code uses all.
array_int64, array_float32, array_float64 = (ARRAYS[f"array_{d}"] for d in ("int64", "float32", "float64"))
array_uint8, array_uint16, array_uint32 = (ARRAYS[f"array_{d}"] for d in ("uint8", "uint16", "uint32"))


#: Huge pages of Linux, used on request (MADV_HUGEPAGE, as numpy does), instead of pages of 4 KiB.
HAS_HUGE_PAGES, HUGE_PAGE_BYTES, MADV_HUGEPAGE = sys.platform == "linux", 2 << 20, 14

# ---- the C library ----------------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype = ctypes.c_int64
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_int64]
_libc.memcpy.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_size_t]
_libc.memset.argtypes = [ctypes.c_int64, ctypes.c_int, ctypes.c_size_t]


@twin
def alloc(nbytes: int) -> int:
    """Allocate ``nbytes`` bytes, aligned to 64; the address, 0 if there is no memory.

    As machine code it asks for huge pages for large blocks: accesses with long strides then have fewer TLB misses, and sequential
    accesses are prefetched across pages.
    """
    rounded = max(64, (int(nbytes) + 63) // 64 * 64)
    address: int = _libc.aligned_alloc(64, rounded)
    if _watch is not None and address:
        _watch.add(address, rounded)
    return address


@twin
def free(address: int) -> None:
    """Free a block of ``alloc``."""
    if _watch is not None:
        _watch.remove(address)
    _libc.free(address)


@twin
def copy_bytes(to: int, source: int, nbytes: int) -> None:
    """Copy bytes that do not overlap."""
    if nbytes:
        _check_access(to, nbytes), _check_access(source, nbytes)
        _libc.memcpy(to, source, nbytes)


@twin
def fill_bytes(address: int, byte: int, nbytes: int) -> None:
    """Set every byte of a block."""
    if nbytes:
        _libc.memset(_check_access(address, nbytes), byte, nbytes)


@twin
def clock_ns() -> int:
    """A monotonic clock in nanoseconds."""
    import time

    return time.monotonic_ns()


@twin
def pause() -> None:
    """Leave the core to its other hardware thread for some tens of cycles: for loops that wait for memory to change."""


_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)


@twin
def call_kernel(function: int, argv: int, n: int) -> int:
    """Call a kernel by address; its status."""
    status: int = _KERNEL(function)(argv, n)
    return status
