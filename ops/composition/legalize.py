"""Legalization: calls that no kernel takes as they are, expanded into calls that kernels take.

    Op(..., legalization=converted(indices=INDEX))

An argument of another dtype is converted by a ``cast`` before the call, as Relay converts it; the cast fuses with the call.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, const, dim, unnamed
from ...shape_funcs.symbolic.int_operations import INT64_MAX, INT64_MIN
from ...shape_funcs.symbolic.registry import Operand
from ..core.dtype_rules import INDICES
from ..core.op import Legalization, Op, get
from ..core.tensor_types import is_float, is_integer
from .composite import CallTerm, Expansion, Term, call, input_terms, number

_casts = itertools.count()
#: ``(dtype, dtypes, attrs) -> dtype``: the dtype in which a kernel takes an input, from its own, those of all inputs and the
#: attributes.
Taken = Callable[[str, tuple[Any, ...], Any], str]


def index_dtype(dtype: str, dtypes: tuple[Any, ...], attrs: Any) -> str:
    """An integer that is no index dtype, or a float, is taken as int64."""
    return dtype if dtype in INDICES else "int64"


def whole_dtype(dtype: str, dtypes: tuple[Any, ...], attrs: Any) -> str:
    """As `index_dtype` for integers; a float stays as it is."""
    return dtype if is_float(dtype) else index_dtype(dtype, dtypes, attrs)


@frozen
class _Conversion:
    """Per position of an input, the dtype in which it is taken; in a tuple input, all fields but the first are converted."""

    inputs: dict[int, Taken]

    def dtypes(self, given: tuple[Any, ...], attrs: Any) -> tuple[Any, ...]:
        """The dtypes in which kernels take inputs of the dtypes ``given``."""

        def taken(position: int, dtype: Any) -> Any:
            rule = self.inputs.get(position)
            if rule is None:
                return dtype
            if isinstance(dtype, tuple):
                return (*dtype[:1], *(rule(field, given, attrs) for field in dtype[1:]))
            return rule(dtype, given, attrs)

        return tuple(taken(position, dtype) for position, dtype in enumerate(given))

    def applies(self, given: tuple[Any, ...], attrs: Any) -> bool:
        """Whether an input is converted."""
        return self.dtypes(given, attrs) != given

    def expand(self, op: Op, terms: tuple[Any, ...], attrs: Any) -> Term:
        """The call on converted inputs."""
        dtypes = tuple(tuple(f.dtype for f in t) if isinstance(t, tuple) else t.dtype for t in terms)
        args = tuple(
            tuple(map(as_taken, t, d)) if isinstance(t, tuple) else as_taken(t, d)
            for t, d in zip(terms, self.dtypes(dtypes, attrs), strict=True)
        )
        result: Term = call(op, *args, attrs=attrs)
        return result


def legalized(applies: Callable[[tuple[Any, ...], Any], bool], expand: Callable[[Op, Any, Any], Expansion]) -> Legalization:
    """The legalization of calls for which ``applies(dtypes, attrs)`` holds, by ``expand(op, terms, attrs)``."""
    return Legalization(applies, lambda op, operands, attrs: expand(op, input_terms(operands), attrs))


def converted(inputs: dict[int, Taken]) -> Legalization:
    """The legalization that converts each input at a position of ``inputs`` to the dtype in which kernels take it."""
    conversion = _Conversion(inputs)
    return legalized(conversion.applies, conversion.expand)


def indices(*positions: int) -> Legalization:
    """``converted`` for inputs that are indices or sizes."""
    return converted(dict.fromkeys(positions, index_dtype))


def as_taken(term: Term, dtype: str) -> Term:
    """``term`` as ``dtype``; a uint64 beyond the range of int64 becomes the largest int64, which is no valid index."""
    if term.dtype == dtype:
        return term
    source = term.dtype
    limited = call(get("minimum"), term, number(INT64_MAX, source)) if source == "uint64" and is_integer(dtype) else term
    operand = Operand(term.shape, dtype, _words(term.operand.data, source, dtype))
    return CallTerm(operand, get("cast"), get("cast").attrs(dtype), (limited,))


def _words(data: Sequence[Dim] | None, source: str, dtype: str) -> tuple[Dim, ...] | None:
    """The values of an operand after the cast; an unknown float becomes an unknown integer."""
    if data is None or is_float(dtype):
        return None
    return tuple(_word(d, source) for d in data)


def _word(d: Dim, source: str) -> Dim:
    known = const(d)
    if not is_float(source):
        return dim(INT64_MAX) if known is not None and known < 0 and source == "uint64" else d
    if known is None:
        return unnamed(f"cast.{next(_casts)}", is_size=False)
    (value,) = struct.unpack("<d", struct.pack("<q", known))
    # a cast gives an unspecified number for the others
    return dim(int(value)) if math.isfinite(value) and abs(value) < INT64_MAX else dim(INT64_MIN)
