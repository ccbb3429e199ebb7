"""Types of algebraic data types: type variables, names of type definitions, their instances; references; kinds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import ANY
from .tensor_types import FuncType, TensorType, TupleType, Type, measure


class TypeKind(enum.IntEnum):
    """The kind of a type, with Relay's number: ``Type`` is the kind of the types that values have."""

    Type = 0
    ShapeVar = 1
    AdtHandle = 5
    TypeData = 6


@frozen(eq=False)
class TypeVar(Type):
    """A type parameter, compared by identity: ``A`` in ``def @id[A](%x: A) -> A``.

    One of kind ``ShapeVar`` stands for a size in a shape, and is no type of a value.
    """

    name: str
    kind: TypeKind = TypeKind.Type

    def __str__(self) -> str:
        return self.name

    @property
    def name_hint(self) -> str:
        """Relay's name of ``name``."""
        return self.name


@frozen
class GlobalTypeVar(Type):
    """The name of a type definition, which alone is no type of a value unless the definition has no type parameters."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def name_hint(self) -> str:
        """Relay's name of ``name``."""
        return self.name

    @property
    def kind(self) -> TypeKind:
        """The kind of every name of a definition."""
        return TypeKind.AdtHandle


@frozen(eq=False)
class IncompleteType(Type):
    """A type that is to be inferred.  As an annotation it is no annotation; it occurs in no program."""

    kind: TypeKind = TypeKind.Type

    def __str__(self) -> str:
        return "_"


@frozen
class TypeCall(Type):
    """An instance of a type definition: ``List[float32]``.  ``func`` is the definition's name, ``args`` its type arguments.

    Raises TypeTooLarge beyond the limits of types.
    """

    func: GlobalTypeVar
    args: tuple[Type, ...]

    def __post_init__(self) -> None:
        measure(self, self.args, f"the type {self.func}")

    def __str__(self) -> str:
        return f"{self.func}[{', '.join(map(str, self.args))}]" if self.args else str(self.func)


@frozen
class RefType(Type):
    """The type of a reference to a value of type ``value``."""

    value: Type

    def __post_init__(self) -> None:
        measure(self, (self.value,), "a reference type")

    def __str__(self) -> str:
        return f"ref({self.value})"


@frozen
class AdtDefinition:
    """A type definition as the machine needs it: per constructor its name and the types of its fields, by tag."""

    name: str
    type_vars: tuple[TypeVar, ...]
    constructors: tuple[tuple[str, tuple[Type, ...]], ...]

    def fields(self, tag: int, args: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types of a constructor's fields in the instance of the type arguments ``args``."""
        return instantiate_fields(self.constructors[tag][1], self.type_vars, args)


def map_type(ty: Type, change: Callable[[Type], Type | None]) -> Type:
    """``ty`` with each part for which ``change`` gives a type replaced by it, outermost first."""
    new = change(ty)
    if new is not None:
        return new
    match ty:
        case TupleType():
            return TupleType(tuple(map_type(f, change) for f in ty.fields))
        case FuncType():
            return replace(ty, params=tuple(map_type(p, change) for p in ty.params), result=map_type(ty.result, change))
        case TypeCall():
            return replace(ty, args=tuple(map_type(a, change) for a in ty.args))
        case RefType():
            return RefType(map_type(ty.value, change))
    return ty


def substitute_types(ty: Type, mapping: Mapping[TypeVar, Type]) -> Type:
    """``ty`` with type variables replaced."""
    return map_type(ty, lambda t: mapping.get(t) if isinstance(t, TypeVar) else None) if mapping else ty


def instantiate_fields(fields: Sequence[Type], type_vars: Sequence[TypeVar], args: Sequence[Type]) -> tuple[Type, ...]:
    """The types of a constructor's fields for the type arguments ``args`` of its definition."""
    mapping = dict(zip(type_vars, args, strict=True))
    return tuple(substitute_types(field, mapping) for field in fields)


def instance_name(ty: Type) -> str:
    """The text of an ADT's or a reference's type with ``?`` for each size.

    A value of ``List[Tensor[(3), float32]]`` is one of ``List[Tensor[(?), float32]]``: both types have one name.
    """
    return str(map_type(ty, lambda t: TensorType((ANY,) * t.rank, t.dtype) if isinstance(t, TensorType) else None))


def own_tensors(ty: Type | None) -> tuple[TensorType, ...]:
    """The types of the tensors in a value: itself, or those in a (nested) tuple in order; not those in records and closures."""
    if isinstance(ty, TupleType):
        return tuple(t for f in ty.fields for t in own_tensors(f))
    return (ty,) if isinstance(ty, TensorType) else ()


def type_parts(ty: Type) -> tuple[Type, ...]:
    """The types that ``ty`` is directly made of."""
    match ty:
        case TupleType():
            return ty.fields
        case FuncType():
            return (*ty.params, ty.result)
        case TypeCall():
            return ty.args
        case RefType():
            return (ty.value,)
    return ()
