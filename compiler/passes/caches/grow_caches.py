"""Append to the states of a loop in place: a tensor that each round concatenates with new rows stays in one buffer.

    def @write(%past: Tensor[(?b, 8, ?n, 64), float32], ...) {
      let %present = concatenate((%past, %new), axis=2);
      ... @write(%present, ...)
    }
    ->
    def @write_in_place(%buffer: Tensor[(?, ?b, 8, 64), float32], %rows: Tensor[(?n, 0), bool], ...) {
      let %all = concatenate((%rows, as many rows as %new has));
      let %larger = if (there are more rows than in %buffer) { concatenate((%buffer, zeros)) } else { %buffer };
      let %buffer1 = scatter_nd(%larger, the indices of the new rows, transpose(%new, axes=[2, 0, 1, 3]));
      let %seen = slice_like(%buffer1, %all, axes=[0]);
      let %present = transpose(%seen, axes=[1, 2, 0, 3]);
      ... @write_in_place(%buffer1, %all, ...)
    }

The axis of the rows is the first one of the buffer, so that the rows in use are a view of it (see ``plan_memory``), and only new
rows are written.  A buffer that is full becomes twice as long.  ``%rows`` has no elements, only the number of rows in use as a
size: sizes keep their names.  A range over all rows, of which masks are made, gets that size, too.  ``%present`` is computed only
if a call still reads it: ``attend_in_place`` reads ``%seen``.

A state is changed if every call of the function by itself passes it so, and if nothing else reads its elements.  The function
itself stays, as a call of the new one.

Requires: typed A-normal form.
Ensures: the same.
"""

from __future__ import annotations

from collections import Counter

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType
from ....shape_funcs.symbolic.dim import ANY, Dim, const, dim
from ...builder.build import const as constant
from ...builder.operator_functions import operators as relay
from ...ir.anf import Names, inner_chains, nested_bindings, operands, rebuild, rebuild_lets
from ...ir.expr import Call, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, Var, let_chain, replace, tensor_type
from ...ir.pass_declaration import declare_pass
from ...rules.elements import ElementTable
from ...type_inference.shape_checks import never_fails
from ..infer_type import infer_sizes
from ..to_a_normal_form import to_a_normal_form
from .counted_ranges import range_of, with_counted_ranges

#: The rows of the smallest buffer that a full one is replaced by.
FEWEST_ROWS = 64


@declare_pass("GrowCaches", "infer_type")
def grow_caches(mod: IRModule) -> IRModule:
    """The module with loops that append in place."""
    loops = [name for name, f in mod.functions.items() if _appends(name, f)]
    if not loops:
        return mod
    mod = with_counted_ranges(mod, loops)
    names, functions = Names(set(mod.functions)), dict(mod.functions)
    for name, function in mod.functions.items():
        caches = [] if function.is_primitive else _Caches(name, function).found()
        if caches:
            inner = names(f"{name}_in_place")
            functions[inner] = _InPlace(name, inner, function, caches).function()
            functions[name] = _entry(inner, function, caches)
    if len(functions) == len(mod.functions):
        return mod
    return infer_sizes(to_a_normal_form(replace(mod, functions=functions)))


def _appends(name: str, function: Function) -> bool:
    """Whether the function calls itself, and concatenates a parameter with another tensor."""
    values = [] if function.is_primitive else [value for _, value in nested_bindings(function.body)]
    pairs = (v.fields for v in values if isinstance(v, Tuple) and len(v.fields) == 2)
    return any(_calls(v, name) for v in values) and any(a in function.params for a, _ in pairs)


@frozen
class _Cache:
    """A parameter that grows along ``axis``; ``ruler``: the number of the first parameter that grows by as many rows as it does.

    ``more``: the number of new rows.
    """

    number: int
    axis: int
    more: Dim
    ruler: int

    def to_rows(self, rank: int) -> list[int]:
        """The axes of a transpose that makes the axis the first one."""
        return [self.axis, *(a for a in range(rank) if a != self.axis)]

    def to_axis(self, rank: int) -> list[int]:
        """The axes of the inverse."""
        return [a + 1 if a < self.axis else 0 if a == self.axis else a for a in range(rank)]


# ---- which ---------------------------------------------------------------------------------------------------------------


