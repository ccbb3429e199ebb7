"""Compute with halves in float32 on the CPU, and keep float32 between operators; constant weights of products stay halves.

    fn (%x: Tensor[(?n, 64), float16]) {          fn (%x: Tensor[(?n, 64), float16]) {
      let %h = nn.dense(%x, W);                     let %x_wide = cast(%x, dtype="float32");
      let %r = nn.relu(%h);                         let %h_wide = nn.dense_panels(%x_wide, P, units=256);
      nn.conv1d(%r, K)                       ->     let %r_wide = nn.relu(%h_wide);
    }                                               let %y_wide = nn.conv1d(%r_wide, meta[float32 of K]);
                                                    let %y = cast(%y_wide, dtype="float16");
                                                    %y
                                                  }

Kernels load a half as float32 and round once, at the store.  So a value that only operators read need not be a half.  Halves
are the parameters and results of functions, values of branches, values in ADTs and references, results of casts that the program
has, and elements of such values that operators move.  A result differs by roundings that are left out.

A product reads the halves of a second operand that is a parameter, and stores float32.

``P`` are panels of halves, which a tile widens where it reads them: a product of few rows takes the time of reading the weight.
So are they for a product of float32 by a constant that the program itself widens from halves.
The weight of a convolution is widened here, unless its kernel widens data and weight itself, for a result of float32.

Requires: typed A-normal form without composite operators, constants folded.
Ensures: the same.  Casts without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Collection
from typing import Any

from ....ops.core.implementation import HOST, OpCall
from ....ops.core.op import Op, get
from ....ops.core.tensor_types import HALVES, Tensor, TensorType, TupleType, Type, computed_in
from ....ops.defs.products.attention import LEAST_QUERIES
from ....ops.strategy.choice import choose
from ....shape_funcs.symbolic.dim import const
from ...ir.anf import rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, IRModule, Tuple, TupleGetItem, Var, let_chain, replace
from ...ir.pass_declaration import declare_pass
from ..constant_weights.pack_weights import WeightPacker
from ..constant_weights.weighted_products import constant_like
from ..infer_type import infer_sizes
from .operator_precision import (
    ATTENTION,
    CONVERTING,
    CONVOLUTIONS,
    FORMS_OF_CONVOLUTION,
    WIDE,
    WIDE_RESULTS,
    Role,
    accepted,
    read_again,
    role_of,
)

#: Operators that read halves in less time than a cast and their kernels of float32 take; pools, where channels are first.
_READERS = frozenset(
    (
        *("nn.softmax", "nn.log_softmax", "nn.global_avg_pool2d"),
        *(f"nn.{kind}_pool{n}d" for kind in ("max", "adaptive_avg") for n in (1, 2, 3)),
    )
)
_Bindings = list[tuple[Var, Expr]]


@declare_pass("WidenHalves", "monomorphize", "infer_type", "expand_composites", "fold_constant")
def widen_halves(mod: IRModule, forced: Collection[str] = (), casts_store: bool = False) -> IRModule:
    """The module with operators of float32 in the place of operators of halves.

    ``forced``: names of operators that stay as they are.  ``casts_store``: casts of float32 are those of
    ``store_halves``, and their values stay float32 too.
    """
    packer = WeightPacker(forced)
    functions = {n: f if f.is_primitive else _Widener(packer, casts_store).function(f) for n, f in mod.functions.items()}
    if all(functions[n] is f for n, f in mod.functions.items()):
        return mod
    return infer_sizes(replace(mod, functions=functions), mod)


class _Widener:
    """The rewriter of one function.

    ``wide``: the value in float32 of variables of halves, and of tuples with such.  ``same``: the value of a cast of such a
    variable to float32.  ``casts``: casts to float32 that kernels which are not fused share.  ``widened``: variables of the
    program's own casts from halves to float32.  ``stored``: the constants of such casts.
    """

    def __init__(self, packer: WeightPacker, casts_store: bool) -> None:
        self.packer, self.casts_store = packer, casts_store
        self.wide: dict[Expr, Var] = {}
        self.same: dict[Expr, Var] = {}
        self.casts: ChainMap[Expr, Var] = ChainMap()
        self.widened: set[Expr] = set()
        self.stored: dict[Expr, Constant] = {}

    def function(self, f: Any) -> Any:
        body = self._chain(f.body)
        return f if body is f.body else replace(f, body=body)

    def _chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        outer, self.casts = self.casts, self.casts.new_child()
        out: _Bindings = []
        for var, value in bindings:
            if not self._is_bound(var, value, out):
                out.append((var, rebuild(value, self._atom, self._chain)))
        self.casts = outer
        return rebuild_lets(chain, out, self._atom(result))

    def _atom(self, atom: Expr) -> Expr:
        return self.same.get(atom, atom)

    def _is_bound(self, var: Var, value: Expr, out: _Bindings) -> bool:
        """Whether the bindings of a value in float32, and of its halves under its name, are made."""
        match value:
            case Call(op=Op()):
                return self._operator(var, value, out)
            case Tuple():
                if not _has_halves(value.ty) or not all(f in self.wide or not _has_halves(f.ty) for f in value.fields):
                    return False
                whole = Var(f"{var.name}_wide", span=var.span)
                out.append((var, rebuild(value, self._atom, lambda chain: chain)))
                out.append((whole, replace(value, fields=tuple(self.wide.get(f, self._atom(f)) for f in value.fields), ty=None)))
                self.wide[var] = whole
                return True
            case TupleGetItem() if value.tuple_value in self.wide and _is_half(value.ty):
                self._give(var, replace(value, tuple_value=self.wide[value.tuple_value], ty=None), value.ty, out)
                return True
        return False

    # ---- operators ----

    def _operator(self, var: Var, call: Call, out: _Bindings) -> bool:
        op = call.op
        assert isinstance(op, Op)
        if op is get("cast") and _is_half(call.args[0].ty) and _dtype(call.ty) == WIDE and call.args[0] in self.wide:
            self.same[var] = self.wide[call.args[0]]
            return True
        if op is get("cast") and _is_half(call.args[0].ty) and _dtype(call.ty) == WIDE:
            self.widened.add(var)
            if isinstance(call.args[0], Constant):
                self.stored[var] = call.args[0]
        if not any(_has_halves(a.ty) for a in call.args):
            given = call.args[0] if self.casts_store and op is get("cast") and _is_half(call.ty) else None
            if isinstance(given, Var) and _dtype(given.ty) == WIDE:
                self.wide[var] = self.same.get(given, given)
            return self._reads_stored(var, call, op, out) or self._reads_widened(var, call, op, out)
        attrs = _widened_attrs(call.attrs)
        role = role_of(op, attrs)
        if not self._computes_wide(call, op, attrs, role):
            return False
        if op.name in CONVOLUTIONS and call.args[0] not in self.wide and _widens_itself(call, op, attrs):
            stored = dataclasses.replace(attrs, out_dtype=WIDE)
            self._give(var, replace(call, args=tuple(map(self._atom, call.args)), attrs=stored, ty=None), call.ty, out)
            return True
        packed = self._packed(call) if role is Role.PRODUCT else None
        if packed is None and role is Role.PRODUCT and self._reads_weight(call, op):
            new: Expr = replace(
                call, args=tuple(map(self._atom, call.args)), attrs=dataclasses.replace(call.attrs, out_dtype=WIDE), ty=None
            )
        elif packed is None:
            args = tuple(self._read(arg, role, out) for arg in call.args)
            whole = read_again(op, attrs)  # vectors gather float32, and no halves
            pairs = enumerate(zip(call.args, args, strict=True))
            args = tuple(self._whole(given, arg, out) if n in whole else arg for n, (given, arg) in pairs)
            new = replace(call, args=args, attrs=attrs, ty=None)
        else:
            new = replace(packed, args=(self._read(packed.args[0], role, out), packed.args[1]), ty=None)
        self._give(var, new, call.ty, out)
        return True

    def _reads_stored(self, var: Var, call: Call, op: Op, out: _Bindings) -> bool:
        """Whether a product or a convolution of float32 by a constant, which the program widens from halves, is bound.

        Panels are of the halves; the weight of a convolution is widened here.
        """
        weight = self.stored.get(call.args[1]) if len(call.args) > 1 else None
        if weight is None or op.name in self.packer.forced:
            return False
        if op.name in CONVOLUTIONS:
            args = (*call.args[:1], constant_like(weight.data.astype(WIDE), weight), *call.args[2:])
            out.append((var, replace(call, args=tuple(map(self._atom, args)))))
            return True
        is_product = role_of(op, call.attrs) is Role.PRODUCT
        packed = self._packed(replace(call, args=(call.args[0], weight))) if is_product else None
        if packed is not None:
            out.append((var, replace(packed, args=(self._atom(packed.args[0]), packed.args[1]), ty=None)))
        return packed is not None

    def _reads_widened(self, var: Var, call: Call, op: Op, out: _Bindings) -> bool:
        """Whether a call that reads halves again, which the program itself widens, is bound: a kernel before widens them."""
        inputs = [n for n in read_again(op, call.attrs) if call.args[n] in self.widened]
        if inputs:
            args = [self._apart(self._atom(a), out) if n in inputs else self._atom(a) for n, a in enumerate(call.args)]
            out.append((var, replace(call, args=tuple(args), ty=None)))
        return bool(inputs)

    def _computes_wide(self, call: Call, op: Op, attrs: Any, role: Role) -> bool:
        """Whether the operator computes with float32."""
        dtypes = tuple(_widened(a.ty) for a in call.args)
        if op.name in self.packer.forced or accepted(op, dtypes, attrs) != _widened(call.ty):
            return False
        if role is Role.ELEMENTS or (role is Role.PRODUCT and not _reads_once(call, op)):
            return True
        if op.name in FORMS_OF_CONVOLUTION | CONVERTING or read_again(op, attrs):
            return True
        if role is Role.FOLLOW and (op.name not in _READERS or getattr(attrs, "layout", "NC")[1] != "C"):
            return True
        # moved or read by a kernel of its own: as its inputs are
        given = [a for a in call.args if _has_halves(a.ty) and not isinstance(a, Constant)]
        return bool(given) and all(a in self.wide for a in given)

    def _reads_weight(self, call: Call, op: Op) -> bool:
        """Whether the product reads the halves of its second operand: a cast would write and read twice as many bytes."""
        second = call.args[1]
        if op.name not in WIDE_RESULTS or isinstance(second, Constant) or second in self.wide:
            return False
        return {_dtype(a.ty) for a in call.args} < {*HALVES} and _dtype(call.ty) in (*HALVES, WIDE)

    def _packed(self, call: Call) -> Call | None:
        """The product with its constant weight in panels of halves; None for another call."""
        weight = call.args[1]
        if not isinstance(weight, Constant) or _dtype(weight.ty) not in HALVES or _dtype(call.ty) not in (*HALVES, WIDE):
            return None
        return self.packer.product(call, weight.data)

    def _read(self, atom: Expr, role: Role, out: _Bindings) -> Expr:
        """An operand in float32."""
        if not _has_halves(atom.ty) or atom in self.wide:
            return self.wide.get(atom, self._atom(atom))
        if isinstance(atom, Constant):
            return constant_like(atom.data.astype(WIDE), atom)
        if isinstance(atom.ty, TupleType):
            return self._read_tuple(atom, atom.ty, role, out)
        return self._cast(atom, role, out)

    def _whole(self, given: Expr, wide: Expr, out: _Bindings) -> Expr:
        """The halves ``given`` in float32, ``wide``, from a kernel of their own; other operands as they are."""
        if not _is_half(given.ty) or given in self.wide or isinstance(given, Constant):
            return wide
        return self._apart(wide, out)

    def _apart(self, wide: Expr, out: _Bindings) -> Var:
        """A value from a kernel of its own."""
        whole = Var(f"{_name(wide)}_whole", span=wide.span)
        out.append((whole, Call(get("annotation.stop_fusion"), (wide,), span=wide.span)))
        return whole

    def _read_tuple(self, atom: Expr, ty: TupleType, role: Role, out: _Bindings) -> Expr:
        fields: list[Expr] = []
        for n, field in enumerate(ty.fields):
            out.append((item := Var(f"{_name(atom)}_{n}", span=atom.span), TupleGetItem(atom, n, span=atom.span)))
            fields.append(self._cast(item, role, out) if _is_half(field) else item)
        out.append((whole := Var(f"{_name(atom)}_wide", span=atom.span), Tuple(tuple(fields), span=atom.span)))
        return whole

    def _cast(self, atom: Expr, role: Role, out: _Bindings) -> Var:
        """Halves in float32: a cast of its own for a fused kernel, one for all other kernels."""
        if role is not Role.ELEMENTS and atom in self.casts:
            return self.casts[atom]
        out.append((var := Var(f"{_name(atom)}_wide", span=atom.span), _cast(atom, WIDE)))
        if role is not Role.ELEMENTS:
            self.casts[atom] = var
        return var

    def _give(self, var: Var, new: Expr, ty: Type | None, out: _Bindings) -> None:
        """Bind a result in float32, and halves under the name that it had."""
        if not _has_halves(ty):
            out.append((var, new))
            return
        whole = Var(f"{var.name}_wide", span=var.span)
        out.append((whole, new))
        self.wide[var] = whole
        if isinstance(ty, TensorType):
            out.append((var, _cast(whole, ty.dtype)))
            return
        assert isinstance(ty, TupleType)
        fields: list[Expr] = []
        for n, field in enumerate(ty.fields):
            out.append((item := Var(f"{var.name}_{n}", span=var.span), TupleGetItem(whole, n, span=var.span)))
            if _is_half(field):
                assert isinstance(field, TensorType)
                out.append((half := Var(f"{var.name}_{n}_{field.dtype}", span=var.span), _cast(item, field.dtype)))
            fields.append(half if _is_half(field) else item)
        out.append((var, Tuple(tuple(fields), span=var.span)))


def _reads_once(call: Call, op: Op) -> bool:
    """Whether the product is attention of few queries, such as in a step of a loop: it reads keys and values once."""
    if op.name not in ATTENTION or not isinstance(call.args[0].ty, TensorType):
        return False
    queries = const(call.args[0].ty.shape[0 if op is get("nn.attention") else 1])
    return queries is not None and queries < LEAST_QUERIES


def _dtype(ty: Type | None) -> str:
    return ty.dtype if isinstance(ty, TensorType) else ""


def _is_half(ty: Type | None) -> bool:
    return _dtype(ty) in HALVES


def _has_halves(ty: Type | None) -> bool:
    """Whether a value is a tensor of halves, or a tuple with such a tensor."""
    return any(map(_is_half, ty.fields)) if isinstance(ty, TupleType) else _is_half(ty)


def _widened(ty: Type | None) -> Any:
    """The dtypes of a type, as rules take them, with float32 in the place of halves."""
    return tuple(map(_widened, ty.fields)) if isinstance(ty, TupleType) else computed_in(_dtype(ty))


def _widened_attrs(attrs: Any) -> Any:
    """The attributes with a result of float32, where they state halves."""
    return dataclasses.replace(attrs, out_dtype=WIDE) if getattr(attrs, "out_dtype", None) in HALVES else attrs


def _widens_itself(call: Call, op: Op, attrs: Any) -> bool:
    """Whether an implementation reads halves, for a result of float32, in less time than a cast and one of float32 take."""
    stored, types = dataclasses.replace(attrs, out_dtype=WIDE), (*(arg.ty for arg in call.args), call.ty)
    tensors = tuple(Tensor(ty.dtype, ty.shape) for ty in types if isinstance(ty, TensorType))
    names = choose(OpCall(op, stored, tensors[:-1], (dataclasses.replace(tensors[-1], dtype=WIDE),))).names
    return names[-1] != op.kernels_on(HOST)[-1].name


def _name(atom: Expr) -> str:
    return atom.name if isinstance(atom, Var) else "value"


def _cast(atom: Expr, dtype: str) -> Call:
    op = get("cast")
    return Call(op, (atom,), op.attrs(dtype), span=atom.span)
