"""Sizes for people and for files: expressions over the sizes of a function's parameters.

A dim of a type may contain names that are valid only inside the compiler.  A *portable* dim contains only ints, names of the
program (``?n``) and, for an unnamed ``?`` of a parameter, ``x.shape[0]``.  Every other dim is written ``?`` (ANY).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...ops.core.tensor_types import ITEMSIZE, TensorType, TupleType, Type, tensor_bytes
from ...shape_funcs.symbolic.dim import ANY, INT, POLY, SYM, Dim, const, dim, name_of, postorder, product, sym, symbols
from ...shape_funcs.symbolic.dim_operations import BUILD, evaluate, substitute
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...shape_funcs.symbolic.notation import FUNCTIONS, SIGNS, Notation

#: Most subexpressions of a portable dim; a larger one is ``?``, since it would be unreadable.
_MAX_PARTS = 24
#: Most parts of a portable dim in a file, where a subexpression that occurs twice is written twice; a larger one is ``?``.
_MAX_WRITTEN = 16 * _MAX_PARTS
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|.+\.shape\[\d\]")
#: Constructors of dims, by the first item of a list in a file.
_BUILD: dict[str, Callable[[Dim, Dim], Dim]] = {op: BUILD[op] for op in (*SIGNS, *FUNCTIONS)}


def tensor_params(params: Iterable[tuple[str, Type]]) -> Iterator[tuple[str, TensorType]]:
    """The tensors among the parameters and in their tuples, each with its path: ``x``, ``x.0``.  Functions are skipped."""
    for name, ty in params:
        if isinstance(ty, TupleType):
            yield from tensor_params((f"{name}.{i}", f) for i, f in enumerate(ty.fields))
        elif isinstance(ty, TensorType):
            yield name, ty


def parameter_sizes(params: Iterable[tuple[str, Type]]) -> dict[Dim, Dim]:
    """The portable names of the unnamed dims of these parameters."""
    out: dict[Dim, Dim] = {}
    for path, ty in tensor_params(params):
        for axis, d in enumerate(ty.shape):
            if d.op == SYM and name_of(d) is None:
                out.setdefault(d, sym(f"{path}.shape[{axis}]"))
    return out


def portable(ty: TensorType, names: Mapping[Dim, Dim]) -> TensorType:
    """``ty`` with portable dims; ``names`` is the result of ``parameter_sizes``."""
    return TensorType(tuple(portable_dim(d, names) for d in ty.shape), ty.dtype)


def portable_dim(d: Dim, names: Mapping[Dim, Dim]) -> Dim:
    """``d`` as a portable dim; ``names`` as for ``portable``."""
    d = substitute(d, names)
    return d if _is_portable(d) else ANY


def _is_portable(d: Dim) -> bool:
    parts = postorder([d])
    known = all(p.op in (INT, POLY, *_BUILD) or (p.op == SYM and _NAME.fullmatch(p.args[0])) for p in parts)
    return known and len(parts) <= _MAX_PARTS and all(map(_numbers_fit, parts)) and _written_parts(parts) <= _MAX_WRITTEN


def _written_parts(parts: Sequence[Dim]) -> int:
    """The number of parts of the last of these subexpressions as plain data; ``parts`` are in the order of ``postorder``."""
    count: dict[Dim, int] = {}
    for p in parts:
        if p.op == POLY:
            count[p] = 2 + sum(2 + sum(count[a] for a in atoms) for _, atoms in p.args)
        else:
            count[p] = 2 + sum(count[a] for a in p.args) if p.op in _BUILD else 1
    return count[parts[-1]]


def _numbers_fit(part: Dim) -> bool:
    """Whether the numbers in this subexpression fit int64, as a file requires."""
    numbers = part.args[:1] if part.op == INT else [c for c, _ in part.args] if part.op == POLY else ()
    return all(abs(n) <= INT64_MAX for n in numbers)


def nbytes(ty: TensorType) -> Dim:
    """The bytes of a tensor of this type; ANY if a dim is ANY, or if a number of the expression does not fit int64."""
    if any(d is ANY for d in ty.shape):
        return ANY
    total = tensor_bytes(ty)
    return total if all(map(_numbers_fit, postorder([total]))) else ANY


def known_value(d: Dim, sizes: Mapping[str, int]) -> int | None:
    """The value of a portable dim for these sizes by name; None if a name is missing."""
    if any(p.op not in (INT, POLY, SYM, *_BUILD) for p in postorder([d])) or not set(symbols(d)) <= set(sizes):
        return None
    return evaluate(d, sizes)


# ---- as text -------------------------------------------------------------------------------------------------------


def _leaf(d: Dim) -> str:
    if d.op == SYM:
        return d.args[0] if "." in d.args[0] else f"?{d.args[0]}"
    known = const(d)
    return "?" if known is None else str(known)


_NOTATION = Notation(_leaf, times="·", subtracts=True)


def size_text(d: Dim) -> str:
    """A portable dim as text: ``4``, ``?n``, ``x.shape[0]``, ``2·?n + 1``, ``min(?n, 8)``, ``?``."""
    return _NOTATION.text(d)


def shape_text(ty: TensorType) -> str:
    """``float32[?n, 4]``; a scalar is its dtype."""
    return ty.dtype + (f"[{', '.join(map(size_text, ty.shape))}]" if ty.shape else "")


# ---- as plain data -------------------------------------------------------------------------------------------------


def tensor_to_json(ty: TensorType) -> list[Any]:
    """A type with portable dims as ``[dtype, dims]``."""
    return [ty.dtype, [dim_to_json(d) for d in ty.shape]]


def dim_to_json(d: Dim) -> Any:
    """A portable dim as plain data."""
    if d.op == POLY:
        return [POLY, *([c, *map(dim_to_json, atoms)] for c, atoms in d.args)]
    if d.op in _BUILD:
        return [d.op, *map(dim_to_json, d.args)]
    return d.args[0] if d.op in (INT, SYM) else None


def tensor_from_json(dtype: str, dims: list[Any]) -> TensorType:
    """The inverse of ``tensor_to_json``.  Raises ValueError for anything else."""
    if dtype not in ITEMSIZE:
        raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(ITEMSIZE)}")
    return TensorType(tuple(map(dim_from_json, dims)), dtype)


def dim_from_json(data: Any) -> Dim:
    """The inverse of ``dim_to_json``.  Raises ValueError for anything else."""
    d = _dim_from_json(data) if _parts(data) <= _MAX_WRITTEN else None
    if d is None or not (d is ANY or _is_portable(d)) or dim_to_json(d) != data:
        raise ValueError(f"{str(data)[:80]!r} is no size")
    return d


def _parts(data: Any) -> int:
    return 1 + sum(map(_parts, data)) if type(data) is list else 1


def _dim_from_json(data: Any) -> Dim | None:
    """The dim in ``data``; None if ``data`` is no dim."""
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
