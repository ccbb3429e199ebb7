"""Types of native code, values of these types, and the rules by which operators combine types.

A value that is known at compile time is a part of its type, so a function is emitted once for each such value of an argument.

Integers are computed in 64 bits, as numba does (NBEP 1); a mixture of signed and unsigned integers is signed.  Integers of at
most 16 bits fit a float32; larger integers need a float64.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from llvmlite import ir

from .....declarations.frozen_dataclass import frozen
from ....core.tensor_types import HALVES, ITEMSIZE


class _Kind:
    """A type: it knows its parts, which are asked for at each use of a value."""

    @functools.cached_property
    def parts(self) -> list[ir.Type]:
        """The LLVM types of the parts of a value, in order."""
        return _parts(self)  # type: ignore[arg-type]


@frozen
class Integer(_Kind):
    """An integer of ``bits`` bits."""

    bits: int
    signed: bool


@frozen
class Real(_Kind):
    """A float of ``bits`` bits."""

    bits: int


@frozen
class Boolean(_Kind):
    """A truth value: a bit in a register, a byte in memory."""


@frozen
class Nothing(_Kind):
    """The type of None."""


@frozen
class Array(_Kind):
    """A C-contiguous array over raw memory: a pointer, and a size for each axis.

    ``stored``: what is known of the numbers that are stored in it (``EXACT``, ``SHORT_NANS``).
    """

    dtype: str
    rank: int
    stored: str = ""


@frozen
class Record(_Kind):
    """A record of words at an address."""

    dtype: np.dtype[Any]


@frozen
class Words(_Kind):
    """An array of ``length`` words in a record: its address."""

    length: int


@frozen
class Tuple(_Kind):
    """A tuple: the values of its items, one after the other.

    ``names``: the fields of a named tuple.  ``is_list``: whether it is a list, whose items may be assigned.
    """

    items: tuple[Type, ...]
    names: tuple[str, ...] = ()
    is_list: bool = False

    @functools.cached_property
    def starts(self) -> list[int]:
        """The number of the first part of each item."""
        return list(itertools.accumulate((len(llvm_parts(item)) for item in self.items), initial=0))

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.items, self.names, self.is_list))

    def __hash__(self) -> int:
        return self._hash  # of a type with many items, which is asked for at each call


@frozen
class Lent(_Kind):
    """A list of the caller: the places of the parts of its items, which the function may assign."""

    of: Tuple


@frozen
class Vector(_Kind):
    """A vector register, or as many as hold ``lanes`` numbers; of booleans: a mask."""

    element: Scalar
    lanes: int


@frozen
class Known(_Kind):
    """An integer or a truth value that is known at compile time: a part of its type."""

    kind: Scalar
    value: int


@frozen(eq=False)
class Static(_Kind):
    """A Python object that is known at compile time: a function, a module, a type."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@frozen
class Pointer(_Kind):
    """The address of a native function without a result, which is called with arguments of the types ``kinds``."""

    kinds: tuple[Type, ...]


Type: TypeAlias = Integer | Real | Boolean | Nothing | Array | Record | Words | Tuple | Lent | Vector | Known | Static | Pointer
Scalar: TypeAlias = Integer | Real | Boolean

INT64, UINT64, INT32, UINT8, UINT16 = (Integer(b, s) for b, s in ((64, True), (64, False), (32, True), (8, False), (16, False)))
FLOAT32, FLOAT64 = Real(32), Real(64)
BOOL, NOTHING = Boolean(), Nothing()
WORD = ir.IntType(64)
BIT = ir.IntType(1)


class Value(NamedTuple):
    """A value: its type, and its parts in registers."""

    type: Type
    parts: tuple[Any, ...]

    @property
    def scalar(self) -> Any:
        """The only part."""
        (part,) = self.parts
        return part


VOID = Value(NOTHING, ())


def scalar_type(dtype: str) -> Scalar:
    """The type of an element of a dtype in a register: of a half, float32."""
    if dtype == "bool":
        return BOOL
    if dtype in HALVES:
        return FLOAT32
    bits = 8 * ITEMSIZE[dtype]
    return Real(bits) if dtype.startswith("float") else Integer(bits, not dtype.startswith("u"))


def element_llvm(dtype: str) -> ir.Type:
    """The LLVM type of an element in memory."""
    if dtype in HALVES:
        return ir.IntType(16)
    return ir.IntType(8) if dtype == "bool" else _llvm(scalar_type(dtype))


def _llvm(kind: Scalar) -> ir.Type:
    if isinstance(kind, Integer):
        return ir.IntType(kind.bits)
    if isinstance(kind, Boolean):
        return BIT
    return ir.FloatType() if kind.bits == 32 else ir.DoubleType()


def llvm_parts(kind: Type) -> list[ir.Type]:
    """The LLVM types of the parts of a value."""
    return kind.parts


