"""Eliminate dead tuple fields: of the value of an ``if``, of an operator with several results.

    let %t = if (%c) {                          let %t0 = if (%c) {
      let %a = exp(%x);                           let %a = exp(%x);
      let %p = (%a, %y); %p                ->     %a
    } else {                                    } else {
      let %q = (%x, %z); %q                       %x
    };                                          };
    let %u = %t.0;                              tanh(%t0)
    tanh(%u)

``topk`` with unused values or indices gets the narrower ``ret_type``; ``unique`` with unused counts does not count; a single
section of a ``split`` becomes a ``strided_slice``.

Requires: typed A-normal form, without dead code.
Ensures: the same.  The producers of eliminated fields are dead code now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType, TupleType, Type
from ...ops.defs.axes.search import UniqueAttrs
from ...ops.defs.axes.sort import DynTopkAttrs, TopkAttrs
from ...ops.defs.movement.transform import STRIDED_SLICE, SliceAttrs, SplitAttrs
from ...shape_funcs.symbolic.dim import const
from ..ir.anf import inner_chains, rebuild, rebuild_lets, uses
from ..ir.expr import Call, Expr, If, IRModule, Let, Tuple, TupleGetItem, Var, let_chain, make_lets, map_bodies, replace
from ..ir.pass_declaration import declare_pass
from ..rules.rewriting import Definitions

Fields = tuple[int, ...]
#: The end of a slice to the end of the axis.
_TO_THE_END = 2**63 - 1


@declare_pass("NarrowTuples", "infer_type", "eliminate_dead_code")
def narrow_tuples(mod: IRModule) -> IRModule:
    """The module without unused fields of tuples."""
    return map_bodies(mod, lambda body: _Narrower(body).chain(body))


def _projections(chain: Expr) -> Iterator[TupleGetItem]:
    """Every projection in ``chain`` and the chains inside it."""
    pending = [chain]
    while pending:
        expr = pending.pop()
        while isinstance(expr, Let):
            if isinstance(expr.value, TupleGetItem):
                yield expr.value
            pending.extend(inner_chains(expr.value))
            expr = expr.body


class _Narrower:
    """The rewriter of one function."""

    def __init__(self, body: Expr) -> None:
        self.fields: dict[Expr, set[int]] = {}
        self.times: dict[Expr, int] = {}  # the uses of a variable other than projections
        for atom in uses(body):
            self.times[atom] = self.times.get(atom, 0) + 1
        for value in _projections(body):
            self.fields.setdefault(value.tuple_value, set()).add(value.index)
            self.times[value.tuple_value] -= 1
        #: Narrowed tuples: the variable that replaces each, and its remaining fields.
        self.narrowed_to: dict[Expr, tuple[Var, Fields]] = {}
        self.same: dict[Expr, Expr] = {}

    def _atom(self, atom: Expr) -> Expr:
        return self.same.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            if isinstance(value, TupleGetItem) and value.tuple_value in self.narrowed_to:
                self._projection(var, value, out)
                continue
            fields = self._used(var, value.ty) if var.ty == value.ty else None
            narrow = None if fields is None else self._narrowed(value, fields)
            if narrow is not None and fields is not None:
                new = Var(var.name, span=var.span, ty=narrow.ty)
                self.narrowed_to[var] = (new, fields)
                var, value = new, narrow
            out.append((var, rebuild(value, self._atom, self.chain)))
        return rebuild_lets(chain, out, self._atom(result))

    def _used(self, var: Var, ty: Type | None) -> Fields | None:
        """The used fields of the tuple ``var``; None if all are used, or if the tuple has another use."""
        fields = self.fields.get(var)
        if fields is None or self.times[var] or not isinstance(ty, TupleType) or len(fields) == len(ty.fields):
            return None
        return tuple(sorted(fields))

    def _projection(self, var: Var, value: TupleGetItem, out: list[tuple[Var, Expr]]) -> None:
        new, fields = self.narrowed_to[value.tuple_value]
        if new.ty != _selected_type(value.tuple_value.ty, fields):  # an operator with more results
            out.append((var, replace(value, tuple_value=new)))
        elif len(fields) > 1:
            out.append((var, replace(value, tuple_value=new, index=fields.index(value.index))))
        else:  # the field itself, which may be a tuple
            self.same[var] = new

    def _narrowed(self, value: Expr, fields: Fields) -> Expr | None:
        """``value`` with ``fields`` only: a single field without a tuple, several as a tuple, to which an operator may append
        more."""
        if isinstance(value, If):
            branches = [self._end(chain, fields) for chain in (value.true_branch, value.false_branch)]
            then, other = branches
            if then is None or other is None:
                return None
            return replace(value, true_branch=then, false_branch=other, ty=_selected_type(value.ty, fields))
        if isinstance(value, Call) and isinstance(value.op, Op) and type(value.attrs) in _OPERATORS:
            return _OPERATORS[type(value.attrs)](value, fields)
        return None

    def _end(self, chain: Expr, fields: Fields) -> Expr | None:
        """A chain that ends in its own tuple, with ``fields`` of it as the result; None for other chains."""
        bindings, result = let_chain(chain)
        if not bindings or bindings[-1][0] is not result or self.times[result] != 1 or result in self.fields:
            return None
        var, value = bindings[-1]
        if isinstance(value, Tuple):
            kept = tuple(value.fields[k] for k in fields)
            if len(kept) == 1:
                return make_lets(bindings[:-1], kept[0])
            narrow: Expr | None = replace(value, fields=kept, ty=_selected_type(value.ty, fields))
        else:
            narrow = self._narrowed(value, fields) if isinstance(value, If) else None
        if narrow is None:
            return None
        end = Var(var.name, span=var.span, ty=narrow.ty)
        return make_lets([*bindings[:-1], (end, narrow)], end)


def _selected_type(ty: Type | None, fields: Fields) -> Type:
    assert isinstance(ty, TupleType)
    picked = tuple(ty.fields[k] for k in fields)
    return picked[0] if len(picked) == 1 else TupleType(picked)


# ---- operators -----------------------------------------------------------------------------------------------------


def _topk(call: Call, fields: Fields) -> Call | None:
    ret_type = ("values", "indices")[fields[0]]
    return replace(call, attrs=replace(call.attrs, ret_type=ret_type), ty=_selected_type(call.ty, fields))


def _unique(call: Call, fields: Fields) -> Call | None:
    assert isinstance(call.ty, TupleType)
    counts = len(call.ty.fields) - 1
    if not call.attrs.return_counts or counts in fields:
        return None
    return replace(call, attrs=replace(call.attrs, return_counts=False), ty=TupleType(call.ty.fields[:counts]))


def _split(call: Call, fields: Fields) -> Call | None:
    """A single section as a slice, where its bounds are known."""
    if len(fields) > 1:
        return None
    (k,), (data,), attrs = fields, call.args, call.attrs
    assert isinstance(data.ty, TensorType)
    how, size = attrs.indices_or_sections, const(data.ty.shape[attrs.axis])
    if isinstance(how, int):
        if size is None:
            return None
        how = tuple(size // how * i for i in range(1, how))
    bounds = (0, *how, _TO_THE_END)
    new = Call(STRIDED_SLICE, (data,), SliceAttrs((bounds[k],), (bounds[k + 1],), (1,), (attrs.axis,)), span=call.span)
    wanted = _selected_type(call.ty, fields)
    return replace(new, ty=wanted) if Definitions().typed(new) == (wanted, ()) and Definitions().is_safe(call) else None


#: By the attributes of the operator: its call with these fields only.  A single field is no tuple; with several fields,
#: the call may have more results.
_OPERATORS: dict[type, Callable[[Call, Fields], Call | None]] = {
    TopkAttrs: _topk,
    DynTopkAttrs: _topk,
    UniqueAttrs: _unique,
    SplitAttrs: _split,
}
