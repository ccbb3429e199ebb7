"""Matching of a value's type with a wanted type, and the run-time checks that the match requires.

Dims of a *wanted* type are constants, symbols (each stands for one size, bound at its first occurrence) or ``?``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import RefType, TypeCall
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type, dim_text
from ...shape_funcs.symbolic.dim import ANY, INT, SYM, Dim, const, fresh, name_of, symbols
from ...shape_funcs.symbolic.dim_operations import substitute
from ..ir.expr import Expr


class TypeMismatch(Exception):
    """Two types do not match; the text names the difference, e.g. ``axis 1 is 5, not 4``."""


# ---- dims of types -------------------------------------------------------------------------------------------------


def map_dims(ty: Type, change: Callable[[Dim], Dim]) -> Type:
    """``ty`` with ``change`` applied to every dim, including the dims of function types."""
    match ty:
        case TensorType():
            return TensorType(tuple(map(change, ty.shape)), ty.dtype)
        case TupleType():
            return TupleType(tuple(map_dims(f, change) for f in ty.fields))
        case FuncType():
            return FuncType(tuple(map_dims(p, change) for p in ty.params), map_dims(ty.result, change))
    return ty


def dims_of(ty: Type) -> list[Dim]:
    """The dims of tensors in ``ty``, in order, without the dims of function types."""
    match ty:
        case TensorType():
            return list(ty.shape)
        case TupleType():
            return [d for f in ty.fields for d in dims_of(f)]
    return []


def symbols_of(*types: Type) -> set[Dim]:
    """The unknowns of the tensors in ``types``."""
    return set(symbols(*(d for t in types for d in dims_of(t))).values())


def generalize(ty: Type, known: Collection[Dim]) -> Type:
    """``ty`` with ``?`` for each dim that the symbols ``known`` do not determine."""
    if isinstance(ty, FuncType):
        bound = {*known, *symbols_of(*ty.params)}
        return FuncType(ty.params, generalize(ty.result, bound))
    if isinstance(ty, TupleType):
        return TupleType(tuple(generalize(f, known) for f in ty.fields))
    return map_dims(ty, lambda d: d if all(s in known for s in symbols(d).values()) else ANY)


def instantiate(ty: Type, mapping: dict[Dim, Dim], *, rigid: bool) -> Type:
    """A result type at a call: symbols substituted, ``?`` and (unless ``rigid``) unmapped unknowns replaced by fresh symbols.

    Equal unknowns stay equal.  Function types keep their own symbols.
    """
    made: dict[Dim, Dim] = {}

    def change(d: Dim, bound: Collection[Dim]) -> Dim:
        found = set(symbols(d).values())
        if d is ANY:
            return fresh()
        if found & set(bound):
            return d if found <= set(bound) else ANY
        if not rigid and any(s not in mapping for s in found):
            return made.setdefault(d, fresh())
        return substitute(d, mapping)

    def walk(t: Type, bound: Collection[Dim]) -> Type:
        if isinstance(t, TupleType):
            return TupleType(tuple(walk(f, bound) for f in t.fields))
        if isinstance(t, FuncType):
            own = {*bound, *symbols_of(*t.params)}
            return FuncType(t.params, map_dims(t.result, lambda d: d if d is ANY else change(d, own)))
        return map_dims(t, lambda d: change(d, bound))

    return walk(ty, ())


# ---- matching with a wanted type -------------------------------------------------------------------------------------


@frozen
class Place:
    """Axis ``axis`` of the tensor found by projecting ``atom`` along ``path``."""

    atom: Expr
    path: tuple[int, ...]
    axis: int


@frozen
class SizeCheck:
    """A run-time check: the size at ``place`` must be ``size``, which is the size at ``like`` unless it is a constant."""

    place: Place
    size: Dim
    like: Place | None = None


@dataclass
class Binder:
    """The sizes bound to the symbols of wanted types, and the place of each symbol's first occurrence."""

    sizes: dict[Dim, Dim] = field(default_factory=dict)
    positions: dict[Dim, Place] = field(default_factory=dict)
    checks: list[SizeCheck] = field(default_factory=list)

    def match(self, have: Type, want: Type, atom: Expr, path: tuple[int, ...] = ()) -> Type:
        """The type of ``atom`` once the checks, to which this adds, hold.  Raises TypeMismatch."""
        match have, want:
            case TensorType(), TensorType():
                return self._tensor(have, want, atom, path)
            case TupleType(), TupleType():
                if len(have.fields) != len(want.fields):
                    raise TypeMismatch(f"it has {_count(len(have.fields), 'field')}, not {len(want.fields)}")
                pairs = zip(have.fields, want.fields, strict=True)
                return TupleType(tuple(self.match(h, w, atom, (*path, i)) for i, (h, w) in enumerate(pairs)))
            case FuncType(), FuncType():
                match_functions(have, want)
                return want
            case (TypeCall(), TypeCall()) | (RefType(), RefType()):
                match_instances(have, want)
                return want
        raise TypeMismatch(f"it is {_kind(have)}, not {_kind(want)}")

    def _tensor(self, have: TensorType, want: TensorType, atom: Expr, path: tuple[int, ...]) -> TensorType:
        if have.dtype != want.dtype:
            raise TypeMismatch(f"its dtype is {have.dtype}, not {want.dtype}")
        if have.rank != want.rank:
            raise TypeMismatch(f"its rank is {have.rank}, not {want.rank}")
        pairs = zip(have.shape, want.shape, strict=True)
        return TensorType(tuple(self._dim(h, w, Place(atom, path, i)) for i, (h, w) in enumerate(pairs)), have.dtype)

    def _dim(self, have: Dim, want: Dim, place: Place) -> Dim:
        if want is ANY:
            return have
        if want.op == SYM and want not in self.sizes:
            self.sizes[want], self.positions[want] = have, place
            return have
        size = self.sizes.get(want, want)
        if size is have:
            return have
        if const(size) is not None and const(have) is not None:
            name = name_of(want)
            named = "" if name is None else f" (?{name})"
            raise TypeMismatch(f"its axis {place.axis} is {const(have)}, not {const(size)}{named}")
        assert want.op in (INT, SYM), want
        self.checks.append(SizeCheck(place, size, None if const(size) is not None else self.positions[want]))
        return size


