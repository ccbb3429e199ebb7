"""Methods of expressions under Relay's names, bound to ``ir.expr.Expr`` (see ``ir_methods``): calls, fields of tuples, casts.

An expression whose value is a tuple answers as Relay's ``TupleWrapper``: ``a, b = relay.split(x, 2)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from ...ops.core.op import Op
from ...ops.core.tensor_types import FuncType, TupleType
from ...vm.diagnostics.argument_errors import a_count
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir import expr as ir
from ..ir.expr import Call, Expr, Tuple, TupleGetItem
from .build import TENSOR, a_dtype, as_expr, declared_type, field_count, make_call
from .operator_functions import operators


class NoField(ArgumentError, IndexError):
    """Error for an index beyond a tuple; also an IndexError, as Python expects of an index."""


def call(self: Expr, *args: Any) -> Call:
    """The call of this function: of a GlobalVar, a Function, or an expression whose value is a function."""
    if not isinstance(declared_type(self), FuncType) and field_count(self) is not None:
        help = "relay.GlobalVar(name), a relay.Function, or a variable of a relay.FuncType is called"
        raise ArgumentError(f"a {type(self).__name__} is called that is no function", here(), help=help)
    return make_call(self, tuple(map(as_expr, args)), span=here())


def _field_count(expr: Expr) -> int:
    count = field_count(expr)
    if count is None:
        help = "relay.TupleWrapper(call, 2) states the number of results, relay.TupleGetItem(call, 0) is one of them"
        raise ArgumentError(f"the number of results of this {type(expr).__name__} is not known", here(), help=help)
    if count == TENSOR:
        help = "relay.take and relay.strided_slice take parts of a tensor, relay.shape_of(x) is its shape"
        raise ArgumentError("a tensor has no fields and no length here; its value is known only at run time", here(), help=help)
    return count


def field(self: Expr, index: int) -> Expr:
    """The field of a tuple; a negative index counts from the end.  Raises NoField."""
    number = a_count(index, "the index of a field", least=None)
    if field_count(self) is None and number >= 0:  # type inference checks it
        return TupleGetItem(self, number, span=here())
    count = _field_count(self)
    if not -count <= number < count:
        raise NoField(f"the tuple has {count} fields, there is none of index {number}", here())
    number %= count
    if isinstance(self, Tuple):
        return self.fields[number]
    known = self.ty.fields[number] if isinstance(self.ty, TupleType) else None
    return TupleGetItem(self, number, span=here(), ty=known)


def length(self: Expr) -> int:
    """The number of fields of a tuple.  Raises ArgumentError if it is not known."""
    return _field_count(self)


def fields(self: Expr) -> Iterator[Expr]:
    """The fields of a tuple.  Raises ArgumentError if their number is not known."""
    return iter([field(self, index) for index in range(_field_count(self))])


def astuple(self: Expr) -> Expr:
    """The expression itself, whose value is a tuple.  Raises ArgumentError for a tensor."""
    _field_count(self)
    return self


def astype(self: Expr, dtype: Any) -> Call:
    """``relay.cast(self, dtype)``."""
    cast: Call = operators.cast(self, a_dtype(dtype))
    return cast


def truth(self: Expr) -> NoReturn:
    """Raises ArgumentError: the value is known at run time."""
    shown = f" of {self.op.name}" if isinstance(self, Call) and isinstance(self.op, Op) else ""
    raise ArgumentError(
        f"the value{shown} is known only at run time; Python cannot branch on it",
        here(),
        help="relay.If(condition, a, b) for `if`, relay.where for elements, relay.logical_and, logical_or for `and`, `or`",
    )


#: The methods by name; ``ir_methods`` binds them.
METHODS = {
    "__call__": call, "__getitem__": field, "__len__": length, "__iter__": fields, "__bool__": truth,
    "astuple": astuple, "astype": astype,
}  # fmt: skip
#: The properties of ``WHOLE_TUPLES``.
TUPLE_PROPERTIES = {"tuple_value": property(astuple)}
#: The classes with ``tuple_value``; that of a TupleGetItem is its own.
WHOLE_TUPLES: tuple[type, ...] = (Call, Tuple, ir.Var, ir.If, ir.Let)


def is_tuple(value: object) -> bool:
    """Whether ``value`` is an expression whose number of results is known."""
    return isinstance(value, Expr) and field_count(value) not in (None, TENSOR)
