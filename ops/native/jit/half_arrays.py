"""Machine form of arrays of float16 and bfloat16: elements are read as float32 and rounded when they are written.

Imported only when something is compiled.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import make_attribute_wrapper, models, overload, overload_attribute, register_model

from . import intrinsics

_OPTIONS = {"error_model": "numpy", "boundscheck": False, "_nrt": False, "no_rewrites": True}


class Halves(types.Type):  # type: ignore[misc]
    """A C-contiguous array of ``rank`` axes over raw memory, of a storage-only dtype.

    ``value`` and ``bits``: machine forms of the conversions of an element from and to its 16 bits.
    """

    def __init__(self, dtype: str, rank: int, value: Any, bits: Any) -> None:
        self.words = types.Array(types.uint16, rank, "C")
        self.value, self.bits = value, bits
        super().__init__(f"Halves({dtype}, {rank})")


@register_model(Halves)
class _Model(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Halves) -> None:
        super().__init__(manager, kind, [("words", kind.words)])


make_attribute_wrapper(Halves, "words", "words")


def array(dtype: str, rank: int, value: Any, bits: Any) -> Any:
    """As ``intrinsics.array``; ``value`` and ``bits``: machine forms of the conversions of ``halves.CONVERSIONS``."""
    kind, words = Halves(dtype, rank, value, bits), intrinsics.array("uint16", rank)

    @intrinsics.intrinsic
    def wrapped(typing: Any, bits: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            out = cgutils.create_struct_proxy(kind)(context, builder)
            out.words = args[0]
            return out._getvalue()

        return kind(kind.words), generate

    def view(address: int, shape: Any) -> Any:
        return wrapped(words(address, shape))

    return numba.njit(**_OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)(view)


# numba compares the signatures of a rule and of its implementation, annotations included.


def _get(array: Any, index: Any) -> Any:
    if not isinstance(array, Halves):
        return None
    value = array.value

    def get(array: Any, index: Any) -> Any:
        return value(array.words[index])

    return get


def _set(array: Any, index: Any, element: Any) -> Any:
    if not isinstance(array, Halves):
        return None
    bits = array.bits

    def put(array: Any, index: Any, element: Any) -> Any:
        array.words[index] = bits(element)

    return put


def _len(array: Any) -> Any:
    def length(array: Any) -> Any:
        return len(array.words)

    return length if isinstance(array, Halves) else None


def _shape(array: Any) -> Any:
    def shape(array: Any) -> Any:
        return array.words.shape

    return shape


overload(operator.getitem, jit_options=_OPTIONS)(_get)
overload(operator.setitem, jit_options=_OPTIONS)(_set)
overload(len, jit_options=_OPTIONS)(_len)
overload_attribute(Halves, "shape", jit_options=_OPTIONS)(_shape)