def match_functions(have: FuncType, want: FuncType) -> None:
    """Check that a function of type ``have`` can be called as ``want``.  Raises TypeMismatch.  There are no run-time checks."""
    sizes = _match_params(have, want)

    def returns(given: Dim, wanted: Dim) -> bool:
        if wanted is ANY or (wanted.op == SYM and wanted not in symbols_of(*want.params)):
            return True
        return given is not ANY and substitute(given, sizes) is wanted

    def describe(size: Dim) -> str:
        return _origin(substitute(size, sizes), want.params)

    _same(have.result, want.result, returns, "its result", describe)


def _match_params(have: FuncType, want: FuncType) -> dict[Dim, Dim]:
    """The sizes of the parameters of ``have`` where ``want``'s are given.  Raises TypeMismatch."""
    if len(have.params) != len(want.params):
        raise TypeMismatch(f"it takes {_count(len(have.params), 'argument')}, not {len(want.params)}")
    sizes: dict[Dim, Dim] = {}

    def passes(taken: Dim, given: Dim) -> bool:
        return sizes.setdefault(taken, given) is given if taken.op == SYM else given is taken

    def describe(size: Dim) -> str:
        return _origin(substitute(size, sizes), want.params)

    for i, (h, w) in enumerate(zip(have.params, want.params, strict=True)):
        _same(h, w, passes, f"its parameter {i + 1}", describe)
    return sizes


def match_instances(have: Type, want: Type) -> None:
    """Check that a value of the ADT or reference type ``have`` is one of type ``want``.

    Raises TypeMismatch.  There are no run-time checks: they would walk through the whole value.  A value of an ADT never changes,
    so ``List[Tensor[(3), float32]]`` is a ``List[Tensor[(?), float32]]``; a reference must be of the same type.
    """
    if isinstance(have, TypeCall) and isinstance(want, TypeCall):
        if have.func != want.func:
            raise TypeMismatch(f"it is {have}, not {want}")
        for h, w in zip(have.args, want.args, strict=True):
            _same(h, w, lambda given, wanted: wanted is ANY or given is wanted, f"the element of {have.func}", dim_text)
    elif have != want:
        raise TypeMismatch(f"it is {have}, not {want}")


