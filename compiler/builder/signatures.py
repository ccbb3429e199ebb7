"""Signatures of the operator functions: Relay's parameters, from the declarations of the operators."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from ...ops.core.op import REGISTRY, Op, TypeRelError
from ...ops.core.parameters import Default, Parameter
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..text.attributes import attributes, value_text


def input_names(op: Op) -> list[str]:
    """The names of the inputs, without the sign of a tuple."""
    return [name.rstrip("*") for name in op.inputs]


@functools.cache
def parameters(op: Op) -> Mapping[str, Parameter]:
    """The parameters of the operator's function by name, in order."""
    if op.python is not None:
        return {p.name: p for p in op.python.listed}
    return {name: Parameter(name) for name in (*input_names(op), *attributes(op))}


def default(op: Op, parameter: Parameter) -> Any:
    """The value that stands for a parameter that is not given; ``inspect.Parameter.empty`` if there is none."""
    attribute = attributes(op).get(parameter.name)
    if not isinstance(parameter.default, Default):
        return parameter.default
    if parameter.default is Default.REQUIRED or attribute is None or attribute.required:
        return inspect.Parameter.empty
    value: Any = attribute.default
    is_member = isinstance(value, enum.Enum)
    return value.key if is_member else value


@functools.cache
def signature(op: Op) -> inspect.Signature:
    """The signature of the operator's function.  A parameter without a default behind others that have one is keyword-only."""
    listed, optional, named = [], False, False
    for parameter in parameters(op).values():
        value = default(op, parameter)
        optional = optional or value is not inspect.Parameter.empty
        named = named or (optional and value is inspect.Parameter.empty)
        kind = inspect.Parameter.KEYWORD_ONLY if named else inspect.Parameter.POSITIONAL_OR_KEYWORD
        listed.append(inspect.Parameter(parameter.name, kind, default=value))
    return inspect.Signature(listed)


def signature_text(op: Op) -> str:
    """``nn.pad(data, pad_width, pad_value=0, pad_mode="constant")``."""
    empty = inspect.Parameter.empty
    shown = [p.name if p.default is empty else f"{p.name}={value_text(p.default)}" for p in signature(op).parameters.values()]
    return f"{op.name}({', '.join(shown)})"


def bound(op: Op, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Op, dict[str, Any]]:
    """The called operator and its given inputs and attributes by name.

    Raises ArgumentError for parameters that do not exist, are given twice, or are missing inputs.
    """
    try:
        given = dict(signature(op).bind_partial(*args, **named).arguments)
    except TypeError as error:
        raise _wrong(op, str(error)) from None
    for name, parameter in parameters(op).items():
        if name in given:
            continue
        if not isinstance(parameter.default, Default):
            given[name] = parameter.default
        elif name not in attributes(op) or parameter.default is Default.REQUIRED:
            raise _wrong(op, f"missing a required argument: {name!r}")
    if op.python is None or op.python.call is None:
        return op, given
    try:
        called, arguments = op.python.call(given)
    except TypeRelError as error:
        raise ArgumentError(error.message, here(), help=error.help) from None
    return REGISTRY[called], dict(arguments)


def _wrong(op: Op, fact: str) -> ArgumentError:
    names = ", ".join(parameters(op)) or "no arguments"
    return ArgumentError(f"{op.name}: {fact}; it takes {names}", here())
