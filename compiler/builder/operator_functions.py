"""Operator functions at Relay's paths, built from the declarations: ``operators.nn.dense(x, w)``, ``operators.sum(x, axis=0)``.

Arguments are the operator's inputs, then its attributes, by position or by name.  If an attribute is an expression, the call is
of the operator's ``dyn.`` form, which has an input of that name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.core.op import REGISTRY, Op, OpPattern
from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import const as known_size
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Call, Constant, Expr, Var
from ..text.attributes import AttributeProblem, attribute_names, make_attrs
from .build import as_expr, const, known_dtype, make_call


class Namespace:
    """Operators by name: the operators called ``prefix...`` as functions, and nested namespaces."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        if full in REGISTRY and REGISTRY[full].in_language:
            return operator_function(REGISTRY[full])
        if any(known.startswith(full + ".") for known in _names()):
            return Namespace(full + ".")
        raise AttributeError(f"there is no operator {full}{did_you_mean(full, _names())}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({name.removeprefix(self._prefix).split(".")[0] for name in _names() if name.startswith(self._prefix)})

    def __repr__(self) -> str:
        return f"<operators {self._prefix}*>"


#: Every operator.
operators = Namespace()


def _names() -> list[str]:
    return [name for name, op in REGISTRY.items() if op.in_language]


@functools.cache
def operator_function(op: Op) -> Callable[..., Call]:
    """The function that builds calls of ``op``.

    It raises ArgumentError for unknown arguments or attributes.
    """
    signature = _signature(op)

    def build(*args: Any, **named: Any) -> Call:
        try:
            given = signature.bind(*args, **named).arguments
        except TypeError as error:
            raise ArgumentError(f"{op.name}: {error}; it takes {_takes(op)}", here()) from None
        return _call(op, given)

    build.__name__ = op.name.rpartition(".")[2]
    build.__qualname__ = op.name
    build.__doc__ = op.doc
    vars(build)["__signature__"] = signature
    return build


def _input_names(op: Op) -> list[str]:
    return [name.rstrip("*") for name in op.inputs]


def _signature(op: Op) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in _input_names(op)]
    # a missing attribute is reported by make_attrs, which names its type
    parameters += [inspect.Parameter(name, kind, default=None) for name in attribute_names(op)]
    return inspect.Signature(parameters)


def _takes(op: Op) -> str:
    names = [*_input_names(op), *attribute_names(op)]
    return ", ".join(names) if names else "no arguments"


def _call(op: Op, given: Mapping[str, Any]) -> Call:
    attrs = {name: _plain(value) for name, value in given.items() if name in attribute_names(op)}
    if any(isinstance(value, Expr) for value in attrs.values()):
        return _dynamic(op, given, attrs)
    return make_call(op, _inputs(op, [given[name] for name in _input_names(op)]), _attrs(op, attrs), here())


def _inputs(op: Op, values: list[Any]) -> tuple[Expr, ...]:
    """The inputs as expressions; for element-wise operators a number takes the common dtype of the tensors beside it."""
    dtype = None
    if op.pattern is OpPattern.BROADCAST:
        known = {known_dtype(value) for value in values if isinstance(value, Expr)} - {"bool", None}
        dtype = known.pop() if len(known) == 1 else None
    return tuple(as_expr(value, dtype) for value in values)


def _attrs(op: Op, values: Mapping[str, Any]) -> Any:
    try:
        return make_attrs(op, values)
    except AttributeProblem as problem:
        raise ArgumentError(problem.message, here(), help=problem.help) from None


def _plain(value: Any) -> Any:
    """An attribute's value; a constant stands for its data."""
    if isinstance(value, Constant):
        value = value.data
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


# ---- the dyn. form -----------------------------------------------------------------------------------------------


def _dynamic(op: Op, given: Mapping[str, Any], attrs: dict[str, Any]) -> Call:
    dynamic = REGISTRY.get(f"dyn.{op.name}")
    at_run_time = [name for name, value in attrs.items() if isinstance(value, Expr)]
    if dynamic is None or not set(at_run_time) <= set(_input_names(dynamic)):
        fixed = ", ".join(n for n in at_run_time if dynamic is None or n not in _input_names(dynamic))
        raise ArgumentError(
            f"{op.name}: {fixed} must be known at compile time; an expression has a value only at run time", here()
        )
    # the remaining attributes, checked as the static operator's; an attribute with its default value is omitted
    rest = {name: value for name, value in attrs.items() if name not in _input_names(dynamic)}
    for name in [n for n in rest if n not in attribute_names(dynamic)]:
        if rest.pop(name) != _default(op, name):
            shown = ", ".join(at_run_time)
            message = f"{op.name}: {name} cannot be given when {shown} is known at run time only (dyn.{op.name} has no {name})"
            raise ArgumentError(message, here())
    args = tuple(_run_time_input(op, name, given, attrs) for name in _input_names(dynamic))
    return make_call(dynamic, args, _attrs(dynamic, rest), here())


def _default(op: Op, name: str) -> Any:
    return vars(op.attrs)["__dataclass_fields__"][name].default


def _run_time_input(op: Op, name: str, given: Mapping[str, Any], attrs: Mapping[str, Any]) -> Expr:
    if name not in attribute_names(op):
        return as_expr(given[name])
    value = attrs[name] if name in attrs else _broadcast_default(op, name, attrs)
    return value if isinstance(value, Expr) else const(value, "int64")


def _broadcast_default(op: Op, name: str, attrs: Mapping[str, Any]) -> Any:
    """The default of a missing attribute; a tuple of one element is repeated to the length of the other lists."""
    default = _default(op, name)
    if not isinstance(default, tuple) or len(default) != 1:
        raise ArgumentError(f"{op.name}: {name} must be given when another attribute is an expression", here())
    lengths = {n for n in map(_length, attrs.values()) if n is not None}
    if len(lengths) != 1:
        raise ArgumentError(f"{op.name}: {name} must be given, since the length of {', '.join(attrs)} is not known", here())
    return default * lengths.pop()


def _length(value: Any) -> int | None:
    if isinstance(value, list):
        return len(value)
    ty = value.ty or value.annotation if isinstance(value, Var) else getattr(value, "ty", None)
    return known_size(ty.shape[0]) if isinstance(ty, TensorType) and ty.rank == 1 else None
