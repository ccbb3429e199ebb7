"""Types: tensors whose dimensions may be unknown, tuples, functions; and the dtypes there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..shape_funcs.dims import INT, SYM, Dim, IntLike, Shape, const, dim, is_static
from ..shape_funcs.dims import MAX_RANK as MAX_RANK

#: Every dtype, in the order of its code in a tensor descriptor.  Names are numpy's; bfloat16 is that of ml_dtypes.
DTYPES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "float16", "bfloat16",
)  # fmt: skip
#: Dtypes that only store: kernels read them as float32, compute in that, and round to the nearest (halves to even) where
#: they store or cast.  Every other number becomes a float32 first, too, so that all devices round alike.
HALVES = ("float16", "bfloat16")
#: Size of one element in bytes.
ITEMSIZE = {name: 1 if name == "bool" else int("".join(filter(str.isdigit, name))) // 8 for name in DTYPES}


def is_float(dtype: str) -> bool:
    """Is it a floating-point dtype?"""
    return "float" in dtype


def computed_in(dtype: str) -> str:
    """The dtype in which kernels compute with elements of ``dtype``: float32 for the two that only store."""
    return "float32" if dtype in HALVES else dtype


def numpy_dtype(dtype: str) -> np.dtype:
    """numpy's dtype of this name, which for bfloat16 it has from ml_dtypes."""
    if dtype == "bfloat16":
        import ml_dtypes  # registers the name; 4 ms, so only when it is wanted

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def is_integer(dtype: str) -> bool:
    """Signed or unsigned integer (bool is not one)."""
    return "int" in dtype


def int_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    bits = 8 * ITEMSIZE[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


#: The most fields of a tuple, and parameters of a function.
MAX_FIELDS = 1024
#: How deep types may be nested, and how many types may be in one: whatever walks a type may recurse, and need not share parts.
MAX_DEPTH, MAX_PARTS = 64, 1 << 14


class TypeTooLarge(ValueError):
    """A type of more parts, or nested deeper, than the limits of this module allow.  ``help`` says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.help = "divide it: into several values, or several tuples"


class Type:
    """A tensor, tuple or function type.  ``str`` gives its text form, which parses back."""

    #: How deep types are nested in it, and how many there are, itself included.
    depth: int = 0
    parts: int = 1


def _few(count: int, what: str, fields: str) -> None:
    if count > MAX_FIELDS:
        raise TypeTooLarge(f"{what} has {count} {fields}; at most {MAX_FIELDS} are possible")


def _measure(ty: Type, inner: Sequence[Type], what: str) -> None:
    """Note depth and parts of a type made of ``inner``.  Raises TypeTooLarge."""
    depth = 1 + max((getattr(t, "depth", 0) for t in inner), default=0)
    count = 1 + sum(getattr(t, "parts", 1) for t in inner)
    if depth > MAX_DEPTH:
        raise TypeTooLarge(f"{what} is nested {depth} deep; at most {MAX_DEPTH} is possible")
    if count > MAX_PARTS:
        raise TypeTooLarge(f"{what} is made of {count} types; at most {MAX_PARTS} are possible")
    object.__setattr__(ty, "depth", depth)
    object.__setattr__(ty, "parts", count)


@dataclass(frozen=True)
class TensorType(Type):
    """``Tensor[(?, 4), float32]``.  ``shape`` holds Dims; a rank-0 tensor prints as its dtype."""

    shape: Shape
    dtype: str = "float32"

    @staticmethod
    def of(shape: tuple[IntLike, ...] | list[IntLike], dtype: str = "float32") -> TensorType:
        """A tensor type from ints and Dims."""
        return TensorType(tuple(dim(d) for d in shape), dtype)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return is_static(self.shape)

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype
        dims = ", ".join(dim_text(d) for d in self.shape)
        return f"Tensor[({dims}), {self.dtype}]"


@dataclass(frozen=True)
class TupleType(Type):
    """A tuple.  Raises TypeTooLarge beyond the limits."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        _few(len(self.fields), "a tuple", "fields")
        _measure(self, self.fields, "a tuple")

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))}{',' if len(self.fields) == 1 else ''})"


@dataclass(frozen=True)
class FuncType(Type):
    """A function.  Raises TypeTooLarge beyond the limits."""

    params: tuple[Type, ...]
    result: Type

    def __post_init__(self) -> None:
        _few(len(self.params), "a function", "parameters")
        _measure(self, (*self.params, self.result), "a function type")

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.params))}) -> {self.result}"


@dataclass(frozen=True)
class Tensor:
    """dtype and dims of a value of a kernel.  Unknown dims are named ``d0 d1 ...`` in order of first occurrence in the
    parameters, so that identical fusions are identical data.  A dim of a *result* that is an expression is kept as one."""

    dtype: str
    shape: Shape


def dim_text(d: Dim) -> str:
    """``4``, ``?n`` for a dimension the program named, ``?`` for any other."""
    if d.op == INT:
        return str(const(d))
    return f"?{d.args[0]}" if d.op == SYM and not d.args[0].startswith(".") else "?"


def known_extent(shape: Shape, dtype: str) -> tuple[int, int]:
    """The elements and bytes that the known sizes of a shape make, another axis empty or not.

    More than int64 holds of either is a tensor that there cannot be: numpy, too, has no array for it.
    """
    elements = math.prod(filter(None, map(const, shape)))
    return elements, elements * ITEMSIZE[dtype]


def scalar(dtype: str) -> TensorType:
    return TensorType((), dtype)


def tensors(ty: Type) -> tuple[TensorType, ...]:
    """The tensor types in a tensor or (nested) tuple type, flattened in order."""
    if isinstance(ty, TupleType):
        return tuple(t for f in ty.fields for t in tensors(f))
    assert isinstance(ty, TensorType), ty
    return (ty,)
