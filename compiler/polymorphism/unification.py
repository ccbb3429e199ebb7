"""Unification of types with unknown parts.

Sizes are no constraint: where two tensors of one dtype and rank are unified, different sizes become ``?``.  So a list of tensors
of different sizes has the type ``List[Tensor[(?), float32]]``.  Whether a value fits a type is decided by the type rules, which
check the program after its unknown types are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ops.core.adt_types import GlobalTypeVar, RefType, TypeCall, TypeVar
from ...ops.core.tensor_types import MAX_DEPTH, FuncType, TensorType, TupleType, Type, TypeTooLarge
from ...shape_funcs.symbolic.dim import ANY, Dim, const


class Mismatch(Exception):
    """Two types that cannot be one."""


@dataclass(eq=False)
class Term:
    """A type under construction.  ``same``: the term that this term was unified with."""

    same: Term | None = None

    def root(self) -> Term:
        """The term that stands for all terms unified with this one."""
        here = self
        while here.same is not None:
            if here.same.same is not None:
                here.same = here.same.same
            here = here.same
        return here


@dataclass(eq=False)
class Unknown(Term):
    """Any type."""


@dataclass(eq=False)
class ParameterTerm(Term):
    """A type parameter of the function whose types are inferred: equal to no other type."""

    var: TypeVar = field(kw_only=True)


@dataclass(eq=False)
class TensorTerm(Term):
    """A tensor; each dim is a number or ``?``."""

    dims: list[Dim] = field(default_factory=list)
    dtype: str = ""


@dataclass(eq=False)
class Compound(Term):
    """A tuple, function, ADT or reference.  ``head`` distinguishes them; a function's result is its last part."""

    head: tuple[str, ...] = ()
    parts: list[Term] = field(default_factory=list)


def tuple_term(fields: list[Term]) -> Compound:
    """The type of a tuple."""
    return Compound(head=("tuple",), parts=fields)


def function_term(params: list[Term], result: Term) -> Compound:
    """The type of a function."""
    return Compound(head=("fn",), parts=[*params, result])


def adt_term(name: str, args: list[Term]) -> Compound:
    """The type of an ADT."""
    return Compound(head=("adt", name), parts=args)


def reference_term(value: Term) -> Compound:
    """The type of a reference."""
    return Compound(head=("ref",), parts=[value])


def term_of(ty: Type, mapping: Mapping[TypeVar, Term]) -> Term:
    """A type as a term.  A type variable outside ``mapping`` is unknown."""
    match ty:
        case TensorType():
            return TensorTerm(dims=[d if const(d) is not None else ANY for d in ty.shape], dtype=ty.dtype)
        case TupleType():
            return tuple_term([term_of(f, mapping) for f in ty.fields])
        case FuncType():
            return function_term([term_of(p, mapping) for p in ty.params], term_of(ty.result, mapping))
        case TypeCall():
            return adt_term(ty.func.name, [term_of(a, mapping) for a in ty.args])
        case RefType():
            return reference_term(term_of(ty.value, mapping))
        case TypeVar() if ty in mapping:
            return mapping[ty]
    return Unknown()


def type_of_term(term: Term, depth: int = 1) -> Type | None:
    """The type that a term has become, ``depth`` deep in others; None while a part of it is unknown.  Raises TypeTooLarge."""
    term = term.root()
    if depth > MAX_DEPTH + 1:
        raise TypeTooLarge(f"a type is nested more than {MAX_DEPTH} deep")
    if isinstance(term, TensorTerm):
        return TensorType(tuple(term.dims), term.dtype)
    if isinstance(term, ParameterTerm):
        return term.var
    if not isinstance(term, Compound):
        return None
    parts: list[Type] = []
    for part in term.parts:
        ty = type_of_term(part, depth + 1)
        if ty is None:
            return None
        parts.append(ty)
    match term.head:
        case ("tuple",):
            return TupleType(tuple(parts))
        case ("fn",):
            return FuncType(tuple(parts[:-1]), parts[-1])
        case ("ref",):
            return RefType(parts[0])
    return TypeCall(GlobalTypeVar(term.head[1]), tuple(parts))


def unknowns(term: Term) -> set[Unknown]:
    """The unknown parts of a term."""
    found: set[Unknown] = set()
    seen: set[int] = set()
    pending = [term]
    while pending:
        here = pending.pop().root()
        if isinstance(here, Unknown):
            found.add(here)
        elif isinstance(here, Compound) and id(here) not in seen:
            seen.add(id(here))
            pending += here.parts
    return found


def close(term: Term) -> None:
    """Make every unknown part of a term the empty tuple: nothing depends on it."""
    pending = [term]
    while pending:
        here = pending.pop().root()
        if isinstance(here, Compound):
            pending += here.parts
        elif isinstance(here, Unknown):
            here.same = tuple_term([])


def unify(a: Term, b: Term) -> bool:
    """Make two terms one; whether that changed anything.  Raises Mismatch; the parts unified before stay unified."""
    changed = False
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        a, b = a.root(), b.root()
        if a is b:
            continue
        changed = True
        if isinstance(b, Unknown):
            a, b = b, a
        if isinstance(a, Unknown):
            if _occurs(a, b):
                raise Mismatch("a type would contain itself")
            a.same = b
        elif isinstance(a, TensorTerm) and isinstance(b, TensorTerm):
            if (a.dtype, len(a.dims)) != (b.dtype, len(b.dims)):
                raise Mismatch("two tensors differ in dtype or rank")
            b.dims = [x if x is y else ANY for x, y in zip(a.dims, b.dims, strict=True)]
            a.same = b
        elif isinstance(a, Compound) and isinstance(b, Compound) and a.head == b.head and len(a.parts) == len(b.parts):
            pending += zip(a.parts, b.parts, strict=True)
            a.same = b
        else:
            raise Mismatch("two types differ")
    return changed


def _occurs(unknown: Unknown, term: Term) -> bool:
    pending = [term]
    while pending:
        here = pending.pop().root()
        if here is unknown:
            return True
        if isinstance(here, Compound):
            pending += here.parts
    return False