def _origin(size: Dim, params: tuple[Type, ...]) -> str:
    """A size named by its axis: two types may print the same text and differ in a size."""
    if const(size) is not None:
        return str(const(size))
    for i, ty in enumerate(params):
        axes = [axis for axis, d in enumerate(ty.shape) if d is size] if isinstance(ty, TensorType) else []
        if axes:
            return f"the size of axis {axes[0]} of parameter {i + 1}"
    return "a size that the parameters do not determine"


def _same(have: Type, want: Type, dims: Callable[[Dim, Dim], bool], what: str, describe: Callable[[Dim], str]) -> None:
    """Check that the types are equal, where ``dims`` compares dims.  Raises TypeMismatch with sizes named by ``describe``."""
    if isinstance(have, TupleType) and isinstance(want, TupleType) and len(have.fields) == len(want.fields):
        for h, w in zip(have.fields, want.fields, strict=True):
            _same(h, w, dims, what, describe)
        return
    if isinstance(have, FuncType) and isinstance(want, FuncType):
        match_functions(have, want)
        return
    if isinstance(have, (TypeCall, RefType)) and isinstance(want, (TypeCall, RefType)):
        match_instances(have, want)
        return
    if isinstance(have, TensorType) and isinstance(want, TensorType) and (have.dtype, have.rank) == (want.dtype, want.rank):
        wrong = [axis for axis, (h, w) in enumerate(zip(have.shape, want.shape, strict=True)) if not dims(h, w)]
        if not wrong:
            return
        axis = wrong[0]
        sizes = f"{describe(have.shape[axis])}, not {describe(want.shape[axis])}"
        raise TypeMismatch(f"{what} is {have}, not {want}: its axis {axis} is {sizes}")
    raise TypeMismatch(f"{what} is {have}, not {want}")


def join(a: Type, b: Type, unknown: Callable[[], Dim] = fresh) -> Type:
    """The type of a value that has one of two types: different dims become ``unknown()``.  Raises TypeMismatch."""
    match a, b:
        case TensorType(), TensorType() if a.dtype == b.dtype and a.rank == b.rank:
            pairs = zip(a.shape, b.shape, strict=True)
            return TensorType(tuple(x if x is y else unknown() for x, y in pairs), a.dtype)
        case TensorType(), TensorType():
            what = "dtypes" if a.dtype != b.dtype else "ranks"
            raise TypeMismatch(f"their {what} differ")
        case TupleType(), TupleType() if len(a.fields) == len(b.fields):
            return TupleType(tuple(join(x, y, unknown) for x, y in zip(a.fields, b.fields, strict=True)))
        case FuncType(), FuncType():
            return _joined_functions(a, b)
        case TypeCall(), TypeCall() if a.func == b.func:
            return TypeCall(a.func, tuple(join(x, y, lambda: ANY) for x, y in zip(a.args, b.args, strict=True)))
        case RefType(), RefType() if a == b:
            return a
    raise TypeMismatch(f"one is {_kind(a)}, the other {_kind(b)}")


def _joined_functions(a: FuncType, b: FuncType) -> FuncType:
    """The type of a function that has one of two types with the same parameters.  Raises TypeMismatch."""
    _match_params(a, b)
    sizes = _match_params(b, a)
    returned = map_dims(b.result, lambda d: d if d is ANY else substitute(d, sizes))
    try:
        return FuncType(a.params, join(a.result, returned, lambda: ANY))
    except TypeMismatch:
        match_functions(a, b)  # its message names the parts
        raise


def _kind(ty: Type) -> str:
    match ty:
        case TensorType():
            return "a tensor"
        case TupleType():
            return f"a tuple of {len(ty.fields)}"
        case TypeCall():
            return f"a {ty}"
        case RefType():
            return "a reference"
    return "a function"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
