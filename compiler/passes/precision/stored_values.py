"""The classes of tensors of float32 that have one dtype, and the operators between these classes.

A class holds a value and all values with its elements: results of operators that move elements, parameters and results of
functions at their calls, results of branches, fields of tuples.  Parameters and results of entries, values in ADTs and
references, and values of functions that are used as values, stay float32.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from ....ops.core.op import Op
from ....ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ...ir.anf import inner_chains, operands
from ...ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, let_chain, type_of
from ...ir.match_expr import Match, pattern_vars
from .operator_precision import WIDE, Role, accepted, free_inputs, role_of, with_dtypes, with_result


@dataclass(eq=False)
class Signature:
    """The classes of a function's parameters and result."""

    params: tuple[Any, ...]
    result: Any


#: The classes of a value: of a tensor its number, of another tensor None, of a tuple those of its fields, of a function a
#: Signature.
Classes = int | None | tuple[Any, ...] | Signature


@dataclass(eq=False)
class Operation:
    """A call of an operator between classes.  ``reads``: of its inputs, except constants and inputs of any dtype."""

    call: Call
    role: Role
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    free: frozenset[int] = field(default_factory=frozenset)


class StoredValues:
    """The classes of the values of a typed module in A-normal form, for halves of ``dtype``.

    ``wide``: names of operators that are computed in float32.
    ``of``: the classes of each variable, and of each function by name.  ``operations``: those with a tensor of float32.
    ``fixed``: the classes that stay float32.
    """

    def __init__(self, mod: IRModule, dtype: str, entries: Iterable[str], wide: Collection[str] = ()) -> None:
        self.dtype, self.wide = dtype, wide
        self.of: dict[Expr, Classes] = {}
        self.functions: dict[str, Signature] = {}
        self.by_call: dict[Call, Operation] = {}
        self._parents: list[int] = []
        self._fixed: list[int] = []
        own = {name: f for name, f in mod.functions.items() if not f.is_primitive}
        for name, f in own.items():
            assert isinstance(f.ty, FuncType)
            self.functions[name] = Signature(tuple(map(self._declared, f.params)), self.new(f.ty.result))
        for name in set(entries) & own.keys():
            self.fix(self.functions[name])
        for name, f in own.items():
            self._body(f.body, self.functions[name].result)

    # ---- classes ----

    def new(self, ty: Type | None) -> Classes:
        """The classes of a value of this type, of which nothing is known."""
        if isinstance(ty, TensorType) and ty.dtype == WIDE:
            self._parents.append(len(self._parents))
            return len(self._parents) - 1
        return tuple(map(self.new, ty.fields)) if isinstance(ty, TupleType) else None

    def find(self, number: int) -> int:
        """The number by which a class is known."""
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def join(self, a: Classes, b: Classes) -> None:
        """Give two values the same classes."""
        if isinstance(a, int) and isinstance(b, int):
            self._parents[self.find(a)] = self.find(b)
        elif isinstance(a, tuple) and isinstance(b, tuple):
            for x, y in zip(a, b, strict=True):
                self.join(x, y)
        elif a is not b:
            self.fix(a)
            self.fix(b)

    def fix(self, classes: Classes) -> None:
        """Keep the tensors of a value in float32."""
        if isinstance(classes, int):
            self._fixed.append(classes)
        elif isinstance(classes, tuple):
            for each in classes:
                self.fix(each)
        elif isinstance(classes, Signature):
            self.fix(classes.params)
            self.fix(classes.result)

    @property
    def fixed(self) -> set[int]:
        return set(map(self.find, self._fixed))

    def tensors(self, classes: Classes) -> tuple[int, ...]:
        """The classes of all tensors of float32 of a value that is no function."""
        if isinstance(classes, int):
            return (classes,)
        return tuple(n for each in classes for n in self.tensors(each)) if isinstance(classes, tuple) else ()

    def _declared(self, var: Var) -> Classes:
        self.of[var] = self.new(var.ty)
        return self.of[var]

    def _classes(self, atom: Expr) -> Classes:
        """The classes of an operand; those of a constant are its own."""
        if isinstance(atom, Var):
            return self.of.get(atom)
        if isinstance(atom, GlobalVar):
            return self.functions.get(atom.name)
        return self.new(atom.ty) if isinstance(atom, Constant) else None

    # ---- the program ----

    def _body(self, chain: Expr, result: Classes) -> None:
        bindings, end = let_chain(chain)
        for var, value in bindings:
            self._bind(var, value)
        self.join(self._classes(end), result)

    def _bind(self, var: Var, value: Expr) -> None:
        match value:
            case Call(op=Op()):
                self.of[var] = self.new(value.ty)
                self._operator(value, self.of[var])
            case Call():
                self.of[var] = self._call(value)
            case Tuple():
                self.of[var] = tuple(map(self._classes, value.fields))
            case TupleGetItem():
                whole = self._classes(value.tuple_value)
                self.of[var] = whole[value.index] if isinstance(whole, tuple) else self._kept(value.ty)
            case If() | Match():
                self.of[var] = self.new(value.ty)
                if isinstance(value, Match):
                    self._patterns(value)
                for chain in inner_chains(value):
                    self._body(chain, self.of[var])
            case Function():
                assert isinstance(value.ty, FuncType)
                self.of[var] = made = Signature(tuple(map(self._declared, value.params)), self.new(value.ty.result))
                self._body(value.body, made.result)
            case Var() | Constant() | GlobalVar():
                self.of[var] = self._classes(value)
            case _:
                self._escape(operands(value))
                self.of[var] = self._kept(value.ty)

    def _kept(self, ty: Type | None) -> Classes:
        classes = self.new(ty)
        self.fix(classes)
        return classes

    def _escape(self, atoms: Iterable[Expr]) -> None:
        for atom in atoms:
            self.fix(self._classes(atom))

    def _patterns(self, value: Match) -> None:
        self._escape((value.data,))
        for clause in value.clauses:
            for var in pattern_vars(clause.lhs):
                self.of[var] = self._kept(var.ty)

    def _call(self, call: Call) -> Classes:
        """The classes of the result of a function."""
        assert not isinstance(call.op, Op)
        called = self._classes(call.op)
        if not isinstance(called, Signature):
            self._escape(call.args)
            return self._kept(call.ty)
        for arg, param in zip(call.args, called.params, strict=True):
            self.join(self._classes(arg), param)
        result: Classes = called.result
        return result

    def _operator(self, call: Call, result: Classes) -> None:
        op, types = call.op, tuple(map(type_of, call.args))
        assert isinstance(op, Op)
        if WIDE not in _flat(tuple(with_dtypes(ty, WIDE) for ty in (*types, type_of(call)))):
            return
        attrs, wanted = with_result(call.attrs, self.dtype), with_dtypes(type_of(call), self.dtype)
        role, free = role_of(op, attrs), free_inputs(op, types, call.attrs, self.dtype)
        if accepted(op, tuple(with_dtypes(ty, self.dtype) for ty in types), attrs) != wanted or op.name in self.wide:
            role = Role.WIDE
        reads: tuple[int, ...] = ()
        for n, arg in enumerate(call.args):
            if n not in free and not isinstance(arg, Constant):
                reads += self.tensors(self._classes(arg))
        writes = self.tensors(result)
        if role is Role.MOVE:
            for other in (*reads, *writes):
                self.join(other, (*reads, *writes)[0])
        self.by_call[call] = Operation(call, role, reads, writes, free)


def _flat(dtypes: Any) -> tuple[Any, ...]:
    return tuple(d for each in dtypes for d in _flat(each)) if isinstance(dtypes, tuple) else (dtypes,)
