"""Structural equality and hash of programs, up to the names of variables.

Both compare one canonical stream: the program in order of first visit, with variables and shared expressions as numbers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import TypeVar, map_type
from ...ops.core.op import Op
from ...ops.core.tensor_types import Type
from ...vm.diagnostics.argument_errors import wrong
from .expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, TypeData, Var
from .match_expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, RefCreate, RefRead, RefWrite
from .visitor import bound_vars, children

#: Values with a structure.
Structure = Expr | IRModule | Op | Type | TypeData


@frozen
class _FreeVar:
    """A free variable of a program; ``name`` is for messages."""

    identity: object
    name: str = field(compare=False)


def structural_equal(a: Structure, b: Structure, map_free_vars: bool = False) -> bool:
    """Alpha-equivalence: equal programs, operators, types or type definitions, up to the names of variables.

    Sharing counts: ``%0 = f(%x); (%0, %0)`` differs from ``(f(%x), f(%x))``, but not the sharing of constants and empty tuples.
    Spans, inferred types and the order of a module's functions do not count.  Dimensions without a name are equal to each other.
    Free variables are equal if they are one variable, perhaps with other inferred types, type variables of a type if they are the
    same object; with ``map_free_vars`` both are if they correspond.
    """
    return first_difference(a, b, map_free_vars) is None


def first_difference(a: Structure, b: Structure, map_free_vars: bool = False) -> tuple[str, str] | None:
    """The first parts of two programs that differ, as texts; None for structurally equal programs."""
    if a is b and isinstance(a, Structure):
        return None
    for x, y in itertools.zip_longest(_canonical(a, map_free_vars), _canonical(b, map_free_vars)):
        if x != y:
            return _part_text(x), _part_text(y)
    return None


def _part_text(part: Any) -> str:
    """The text of an item of the canonical stream."""
    if part is None:
        return "nothing"
    if isinstance(part, _FreeVar):
        return f"%{part.name}"
    if isinstance(part, TypeVar):
        return part.name
    if isinstance(part, int):
        return "a variable or expression from before"
    return " ".join(str(word) for word in part if word is not None)


def structural_hash(a: Structure, map_free_vars: bool = False) -> int:
    """A 64-bit hash, equal for structurally equal programs, the same in every process.

    ``map_free_vars`` has no effect: a free variable counts by its type, so that the hash is one of the program.
    """
    digest = hashlib.blake2b(digest_size=8)
    for item in _canonical(a, map_free_vars=True):
        digest.update(repr(item).encode())
    return int.from_bytes(digest.digest(), "little")


def _canonical(a: Structure, map_free_vars: bool) -> Iterator[Any]:
    """The stream: plain data, and free variables themselves unless they are mapped."""
    if not isinstance(a, Structure):
        raise wrong("the compared value", "a module, an expression, an operator or a type", a)
    if isinstance(a, Op):
        yield ("operator", a.name)
    elif isinstance(a, TypeData):
        yield _definition(a)
    elif isinstance(a, Type):
        yield from _type_alone(a, map_free_vars)
    elif isinstance(a, IRModule):
        for name in sorted(a.type_definitions):
            yield _definition(a.type_definitions[name])
        for name in sorted(a.functions):
            yield ("def", name)
            yield from _expression(a.functions[name], map_free_vars)
    else:
        yield from _expression(a, map_free_vars)


def _expression(root: Expr, map_free_vars: bool) -> Iterator[Any]:
    numbers: dict[int, int] = {}
    stack = [root]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Constant):
            yield _constant(expr)
        elif isinstance(expr, GlobalVar):
            yield ("global", expr.name)
        elif isinstance(expr, Constructor):
            yield ("constructor", expr.belong_to.name, expr.name_hint)
        elif isinstance(expr, Tuple) and not expr.fields:
            yield _head(expr)
        elif id(expr) in numbers:
            yield numbers[id(expr)]
        elif isinstance(expr, Var):
            if map_free_vars:
                numbers[id(expr)] = len(numbers)
                yield ("free", _type(expr.annotation))
            else:
                yield _FreeVar(expr.identity, expr.name)
        else:
            numbers[id(expr)] = len(numbers)
            for var in bound_vars(expr):
                numbers[id(var)] = len(numbers)
                yield ("bind", _type(var.annotation))
            yield _head(expr)
            stack.extend(reversed(children(expr)))


def _head(expr: Expr) -> tuple[Any, ...]:
    """The node of an expression without its children."""
    match expr:
        case Call(op=op, args=args, attrs=attrs):
            types = tuple(map(_type, expr.type_args))
            return ("call", op.name if isinstance(op, Op) else None, len(args), _attrs(attrs), *types)
        case Tuple(fields=fields):
            return ("tuple", len(fields))
        case TupleGetItem(index=index):
            return ("field", index)
        case Function(params=params, ret_type=ret_type, attrs=attrs):
            type_params = [v.name for v in expr.type_params]
            return ("fn", len(params), _type(ret_type), _attrs(attrs), *type_params)
        case Let():
            return ("let",)
        case If(constructor=constructor):
            return ("if", constructor)
        case Match(clauses=clauses, complete=complete):
            return ("match", complete, *(_pattern(c.lhs) for c in clauses))
        case RefCreate() | RefRead() | RefWrite():
            return (type(expr).__name__,)
    raise AssertionError(f"no such expression: {type(expr).__name__}")


def _attrs(attrs: Any) -> Any:
    """Comparable data; the order of a mapping does not count."""
    return sorted((k, repr(v)) for k, v in attrs.items()) if isinstance(attrs, Mapping) else repr(attrs)


def _definition(data: TypeData) -> tuple[Any, ...]:
    inputs = [(c.name_hint, *map(_type, c.inputs)) for c in data.constructors]
    return ("type", data.header.name, tuple(v.name for v in data.type_vars), *inputs)


def _pattern(pattern: Pattern) -> Any:
    """The pattern without its variables, which ``bound_vars`` lists."""
    match pattern:
        case PatternVar():
            return "var"
        case PatternConstructor(constructor=constructor, patterns=patterns):
            return (constructor.name_hint, *map(_pattern, patterns))
        case PatternTuple(patterns=patterns):
            return ("", *map(_pattern, patterns))
    return "_"


def _type_alone(ty: Type, map_free_vars: bool) -> Iterator[Any]:
    """A type that is compared by itself, with numbers for type variables."""
    numbers: dict[TypeVar, TypeVar] = {}

    def number(part: Type) -> Type | None:
        return numbers.setdefault(part, TypeVar(str(len(numbers)))) if isinstance(part, TypeVar) else None

    yield (type(ty).__name__, str(map_type(ty, number)))
    if not map_free_vars:
        yield from numbers


def _type(ty: Type | None) -> str | None:
    return None if ty is None else str(ty)


def _constant(expr: Constant) -> tuple[Any, ...]:
    data = expr.data
    raw = data.tobytes() if data.nbytes <= 64 else hashlib.blake2b(data.tobytes(), digest_size=16).digest()
    return ("const", data.dtype.name, data.shape, raw)
