"""``relay.op``: the operators as functions (``relay.op.nn.dense``), and operators by name (``relay.op.get("nn.dense")``)."""

from __future__ import annotations

from typing import Any

from .compiler.builder.operator_functions import COMPOSED, operators
from .compiler.transform.registered.op_attributes import (
    register_alter_op_layout,
    register_legalize,
    register_op_attr,
    reset_op_attr,
)
from .ops.core.op import REGISTRY, Op
from .ops.core.similar_names import did_you_mean
from .vm.diagnostics.argument_errors import UnknownName, a_text
from .vm.diagnostics.python_source import here

__all__ = ["Op", "get", "register_alter_op_layout", "register_legalize", "register_op_attr", "reset_op_attr"]


def get(op_name: str) -> Op:
    """The operator of this name.  Raises UnknownName, a KeyError, that suggests near names."""
    names = [name for name, op in REGISTRY.items() if op.in_language or name in COMPOSED]
    if a_text(op_name, "op.get: the name") not in names:
        raise UnknownName(f"there is no operator {op_name}{did_you_mean(op_name, names)}", here())
    return REGISTRY[op_name]


def __getattr__(name: str) -> Any:
    """The operator, or group of operators, called ``name``.  Raises AttributeError that suggests near names."""
    return getattr(operators, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(operators)})
