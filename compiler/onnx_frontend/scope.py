"""The let chain under construction: expressions of converters are bound to variables with types, node by node.

Types come from the compiler's own rules, one call at a time.  Shapes that are taken apart and assembled are tracked by element
(see ``rules.elements``): a shape that is known is a constant, and an operator with a known shape is the static operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType, TupleType, numpy_dtype
from ...ops.defs.movement.transform import ShapeOfAttrs
from ...shape_funcs.symbolic.dim import const as known_size
from ...vm.diagnostics.source import RelayError, Span
from ..evaluation.operator_calls import call_operator
from ..ir.anf import Names, is_atom
from ..ir.expr import Call, Constant, Expr, Function, If, Tuple, TupleGetItem, TypeData, Var, make_lets, replace, type_of
from ..ir.visitor import children
from ..rules.elements import ElementTable
from ..rules.rewriting import Definitions
from ..rules.static_forms import static_form
from ..type_inference.call_rules import operator_type

#: The most bytes of a value that an attribute is computed from.
MAX_BYTES = 1 << 20


class Values:
    """Facts about the variables of a function and its branches: definitions, known elements, values known at import.

    ``right_aligned``: Whether the texts of a batch end in the same column of their caches, however long each text is.
    """

    def __init__(self, right_aligned: bool = False) -> None:
        self.right_aligned = right_aligned
        self.names = Names()
        self.definitions = Definitions()
        self.elements = ElementTable()
        self.known: dict[Expr, Any] = {}  # arrays, and tuples of arrays, by variable
        self.types: dict[str, TypeData] = {}  # definitions of the types of values

    def constant(self, atom: Expr) -> Any:
        """The value of an atom as an array, if the model determines it; otherwise None."""
        pending = [atom]
        while pending:
            top = pending[-1]
            if isinstance(top, Constant) or top in self.known:
                pending.pop()
                continue
            definition = self.definitions.values.get(top)
            parts = children(definition) if isinstance(definition, (Call, Tuple, TupleGetItem)) else ()
            open_parts = [p for p in parts if not isinstance(p, Constant) and p not in self.known]
            if open_parts:
                pending += open_parts
                continue
            pending.pop()
            self.known[top] = None if definition is None else self._computed(top, definition)
        return atom.data if isinstance(atom, Constant) else self.known[atom]

    def _computed(self, var: Expr, definition: Expr) -> Any:
        """The value of a variable from the values in its definition; None if a value is not known, or too large."""
        elements = self._from_elements(var)
        if elements is not None:
            return elements
        parts = [p.data if isinstance(p, Constant) else self.known.get(p) for p in children(definition)]
        match definition:
            case Call(op=Op() as op) if parts and all(p is not None for p in parts) and _bytes(parts) <= MAX_BYTES:
                if op.stateful:
                    return None
                try:
                    return call_operator(definition, op, parts)
                except RelayError:
                    return None  # it fails at run time, if it runs
            case Tuple():
                return tuple(parts) if all(p is not None for p in parts) else None
            case TupleGetItem():
                return None if parts[0] is None else parts[0][definition.index]
        return None

    def _from_elements(self, var: Expr) -> np.ndarray | None:
        """The array whose elements are all known as numbers."""
        ty, found = var.ty, self.elements.of(var)
        if not isinstance(ty, TensorType) or found is None:
            return None
        numbers = [n for e in found if e is not None and (n := known_size(e)) is not None]
        sizes = [n for d in ty.shape if (n := known_size(d)) is not None]
        if len(numbers) < len(found) or len(sizes) < ty.rank:
            return None
        return np.array(numbers, numpy_dtype(ty.dtype)).reshape(sizes)

    def shape_of_known(self, var: Var, call: Call) -> Constant | None:
        """The value of a call that cannot fail, if its elements are known as numbers."""
        self.elements.bind(var, call)
        value = self._from_elements(var)
        if value is None or not (isinstance(call.attrs, ShapeOfAttrs) or self.definitions.is_safe(call)):
            return None
        return constant(value, call.span)


def constant(value: np.ndarray, span: Span | None = None) -> Constant:
    """A typed constant."""
    return Constant(value, span=span, ty=TensorType.of_array(value))


def _bytes(parts: list[Any]) -> int:
    return sum(_bytes(list(p)) if isinstance(p, tuple) else int(p.nbytes) for p in parts)


class Scope:
    """The bindings of one function body or branch.  ``values`` is shared with the scopes inside it."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.bindings: list[tuple[Var, Expr]] = []
        self._atoms: dict[Expr, Expr] = {}  # the atom of each expression bound here

    def bind(self, expr: Expr, span: Span | None, hint: str = "") -> Expr:
        """The atom of an expression, every call within bound to a variable with a type.

        ``hint``: the name of the outermost variable.  Raises ``call_rules.Mistake`` for operands that do not fit.
        """
        pending = [expr]
        while pending:
            top = pending[-1]
            if is_atom(top) or top in self._atoms:
                pending.pop()
                continue
            parts = [] if isinstance(top, (If, Function)) else [p for p in children(top) if not self._is_done(p)]
            if parts:
                pending += reversed(parts)
                continue
            pending.pop()
            self._atoms[top] = self._bound(top, span, hint if top is expr else "")
        return self._atom(expr)

    def _is_done(self, expr: Expr) -> bool:
        return is_atom(expr) or expr in self._atoms

    def _atom(self, expr: Expr) -> Expr:
        if isinstance(expr, Constant) and expr.ty is None:
            return constant(expr.data, expr.span)
        return self._atoms.get(expr, expr)

    def _bound(self, value: Expr, span: Span | None, hint: str) -> Expr:
        match value:
            case Call(op=Op() as op):
                args = tuple(map(self._atom, value.args))
                call = replace(value, args=args, span=span)
                typed = replace(call, ty=operator_type(call, args, [self._data(a) for a in args], elements=self.values.elements))
                static = static_form(typed, self.values.elements, self._data, self.values.definitions.values.get)
                return self.add(static, hint or op.name.rpartition(".")[2])
            case Tuple():
                fields = tuple(map(self._atom, value.fields))
                return self.add(
                    replace(value, fields=fields, span=span, ty=TupleType(tuple(map(type_of, fields)))), hint or "tuple"
                )
            case TupleGetItem():
                whole = self._atom(value.tuple_value)
                known = self.values.definitions.fields(whole)
                if known is not None:
                    return known[value.index]
                parts = type_of(whole)
                assert isinstance(parts, TupleType)
                return self.add(replace(value, tuple_value=whole, span=span, ty=parts.fields[value.index]), hint or "item")
        assert value.ty is not None, value
        return self.add(value, hint or "value")

    def add(self, value: Expr, hint: str) -> Expr:
        """A variable bound to a typed value, or the value as a constant if its elements are known."""
        var = Var(self.values.names(hint), span=value.span, ty=value.ty)
        if isinstance(value, Call) and isinstance(value.op, Op):
            known = self.values.shape_of_known(var, value)
            if known is not None:
                return known
        elif isinstance(value, (Tuple, TupleGetItem)):
            self.values.elements.bind(var, value)
        self.values.definitions.values[var] = value
        self.bindings.append((var, value))
        return var

    def _data(self, atom: Expr) -> Any:
        """The array of a constant, a tuple of these for a tuple, None for any other atom."""
        fields = self.values.definitions.fields(atom)
        if fields is not None:
            return tuple(self._data(f) for f in fields)
        return atom.data if isinstance(atom, Constant) else None

    def take_over(self, scope: Scope) -> None:
        """Add the bindings of another scope after those of this one."""
        self.bindings += scope.bindings
        self._atoms |= scope._atoms

    def chain(self, result: Expr) -> Expr:
        """The let chain of the bindings that ends in ``result``."""
        return make_lets(self.bindings, result)