class _Caches:
    """The search for the caches of one function."""

    def __init__(self, name: str, function: Function) -> None:
        self.function = function
        self.values: dict[Expr, Expr] = dict(nested_bindings(function.body))
        self.same = {var: operands(value)[0] for var, value in self.values.items() if never_fails(value)}
        self.again = [v for v in self.values.values() if isinstance(v, Call) and _calls(v, name)]
        self.count = Counter(atom for v in self.values.values() for atom in operands(v))

    def found(self) -> list[_Cache]:
        """The caches in the order of the parameters."""
        out: list[_Cache] = []
        rulers: dict[tuple[Dim, ...], int] = {}
        for number, param in enumerate(self.function.params):
            joined = [self._rows(self._arg(call, number), param) for call in self.again]
            axes = {axis for axis, _ in (j for j in joined if j is not None)}
            if not joined or None in joined or len(axes) != 1 or not self._is_read_so_only(number, param):
                continue
            (axis,), sizes = axes, [j[1] for j in joined if j is not None]
            key = (tensor_type(param).shape[axis], *sizes)
            out.append(_Cache(number, axis, sizes[0], rulers.setdefault(key, number)))
        return out

    def _arg(self, call: Call, number: int) -> Expr:
        """An argument, or the value behind checks of it."""
        atom = call.args[number]
        while atom in self.same:
            atom = self.same[atom]
        return atom

    def _rows(self, atom: Expr, param: Var) -> tuple[int, Dim] | None:
        """The axis and the size there of new rows after ``param``, if ``atom`` is such a concatenation."""
        parts = _joined(self.values, atom)
        if parts is None or parts[0] is not param or not isinstance(param.annotation, TensorType):
            return None
        call, new = self.values[atom], parts[1]
        assert isinstance(call, Call)
        axis = call.attrs.axis % param.annotation.rank
        is_open = const(tensor_type(param).shape[axis]) is None
        return (axis, tensor_type(new).shape[axis]) if param.annotation.rank > 1 and is_open and new is not param else None

    def _is_read_so_only(self, number: int, param: Var) -> bool:
        """Whether nothing but the shape of ``param`` is read besides."""
        shapes = sum(isinstance(v, Call) and v.op is get("shape_of") and v.args[0] is param for v in self.values.values())
        joins = {self._arg(call, number) for call in self.again}
        tuples = {operands(self.values[atom])[0] for atom in joins}
        return self.count[param] == shapes + len(tuples) and not _is_result(self.function.body, param)


def _is_result(chain: Expr, atom: Expr) -> bool:
    """Whether the chain, or one inside it, ends in ``atom``."""
    bindings, result = let_chain(chain)
    return result is atom or any(_is_result(inner, atom) for _, value in bindings for inner in inner_chains(value))


def _calls(value: Expr, name: str) -> bool:
    return isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op.name == name


def _joined(values: dict[Expr, Expr], atom: Expr) -> tuple[Expr, Expr] | None:
    """The two tensors whose concatenation is ``atom``."""
    call = values.get(atom)
    if not isinstance(call, Call) or call.op is not get("concatenate"):
        return None
    whole = values.get(call.args[0])
    return (whole.fields[0], whole.fields[1]) if isinstance(whole, Tuple) and len(whole.fields) == 2 else None


# ---- the functions -------------------------------------------------------------------------------------------------------


def _entry(inner: str, function: Function, caches: list[_Cache]) -> Function:
    """The function as a call of the one that appends in place."""
    params = tuple(replace(p, ty=None) for p in function.params)
    args: list[Expr] = list(params)
    rulers: list[Expr] = []
    for cache in caches:
        rows = relay.transpose(params[cache.number], cache.to_rows(tensor_type(function.params[cache.number]).rank))
        args[cache.number] = rows
        if cache.ruler == cache.number:
            rulers.append(_without_elements(rows))
    return replace(function, params=params, body=Call(GlobalVar(inner), (*args, *rulers)), ty=None)


def _without_elements(rows: Expr) -> Expr:
    """``[n, 0]`` for ``n`` rows."""
    nothing = relay.strided_slice(rows, [0], [0], [1], [1])
    counted: Expr = relay.cast(relay.reshape(nothing, [0, 0]), "bool")
    return counted


