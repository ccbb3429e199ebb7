"""The table of ONNX operators: each converter with the operator's name, domain and first version.

    @onnx_operator("Relu", since=6)
    def relu(node: Node, x: Expr) -> Expr:
        return relay.nn.relu(x)

A converter takes the node and its inputs, None for an absent one, and returns the output, or a list of the outputs, None for
one that is absent.  Its
docstring is the note on the operator in ``docs/onnx.md``.
"""

from __future__ import annotations

import bisect
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...declarations.frozen_dataclass import frozen

#: The operators of the standard itself; its other name is ``ai.onnx``.
STANDARD = ""
#: What microsoft's exporters and optimisers write.
MICROSOFT = "com.microsoft"

Function = TypeVar("Function", bound=Callable[..., Any])


@frozen
class Converter:
    """A converter of an operator from version ``since`` on.

    ``inputs``: the number of inputs; None if any number.  ``needed``: for each parameter of the converter, whether its input must
    be given.  A last parameter that takes any number of inputs speaks for each of them.  The annotations ``Expr`` and
    ``Expr | None`` say so.
    """

    name: str
    domain: str
    since: int
    convert: Callable[..., Any]
    inputs: int | None
    needed: tuple[bool, ...]

    def needs(self, number: int) -> bool:
        """Whether an input must be given."""
        return bool(self.needed) and self.needed[min(number, len(self.needed) - 1)]

    @property
    def doc(self) -> str:
        """The note on the operator; may be empty."""
        return inspect.getdoc(self.convert) or ""


#: The converters of each operator, by version.
_TABLE: dict[tuple[str, str], list[Converter]] = {}


def onnx_operator(*names: str, since: int = 1, domain: str = STANDARD) -> Callable[[Function], Function]:
    """Declare the decorated converter of operators from a version of their domain on, up to the next that is declared."""

    def declare(convert: Function) -> Function:
        for name in names:
            versions = _TABLE.setdefault((domain, name), [])
            assert all(v.since != since for v in versions), (domain, name, since)
            made = Converter(name, domain, since, convert, _input_count(convert), _needed(convert))
            bisect.insort(versions, made, key=lambda c: c.since)
        return convert

    return declare


def _input_count(convert: Callable[..., Any]) -> int | None:
    parameters = list(inspect.signature(convert).parameters.values())[1:]
    return None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)


def _needed(convert: Callable[..., Any]) -> tuple[bool, ...]:
    parameters = list(inspect.signature(convert).parameters.values())[1:]
    assert all(p.annotation in ("Expr", "Expr | None") for p in parameters), convert
    return tuple(p.annotation == "Expr" for p in parameters)


def domain_of(name: str) -> str:
    """The domain as the table has it."""
    return STANDARD if name == "ai.onnx" else name


def converter(domain: str, name: str, version: int) -> Converter | None:
    """The converter of an operator in a version of its domain."""
    declared = [c for c in _TABLE.get((domain_of(domain), name), ()) if c.since <= version]
    return declared[-1] if declared else None


def declared_versions(domain: str, name: str) -> Sequence[Converter]:
    """The converters of an operator, by version."""
    return tuple(_TABLE.get((domain_of(domain), name), ()))


def declared_operators() -> Iterator[tuple[str, str, Sequence[Converter]]]:
    """Each operator: domain, name, converters by version."""
    for (domain, name), versions in sorted(_TABLE.items()):
        yield domain, name, tuple(versions)
