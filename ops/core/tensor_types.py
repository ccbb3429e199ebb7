"""Types: dtypes, tensors with symbolic dimensions, tuples, functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import INT, Dim, IntLike, Shape, const, dim, is_static, name_of, product
from ...shape_funcs.symbolic.dim import MAX_RANK as MAX_RANK

#: All dtypes, in the order of their codes in tensor descriptors.  The names are numpy's; bfloat16 comes from ml_dtypes.
DTYPES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "float16", "bfloat16",
)  # fmt: skip
#: Storage-only dtypes: kernels load them as float32, compute in float32, and round to nearest even at stores and casts.
#: A cast from any other dtype goes through float32, so that all devices round alike.
HALVES = ("float16", "bfloat16")
#: What may be known of float32s that are stored as bfloat16: each is a bfloat16; a NaN among them has only bits that a bfloat16
#: has.
EXACT, SHORT_NANS = "exact", "short_nans"
#: Size of one element in bytes.
ITEMSIZE = {name: 1 if name == "bool" else int("".join(filter(str.isdigit, name))) // 8 for name in DTYPES}


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating-point dtype."""
    return "float" in dtype


def computed_in(dtype: str) -> str:
    """The compute dtype of kernels for elements of ``dtype``: float32 for float16 and bfloat16, else ``dtype``."""
    return "float32" if dtype in HALVES else dtype


