"""Attributes of operators that users register, such as the function ``FTVMLegalize`` of ``nn.conv2d``."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ...ops.core.op import REGISTRY, Op
from ...ops.core.similar_names import did_you_mean
from ...vm.diagnostics.argument_errors import UnknownName, a_count, a_text, wrong
from ...vm.diagnostics.python_source import here

#: Relay's names of the attributes that passes read.
LEGALIZE, ALTER_OP_LAYOUT = "FTVMLegalize", "FTVMAlterOpLayout"
#: By operator and name, the level and the value.
_ATTRIBUTES: dict[tuple[str, str], tuple[int, Any]] = {}


def attribute(op_name: str, key: str) -> Any:
    """The value of an operator's attribute; None if there is none."""
    return _ATTRIBUTES.get((op_name, key), (0, None))[1]


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Give an operator an attribute, in the place of one of the same or a lower level; without ``value``, a decorator.

    Raises UnknownName for an unknown operator, ArgumentError.
    """
    key = _key(op_name, attr_key)
    least = a_count(level, "register_op_attr: the level")

    def register(given: Any) -> Any:
        if _ATTRIBUTES.get(key, (0, None))[0] <= least:
            _ATTRIBUTES[key] = (least, given)
        return given

    return register if value is None else register(value)


def reset_op_attr(op_name: str, attr_key: str) -> None:
    """Remove an attribute of an operator.  Raises UnknownName, ArgumentError."""
    _ATTRIBUTES.pop(_key(op_name, attr_key), None)


def register_legalize(op_name: str, legal_op: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """Register ``legal_op(attrs, inputs, types) -> expression or None``, by which ``relay.transform.Legalize`` replaces calls.

    ``types`` has the types of the inputs and of the result.  Without ``legal_op``, a decorator.
    Raises UnknownName, ArgumentError.
    """
    return _register_function(op_name, LEGALIZE, legal_op, level)


def register_alter_op_layout(op_name: str, alter_layout: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """Register ``alter_layout(attrs, inputs, tinfos, out_type) -> expression or None`` for ``relay.transform.AlterOpLayout``.

    ``tinfos`` has the types of the inputs.  Without ``alter_layout``, a decorator.  Raises UnknownName, ArgumentError.
    """
    return _register_function(op_name, ALTER_OP_LAYOUT, alter_layout, level)


def _register_function(op_name: str, attr_key: str, function: Any, level: int) -> Any:
    def register(given: Any) -> Any:
        if not callable(given):
            raise wrong(f"{attr_key} of {op_name}", "a function", given)
        return register_op_attr(op_name, attr_key, given, level)

    _key(op_name, attr_key)
    return register if function is None else register(function)


def _key(op_name: Any, attr_key: Any) -> tuple[str, str]:
    name = a_text(op_name, "register_op_attr: the operator")
    if name not in REGISTRY:
        raise UnknownName(f"there is no operator {name}{did_you_mean(name, REGISTRY)}", here())
    return name, a_text(attr_key, "register_op_attr: the attribute")


class TempOpAttr:
    """``with TempOpAttr("nn.conv2d", "FTVMLegalize", function):`` an attribute that holds within the block.

    Raises UnknownName, ArgumentError.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self._key, self._value = _key(op_name, attr_key), attr_value

    def __enter__(self) -> TempOpAttr:
        self._before = _ATTRIBUTES.get(self._key)
        _ATTRIBUTES[self._key] = (0, self._value)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del _ATTRIBUTES[self._key]
        if self._before is not None:
            _ATTRIBUTES[self._key] = self._before


# ---- as methods of operators ------------------------------------------------------------------------------------------


def get_attr(self: Op, attr_name: str) -> Any:
    """The attribute that a program registered, or ``TOpPattern``; None if there is none."""
    return self.pattern if attr_name == "TOpPattern" else attribute(self.name, attr_name)


def has_attr(self: Op, attr_name: str) -> bool:
    """Whether there is an attribute of this name."""
    return get_attr(self, attr_name) is not None


def set_attr(self: Op, attr_name: str, value: Any, plevel: int = 10) -> None:
    """``relay.op.register_op_attr``.  Raises ArgumentError."""
    register_op_attr(self.name, attr_name, value, plevel)


def reset_attr(self: Op, attr_name: str) -> None:
    """``relay.op.reset_op_attr``.  Raises ArgumentError."""
    reset_op_attr(self.name, attr_name)


def list_op_names() -> list[str]:
    """The names of the operators of the language."""
    return sorted(name for name, op in REGISTRY.items() if op.in_language)


#: The methods of ``Op`` by name; ``builder.ir_methods`` binds them.
METHODS = {
    "get_attr": get_attr, "has_attr": has_attr, "set_attr": set_attr, "reset_attr": reset_attr,
    "list_op_names": staticmethod(list_op_names),
}  # fmt: skip
