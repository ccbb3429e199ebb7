"""Gather rows before they are reduced, if no more rows are gathered than there are.

    let %a = argmax(%scores, axis=[1]);
    let %c = cast(%a, dtype="float32");
    let %y = take(%c, %best, axis=0);
    ->
    let %rows = take(%scores, %best, axis=0);
    let %a1 = argmax(%rows, axis=[1]);
    let %y = cast(%a1, dtype="float32");

A detector finds the class of each candidate, and then uses the best candidates only.  The gather fuses into the reduction.

The number of indices is known to be at most the number of rows where the indices come from a ``topk`` or an ``argwhere`` over as
many elements, by slices, views and elementwise operators.  Values between the calls have no other use.  Each call reduces known
axes of at least one element, or has the element at the same index, so the result is the same bit for bit.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....ops.core.op import Op, OpPattern, get
from ....shape_funcs.defs.axes.reduce import reduced_axes
from ....shape_funcs.symbolic.dim import Dim, const, product
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Expr, IRModule, TupleGetItem, Var, replace, tensor_type
from ...ir.pass_declaration import declare_pass
from ...rules.rewriting import Definitions

#: Operators whose result has at most as many elements as the first argument.
_SELECTIONS = ("strided_slice", "dyn.strided_slice", "topk", "dyn.topk")


@declare_pass("GatherBeforeReduce", "infer_type")
def gather_before_reduce(mod: IRModule) -> IRModule:
    """The module with gathers in front of reductions of the gathered rows."""
    return rewrite_chains(mod, _Mover)


class _Mover(ChainRewriter):
    """The rewriter of one function."""

    def __init__(self, body: Expr) -> None:
        super().__init__(body)
        self.scope = Definitions(self.values)

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if not _gathers_rows(call):
            return None
        rows, indices = call.args
        following = self._by_rows(rows)
        reduces = any(isinstance(each.op, Op) and each.op.pattern is OpPattern.COMM_REDUCE for each in following)
        if not reduces or tensor_type(rows).shape[0] not in self._most(indices):
            return None
        out: list[tuple[Var, Expr]] = []
        value: Call = replace(call, args=(following[-1].args[0], indices))
        for each in reversed(following):
            typed = self.scope.typed(value)
            assert typed is not None, value
            step = Var(var.name, span=value.span, ty=typed[0])
            out.append((step, replace(value, ty=typed[0])))
            value = replace(each, args=(step,))
        return [*out, (var, replace(value, ty=call.ty))]

    def _by_rows(self, atom: Expr) -> list[Call]:
        """The calls that make ``atom`` row by row, the last one first."""
        calls: list[Call] = []
        while self.count[atom] == 1:
            call = self.values.get(atom)
            if not isinstance(call, Call) or not isinstance(call.op, Op) or not _is_by_rows(call) or not self.scope.is_safe(call):
                break
            calls.append(call)
            atom = call.args[0]
        return calls

    def _most(self, atom: Expr) -> Iterator[Dim]:
        """Numbers of elements that ``atom`` does not exceed."""
        shape = tensor_type(atom).shape
        yield product(shape)
        value = self.values.get(atom)
        if isinstance(value, TupleGetItem):
            value = self.values.get(value.tuple_value)
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return
        is_argwhere = value.op is get("argwhere") and tensor_type(value.args[0]).rank == 1
        if is_argwhere or value.op.name in _SELECTIONS or value.op.pattern is OpPattern.RESHAPE:
            yield from self._most(value.args[0])
        elif value.op.pattern <= OpPattern.BROADCAST:
            for arg in value.args:
                if tensor_type(arg).shape == shape:
                    yield from self._most(arg)


def _gathers_rows(call: Call) -> bool:
    """Whether a call gathers along the first axis, by a vector of indices."""
    if call.op is not get("take") or call.attrs.axis is None or call.attrs.batch_dims:
        return False
    data, indices = map(tensor_type, call.args)
    return indices.rank == 1 and call.attrs.axis % data.rank == 0


def _is_by_rows(call: Call) -> bool:
    """Whether each row of the result depends on the same row of the only argument."""
    assert isinstance(call.op, Op)
    if call.op.pattern not in (OpPattern.ELEMWISE, OpPattern.COMM_REDUCE) or len(call.args) != 1:
        return False
    shape = tensor_type(call.args[0]).shape
    if call.op.pattern is OpPattern.ELEMWISE:
        return tensor_type(call).shape == shape
    axes = reduced_axes(call.attrs, len(shape))
    return 0 not in axes and all((const(shape[axis]) or 0) > 0 for axis in axes)