class _InPlace:
    """The maker of a function that appends in place."""

    def __init__(self, name: str, inner: str, function: Function, caches: list[_Cache]) -> None:
        self.name, self.inner, self.old = name, inner, function
        self.grown = [(function.params[c.number], c) for c in caches]
        self.caches: dict[Expr, _Cache] = dict(self.grown)
        self.values: dict[Expr, Expr] = {}
        self.new: dict[Expr, Expr] = {p: replace(p, ty=None) for p in function.params}
        self.elements = ElementTable()
        self.lengths: dict[Dim, Var] = {}
        self.buffers: dict[Expr, Var] = {}
        self.rulers: dict[int, Var] = {}
        for p, cache in self.grown:
            ty = p.annotation
            assert isinstance(ty, TensorType)
            rest = (*ty.shape[: cache.axis], *ty.shape[cache.axis + 1 :])
            self.buffers[p] = Var(f"{p.name}_buffer", TensorType((ANY, *rest), ty.dtype), span=p.span)
            if cache.ruler == cache.number:
                ruler = TensorType((ty.shape[cache.axis], dim(0)), "bool")
                self.rulers[cache.number] = Var(f"{p.name}_rows", ruler, span=p.span)

    def function(self) -> Function:
        """The function; its last parameters are the rows in use."""
        bindings: list[tuple[Var, Expr]] = []
        longer: dict[int, Var] = {}
        for p, cache in self.grown:
            more = const(cache.more)
            if cache.ruler == cache.number and more is not None:
                added = relay.zeros([more, 0], "bool")
                longer[cache.number] = Var(f"{p.name}_all", span=p.span)
                bindings.append((longer[cache.number], relay.concatenate([self.rulers[cache.number], added], 0)))
                self.lengths[tensor_type(p).shape[cache.axis] + cache.more] = longer[cache.number]
            seen = relay.slice_like(self.buffers[p], self.rulers[cache.ruler], axes=[0])
            past = Var(p.name, span=p.span)
            bindings.append((past, relay.transpose(seen, cache.to_axis(tensor_type(p).rank))))
            self.new[p] = past
        params = [self.buffers.get(p, self.new[p]) for p in self.old.params]
        body = self._chain(self.old.body, longer)
        for var, value in reversed(bindings):
            body = Let(var, value, body)
        assert all(isinstance(p, Var) for p in params)
        whole = (*(p for p in params if isinstance(p, Var)), *self.rulers.values())
        return replace(self.old, params=whole, body=body, ty=None)

    def _chain(self, chain: Expr, before: dict[int, Var]) -> Expr:
        """A chain; ``before``: the rows after the appends in front of it, by the number of the first cache."""
        rulers, out = dict(before), list[tuple[Var, Expr]]()
        bindings, result = let_chain(chain)
        for var, value in bindings:
            self.values[var] = value
            self.elements.bind(var, value)
            parts = _joined(self.values, var)
            if parts is not None and parts[0] in self.caches:
                self._append(var, parts[0], self._atom(parts[1]), rulers, out)
            elif _calls(value, self.name):
                out.append((var, self._again(value, rulers)))
            elif never_fails(value):
                self._skip(var, operands(value)[0])
            elif (known := self._range(value)) is not None:
                out.append((var, known))
            elif not (isinstance(value, Tuple) and any(f in self.caches for f in value.fields)):
                out.append((var, rebuild(value, self._atom, lambda inner: self._chain(inner, rulers))))
        return rebuild_lets(chain, out, self._atom(result))

    def _range(self, value: Expr) -> Expr | None:
        """A range over all rows, with their number as its size; None for other values."""
        found = range_of(self.elements, value)
        ruler = self.lengths.get(found[1]) if found is not None and found[0] is dim(0) else None
        return None if ruler is None else relay.slice_like(value, ruler, axes=[0])

    def _skip(self, var: Expr, same: Expr) -> None:
        """Put ``same`` in the place of a variable."""
        self.new[var] = self._atom(same)
        if same in self.buffers:
            self.buffers[var] = self.buffers[same]

    def _atom(self, atom: Expr) -> Expr:
        return self.new.get(atom, atom)

    def _again(self, call: Expr, rulers: dict[int, Var]) -> Call:
        """The next round."""
        assert isinstance(call, Call)
        args = [self.buffers[a] if a in self.buffers else self._atom(a) for a in call.args]
        return replace(call, op=GlobalVar(self.inner), args=(*args, *(rulers[number] for number in self.rulers)), ty=None)

    def _append(
        self, present: Var, param: Expr, new: Expr, rulers: dict[int, Var], out: list[tuple[Var, Expr]]
    ) -> None:  # fmt: skip
        """The bindings of ``present``, ``param`` with new rows."""
        cache, buffer = self.caches[param], self.buffers[param]

        def bind(hint: str, value: Expr) -> Var:
            out.append((Var(f"{present.name}_{hint}", span=present.span), value))
            return out[-1][0]

        rank = tensor_type(param).rank
        rows = bind("new", relay.transpose(new, cache.to_rows(rank)))
        before = self.rulers[cache.ruler]
        if cache.ruler not in rulers:
            rulers[cache.ruler] = bind("rows", relay.concatenate([before, _without_elements(rows)], 0))
        count, total = _length(before), bind("total", _length(rulers[cache.ruler]))
        larger = bind("larger", If(relay.greater(total, _length(buffer)), _doubled(buffer, rows, tensor_type(param)), buffer))
        indices = relay.expand_dims(relay.arange(count, total, constant(1, "int64"), dtype="int64"), 0)
        written = bind("buffer", relay.scatter_nd(larger, indices, rows))
        self.buffers[present] = written
        seen = bind("seen", relay.slice_like(written, rulers[cache.ruler], axes=[0]))
        out.append((present, relay.transpose(seen, cache.to_axis(rank))))


def _doubled(buffer: Expr, rows: Expr, ty: TensorType) -> Expr:
    """The buffer with as much again, at least ``FEWEST_ROWS`` and the new rows."""
    most = relay.maximum(relay.maximum(_length(buffer), _length(rows)), constant(FEWEST_ROWS, "int64"))
    sizes = relay.strided_slice(relay.shape_of(rows, dtype="int64"), [1], [ty.rank])
    shape = relay.concatenate([relay.reshape(most, [1]), sizes], 0)
    longer: Expr = relay.concatenate([buffer, relay.zeros(shape, ty.dtype)], 0)
    return longer


def _length(x: Expr) -> Expr:
    """The size of the first axis as an int64 scalar."""
    length: Expr = relay.take(relay.shape_of(x, dtype="int64"), constant(0, "int64"), axis=0)
    return length
