"""Compute at compile time what is known at compile time, with the operators' own kernels.

    let %a = add(2f, 3f);
    let %b = multiply(%x, %a);      ->      let %b = multiply(%x, 5f);
    %b                                      %b

Besides calls on constants: what takes sizes out of shapes and puts them together, as far as these are known (see
``elements``); projections of tuples in sight; and ``if`` on a constant, which becomes the branch taken.

    let %s = shape_of(%x);                     // %x: Tensor[(?n, 4), float32]
    let %k = take(%s, 1i64);           ->      let %y = multiply(%i, 4i64);
    let %y = multiply(%i, %k);                 %y
    %y

Requires: typed A-normal form without composite operators.
Ensures: the same; no binding's value is a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.op import Op, OpPattern
from ...ops.transform import ShapeOfAttrs
from ...ops.ty import ITEMSIZE, TensorType, TupleType, Type, numpy_dtype, tensors
from ...shape_funcs.dims import const
from ...shape_funcs.registry import ShapeError
from ...vm.source import RelayError
from ..anf import is_atom, rebuild, rebuild_lets
from ..ir import Call, Constant, Expr, If, IRModule, Tuple, TupleGetItem, Var, let_chain, replace
from ..rules.elements import ElementTable, Known
from ..rules.rewriting import Scope

#: A result above this size that is larger than what it is made of is cheaper to compute than to store.
MAX_BYTES = 1 << 20


def fold_constant(mod: IRModule) -> IRModule:
    """The module with constant expressions evaluated."""
    functions = {}
    for name, f in mod.functions.items():
        functions[name] = f if f.is_primitive else replace(f, body=_Folder().chain(f.body))
    return replace(mod, functions=functions)


class _Folder:
    """Folds one function."""

    def __init__(self) -> None:
        self.same: dict[Expr, Expr] = {}  # variables that are another name for an atom
        self.tuples: dict[Expr, tuple[Expr, ...]] = {}
        self.elements = ElementTable()
        self.scope = Scope()

    def _atom(self, atom: Expr) -> Expr:
        return self.same.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        pending = bindings[::-1]
        while pending:
            var, value = pending.pop()
            if isinstance(value, If):
                taken = self._taken(value)
                if taken is not None:
                    # the branch is spliced in, what it gives is the value
                    inner, end = let_chain(taken)
                    pending += [(var, end), *inner[::-1]]
                    continue
            value = rebuild(value, self._atom, self.chain)
            known = self._from_elements(value, self.elements.bind(var, value))
            self._binding(var, known or self._folded(value), out)
        return rebuild_lets(chain, out, self._atom(result))

    def _taken(self, value: If) -> Expr | None:
        cond = self._atom(value.cond)
        if not isinstance(cond, Constant):
            return None
        return value.true_branch if cond.data.item() else value.false_branch

    def _binding(self, var: Var, value: Expr, out: list[tuple[Var, Expr]]) -> None:
        if is_atom(value):
            self.same[var] = value
            return
        if isinstance(value, Tuple):
            self.tuples[var] = value.fields
        self.scope.values[var] = value
        out.append((var, value))

    def _folded(self, value: Expr) -> Expr:
        """The value, evaluated if it can be; its operands are what they are known as."""
        if isinstance(value, TupleGetItem):
            fields = self.tuples.get(value.tuple_value)
            return value if fields is None else fields[value.index]
        if not (isinstance(value, Call) and isinstance(value.op, Op)):
            return value
        args = [self._constant(a) for a in value.args]
        if value.op.stateful or value.op.pattern is OpPattern.MACHINE or None in args:
            return value
        return _evaluated(value, value.op, args)

    def _from_elements(self, value: Expr, known: Known | None) -> Expr | None:
        """The value of a call as a constant (a tuple of them) if each of its elements is known and it cannot fail."""
        if known is None or not isinstance(value, Call):
            return None
        several = isinstance(value.ty, TupleType)
        numbers = [_numbers(elements) for elements in (known if several else (known,))]
        if None in numbers or not (isinstance(value.attrs, ShapeOfAttrs) or self.scope.is_safe(value)):
            return None
        arrays = [np.array(n, numpy_dtype(t.dtype)) for n, t in zip(numbers, tensors(value.ty), strict=True)]
        fields = [
            _as_constant(a.reshape([const(d) for d in t.shape]), value) for a, t in zip(arrays, tensors(value.ty), strict=True)
        ]
        return Tuple(tuple(fields), span=value.span, ty=value.ty) if several else fields[0]

    def _constant(self, atom: Expr) -> Any:
        """The value of ``atom`` as an array or tuple of arrays, or None."""
        if isinstance(atom, Constant):
            return _Known(atom.data)
        fields = [self._constant(f) for f in self.tuples.get(atom, ())]
        return _Known(tuple(f.value for f in fields)) if fields and None not in fields else None


class _Known:
    """An array or a tuple of arrays; compared by identity, as arrays cannot be compared."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _numbers(elements: Known | None) -> list[int] | None:
    """The elements as numbers, if all are."""
    numbers = [None] if elements is None else [None if e is None else const(e) for e in elements]
    return None if None in numbers else numbers  # type: ignore[return-value]


def _evaluated(call: Call, op: Op, args: list[_Known]) -> Expr:
    """The result as a constant (a tuple of them), or the call: if it is large, or fails (then it fails at run time)."""
    arrays = [a.value for a in args]
    if _is_large(call.ty, sum(x.nbytes for a in arrays for x in (a if isinstance(a, tuple) else (a,)))):
        return call
    from ...vm.evaluate import evaluate

    try:
        result = evaluate(op, arrays, call.attrs)
    except (RelayError, ShapeError):
        return call
    if isinstance(result, tuple):
        fields = tuple(_as_constant(r, call) for r in result)
        return Tuple(fields, span=call.span, ty=call.ty)
    return _as_constant(result, call)


def _is_large(ty: Type | None, input_bytes: int) -> bool:
    assert ty is not None
    total = 0
    for t in tensors(ty):
        count = 1
        for d in t.shape:
            # what is not known before is at most a few times the input
            count *= 1 if const(d) is None else const(d)  # type: ignore[operator]
        total += count * ITEMSIZE[t.dtype]
    return total > MAX_BYTES and total > input_bytes


def _as_constant(array: np.ndarray, call: Call) -> Constant:
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    array.flags.writeable = False
    return Constant(array, span=call.span, ty=TensorType.of(array.shape, array.dtype.name))
