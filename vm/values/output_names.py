"""Names of a function's results: those that the program gives, or ``result``, ``result.0``, ``result.1``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import TupleType, Type
from ..bytecode.executable import VMFunction
from ..diagnostics import codes
from ..diagnostics.argument_errors import a_sequence, a_text
from ..diagnostics.printable import printable_name
from ..diagnostics.source import InputError

#: The name of a result that the program does not name.
RESULT = "result"


class Output(NamedTuple):
    """A result, or a part of a result that is a tuple.  ``path``: its position, "" for the whole result, ``0``, ``1.0``."""

    name: str
    path: str
    type: Type


def outputs_of(function: VMFunction) -> tuple[Output, ...]:
    """The fields of a tuple, or the one result, by name."""
    ty = function.result
    if not isinstance(ty, TupleType):
        return (Output((*function.output_names, RESULT)[0], "", ty),)
    names = function.output_names or [f"{RESULT}.{i}" for i in range(len(ty.fields))]
    return tuple(Output(name, str(i), field) for i, (name, field) in enumerate(zip(names, ty.fields, strict=True)))


def leaf_outputs(function: VMFunction) -> tuple[Output, ...]:
    """The results with the parts of tuples: ``boxes.0``.  Names that are then equal give way to ``result.0.0``."""
    found = tuple(leaf for output in outputs_of(function) for leaf in _leaves(output))
    if len({leaf.name for leaf in found}) == len(found):
        return found
    return tuple(leaf._replace(name=f"{RESULT}.{leaf.path}") for leaf in found)


def _leaves(output: Output) -> Iterator[Output]:
    if not isinstance(output.type, TupleType):
        yield output
        return
    for i, field in enumerate(output.type.fields):
        yield from _leaves(Output(f"{output.name}.{i}", f"{output.path}.{i}" if output.path else str(i), field))


def output_numbers(function: VMFunction, wanted: Any) -> list[int]:
    """The numbers of the results of these names.  Raises InputError for a name of no result, ArgumentError for no names."""
    numbers = {output.name: i for i, output in enumerate(outputs_of(function))}
    found = []
    for each in a_sequence(wanted, "outputs", "names of results"):
        name = a_text(each, "outputs: a name")
        number = numbers.get(name, numbers.get(printable_name(name)))
        if number is None:
            message = f"@{function.name} has no result {name!r}{nearest(name, list(numbers), '{!r}')}"
            raise InputError(message, help=f"its results: {', '.join(numbers)}", code=codes.Input.ARGUMENTS)
        found.append(number)
    return found


def chosen(result: Any, function: VMFunction, numbers: Sequence[int]) -> tuple[Any, ...]:
    """The results with these numbers."""
    fields = result if isinstance(function.result, TupleType) else (result,)
    return tuple(fields[n] for n in numbers)
