"""Look up the functions of a single byte in tables.

    let %r = qnn.dequantize(%x, 0.5f, 3);
    let %s = sigmoid(%r);                          let %at = cast(%x, dtype="int32");
    let %m = multiply(%r, %s);                     let %found = take(TABLE, %at);
    let %y = qnn.quantize(%m, 0.004f, 0);    ->    let %y = cast(%found, dtype="uint8");

A byte has 256 values, and the table has the result of each: that of the operators themselves, which ``fold_constant`` evaluates.
The table has elements of 32 bits, which CPUs gather from memory as vectors.

A function that only dequantises, bounds and quantises takes as long as a gather, and stays.

Requires: typed A-normal form, before composite operators are expanded.
Ensures: the same.  Values without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.dtype_rules import BYTES
from ....ops.core.op import NoAttrs, Op, OpPattern, get
from ....ops.core.tensor_types import TensorType, is_float
from ....ops.defs.arithmetic.elementwise import CastAttrs
from ....ops.defs.movement.indexing import TakeAttrs
from ...analysis.fake_quantization import DEQUANTIZE, QUANTIZE
from ...ir.anf import inner_chains, operands, uses
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, let_chain
from ...ir.pass_declaration import declare_pass
from ..constant_weights.weighted_products import constant_like
from ..infer_type import retyped

#: The dtype of the elements of tables and of their indices.
_WORD = "int32"
#: Operators that take less time than a gather, and so have no part in the choice of a table.
_FAST = frozenset((DEQUANTIZE, QUANTIZE, "nn.relu", "clip", "cast"))
_CONVERSIONS = frozenset((DEQUANTIZE, QUANTIZE))

_Bindings = list[tuple[Var, Expr]]


@declare_pass("ByteTables", "monomorphize", "infer_type")
def byte_tables(mod: IRModule) -> IRModule:
    """The module with look-ups in the place of functions of a byte."""
    new = rewrite_chains(mod, _Rewriter)
    return retyped(new, mod)


class _Rewriter(ChainRewriter):
    """The rewriter of one function.

    ``source``: for each value that is a function of one element of a tensor of bytes, that tensor.  ``calls``: the calls of such
    values.  ``kept``: the values that are computed in any case, since others than functions of the same byte use them.
    """

    def __init__(self, body: Expr) -> None:
        super().__init__(body)
        self.source: dict[Expr, Var] = {}
        self.calls: dict[Var, Call] = {}
        self.kept: set[Expr] = set()

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        for var, value in bindings:
            found = self._source_of(value) if isinstance(value, Call) else None
            if found is not None and isinstance(value, Call):
                self.source[var], self.calls[var] = found, value
        self.kept.add(result)
        for var, value in bindings:
            used = [*operands(value), *(atom for inner in inner_chains(value) for atom in uses(inner))]
            self.kept.update(atom for atom in used if self.source.get(atom) is not self.source.get(var))
        for var, _ in reversed(bindings):  # no table has a number of floats: it is computed from bytes, which may be of a table
            if var in self.kept and var in self.calls and _dtype(var) not in BYTES:
                self.kept.update(self.calls[var].args)
        return super().chain(chain)

    def replaced(self, var: Var, call: Call) -> _Bindings | None:
        source = self.source.get(var)
        if source is None or var not in self.kept or _dtype(var) not in BYTES:
            return None
        inside = self._between(source, var)
        names = [value.op.name for _, value in inside if isinstance(value.op, Op)]
        if names.count(QUANTIZE) < 2 and set(names) <= _FAST:
            return None
        return _looked_up(var, source, inside)

    def _source_of(self, call: Call) -> Var | None:
        """The tensor of bytes of whose elements the result of ``call`` is a function; None if it is of several or of none."""
        if not isinstance(call.op, Op) or not _is_elementwise(call, call.op):
            return None
        tensors = [a for a in call.args if not (isinstance(a, Constant) and a.data.ndim == 0)]
        own: dict[Expr, Var] = {a: a for a in tensors if isinstance(a, Var) and _dtype(a) in BYTES}
        sources = {self.source.get(a, own.get(a)) for a in tensors}
        return sources.pop() if len(sources) == 1 else None

    def _between(self, source: Var, var: Var) -> list[tuple[Var, Call]]:
        """The bindings that compute ``var`` from ``source``, operands first."""
        found: dict[Var, Call] = {}
        pending = [(var, False)]
        while pending:
            atom, ready = pending.pop()
            if ready:
                found.setdefault(atom, self.calls[atom])
            elif atom not in found:
                operands_of = [a for a in self.calls[atom].args if isinstance(a, Var) and a is not source]
                pending += [(atom, True), *((a, False) for a in operands_of)]
        return list(found.items())


def _dtype(atom: Expr) -> str:
    return atom.ty.dtype if isinstance(atom.ty, TensorType) else ""


def _is_elementwise(call: Call, op: Op) -> bool:
    """Whether the call is a function of floats or a conversion, of elements at the same index; neither can fail."""
    if op.name in _CONVERSIONS:
        return True
    return op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST) and not op.stateful and is_float(_dtype(call))


def _looked_up(var: Var, source: Var, inside: list[tuple[Var, Call]]) -> _Bindings:
    """The bindings of ``var`` by a table, which ``inside`` computes of every byte."""
    call, lowest = inside[-1][1], int(np.iinfo(_dtype(source)).min)
    new: dict[Expr, Expr] = {source: _constant(np.arange(lowest, lowest + 256).astype(_dtype(source)), call)}
    out: _Bindings = []

    def bound(name: str, op: str, *args: Expr, attrs: Any) -> Var:
        out.append((made := Var(f"{var.name}_{name}", span=call.span), Call(get(op), args, attrs, span=call.span)))
        return made

    for old, value in inside:
        assert isinstance(value.op, Op)
        new[old] = bound("of_each", value.op.name, *(new.get(a, a) for a in value.args), attrs=value.attrs)
    table = bound("table", "cast", new[var], attrs=CastAttrs(_WORD))
    at = bound("at", "cast", source, attrs=CastAttrs(_WORD))
    if lowest:
        at = bound("from_0", "subtract", at, _constant(np.array(lowest, _WORD), call), attrs=NoAttrs())
    found = bound("found", "take", table, at, attrs=TakeAttrs(axis=0))
    return [*out, (var, Call(get("cast"), (found,), CastAttrs(_dtype(var)), span=call.span))]


def _constant(data: np.ndarray, like: Call) -> Constant:
    data.setflags(write=False)
    return constant_like(data, like)
