"""Operator functions at Relay's paths, built from the declarations: ``operators.nn.dense(x, w)``, ``operators.sum(x, axis=0)``.

Parameters have Relay's names, order and defaults (see ``signatures``).  If an attribute is an expression, the call is of the
operator's ``dyn.`` form, which has an input of that name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.core.op import REGISTRY, Op, OpPattern, get
from ...ops.core.parameters import Default
from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import Dim
from ...shape_funcs.symbolic.dim import const as known_size
from ...shape_funcs.symbolic.registry import SHAPE_FUNCS
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Call, Constant, Expr, Var
from ..text.attributes import Attribute, AttributeProblem, attributes, make_attrs
from .absent_names import absence
from .build import as_expr, const, known_dtype, make_call
from .signatures import bound, input_names, parameters, signature


class Namespace:
    """Operators by name: the operators called ``prefix...`` as functions, and nested namespaces."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # no operator's name; inspection asks for such names often, and similar names take time
            raise AttributeError(f"there is no relay.{self._prefix}{name}", name=name, obj=self)
        full = self._prefix + name
        for functions in (COMPOSED, OF_OPERATORS):
            if full in functions:
                return functions[full]
        if full in REGISTRY and REGISTRY[full].in_language:
            return operator_function(REGISTRY[full])
        if _is_namespace(full + "."):
            return Namespace(full + ".")
        why = absence(full)
        text = f"there is no relay.{full}: {why}" if why else f"there is no operator {full}{did_you_mean(full, _names())}"
        raise AttributeError(text, name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({name.removeprefix(self._prefix).split(".")[0] for name in _names() if name.startswith(self._prefix)})

    def __repr__(self) -> str:
        return f"<operators {self._prefix}*>"


#: Functions at paths of Relay's that are no operators (see ``compositions``).
COMPOSED: dict[str, Callable[..., Any]] = {}
#: The functions of operators that build more than a call of the operator.
OF_OPERATORS: dict[str, Callable[..., Any]] = {}
#: Every operator.
operators = Namespace()


def _names() -> list[str]:
    return [*(name for name, op in REGISTRY.items() if op.in_language), *COMPOSED]


def _is_namespace(prefix: str) -> bool:
    """Whether a name begins so; an importer asks for each of its nodes."""
    return prefix in _namespaces(REGISTRY.changes, SHAPE_FUNCS.changes, len(COMPOSED))


@functools.lru_cache(maxsize=1)
def _namespaces(*changes: int) -> frozenset[str]:
    """The names' beginnings up to each dot; ``changes``: the states of what names operators."""
    parts = [name.split(".") for name in _names()]
    return frozenset(".".join(each[:n]) + "." for each in parts for n in range(1, len(each)))


@functools.cache
def operator_function(op: Op) -> Callable[..., Call]:
    """The function that builds calls of ``op``.

    It raises ArgumentError for unknown arguments or attributes.
    """

    def build(*args: Any, **named: Any) -> Call:
        return _call(*bound(op, args, named))

    build.__name__ = op.name.rpartition(".")[2]
    build.__qualname__ = op.name
    build.__doc__ = op.doc
    vars(build)["__signature__"] = signature(op)
    return build


def _call(op: Op, given: Mapping[str, Any]) -> Call:
    values = {name: _attribute_value(attribute, given[name]) for name, attribute in attributes(op).items() if name in given}
    # None stands for the default of an attribute that takes no None
    attrs = {name: value for name, value in values.items() if value is not None or attributes(op)[name].takes_none}
    if any(isinstance(value, Expr) for value in attrs.values()):
        return _dynamic(op, given, attrs)
    made = _attrs(op, attrs)
    return make_call(op, _inputs(op, [given[name] for name in input_names(op)], made), made, here())


def _inputs(op: Op, values: list[Any], attrs: Any) -> tuple[Expr, ...]:
    """The inputs as expressions.

    A number takes the dtype that its parameter declares; for element-wise operators the common dtype of the tensors beside it.
    """
    names, common = input_names(op), None
    if op.pattern is OpPattern.BROADCAST:
        known = {known_dtype(value) for value in values if isinstance(value, Expr)} - {"bool", None}
        common = known.pop() if len(known) == 1 else None
    out = []
    for name, value in zip(names, values, strict=True):
        declared = parameters(op)[name].dtype if name in parameters(op) else ""
        if not declared or not _is_number(value):
            out.append(as_expr(value, common))
        elif declared in names:
            out.append(_like(value, as_expr(values[names.index(declared)])))
        else:
            out.append(_number(value, getattr(attrs, declared, declared)))
    return tuple(out)


def _is_number(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(v, (int, float)) for v in value)
    return isinstance(value, (int, float))


def _number(value: Any, dtype: str) -> Expr:
    if not isinstance(value, (list, tuple)):
        return as_expr(value, dtype)
    for v in value:
        as_expr(v, dtype)  # raises an error for a float where integers are wanted
    return const(value, dtype)


def _like(value: Any, tensor: Expr) -> Expr:
    """The number in the dtype of a tensor; before type inference, that may be known to the operator ``cast_like`` only."""
    dtype = known_dtype(tensor)
    if dtype is not None:
        return _number(value, dtype)
    return make_call(get("cast_like"), (const(value), tensor), span=here())


def _attrs(op: Op, values: Mapping[str, Any]) -> Any:
    try:
        return make_attrs(op, values)
    except AttributeProblem as problem:
        raise ArgumentError(problem.message, here(), help=problem.help) from None


def _attribute_value(attribute: Attribute, value: Any) -> Any:
    """An attribute's value in plain Python.

    A constant stands for its data, a known size for its number, a dtype of numpy for its name, an integer for a list of one.
    """
    value = _plain(value)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return [value] if is_integer and attribute.takes_only_integers else value


def _plain(value: Any) -> Any:
    if isinstance(value, Constant):
        value = value.data
    if isinstance(value, Dim):
        size = known_size(value)
        return value if size is None else size
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


# ---- the dyn. form -----------------------------------------------------------------------------------------------


def _dynamic(op: Op, given: Mapping[str, Any], attrs: dict[str, Any]) -> Call:
    dynamic = REGISTRY.get(f"dyn.{op.name}")
    at_run_time = [name for name, value in attrs.items() if isinstance(value, Expr)]
    if dynamic is None or not set(at_run_time) <= set(input_names(dynamic)):
        fixed = ", ".join(n for n in at_run_time if dynamic is None or n not in input_names(dynamic))
        raise ArgumentError(
            f"{op.name}: {fixed} must be known at compile time; an expression has a value only at run time", here()
        )
    # the remaining attributes, checked as the static operator's; an attribute with its default value is omitted
    rest = {name: value for name, value in attrs.items() if name not in input_names(dynamic)}
    for name in [n for n in rest if n not in attributes(dynamic)]:
        if rest.pop(name) != attributes(op)[name].default:
            shown = ", ".join(at_run_time)
            message = f"{op.name}: {name} cannot be given when {shown} is known at run time only (dyn.{op.name} has no {name})"
            raise ArgumentError(message, here())
    made = _attrs(dynamic, rest)
    values = [_run_time_input(op, dynamic, name, given, attrs) for name in input_names(dynamic)]
    return make_call(dynamic, _inputs(dynamic, values, made), made, here())


def _run_time_input(op: Op, dynamic: Op, name: str, given: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    if name not in attributes(op):
        return given[name]
    parameter = parameters(dynamic)[name]
    value = attrs.get(name)
    if value is None:
        value = _broadcast_default(op, name, attrs) if isinstance(parameter.default, Default) else parameter.default
    return value if isinstance(value, Expr) or parameter.dtype else const(value, "int64")


def _broadcast_default(op: Op, name: str, attrs: Mapping[str, Any]) -> Any:
    """The default of a missing attribute; a tuple of one element is repeated to the length of the other lists."""
    default = attributes(op)[name].default
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
