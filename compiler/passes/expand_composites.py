"""Expand composite operators into calls of simpler ones, which fuse with their neighbours; legalize calls that no kernel takes.

    let %y = nn.l2_normalize(%x, eps=..);    ->    let %y_multiply = multiply(%x, %x);
    %y                                             let %y_sum = sum(%y_multiply, keepdims=True);
                                                   let %y_maximum = maximum(%y_sum, ..);
                                                   let %y_sqrt = sqrt(%y_maximum);
                                                   let %y = divide(%x, %y_sqrt);
                                                   %y

    take(%x, %i)    ->    let %y_cast = cast(%i, dtype="int64");        where %i is a uint8
                          take(%x, %y_cast)

The expansion is ``Op.expand`` or ``Op.legalization`` of the operator; the calls take the place in the source of the
expanded call.

Requires: typed A-normal form.
Ensures: the same, without composite operators and calls to be legalized, with the types of the expansions.  A module without such
calls costs one walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ops.composition.composite import CallTerm, Expansion, InputTerm, Number, Projection, Term, expansion
from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType, numpy_dtype, tensors
from ...ops.core.type_relation import dtypes_of, typed_operands
from ...ops.defs.arithmetic.elementwise import CAST
from ...shape_funcs.symbolic.dim import is_static
from ...vm.diagnostics.source import Span
from ..ir.anf import rebuild, rebuild_lets
from ..ir.expr import Call, Constant, Expr, IRModule, Tuple, TupleGetItem, Var, let_chain, replace
from ..ir.pass_declaration import declare_pass
from ..type_inference.settled_values import is_determined
from .infer_type import Infer, infer_sizes, retyped

#: The dtypes of zero points.
_BYTES = ("int8", "uint8")


@declare_pass("SimplifyInference", "infer_type")
def expand_composites(mod: IRModule, infer: Infer = infer_sizes) -> IRModule:
    """The module without composite operators; ``infer`` types a module made of a typed one."""
    expander = _Expander()
    functions = {name: replace(f, body=expander.chain(f.body)) for name, f in mod.functions.items()}
    return retyped(replace(mod, functions=functions), mod, infer if expander.leaves_untyped else lambda made, _: made)


class _Expander:
    """The rewriter of a module; ``leaves_untyped``: whether the types of some calls are to be inferred."""

    leaves_untyped = False

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            operands = _operands(value)
            if operands is not None:
                assert isinstance(value, Call) and isinstance(value.op, Op)
                made = _CompositeExpander(var, value).of(expansion(value.op, operands, value.attrs))
                self.leaves_untyped |= any(new.ty is None or new.ty != call.ty for new, call in made)
                out += made
            else:
                out.append((var, rebuild(value, lambda atom: atom, self.chain)))
        return rebuild_lets(chain, out, result)


def _operands(value: Expr) -> tuple[Any, ...] | None:
    """The operands of a call that is expanded; None for any other value."""
    if not (isinstance(value, Call) and isinstance(value.op, Op)) or (value.op.expand is None and value.op.legalization is None):
        return None
    constants = [a.data if isinstance(a, Constant) else None for a in value.args]
    operands = tuple(typed_operands(value.op, [a.ty for a in value.args], constants))
    legal = value.op.is_legal(dtypes_of(operands), value.attrs)
    return None if legal and value.op.expand is None else operands


class _CompositeExpander:
    """The bindings that replace a binding ``let var = call`` of a composite operator."""

    def __init__(self, var: Var, call: Call) -> None:
        assert isinstance(call.op, Op)
        self.var, self.call, self.op = var, call, call.op
        self.span: Span | None = call.span
        #: The sizes that types of the call have: those of its operands and of its result.
        self.sizes = {d for e in (var, *call.args) if e.ty is not None for t in tensors(e.ty) for d in t.shape}
        self.out: list[tuple[Var, Expr]] = []
        self.atoms: dict[Any, Expr] = {}  # the atoms of terms, and of the fields of tuple arguments

    def of(self, result: Expansion) -> list[tuple[Var, Expr]]:
        """The bindings of the expansion; the last one binds ``var``."""
        roots = result if isinstance(result, tuple) else (result,)
        for term in _post_order(roots):
            if not (term is result and isinstance(term, CallTerm)):
                self.atoms[term] = self._atom(term)
        if isinstance(result, tuple):
            last: Expr = Tuple(tuple(self.atoms[t] for t in result), span=self.span)
        else:
            last = self._call(result) if isinstance(result, CallTerm) else self.atoms[result]
        return [*self.out, (self.var, last)]

    def _atom(self, term: Term) -> Expr:
        match term:
            case InputTerm(field=None):
                return self.call.args[term.input]
            case InputTerm(field=int(number)):
                key = (term.input, term.field)
                if key not in self.atoms:
                    self.atoms[key] = self._bind("field", TupleGetItem(self.call.args[term.input], number, span=self.span))
                return self.atoms[key]
            case Number():
                data = np.array(term.value, numpy_dtype(term.dtype))
                return self._constant(data)
            case Projection():
                return self._bind("result", TupleGetItem(self.atoms[term.of], term.field, span=self.span))
        assert isinstance(term, CallTerm), term
        constant = self._cast_constant(term)
        return constant if constant is not None else self._bind(term.op.name.rpartition(".")[2], self._call(term))

    def _cast_constant(self, term: CallTerm) -> Constant | None:
        """The constant of a cast of a zero point, or of a constant that decides a shape: a rank may depend on its values."""
        source = term.args[0]
        if term.op is not CAST or not isinstance(source, InputTerm):
            return None
        atom = self.atoms[source]
        if not isinstance(atom, Constant) or not (self.op.data_dependent[source.input] or _is_zero_point(atom, term)):
            return None
        with np.errstate(invalid="ignore"):  # a number beyond the range is no size
            return self._constant(atom.data.astype(numpy_dtype(term.dtype)))

    def _constant(self, data: np.ndarray) -> Constant:
        data.setflags(write=False)
        return Constant(data, span=self.span, ty=TensorType.of_array(data))

    def _call(self, term: CallTerm) -> Call:
        args: list[Expr] = []
        for a in term.args:
            if isinstance(a, tuple):
                args.append(self._bind("parts", Tuple(tuple(self.atoms[t] for t in a), span=self.span)))
            else:
                args.append(self.atoms[a])
        return Call(term.op, tuple(args), term.attrs, span=self.span, ty=self._type(term))

    def _type(self, term: CallTerm) -> TensorType | None:
        """The type of a call whose shape has numbers and sizes of other types; None if it is to be inferred."""
        if term.others or not is_determined(term.op) or not all(d in self.sizes or is_static((d,)) for d in term.shape):
            return None
        operands = tuple(tuple(t.operand for t in a) if isinstance(a, tuple) else a.operand for a in term.args)
        several = isinstance(term.op.dtype(dtypes_of(operands), term.attrs), tuple)
        return None if several else TensorType(term.shape, term.dtype)

    def _bind(self, hint: str, value: Expr) -> Var:
        var = Var(f"{self.var.name}_{hint}", span=self.span, ty=value.ty)
        self.out.append((var, value))
        return var


def _is_zero_point(constant: Constant, cast: CallTerm) -> bool:
    """Whether a cast makes a number of 32 bits of a byte: the same number."""
    return constant.data.ndim == 0 and constant.data.dtype.name in _BYTES and cast.dtype in ("int32", "float32")


def _post_order(roots: tuple[Term, ...]) -> Iterator[Term]:
    """Every term reachable from ``roots``, each once, arguments before calls."""
    done: set[Term] = set()
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        term, ready = stack.pop()
        if ready:
            yield term
        elif term not in done:
            done.add(term)
            stack.append((term, True))
            args = term.args if isinstance(term, CallTerm) else (term.of,) if isinstance(term, Projection) else ()
            flat = [t for a in args for t in (a if isinstance(a, tuple) else (a,))]
            stack += [(t, False) for t in reversed(flat)]
