"""Evaluate constant expressions at compile time, with the operators' own kernels.

    let %a = add(2f, 3f);
    let %b = multiply(%x, %a);      ->      let %b = multiply(%x, 5f);
    %b                                      %b

Besides calls on constants: calls that compute with sizes of shapes, where the sizes are known (see ``elements``); projections of
tuples in scope; and ``if`` on a constant, which becomes the branch taken.

    let %s = shape_of(%x);                     // %x: Tensor[(?n, 4), float32]
    let %k = take(%s, 1i64);           ->      let %y = multiply(%i, 4i64);
    let %y = multiply(%i, %k);                 %y
    %y

A transpose or a reshape of a cast of a constant, whose result is too large to store, becomes the cast of a constant.  A call of a
composite operator is folded if all of its arguments are constants; the compiler expands those operators before.

Requires: typed A-normal form.
Ensures: the same; no binding's value is a constant.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ...ops.core.op import Op, OpPattern, TypeRelError, get
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type, array_bytes, numpy_dtype, tensors
from ...ops.core.type_relation import relate
from ...ops.defs.movement.transform import ShapeOfAttrs
from ...shape_funcs.symbolic.dim import const
from ...shape_funcs.symbolic.registry import ShapeError
from ...vm.diagnostics.source import RelayError
from ..ir.anf import is_atom, operands, rebuild, rebuild_lets
from ..ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    IRModule,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    map_bodies,
    replace,
    type_of,
)
from ..ir.pass_declaration import declare_pass
from ..rules.elements import ElementTable, Known
from ..rules.rewriting import Definitions
from .expand_composites import expand_composites

#: A result larger than this and than its inputs is cheaper to compute than to store.
MAX_BYTES = 1 << 20


@declare_pass("FoldConstant", "infer_type")
def fold_constant(mod: IRModule) -> IRModule:
    """The module with constant expressions evaluated."""
    return map_bodies(mod, _folded_body)


def _folded_body(body: Expr) -> Expr:
    """The body with constants folded, but for values whose exact types their users refuse.

    A folded value may have sizes where its variable has ``?``.  A use that cannot have these sizes fails at run time, if it runs.
    """
    as_declared: set[Var] = set()
    while True:
        try:
            return _Folder(as_declared).chain(body)
        except _RefusedByUse as refused:
            as_declared |= refused.values


class _RefusedByUse(Exception):
    """An operator rejects the exact types of the folded ``values``."""

    def __init__(self, values: set[Var]) -> None:
        super().__init__(", ".join(v.name for v in values))
        self.values = values


class _Folder:
    """The rewriter of one function."""

    def __init__(self, as_declared: Collection[Var]) -> None:
        self.as_declared = as_declared
        self.narrowed: set[Var] = set()  # variables with a value of a more precise type
        self.changed: set[Expr] = set()  # these, and the tuples, whose fields may be narrowed
        self.same: dict[Expr, Expr] = {}  # variables that are aliases of an atom
        self.tuples: dict[Expr, tuple[Expr, ...]] = {}
        self.elements = ElementTable()
        self.scope = Definitions()

    def _atom(self, atom: Expr) -> Expr:
        return self.same.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        pending = bindings[::-1]
        while pending:
            var, value = pending.pop()
            if isinstance(value, If) and var not in self.as_declared:
                taken = self._taken(value)
                if taken is not None:
                    # the branch is inlined, its result is the value
                    inner, end = let_chain(taken)
                    pending += [(var, end), *inner[::-1]]
                    continue
            declared, value = value, rebuild(value, self._atom, self.chain)
            if value is not declared or not self.changed.isdisjoint(operands(value)):
                self._check_narrowed(value)
            known = self._from_elements(value, self.elements.bind(var, value))
            if known is None:
                known = value if var in self.as_declared else self._fold(value)
            self._binding(var, known, out)
        return rebuild_lets(chain, out, self._atom(result))

    def _taken(self, value: If) -> Expr | None:
        cond = self._atom(value.cond)
        if not isinstance(cond, Constant):
            return None
        return value.true_branch if cond.data.item() else value.false_branch

    def _binding(self, var: Var, value: Expr, out: list[tuple[Var, Expr]]) -> None:
        if value.ty != var.ty and var not in self.as_declared:
            self.narrowed.add(var)
            self.changed.add(var)
        if is_atom(value):
            self.same[var] = value
            return
        if isinstance(value, Tuple):
            self.tuples[var] = value.fields
            self.changed.add(var)
        self.scope.values[var] = value
        out.append((var, value))

    def _check_narrowed(self, value: Expr) -> None:
        """Raise _RefusedByUse if a call cannot have the types that its operands have by now."""
        if not (self.narrowed and isinstance(value, Call) and isinstance(value.op, Op) and value.op.in_language):
            return
        try:
            relate(value.op, [self._exact_type(a) for a in value.args], value.attrs, [self._data(a) for a in value.args])
        except TypeRelError:
            raise _RefusedByUse(self.narrowed) from None

    def _exact_type(self, atom: Expr) -> Type:
        fields = self.tuples.get(atom)
        return type_of(atom) if fields is None else TupleType(tuple(map(self._exact_type, fields)))

    def _data(self, atom: Expr) -> Any:
        """The array of a constant, a tuple of these for a tuple, None for any other atom."""
        fields = self.tuples.get(atom)
        if fields is not None:
            return tuple(self._data(f) for f in fields)
        return atom.data if isinstance(atom, Constant) else None

    def _fold(self, value: Expr) -> Expr:
        """The value, evaluated if all operands are known."""
        if isinstance(value, TupleGetItem):
            fields = self.tuples.get(value.tuple_value)
            return value if fields is None else fields[value.index]
        if not (isinstance(value, Call) and isinstance(value.op, Op)):
            return value
        args = [self._constant(a) for a in value.args]
        if value.op.expand is not None:
            return _expanded(value) if all(isinstance(a, Constant) for a in value.args) else value
        if value.op.stateful or value.op.pattern is OpPattern.MACHINE or None in args:
            return self._before_cast(value, value.op)
        return _evaluate(value, value.op, args)

    def _before_cast(self, value: Call, op: Op) -> Call:
        """A movement of a cast of a constant, which is too large, as the cast of the moved constant; other calls as they are."""
        if len(value.args) != 1 or not (op is get("transpose") or op.pattern is OpPattern.RESHAPE):
            return value
        cast = self.scope.values.get(value.args[0])
        if not (isinstance(cast, Call) and cast.op is get("cast") and isinstance(cast.args[0], Constant)):
            return value
        stored, ty = cast.args[0], type_of(value)
        assert isinstance(ty, TensorType)
        own = replace(value, args=(stored,), ty=TensorType(ty.shape, stored.data.dtype.name))
        moved = _evaluate(own, op, [_ArrayValue(stored.data)])
        return replace(cast, args=(moved,), span=value.span, ty=ty) if isinstance(moved, Constant) else value

    def _from_elements(self, value: Expr, known: Known | None) -> Expr | None:
        """The value of a call as a constant (a tuple of them) if each of its elements is known and it cannot fail."""
        if known is None or not isinstance(value, Call):
            return None
        several = isinstance(value.ty, TupleType)
        given = [_numbers(elements) for elements in (known if several else (known,))]
        numbers = [n for n in given if n is not None]
        if len(numbers) < len(given) or not (isinstance(value.attrs, ShapeOfAttrs) or self.scope.is_safe(value)):
            return None
        arrays = [np.array(n, numpy_dtype(t.dtype)) for n, t in zip(numbers, tensors(type_of(value)), strict=True)]
        sizes = [[n for d in t.shape if (n := const(d)) is not None] for t in tensors(type_of(value))]
        fields = [_as_constant(a.reshape(s), value) for a, s in zip(arrays, sizes, strict=True)]
        return Tuple(tuple(fields), span=value.span, ty=value.ty) if several else fields[0]

    def _constant(self, atom: Expr) -> Any:
        """The value of ``atom`` as an array or tuple of arrays, or None."""
        if isinstance(atom, Constant):
            return _ArrayValue(atom.data)
        fields = [self._constant(f) for f in self.tuples.get(atom, ())]
        return _ArrayValue(tuple(f.value for f in fields)) if fields and None not in fields else None


class _ArrayValue:
    """An array or a tuple of arrays; compared by identity, since numpy compares arrays elementwise."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _numbers(elements: Known | None) -> list[int] | None:
    """The elements as numbers, if all are numbers."""
    if elements is None:
        return None
    numbers = [n for e in elements if e is not None and (n := const(e)) is not None]
    return numbers if len(numbers) == len(elements) else None


