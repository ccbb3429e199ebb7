"""Store tensors of float32 as halves; compute with them in float32.

    let %h = nn.dense(%x, meta[0]);                 let %x_half = cast(%x, dtype="float16");
    let %e = erf(%h);                               let %h = nn.dense(%x_half, meta[0]);
    let %y = multiply(%h, %e);               ->     let %e = erf(%h);
    nn.dense(%y, meta[1])                           let %y = multiply(%h, %e);
                                                    nn.dense(%y, meta[1], out_dtype="float32")

Each tensor has one dtype: see ``stored_dtypes``.  A cast stands before or behind an operator that reads or writes another
dtype; ``fuse_ops`` makes it part of the kernel of an elementwise operator.  So casts stand alone at parameters and results of the
program that products read or write.  Constants are cast here.

Finite numbers beyond the range of the half, such as those that hide elements from a softmax, become its largest finite numbers.

Requires: typed A-normal form without composite operators.
Ensures: the same.  Entries keep their types.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Collection
from typing import Any

import numpy as np

from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType, TupleType, Type, numpy_dtype
from ...ir.anf import rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, Function, If, IRModule, Tuple, TupleGetItem, Var, let_chain, replace
from ...ir.match_expr import Match
from ...ir.pass_declaration import declare_pass
from ..infer_type import infer_sizes
from .operator_precision import WIDE, Role, with_result
from .stored_dtypes import StoredDtypes
from .stored_values import Classes, Operation, Signature, StoredValues

_Bindings = list[tuple[Var, Expr]]


@declare_pass("StoreHalves", "monomorphize", "infer_type")
def store_halves(
    mod: IRModule, dtype: str = "float16", entries: Collection[str] = ("main",), wide: Collection[str] = ()
) -> IRModule:
    """The module with halves of ``dtype``.

    ``entries``: the functions that keep their types.  ``wide``: names of operators that are computed in float32.
    """
    values = StoredValues(mod, dtype, entries, wide)
    dtypes = StoredDtypes(values)
    if not dtypes.narrow and not any(o.role is Role.PRODUCT for o in dtypes.operations):
        return mod
    functions = {}
    for name, f in mod.functions.items():
        functions[name] = f if f.is_primitive else _Narrowed(values, dtypes).function(f, values.functions[name])
    return infer_sizes(replace(mod, functions=functions), mod)


class _Narrowed:
    """The rewriter of one function."""

    def __init__(self, values: StoredValues, dtypes: StoredDtypes) -> None:
        self.values, self.dtypes, self.half = values, dtypes, values.dtype
        self.renamed: dict[Expr, Expr] = {}
        #: Variables in another dtype, for kernels that are not fused.
        self.cast: ChainMap[tuple[Expr, str], Var] = ChainMap()

    def function(self, f: Function, signature: Signature) -> Function:
        params = tuple(map(self._renamed, f.params))
        ret_type = None if f.ret_type is None else self._typed(f.ret_type, signature.result)
        return replace(f, params=params, body=self._chain(f.body, signature.result), ret_type=ret_type, ty=None)

    # ---- types ----

    def _stored(self, classes: Classes) -> str:
        """The dtype of a tensor of float32."""
        return self.half if isinstance(classes, int) and self.dtypes.is_narrow(classes) else WIDE

    def _typed(self, ty: Type | None, classes: Classes) -> Any:
        """The type of a value with these classes."""
        if isinstance(ty, TensorType) and isinstance(classes, int):
            return replace(ty, dtype=self._stored(classes))
        if isinstance(ty, TupleType) and isinstance(classes, tuple):
            return replace(ty, fields=tuple(map(self._typed, ty.fields, classes)))
        return None if isinstance(classes, Signature) else ty

    def _renamed(self, var: Var) -> Var:
        annotation = self._typed(var.annotation, self.values.of.get(var))
        self.renamed[var] = new = replace(var, annotation=annotation, ty=None)
        return new

    # ---- the program ----

    def _chain(self, chain: Expr, result: Classes) -> Expr:
        bindings, end = let_chain(chain)
        outer, self.cast = self.cast, self.cast.new_child()
        out: _Bindings = []
        for var, value in bindings:
            self._bind(var, value, out)
        new = self._as(end, result)
        self.cast = outer
        return rebuild_lets(chain, out, new)

    def _bind(self, var: Var, value: Expr, out: _Bindings) -> None:
        classes = self.values.of.get(var)
        operation = self.values.by_call.get(value) if isinstance(value, Call) else None
        new_var = self._renamed(var)
        if operation is not None:
            self._operator(new_var, operation, classes, out)
            return
        match value:
            case Function():
                assert isinstance(classes, Signature)
                out.append((new_var, self.function(value, classes)))
                return
            case Tuple():
                assert isinstance(classes, tuple)
                new: Expr = replace(value, fields=tuple(map(self._as, value.fields, classes)))
            case Call() if isinstance(called := self._signature(value), Signature):
                args = tuple(map(self._as, value.args, called.params))
                assert not isinstance(value.op, Op)
                new = replace(value, op=self._atom(value.op), args=args)
            case If() | Match():
                new = rebuild(value, self._atom, lambda chain: self._chain(chain, classes))
            case Var() | Constant():
                new = self._as(value, classes)
            case _:
                new = rebuild(value, self._atom, lambda chain: chain)
        out.append((new_var, replace(new, ty=None)))

    def _signature(self, call: Call) -> Classes:
        if isinstance(call.op, Op):
            return None
        return self.values.of.get(call.op) or self.values.functions.get(getattr(call.op, "name", ""))

    def _atom(self, atom: Expr) -> Expr:
        return self.renamed.get(atom, atom)

    def _as(self, atom: Expr, classes: Classes) -> Expr:
        """An operand whose classes are these; a constant is cast."""
        if isinstance(atom, Constant) and isinstance(classes, int):
            return _cast_constant(atom, self._stored(classes))
        return self._atom(atom)

    # ---- operators ----

    def _operator(self, var: Var, operation: Operation, classes: Classes, out: _Bindings) -> None:
        call, narrow = operation.call, self.dtypes.computes_narrow(operation)
        dtype = self.half if narrow else WIDE
        args = []
        for n, arg in enumerate(call.args):
            args.append(self._atom(arg) if n in operation.free else self._read(arg, dtype, operation.role, out))
        given = WIDE if self.dtypes.gives_wide(operation) else dtype
        attrs = call.attrs
        if given != dtype:
            attrs = dataclasses.replace(attrs, out_dtype=WIDE)
        elif narrow:
            attrs = with_result(attrs, self.half)
        new = replace(call, args=tuple(args), attrs=attrs, ty=None)
        self._write(var, new, given, classes, operation, out)

    def _write(self, var: Var, new: Call, given: str, classes: Classes, operation: Operation, out: _Bindings) -> None:
        """Bind the result, whose tensors of float32 are given in a dtype, in the dtypes of its classes."""
        if isinstance(classes, int) and self._stored(classes) != given:
            raw = Var(f"{var.name}_{given}", span=var.span)
            out.append((raw, new))
            entered = given == WIDE and self.dtypes.is_of_float32(operation)
            out.append((var, self._saturated(raw, var.span, out) if entered else _cast(raw, self._stored(classes), var.span)))
        elif isinstance(classes, tuple) and any(isinstance(c, int) and self._stored(c) != given for c in classes):
            raw, fields = Var(f"{var.name}_{given}", span=var.span), []
            out.append((raw, new))
            for n, c in enumerate(classes):
                fields.append(Var(f"{var.name}_{n}", span=var.span))
                item = TupleGetItem(raw, n, span=var.span)
                if isinstance(c, int) and self._stored(c) != given:
                    out.append((part := Var(f"{raw.name}_{n}", span=var.span), item))
                    out.append((fields[-1], _cast(part, self._stored(c), var.span)))
                else:
                    out.append((fields[-1], item))
            out.append((var, Tuple(tuple(fields), span=var.span)))
        else:
            out.append((var, new))

    def _read(self, atom: Expr, dtype: str, role: Role, out: _Bindings) -> Expr:
        """An operand as a kernel reads it."""
        if isinstance(atom, Constant):
            return _cast_constant(atom, dtype)
        classes = self.values.of.get(atom)
        if isinstance(classes, tuple):
            return self._read_tuple(atom, classes, dtype, role, out)
        if not isinstance(classes, int) or self._stored(classes) == dtype:
            return self._atom(atom)
        return self._in_dtype(self._atom(atom), dtype, role, out)

    def _read_tuple(self, atom: Expr, classes: tuple[Any, ...], dtype: str, role: Role, out: _Bindings) -> Expr:
        if all(not isinstance(c, int) or self._stored(c) == dtype for c in classes):
            return self._atom(atom)
        fields: list[Expr] = []
        for n, c in enumerate(classes):
            out.append((field := Var(f"{_name(atom)}_{n}", span=atom.span), TupleGetItem(self._atom(atom), n, span=atom.span)))
            kept = not isinstance(c, int) or self._stored(c) == dtype
            fields.append(field if kept else self._in_dtype(field, dtype, role, out))
        out.append((whole := Var(f"{_name(atom)}_{dtype}", span=atom.span), Tuple(tuple(fields), span=atom.span)))
        return whole

    def _in_dtype(self, atom: Expr, dtype: str, role: Role, out: _Bindings) -> Var:
        """A tensor in the other dtype: a cast of its own for a fused kernel, one for all other kernels."""
        if role is Role.ELEMENTS:
            out.append((var := Var(f"{_name(atom)}_{dtype}", span=atom.span), self._converted(atom, dtype, out)))
            return var
        if (atom, dtype) not in self.cast:
            out.append((var := Var(f"{_name(atom)}_{dtype}", span=atom.span), _cast(atom, dtype, atom.span)))
            self.cast[atom, dtype] = var
        return self.cast[atom, dtype]

    def _converted(self, atom: Expr, dtype: str, out: _Bindings) -> Call:
        return self._saturated(atom, atom.span, out) if dtype == self.half else _cast(atom, dtype, atom.span)

    def _saturated(self, atom: Expr, span: Any, out: _Bindings) -> Call:
        """A tensor of float32 as halves, of which none is infinite."""
        most, clip = largest(self.half), get("clip")
        out.append((limited := Var(f"{_name(atom)}_limited", span=span), Call(clip, (atom,), clip.attrs(-most, most), span=span)))
        return _cast(limited, self.half, span)


def largest(dtype: str) -> float:
    """The largest finite number of a half."""
    bits = {"float16": 0x7BFF, "bfloat16": 0x7F7F}[dtype]
    return float(np.array(bits, np.uint16).view(numpy_dtype(dtype)))


def _name(atom: Expr) -> str:
    return atom.name if isinstance(atom, Var) else "value"


def _cast(atom: Expr, dtype: str, span: Any) -> Call:
    op = get("cast")
    return Call(op, (atom,), op.attrs(dtype), span=span)


def _cast_constant(constant: Constant, dtype: str) -> Constant:
    """A constant in a dtype, if it has float32."""
    if not isinstance(constant.ty, TensorType) or constant.ty.dtype != WIDE or dtype == WIDE:
        return constant
    most, given = largest(dtype), constant.data
    data: np.ndarray = np.asarray(np.where(np.isfinite(given), np.clip(given, -most, most), given).astype(numpy_dtype(dtype)))
    data.flags.writeable = False
    return Constant(data, span=constant.span, ty=replace(constant.ty, dtype=dtype))
