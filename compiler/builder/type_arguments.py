"""Types as arguments of the Python API: checked, with the remedy for a value that is no type of a value."""

from __future__ import annotations

from typing import Any

from ...ops.core.adt_types import IncompleteType, TypeKind, TypeVar
from ...ops.core.tensor_types import FuncType, Type
from ...vm.diagnostics.argument_errors import a_sequence, wrong

_HELP = 'relay.TensorType((relay.Any(), 4), "float32"), relay.TupleType([...]), relay.FuncType([...], result)'


def a_type(value: Any, what: str, help: str = _HELP) -> Type:
    """``value`` if it is the type of a value.  Raises ArgumentError."""
    if isinstance(value, IncompleteType):
        raise wrong(what, "a complete type", value, "leave the whole annotation out: relay.var(name); then it is inferred")
    if isinstance(value, TypeVar) and value.kind is not TypeKind.Type:
        raise wrong(what, "a type", value, f"{value} is a size: relay.TensorType(({value}, 4)) is a type")
    if not isinstance(value, Type):
        raise wrong(what, "a type", value, help)
    if isinstance(value, FuncType) and value.type_params:
        raise wrong(what, "the type of a value", value, "a generic function is called by its name, or bound by relay.Let")
    return value


def types(values: Any, what: str) -> tuple[Type, ...]:
    """Types as a tuple.  Raises ArgumentError."""
    return tuple(a_type(value, what) for value in a_sequence(values, f"{what.partition(':')[0]}: the types"))


def an_annotation(value: Any, what: str, help: str = _HELP) -> Type | None:
    """An annotation: a type, or None for a type that is to be inferred, as an ``IncompleteType`` is.  Raises ArgumentError."""
    return None if value is None or isinstance(value, IncompleteType) else a_type(value, what, help)