def _evaluate(call: Call, op: Op, args: list[_ArrayValue]) -> Expr:
    """The result as a constant (a tuple of them); the call if its result is large, or if it fails, so that it fails at run
    time."""
    arrays = [a.value for a in args]
    if _is_large(call.ty, sum(x.nbytes for a in arrays for x in (a if isinstance(a, tuple) else (a,)))):
        return call
    from ...vm.runtime.evaluate import evaluate

    try:
        result = evaluate(op, arrays, call.attrs, open_sizes=True)  # models fold many sizes
    except (RelayError, ShapeError):
        return call
    if isinstance(result, tuple):
        fields = tuple(_as_constant(r, call) for r in result)
        return Tuple(fields, span=call.span, ty=call.ty)
    return _as_constant(result, call)


def _expanded(call: Call) -> Expr:
    """The result of a call of a composite operator on constants: a constant or a tuple of them; the call if it is not folded."""
    var = Var("value", ty=call.ty)
    single = Function((), Let(var, call, var, ty=call.ty), ty=FuncType((), type_of(call)))
    bindings, result = let_chain(_folded_body(expand_composites(IRModule({"main": single}))["main"].body))
    value = dict(bindings).get(result, result) if isinstance(result, Var) else result
    fields = value.fields if isinstance(value, Tuple) else (value,)
    return value if all(isinstance(field, Constant) for field in fields) else call


def _is_large(ty: Type | None, input_bytes: int) -> bool:
    assert ty is not None
    total = 0
    for t in tensors(ty):
        # an unknown size is at most a few times the input
        total += array_bytes([n for n in map(const, t.shape) if n is not None], t.dtype)
    return total > MAX_BYTES and total > input_bytes


def _as_constant(array: np.ndarray, call: Call) -> Constant:
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    array.flags.writeable = False
    return Constant(array, span=call.span, ty=TensorType.of_array(array))
