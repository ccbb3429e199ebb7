"""The table of torch's operators: each converter with the names of the overloads that it converts.

    @aten("relu")
    def relu(node: Node, x: Expr) -> Expr:
        return relay.nn.relu(x)

A converter takes the node and the arguments in the order of the operator's schema, those without a value with the schema's
default: an expression for a tensor, a number, None, or a list of these; an expression of an int64 for a size.  It returns the
result, or a list of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Converter = Callable[..., Any]

_TABLE: dict[str, Converter] = {}


def declare(*names: str, namespace: str = "aten") -> Callable[[Function], Function]:
    """Declare the decorated converter of overloads, ``add.Tensor``; a name without a point means ``default``."""

    def declared(convert: Function) -> Function:
        for name in names:
            full = f"{namespace}.{name}" if "." in name else f"{namespace}.{name}.default"
            assert full not in _TABLE, full
            _TABLE[full] = convert
        return convert

    return declared


#: ``declare`` for torch's own operators.
aten = declare


def converter(name: str) -> Converter | None:
    """The converter of ``namespace.operator.overload``; None if there is none."""
    return _TABLE.get(name)


def declared_operators() -> Iterator[str]:
    """The names of the overloads that have a converter, in order."""
    return iter(sorted(_TABLE))
