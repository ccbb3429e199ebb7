"""Visitors of types: a class with one method per kind of type, which a subclass overrides.

class Widen(relay.TypeMutator):
    def visit_tensor_type(self, tt):
        return relay.TensorType(tt.shape, "float64")
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ops.core.adt_types import GlobalTypeVar, IncompleteType, RefType, TypeCall, TypeVar, type_parts
from ...ops.core.tensor_types import FuncType, TensorType, TupleType
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import TypeData

_METHODS: dict[type, str] = {
    TypeVar: "visit_type_var", IncompleteType: "visit_incomplete_type", TensorType: "visit_tensor_type",
    FuncType: "visit_func_type", TupleType: "visit_tuple_type", RefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var", TypeCall: "visit_type_call", TypeData: "visit_type_data",
}  # fmt: skip


class TypeFunctor:
    """Dispatch of ``visit`` to a method per kind of type."""

    def visit(self, typ: Any) -> Any:
        """The result of the method for the type.  Raises ArgumentError for a value that is no type."""
        method = _METHODS.get(type(typ))
        if method is None:
            raise wrong(f"{type(self).__name__}.visit: the argument", "a type", typ)
        return getattr(self, method)(typ)


class TypeVisitor(TypeFunctor):
    """A visitor of every part of a type; no method returns a value."""

    def visit_type_var(self, tv: Any) -> Any:
        pass

    def visit_incomplete_type(self, it: Any) -> Any:
        pass

    def visit_tensor_type(self, tt: Any) -> Any:
        pass

    def visit_func_type(self, ft: Any) -> Any:
        self._visit_parts(ft)

    def visit_tuple_type(self, tt: Any) -> Any:
        self._visit_parts(tt)

    def visit_ref_type(self, rt: Any) -> Any:
        self._visit_parts(rt)

    def visit_global_type_var(self, gtv: Any) -> Any:
        pass

    def visit_type_call(self, tc: Any) -> Any:
        self.visit(tc.func)
        self._visit_parts(tc)

    def visit_type_data(self, td: Any) -> Any:
        self.visit(td.header)
        for part in (*td.type_vars, *(field for constructor in td.constructors for field in constructor.inputs)):
            self.visit(part)

    def _visit_parts(self, typ: Any) -> None:
        for part in type_parts(typ):
            self.visit(part)


class TypeMutator(TypeFunctor):
    """A rewrite: each method returns the type that replaces its argument."""

    def visit_type_var(self, tv: Any) -> Any:
        return tv

    def visit_incomplete_type(self, it: Any) -> Any:
        return it

    def visit_tensor_type(self, tt: Any) -> Any:
        return tt

    def visit_func_type(self, ft: Any) -> Any:
        return replace(ft, params=tuple(map(self.visit, ft.params)), result=self.visit(ft.result))

    def visit_tuple_type(self, tt: Any) -> Any:
        return TupleType(tuple(map(self.visit, tt.fields)))

    def visit_ref_type(self, rt: Any) -> Any:
        return RefType(self.visit(rt.value))

    def visit_global_type_var(self, gtv: Any) -> Any:
        return gtv

    def visit_type_call(self, tc: Any) -> Any:
        return TypeCall(self.visit(tc.func), tuple(map(self.visit, tc.args)))

    def visit_type_data(self, td: Any) -> Any:
        constructors = tuple(replace(c, inputs=tuple(map(self.visit, c.inputs))) for c in td.constructors)
        return replace(
            td, header=self.visit(td.header), type_vars=tuple(map(self.visit, td.type_vars)), constructors=constructors
        )