@functools.lru_cache
def dtype_name(dtype: np.dtype) -> str:
    """The name of numpy's dtype, which numpy composes at each use."""
    return dtype.name


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of this name; ml_dtypes provides bfloat16."""
    if dtype == "bfloat16":
        import ml_dtypes  # registers the name; takes 4 ms, hence only on demand

        dtype = ml_dtypes.bfloat16
    return np.dtype(dtype)


def of_float8(stored: np.ndarray, name: str) -> np.ndarray:
    """The numbers of bytes that are floats of 8 bits, of ml_dtypes' dtype ``name``, in float16, which has all of them."""
    import ml_dtypes

    numbers: np.ndarray = stored.view(getattr(ml_dtypes, name)).astype(np.float16)
    return numbers


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` is a signed or unsigned integer; bool is not an integer."""
    return "int" in dtype


def int_range(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype."""
    bits = 8 * ITEMSIZE[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


#: Maximum number of fields of a tuple, and of parameters of a function.
MAX_FIELDS = 1024
#: Maximum depth and number of types in a type: walks over types may recurse, and need not memoise shared types.
MAX_DEPTH, MAX_PARTS = 64, 1 << 14


class TypeTooLarge(ValueError):
    """A type that exceeds the depth or size limits of this module.  ``help``: the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.help = "divide it: into several values, or several tuples"


class Type:
    """A tensor, tuple or function type.  ``str`` returns the text form, which the parser accepts."""

    #: Nesting depth, and number of types, including the type itself.
    depth: int = 0
    parts: int = 1


def _few(count: int, what: str, fields: str) -> None:
    if count > MAX_FIELDS:
        raise TypeTooLarge(f"{what} has {count} {fields}; at most {MAX_FIELDS} are possible")


def measure(ty: Type, inner: Sequence[Type], what: str) -> None:
    """Set depth and parts of a type composed of ``inner``.  Raises TypeTooLarge."""
    depth = 1 + max((getattr(t, "depth", 0) for t in inner), default=0)
    count = 1 + sum(getattr(t, "parts", 1) for t in inner)
    if depth > MAX_DEPTH:
        raise TypeTooLarge(f"{what} is nested {depth} deep; at most {MAX_DEPTH} is possible")
    if count > MAX_PARTS:
        raise TypeTooLarge(f"{what} is made of {count} types; at most {MAX_PARTS} are possible")
    object.__setattr__(ty, "depth", depth)
    object.__setattr__(ty, "parts", count)


@frozen
class TensorType(Type):
    """A tensor type such as ``Tensor[(?, 4), float32]``.  ``shape``: Dims.  A rank-0 tensor prints as its dtype."""

    shape: Shape
    dtype: str = "float32"

    @staticmethod
    def of(shape: tuple[IntLike, ...] | list[IntLike], dtype: str = "float32") -> TensorType:
        """A tensor type from ints and Dims."""
        return TensorType(tuple(dim(d) for d in shape), dtype)

    @staticmethod
    def of_array(array: np.ndarray) -> TensorType:
        """The type of an array."""
        return TensorType(tuple(map(dim, array.shape)), dtype_name(array.dtype))

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


@frozen
class TupleType(Type):
    """A tuple type.  Raises TypeTooLarge beyond the limits."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        _few(len(self.fields), "a tuple", "fields")
        measure(self, self.fields, "a tuple")

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))}{',' if len(self.fields) == 1 else ''})"


@frozen
class FuncType(Type):
    """A function type.  ``type_params``: the type variables of a polymorphic function, whose names make no difference between
    types.  Raises TypeTooLarge beyond the limits.
    """

    params: tuple[Type, ...]
    result: Type
    type_params: tuple[Type, ...] = ()

    def __post_init__(self) -> None:
        _few(len(self.params), "a function", "parameters")
        measure(self, (*self.params, self.result), "a function type")

    @property
    def arg_types(self) -> tuple[Type, ...]:
        """Relay's name of ``params``."""
        return self.params

    @property
    def ret_type(self) -> Type:
        """Relay's name of ``result``."""
        return self.result

    def __str__(self) -> str:
        own = f"[{', '.join(map(str, self.type_params))}]" if self.type_params else ""
        return f"fn {own}({', '.join(map(str, self.params))}) -> {self.result}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FuncType):
            return NotImplemented
        if self.type_params and other.type_params:
            return self is other or _parts(self, {}) == _parts(other, {})
        return (self.params, self.result, self.type_params) == (other.params, other.result, other.type_params)

    def __hash__(self) -> int:
        if self.type_params:
            return hash((len(self.params), len(self.type_params)))
        return hash((self.params, self.result))


def _parts(part: Any, bound: dict[int, int]) -> Any:
    """A type as nested tuples, with the number of a bound type variable in its place.  ``bound``: by identity."""
    if isinstance(part, tuple):
        return tuple(_parts(each, bound) for each in part)
    if isinstance(part, TensorType) or not isinstance(part, Type):
        return part
    if type(part).__eq__ is object.__eq__:  # compared by identity: a type variable
        return bound.get(id(part), part)
    if isinstance(part, FuncType):
        bound = {**bound, **{id(var): len(bound) + k for k, var in enumerate(part.type_params)}}
    own: Any = part
    return (type(part), *(_parts(getattr(part, f.name), bound) for f in fields(own)))


@frozen
class Tensor:
    """dtype and dims of a value of a kernel.  Symbolic dims are named ``d0 d1 ...`` in order of first occurrence in the
    parameters, so that identical fusions are identical data.  A dim of a *result* may be an expression."""

    dtype: str
    shape: Shape


def dim_text(d: Dim) -> str:
    """Text of a dimension: ``4``, ``?n`` for a dimension named in the program, ``?`` for any other."""
    if d.op == INT:
        return str(const(d))
    return f"?{name_of(d) or ''}"


def known_extent(shape: Shape, dtype: str) -> tuple[int, int]:
    """The products of the known nonzero sizes of a shape, in elements and in bytes.

    A tensor for which either exceeds int64 cannot exist, even if another axis is empty: numpy rejects such arrays, too.
    """
    known = [*filter(None, map(const, shape))]
    return math.prod(known), array_bytes(known, dtype)


def array_bytes(shape: Iterable[int], dtype: str) -> int:
    """The size in bytes of an array of these sizes."""
    return math.prod(shape) * ITEMSIZE[dtype]


def tensor_bytes(ty: TensorType) -> Dim:
    """The size in bytes of a tensor; equal expressions are the same object."""
    return product(ty.shape) * ITEMSIZE[ty.dtype]


def scalar(dtype: str) -> TensorType:
    return TensorType((), dtype)


def tensors(ty: Type) -> tuple[TensorType, ...]:
    """The tensor types in a tensor or (nested) tuple type, flattened in order."""
    if isinstance(ty, TupleType):
        return tuple(t for f in ty.fields for t in tensors(f))
    assert isinstance(ty, TensorType), ty
    return (ty,)
