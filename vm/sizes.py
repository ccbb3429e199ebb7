"""Sizes for people and for files: expressions over the sizes of a function's parameters.

A dim of a type may be made of names that mean something only inside the compiler.  A *portable* dim holds ints, the names of
a program (``?n``) and, for a nameless ``?`` of a parameter, ``x.shape[0]``; whatever needs more than that is ``?`` (ANY).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..ops.ty import ITEMSIZE, TensorType, TupleType, Type
from ..shape_funcs.dims import (
    ANY,
    FLOORDIV,
    INT,
    MAX,
    MIN,
    MOD,
    MUL,
    POLY,
    SYM,
    Dim,
    const,
    dim,
    evaluate,
    max_,
    min_,
    postorder,
    product,
    substitute,
    sym,
    symbols,
)
from ..shape_funcs.program import INT64_MAX

#: An expression of more parts than this is ``?``: nobody would read it.
_MAX_PARTS = 24
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|.+\.shape\[\d\]")
#: What a list in a file stands for, by its first item.
_BUILD: dict[str, Callable[[Dim, Dim], Dim]] = {
    MUL: lambda a, b: a * b,
    FLOORDIV: lambda a, b: a // b,
    MOD: lambda a, b: a % b,
    MIN: min_,
    MAX: max_,
}
_SIGNS = {MUL: "*", FLOORDIV: "//", MOD: "%"}


def tensor_params(params: Iterable[tuple[str, Type]]) -> Iterator[tuple[str, TensorType]]:
    """The tensors among parameters and in their tuples, each with its path: ``x``, ``x.0``.  Functions are left out."""
    for name, ty in params:
        if isinstance(ty, TupleType):
            yield from tensor_params((f"{name}.{i}", f) for i, f in enumerate(ty.fields))
        elif isinstance(ty, TensorType):
            yield name, ty


def parameter_sizes(params: Iterable[tuple[str, Type]]) -> dict[Dim, Dim]:
    """What the nameless dims of these parameters are called."""
    out: dict[Dim, Dim] = {}
    for path, ty in tensor_params(params):
        for axis, d in enumerate(ty.shape):
            if d.op == SYM and d.args[0].startswith("."):
                out.setdefault(d, sym(f"{path}.shape[{axis}]"))
    return out


def portable(ty: TensorType, names: Mapping[Dim, Dim]) -> TensorType:
    """``ty`` with portable dims; ``names`` is what ``parameter_sizes`` gives."""
    return TensorType(tuple(_portable(d, names) for d in ty.shape), ty.dtype)


def _portable(d: Dim, names: Mapping[Dim, Dim]) -> Dim:
    d = substitute(d, names)
    return d if _is_portable(d) else ANY


def _is_portable(d: Dim) -> bool:
    parts = postorder([d])
    known = all(p.op in (INT, POLY, *_BUILD) or (p.op == SYM and _NAME.fullmatch(p.args[0])) for p in parts)
    return known and len(parts) <= _MAX_PARTS


def nbytes(ty: TensorType) -> Dim:
    """The bytes of a tensor of this type; ANY where a dim is."""
    return ANY if any(d is ANY for d in ty.shape) else product(ty.shape) * ITEMSIZE[ty.dtype]


def known_value(d: Dim, sizes: Mapping[str, int]) -> int | None:
    """The value of a portable dim when the sizes of these names are known; None when one is missing."""
    if any(p.op not in (INT, POLY, SYM, *_BUILD) for p in postorder([d])) or not set(symbols(d)) <= set(sizes):
        return None
    return evaluate(d, sizes)


# ---- as text -------------------------------------------------------------------------------------------------------


def size_text(d: Dim) -> str:
    """A portable dim for people: ``4``, ``?n``, ``x.shape[0]``, ``2·?n + 1``, ``min(?n, 8)``, ``?``."""
    if d.op == SYM:
        return d.args[0] if "." in d.args[0] else f"?{d.args[0]}"
    if d.op == POLY:
        terms = [
            (c, "·".join([*([str(abs(c))] if abs(c) != 1 or not atoms else []), *map(_factor, atoms)])) for c, atoms in d.args
        ]
        terms.sort(key=lambda t: t[0] < 0)  # "n - 1" rather than "-1 + n"
        first = ("-" if terms[0][0] < 0 else "") + terms[0][1]
        return first + "".join(f" {'-' if c < 0 else '+'} {text}" for c, text in terms[1:])
    if d.op in (MIN, MAX):
        return f"{d.op}({', '.join(map(size_text, d.args))})"
    if d.op in _SIGNS:
        return f" {_SIGNS[d.op]} ".join(map(_factor, d.args))
    known = const(d)
    return "?" if known is None else str(known)


def _factor(d: Dim) -> str:
    text = size_text(d)
    return f"({text})" if d.op in (POLY, *_SIGNS) else text


def shape_text(ty: TensorType) -> str:
    """``float32[?n, 4]``; a scalar is its dtype."""
    return ty.dtype + (f"[{', '.join(map(size_text, ty.shape))}]" if ty.shape else "")


# ---- as plain data -------------------------------------------------------------------------------------------------


def tensor_to_json(ty: TensorType) -> list[Any]:
    """``[dtype, dims]`` of a type with portable dims."""
    return [ty.dtype, [_dim_to_json(d) for d in ty.shape]]


def _dim_to_json(d: Dim) -> Any:
    if d.op == POLY:
        return [POLY, *([c, *map(_dim_to_json, atoms)] for c, atoms in d.args)]
    if d.op in _BUILD:
        return [d.op, *map(_dim_to_json, d.args)]
    return d.args[0] if d.op in (INT, SYM) else None


def tensor_from_json(dtype: str, dims: list[Any]) -> TensorType:
    """What ``tensor_to_json`` wrote.  Raises ValueError for anything else."""
    if dtype not in ITEMSIZE:
        raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(ITEMSIZE)}")
    out = []
    for data in dims:
        d = _dim_from_json(data) if _parts(data) <= 4 * _MAX_PARTS else None
        if d is None or not (d is ANY or _is_portable(d)) or _dim_to_json(d) != data:
            raise ValueError(f"{str(data)[:80]!r} is no size")
        out.append(d)
    return TensorType(tuple(out), dtype)


def _parts(data: Any) -> int:
    return 1 + sum(map(_parts, data)) if type(data) is list else 1


def _dim_from_json(data: Any) -> Dim | None:
    """None for what is no dim."""
    match data:
        case None:
            return ANY
        case int() if type(data) is int and abs(data) <= INT64_MAX:
            return dim(data)
        case str():
            return sym(data)
        case [str(op), a, b] if op in _BUILD:
            x, y = _dim_from_json(a), _dim_from_json(b)
            return None if x is None or y is None else _BUILD[op](x, y)
        case [str(op), *terms] if op == POLY:
            total = dim(0)
            for term in terms:
                factors = [_dim_from_json(f) for f in term] if type(term) is list else [None]
                if None in factors:
                    return None
                total = total + product(factors)  # type: ignore[arg-type]
            return total
    return None