def _parts(kind: Type) -> list[ir.Type]:
    if isinstance(kind, (Integer, Real, Boolean)):
        return [_llvm(kind)]
    if isinstance(kind, Array):
        return [element_llvm(kind.dtype).as_pointer(), *[WORD] * kind.rank]
    if isinstance(kind, (Record, Words, Pointer)):
        return [WORD]
    if isinstance(kind, Vector):
        return [ir.VectorType(_llvm(kind.element), kind.lanes)]
    if isinstance(kind, Lent):
        return [part.as_pointer() for part in kind.of.parts]
    return [part for item in kind.items for part in item.parts] if isinstance(kind, Tuple) else []


def function_type(kinds: Iterable[Type]) -> ir.FunctionType:
    """The LLVM type of a function without a result that takes values of these types."""
    return ir.FunctionType(ir.VoidType(), [part for kind in kinds for part in llvm_parts(kind)])


def has_vectors(kind: Type) -> bool:
    """Whether a value of the type has vectors, or is a list of the caller, which may have some."""
    return isinstance(kind, (Vector, Lent)) or (isinstance(kind, Tuple) and any(map(has_vectors, kind.items)))


def items(value: Value) -> list[Value]:
    """The items of a tuple."""
    assert isinstance(value.type, Tuple)
    found, at = [], 0
    for kind in value.type.items:
        n = len(llvm_parts(kind))
        found.append(Value(kind, value.parts[at : at + n]))
        at += n
    return found


def leaves(value: Value) -> list[Value]:
    """The items of a tuple, and those of the tuples in it."""
    return [leaf for item in items(value) for leaf in leaves(item)] if isinstance(value.type, Tuple) else [value]


def tuple_of(values: list[Value], names: tuple[str, ...] = (), is_list: bool = False) -> Value:
    """A tuple of values."""
    return Value(Tuple(tuple(v.type for v in values), names, is_list), tuple(part for v in values for part in v.parts))


def frozen_list(value: Value) -> Value:
    """A list without a name as a tuple: a function that is called with it cannot assign its items."""
    return tuple_of(items(value), value.type.names) if isinstance(value.type, Tuple) and value.type.is_list else value


@functools.lru_cache(maxsize=4096, typed=True)
def known(value: int) -> Value:
    """An integer or a truth value that is known at compile time."""
    return Value(Known(BOOL if isinstance(value, bool) else INT64, int(value)), ())


def decayed(value: Value) -> Value:
    """A number as one in a register, also one that is known at compile time."""
    kind = value.type
    return Value(kind.kind, (ir.Constant(_llvm(kind.kind), kind.value),)) if isinstance(kind, Known) else value


# ---- combinations of types -------------------------------------------------------------------------------------------------


def is_number(kind: Type) -> bool:
    """Whether a value of the type has one number."""
    return isinstance(kind, (Integer, Real, Boolean, Known))


def _float_of(kinds: tuple[Type, ...]) -> Real:
    """The float that holds numbers of all these types, as far as one does."""

    def fits(kind: Type) -> bool:
        return kind in (FLOAT32, BOOL) or (isinstance(kind, Integer) and kind.bits <= 16)

    return FLOAT32 if all(map(fits, kinds)) else FLOAT64


def arithmetic_type(*kinds: Type) -> Integer | Real:
    """The type in which numbers are added, multiplied, and divided with a remainder."""
    if any(isinstance(kind, Real) for kind in kinds):
        return _float_of(kinds)
    return UINT64 if all(isinstance(kind, Integer) and not kind.signed for kind in kinds) else INT64


def quotient_type(a: Type, b: Type) -> Real:
    """The type of a quotient."""
    return _float_of((a, b)) if isinstance(a, Real) or isinstance(b, Real) else FLOAT64


def shift_type(a: Type) -> Integer:
    """The type of a shifted number."""
    return UINT64 if isinstance(a, Integer) and not a.signed else INT64


def joined_type(a: Type, b: Type) -> Type | None:
    """The type of a variable that has one or the other type; None if there is none."""
    if a == b:
        return a
    if isinstance(a, Tuple) and isinstance(b, Tuple) and (len(a.items), a.names, a.is_list) == (len(b.items), b.names, b.is_list):
        joined = [joined_type(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return None if None in joined else Tuple(tuple(kind for kind in joined if kind is not None), a.names, a.is_list)
    a, b = (kind.kind if isinstance(kind, Known) else kind for kind in (a, b))
    if a == b:
        return a
    if not (is_number(a) and is_number(b)):
        return None
    if isinstance(a, Boolean):
        return b
    if isinstance(b, Boolean):
        return a
    if isinstance(a, Real) or isinstance(b, Real):
        return _float_of((a, b))
    assert isinstance(a, Integer) and isinstance(b, Integer)
    if a.signed == b.signed:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.signed else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return Integer(2 * unsigned.bits, True) if unsigned.bits < 64 else FLOAT64


#: Python's and NumPy's scalar types as conversions, by the object that a program calls.
CONVERSIONS: dict[Callable[..., Any], Scalar] = {
    **{getattr(np, f"{sign}int{bits}"): Integer(bits, not sign) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    np.float32: FLOAT32, np.float64: FLOAT64, np.bool_: BOOL, bool: BOOL,
}  # fmt: skip
