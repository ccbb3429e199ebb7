"""Node and type constructors of the Python API: each checks its arguments, creates the IR's node, and records the Python line.

A constructor answers ``isinstance`` for its node.  The compiler itself creates nodes of ``ir`` and types of
``ops.core.tensor_types``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from ...ops.core import tensor_types as ty
from ...ops.core.adt_types import GlobalTypeVar, TypeKind, TypeVar
from ...ops.core.op import Op
from ...ops.core.tensor_types import Type
from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import a_count, a_mapping, a_sequence, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, Span
from ..ir import expr as ir
from ..ir.expr import Expr
from .build import TENSOR, a_dtype, a_name, a_shape, as_expr, const, field_count, make_call, state_field_count
from .expr_methods import is_tuple
from .module_methods import closed_function, named_functions, set_function
from .operator_functions import operators
from .type_arguments import a_type, an_annotation, types

__all__ = [
    "Call", "Constant", "FuncType", "Function", "GlobalVar", "IRModule", "If", "Let", "TensorType", "Tuple", "TupleGetItem",
    "TupleType", "TupleWrapper", "Var",
]  # fmt: skip


class ConstructorOfNodes(type):
    """A constructor with checked arguments, which answers ``isinstance`` for its node."""

    node: type
    make: Callable[..., AnyValue]

    def __call__(cls, *args: AnyValue, **named: AnyValue) -> AnyValue:
        return cls.make(*args, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.node)


# ---- expressions ---------------------------------------------------------------------------------------------------------


class Var(metaclass=ConstructorOfNodes):
    """``Var("x", type_annotation)``; ``relay.var`` takes a shape and a dtype."""

    node = ir.Var

    @staticmethod
    def make(name_hint: str, type_annotation: Type | None = None, span: Span | None = None, *, ty: Type | None = None) -> ir.Var:
        annotation = an_annotation(type_annotation, "Var: the type")
        return ir.Var(a_name(name_hint, "Var: the name", "%"), annotation, span=span or here(), ty=ty)


class GlobalVar(metaclass=ConstructorOfNodes):
    """``GlobalVar("f")``: a function of the module."""

    node = ir.GlobalVar

    @staticmethod
    def make(name_hint: str, span: Span | None = None, *, ty: Type | None = None) -> ir.GlobalVar:
        return ir.GlobalVar(a_name(name_hint, "GlobalVar: the name", "@"), span=span or here(), ty=ty)


class Constant(metaclass=ConstructorOfNodes):
    """``Constant(array)``: also for a number or a list, as ``relay.const``."""

    node = ir.Constant

    @staticmethod
    def make(data: AnyValue, span: Span | None = None, *, ty: Type | None = None) -> ir.Constant:
        return ir.Constant(const(data).data, span=span or here(), ty=ty)


class Tuple(metaclass=ConstructorOfNodes):
    """``Tuple([a, b])``."""

    node = ir.Tuple

    @staticmethod
    def make(fields: Sequence[AnyValue], span: Span | None = None, *, ty: Type | None = None) -> ir.Tuple:
        given = a_sequence(fields, "Tuple: the fields", "Tuple([a, b])")
        return ir.Tuple(tuple(map(as_expr, given)), span=span or here(), ty=ty)


class TupleGetItem(metaclass=ConstructorOfNodes):
    """``TupleGetItem(tuple, 0)``."""

    node = ir.TupleGetItem

    @staticmethod
    def make(tuple_value: AnyValue, index: int, span: Span | None = None, *, ty: Type | None = None) -> ir.TupleGetItem:
        if isinstance(tuple_value, (list, tuple)):  # a list of numbers would be a constant
            tuple_value = Tuple.make(tuple_value)
        return ir.TupleGetItem(as_expr(tuple_value), a_count(index, "TupleGetItem: the index"), span=span or here(), ty=ty)


class _TupleConstructor(ConstructorOfNodes):
    def __instancecheck__(cls, instance: object) -> bool:
        return is_tuple(instance)


if TYPE_CHECKING:  # the value is the expression itself

    class TupleWrapper(ir.Expr):
        tuple_value: Expr

        def __init__(self, tuple_value: AnyValue, size: int) -> None: ...

else:

    class TupleWrapper(metaclass=_TupleConstructor):
        """``TupleWrapper(call, 2)``: the call itself, whose number of results is now known."""

        node = ir.Expr

        @staticmethod
        def make(tuple_value: AnyValue, size: int) -> ir.Expr:
            expr, count = as_expr(tuple_value), a_count(size, "TupleWrapper: the size")
            known = field_count(expr)
            if known not in (None, count):
                shown = "a tensor" if known == TENSOR else f"a tuple of {known}"
                raise ArgumentError(f"TupleWrapper: the size is {count}, the value is {shown}", here())
            if known is None:
                state_field_count(expr, count)
            return expr


class Call(metaclass=ConstructorOfNodes):
    """``Call(op, args, attrs=None)``: a call of an operator, or of an expression whose value is a function."""

    node = ir.Call

    @staticmethod
    def make(
        op: Op | Expr, args: Sequence[AnyValue], attrs: AnyValue = None, type_args: Sequence[Type] | None = None,
        span: Span | None = None,
    ) -> ir.Call:  # fmt: skip
        if not isinstance(op, (Op, Expr)):
            raise wrong("Call: the callee", "an operator or an expression", op, _called(op))
        given = a_sequence(args, "Call: the arguments", "Call(f, [x, y])")
        if isinstance(op, Op) and attrs is not None and not isinstance(attrs, op.attrs):
            raise wrong(f"Call: the attrs of {op.name}", f"{op.attrs.__name__}", attrs, f"or write relay.{op.name}(...)")
        made = make_call(op, tuple(map(as_expr, given)), attrs, span or here())
        given_types = types(type_args or (), "Call: a type argument")
        return ir.replace(made, type_args=given_types) if given_types else made


def _called(op: AnyValue) -> str:
    if not isinstance(op, str):
        return "relay.add(x, y) calls an operator, Call(GlobalVar('f'), [x]) a function of the module"
    try:
        found = operators
        for part in op.split("."):
            found = getattr(found, part)
        return f"write relay.{op}(...)"
    except AttributeError:
        return f"for a function of the module write Call(GlobalVar({op!r}), ...)"


class Let(metaclass=ConstructorOfNodes):
    """``Let(var, value, body)``."""

    node = ir.Let

    @staticmethod
    def make(var: ir.Var, value: AnyValue, body: AnyValue, span: Span | None = None, *, ty: Type | None = None) -> ir.Let:
        if not isinstance(var, ir.Var):
            raise wrong("Let: the variable", "a variable", var, 'relay.var("x")')
        return ir.Let(var, as_expr(value), as_expr(body), span=span or here(), ty=ty)


class If(metaclass=ConstructorOfNodes):
    """``If(condition, then, else)``."""

    node = ir.If

    @staticmethod
    def make(
        cond: AnyValue, true_branch: AnyValue, false_branch: AnyValue, span: Span | None = None, *, ty: Type | None = None
    ) -> ir.If:
        return ir.If(as_expr(cond), as_expr(true_branch), as_expr(false_branch), span=span or here(), ty=ty)


class Function(metaclass=ConstructorOfNodes):
    """``Function([x, y], body, ret_type=None, type_params=None, attrs=None)``."""

    node = ir.Function

    @staticmethod
    def make(
        params: Sequence[ir.Var], body: AnyValue, ret_type: Type | None = None, type_params: AnyValue = None,
        attrs: Mapping[str, AnyValue] | None = None, span: Span | None = None, *, ty: Type | None = None,
    ) -> ir.Function:  # fmt: skip
        if isinstance(type_params, Mapping) and attrs is None:  # a program that has no type parameters
            type_params, attrs = None, type_params
        given = a_sequence(params, "Function: the parameters", "Function([x, y], body)")
        for param in given:
            if not isinstance(param, ir.Var):
                raise wrong("Function: a parameter", "a relay.var", param)
        if len(set(map(id, given))) < len(given):
            raise ArgumentError("a function has one variable twice among its parameters", here())
        return ir.Function(
            given, as_expr(body), an_annotation(ret_type, "Function: the type"), dict(a_mapping(attrs, "Function: the attrs")),
            type_parameters(type_params or (), "Function"), span=span or here(), ty=ty,
        )  # fmt: skip


class IRModule(metaclass=ConstructorOfNodes):
    """``IRModule({"main": function})``, or ``IRModule.from_expr(function_or_expression)``."""

    node = ir.IRModule

    @staticmethod
    def make(
        functions: Mapping[str | ir.GlobalVar, ir.Function] | None = None,
        type_definitions: Mapping[GlobalTypeVar, ir.TypeData] | None = None,
    ) -> ir.IRModule:
        mod = ir.IRModule(named_functions(functions))
        for header, data in a_mapping(type_definitions, "IRModule: the type definitions").items():
            set_function(mod, header, data)
        return mod

    @staticmethod
    def from_expr(expr: AnyValue) -> ir.IRModule:
        """A module whose ``main`` is ``expr``.

        An expression other than a function becomes a function: its free variables are the parameters, in order of appearance.
        """
        return ir.IRModule({"main": closed_function(expr)})


# ---- types ---------------------------------------------------------------------------------------------------------------


class TensorType(metaclass=ConstructorOfNodes):
    """``TensorType((relay.Any(), 4), "float32")``."""

    node = ty.TensorType

    @staticmethod
    def make(shape: Sequence[IntLike], dtype: str = "float32") -> ty.TensorType:
        return ty.TensorType(a_shape(shape, "TensorType"), a_dtype(dtype))

    of = make


class TupleType(metaclass=ConstructorOfNodes):
    """``TupleType([a, b])``."""

    node = ty.TupleType

    @staticmethod
    def make(fields: Sequence[Type]) -> ty.TupleType:
        return ty.TupleType(types(fields, "TupleType: a field"))


class FuncType(metaclass=ConstructorOfNodes):
    """``FuncType([a, b], result)``, with ``type_params`` the type of a generic function; constraints are the type rules of
    operators."""

    node = ty.FuncType

    @staticmethod
    def make(
        arg_types: Sequence[Type], ret_type: Type, type_params: Sequence[TypeVar] = (), type_constraints: Sequence[AnyValue] = ()
    ) -> ty.FuncType:
        if a_sequence(type_constraints or (), "FuncType: the type constraints"):
            help = "a constraint on types is the type rule of an operator: relay.register_op(dtype=...)"
            raise ArgumentError("FuncType: a type has no type constraints", here(), help=help)
        variables = type_parameters(type_params or (), "FuncType")
        return ty.FuncType(types(arg_types, "FuncType: a parameter"), a_type(ret_type, "FuncType: the result"), variables)


def type_parameters(values: AnyValue, who: str) -> tuple[TypeVar, ...]:
    """Type parameters as a tuple.  Raises ArgumentError."""
    given = a_sequence(values, f"{who}: the type parameters", '[relay.TypeVar("A")]')
    for value in given:
        if not isinstance(value, TypeVar) or value.kind is not TypeKind.Type:
            raise wrong(f"{who}: a type parameter", "a relay.TypeVar of the kind Type", value)
    return given
