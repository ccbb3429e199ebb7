"""Machine form of arrays of float16 and bfloat16: elements are read as float32 and rounded when they are written.

Imported only when something is compiled.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, overload_attribute, register_model

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

    @intrinsic
    def wrapped(typing, bits):
        def generate(context, builder, signature, args):
            out = cgutils.create_struct_proxy(kind)(context, builder)
            out.words = args[0]
            return out._getvalue()

        return kind(kind.words), generate

    @numba.njit(**_OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def view(address, shape):
        return wrapped(words(address, shape))

    return view


@overload(operator.getitem, jit_options=_OPTIONS)
def _get(array, index):
    if isinstance(array, Halves):
        value = array.value
        return lambda array, index: value(array.words[index])
    return None


@overload(operator.setitem, jit_options=_OPTIONS)
def _set(array, index, element):
    if isinstance(array, Halves):
        bits = array.bits

        def put(array, index, element):
            array.words[index] = bits(element)

        return put
    return None


@overload(len, jit_options=_OPTIONS)
def _len(array):
    return (lambda array: len(array.words)) if isinstance(array, Halves) else None


@overload_attribute(Halves, "shape", jit_options=_OPTIONS)
def _shape(array):
    return lambda array: array.words.shape
