"""Attributes of a function that describe its parameters and results to users: names of results, defaults of parameters.

They are printed and parsed as any attribute of a function, and passes keep them:

    def @main(%x: Tensor[(?n), float32], %k: Tensor[(), float32], output_names=["y"], defaults=["0000803f"]) { ... }
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.core.tensor_types import ITEMSIZE, TensorType, TupleType, Type, numpy_dtype
from ...shape_funcs.symbolic.dim import const
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import TypeCheckError
from .expr import Function, Var, type_of

#: The names of the result, or of the fields of the tuple that the result is.
OUTPUT_NAMES = "output_names"
#: The values of the last parameters if a call gives none: their bytes in hexadecimal, little-endian and row-major.
DEFAULTS = "defaults"


def output_names(function: Function, name: str, result: Type) -> tuple[str, ...]:
    """The names of the results of ``@name``; () if it gives none.  Raises TypeCheckError for names that do not fit."""
    names: tuple[str, ...] = function.attrs.get(OUTPUT_NAMES, ())
    if not names:
        return ()
    count = len(result.fields) if isinstance(result, TupleType) else 1
    problem = ""
    if not isinstance(names, tuple) or not all(isinstance(n, str) and n.isprintable() and n for n in names):
        problem = "its names are printable texts"
    elif len(names) != count:
        problem = f"it has {len(names)} names, the function has {count} result{'s' * (count != 1)}"
    elif len(set(names)) < len(names):
        problem = "two results have one name"
    if problem:
        raise TypeCheckError(f"@{name}: {OUTPUT_NAMES}: {problem}", function.span, code=codes.Type.SIGNATURE)
    return names


def encoded(array: np.ndarray) -> str:
    """A default as the attribute has it."""
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes().hex()


def defaults_of(function: Function) -> tuple[np.ndarray, ...]:
    """The defaults of the last parameters.  Raises TypeCheckError for defaults that do not fit."""
    texts = function.attrs.get(DEFAULTS, ())
    if not texts:
        return ()
    if not isinstance(texts, tuple) or len(texts) > len(function.params):
        message = f"{DEFAULTS}: a text for each of the last parameters"
        raise TypeCheckError(message, function.span, code=codes.Type.SIGNATURE)
    return tuple(map(_decoded, function.params[len(function.params) - len(texts) :], texts))


def _decoded(param: Var, text: Any) -> np.ndarray:
    ty = param.annotation or type_of(param)
    sizes = [const(d) for d in ty.shape] if isinstance(ty, TensorType) else [None]
    known = [n for n in sizes if n is not None]
    try:
        data = bytes.fromhex(text)
    except (TypeError, ValueError):
        data = None
    if (
        not isinstance(ty, TensorType)
        or data is None
        or len(known) < len(sizes)
        or len(data) != math.prod(known) * ITEMSIZE[ty.dtype]
    ):
        message = f"{DEFAULTS}: the default of %{param.name} is no {ty} in hexadecimal"
        raise TypeCheckError(message, param.span, code=codes.Type.SIGNATURE)
    array = np.frombuffer(data, numpy_dtype(ty.dtype).newbyteorder("<")).astype(numpy_dtype(ty.dtype)).reshape(known)
    array.setflags(write=False)
    return array


def without_defaults(function: Function, bound: Sequence[Var]) -> Mapping[str, Any]:
    """The attributes of the function without some of its parameters."""
    texts = function.attrs.get(DEFAULTS, ())
    if not isinstance(texts, tuple) or not texts:
        return function.attrs
    last = function.params[len(function.params) - len(texts) :]
    left = tuple(text for p, text in zip(last, texts, strict=False) if p not in bound)
    rest = {key: value for key, value in function.attrs.items() if key != DEFAULTS}
    return {**rest, DEFAULTS: left} if left else rest
