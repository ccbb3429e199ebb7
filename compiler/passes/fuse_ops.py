"""Put operator calls together into primitive functions: one kernel each.

    let %exp = exp(%x);                        def @fused_exp_add(%p0: Tensor[(?d0), float32], Primitive=1) {
    let %add = add(%exp, 1f);                    let %exp = exp(%p0);
    let %y = reshape(%add, newshape=[-1]);  ->   let %add = add(%exp, 1f);
    %y                                           %add
                                               }
                                               let %add = @fused_exp_add(%x);
                                               let %y = @reshape(%add);
                                               %y

A producer joins its consumers when all uses of its value are in one group, and the patterns let it.  Every group thus has
one result and needs nothing that depends on this result: it can stand where its last call stood.

A reduction joins the one group that uses it where all reductions of the group fold the same rows (``ops.kernels.rows``): layer
normalisation is one kernel, which goes through a row several times but through memory once.

What ``on_device`` marks is fused only with what has the same mark; its primitive has the attribute ``device``.

Requires: typed A-normal form.
Ensures: every operator call outside primitives is one of the machine's (pattern MACHINE, ``shape_of``); arguments of
primitives are tensors (tuple inputs are flattened); equal primitives are one function; constants of rank 0 are part of
the primitive, others are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ops.group import Group, Node
from ...ops.kernels import fits
from ...ops.machine import ON_DEVICE
from ...ops.op import Op, OpPattern, TypeRelError
from ...ops.relate import build_group, data_dependent
from ...ops.ty import Tensor, TensorType, TupleType
from ...shape_funcs.dims import Dim, const, sym
from ...vm.source import Span
from ..anf import Names, inner_chains, operands, rebuild, uses
from ..ir import Call, Constant, Expr, Function, GlobalVar, IRModule, Tuple, TupleGetItem, Var, let_chain, make_lets, replace
from ..primitive import function_of, literal_key, literal_of

#: A kernel of more operators or more parameters gains nothing, and takes long to compile.
MAX_NODES, MAX_PARAMS = 64, 60


def fuse_ops(mod: IRModule, enabled: bool = True, dependence: str = "input") -> IRModule:
    """The module with primitives; with ``enabled=False`` each operator is one of its own.

    ``dependence``: which flags hold (see ``data_dependent``): nothing fuses into a flagged input.
    """
    primitives = _Primitives(Names(set(mod.functions)))
    functions = {}
    for name, function in mod.functions.items():
        if function.is_primitive:
            functions[name] = function
        else:
            functions[name] = replace(function, body=_Fuser(primitives, enabled, dependence).chain(function.body))
    return replace(mod, functions={**functions, **primitives.functions})


@dataclass(eq=False)
class _Item:
    """A call of an operator with a kernel (or view), its tuple arguments taken apart."""

    var: Var
    call: Call
    args: tuple[Any, ...]  # per input an atom, or a tuple of atoms
    device: str = ""  # the one that the program says, "" for the target

    @property
    def op(self) -> Op:
        assert isinstance(self.call.op, Op)
        return self.call.op

    @property
    def outputs(self) -> int:
        return len(self.call.ty.fields) if isinstance(self.call.ty, TupleType) else 1

    def tensors(self) -> Iterable[tuple[int, Expr]]:
        """``(input, atom)`` for each tensor it takes."""
        for i, arg in enumerate(self.args):
            for atom in arg if isinstance(arg, tuple) else (arg,):
                yield i, atom

    @property
    def params(self) -> set[Expr]:
        """What it takes, but for constants that are part of a kernel."""
        return {a for _, a in self.tensors() if _is_param(a)}

    @property
    def folds(self) -> bool:
        return self.op.pattern is OpPattern.COMM_REDUCE

    @property
    def gives_elements(self) -> bool:
        """Can a consumer compute its elements one by one, or row by row?"""
        return self.op.pattern <= OpPattern.COMM_REDUCE and self.outputs == 1 and not isinstance(self.call.ty, TupleType)

    def takes_elements(self, number: int, dependence: str) -> bool:
        """Does it read input ``number`` only element by element, so that a producer can be part of it?"""
        fusable = self.op.pattern <= OpPattern.COMM_REDUCE and not isinstance(self.call.ty, TupleType)
        return fusable and not data_dependent(self.op, dependence)[number]


@dataclass(eq=False)
class _Cluster:
    """Items that become one primitive; ``params`` are the values from outside."""

    items: list[_Item]
    params: set[Expr] = field(default_factory=set)

    def with_(self, item: _Item) -> _Cluster:
        """This one and a producer of a value that nothing else uses."""
        return _Cluster([*self.items, item], (self.params - {item.var}) | item.params)

    @property
    def fits(self) -> bool:
        """Is it one kernel?"""
        if len(self.items) == 1:
            return True
        group, _ = _group(self.items[::-1])
        return fits(build_group(group.params, group.literals, group.nodes, group.results))


class _Fuser:
    """Rewrites the chains of one function."""

    def __init__(self, primitives: _Primitives, enabled: bool, dependence: str) -> None:
        self.primitives, self.enabled, self.dependence = primitives, enabled, dependence
        self.devices: dict[Expr, str] = {}
        self.tuples: dict[Expr, tuple[Expr, ...]] = {}
        self.renamed: dict[Expr, Expr] = {}

    def atom(self, atom: Expr) -> Expr:
        return self.renamed.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        steps: list[_Item | tuple[Var, Expr]] = []
        self._find_devices(bindings)
        for var, value in bindings:
            self._step(var, value, steps)
        result = self.atom(result)
        clusters = self._clusters(steps, result) if self.enabled else _singles(steps)
        out: list[tuple[Var, Expr]] = []
        for step in steps:
            if not isinstance(step, _Item):
                out.append(step)
            elif clusters[step].items[0] is step:
                out.append((step.var, self.primitives.call(clusters[step])))
        return make_lets(_without_unused_tuples(out, result), result)

    def _find_devices(self, bindings: list[tuple[Var, Expr]]) -> None:
        """Note the operator calls of a chain of which ``on_device`` says where they run."""
        calls = {var for var, value in bindings if _has_kernel(value)}
        for var, value in bindings:
            if isinstance(value, Call) and value.op is ON_DEVICE and value.args[0] in calls and value.args[0] not in self.devices:
                self.devices[value.args[0]] = value.attrs.device
                self.renamed[var] = value.args[0]

    def _step(self, var: Var, value: Expr, steps: list[_Item | tuple[Var, Expr]]) -> None:
        """Append what the binding becomes; a projection of a tuple in sight is its field."""
        if isinstance(value, TupleGetItem) and self.atom(value.tuple_value) in self.tuples:
            self.renamed[var] = self.tuples[self.atom(value.tuple_value)][value.index]
            return
        if var in self.renamed:
            return
        value = rebuild(value, self.atom, self.chain)
        if _has_kernel(value):
            assert isinstance(value, Call) and isinstance(value.op, Op)
            args = []
            for name, arg in zip(value.op.inputs, value.args, strict=True):
                args.append(self._fields(arg, steps) if name.endswith("*") else arg)
            steps.append(_Item(var, value, tuple(args), self.devices.get(var, "")))
            return
        if isinstance(value, Tuple):
            self.tuples[var] = value.fields
        steps.append((var, value))

    def _fields(self, whole: Expr, steps: list[_Item | tuple[Var, Expr]]) -> tuple[Expr, ...]:
        """The tensors of a tuple argument; those of a tuple made out of sight are projected."""
        if whole not in self.tuples:
            assert isinstance(whole, Var) and isinstance(whole.ty, TupleType)
            fields = []
            for i, ty in enumerate(whole.ty.fields):
                fields.append(Var(f"{whole.name}_{i}", span=whole.span, ty=ty))
                steps.append((fields[-1], TupleGetItem(whole, i, span=whole.span, ty=ty)))
            # not remembered: another scope may not see these variables
            return tuple(fields)
        return self.tuples[whole]

    def _clusters(self, steps: list[_Item | tuple[Var, Expr]], result: Expr) -> dict[_Item, _Cluster]:
        """The cluster of each item, walking backwards: consumers are decided before their producers."""
        pinned, consumers = _find_uses(steps, result)
        of: dict[_Item, _Cluster] = {}
        for step in reversed(steps):
            if not isinstance(step, _Item):
                continue
            takers = [] if step.var in pinned or not step.gives_elements else consumers.get(step.var, [])
            home = _only_home(takers, of, self.dependence, step.device)
            wider = home.with_(step) if home is not None else None
            if home is None or wider is None or not _may_be(wider, step):
                of[step] = _Cluster([step], step.params)
            else:
                home.items, home.params = wider.items, wider.params
                of[step] = home
        for cluster in dict.fromkeys(of.values()):
            if not cluster.fits:
                of.update({item: _Cluster([item]) for item in cluster.items})
        return of


def _may_be(cluster: _Cluster, added: _Item) -> bool:
    """Is a cluster not too large; and if what was ``added`` folds, does it fold the same rows as the others?"""
    small = len(cluster.items) <= MAX_NODES and len(cluster.params) <= MAX_PARAMS
    return small and (not added.folds or cluster.fits)


def _has_kernel(value: Expr) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.pattern is not OpPattern.MACHINE


def _singles(steps: list[_Item | tuple[Var, Expr]]) -> dict[_Item, _Cluster]:
    return {s: _Cluster([s]) for s in steps if isinstance(s, _Item)}


def _is_param(atom: Expr) -> bool:
    return not (isinstance(atom, Constant) and atom.data.ndim == 0)


def _only_home(consumers: list[tuple[_Item, int]], of: dict[_Item, _Cluster], dependence: str, device: str) -> _Cluster | None:
    """The one cluster, on ``device``, in which all consumers are and take elements, else None."""
    homes = {of[item] for item, _ in consumers}
    if len(homes) != 1 or not all(item.takes_elements(number, dependence) for item, number in consumers):
        return None
    home = homes.pop()
    return home if home.items[0].device == device else None


def _find_uses(steps: list[_Item | tuple[Var, Expr]], result: Expr) -> tuple[set[Expr], dict[Expr, list[tuple[_Item, int]]]]:
    """The values used outside items, and per value the items that take it with the input.

    A tuple that is only taken apart by items is no use of its fields.
    """
    pinned: set[Expr] = {result}
    consumers: dict[Expr, list[tuple[_Item, int]]] = {}
    for step in reversed(steps):
        if isinstance(step, _Item):
            for number, atom in step.tensors():
                consumers.setdefault(atom, []).append((step, number))
            continue
        var, value = step
        if isinstance(value, Tuple) and var not in pinned:
            continue
        pinned.update(operands(value))
        for chain in inner_chains(value):
            pinned.update(uses(chain))
    return pinned, consumers


def _without_unused_tuples(bindings: list[tuple[Var, Expr]], result: Expr) -> list[tuple[Var, Expr]]:
    """The bindings less the tuples and projections that nothing uses any more."""
    used: set[Expr] = {result}
    kept = []
    for var, value in reversed(bindings):
        if isinstance(value, (Tuple, TupleGetItem)) and var not in used:
            continue
        used.update(operands(value))
        for chain in inner_chains(value):
            used.update(uses(chain))
        kept.append((var, value))
    return kept[::-1]


class _Primitives:
    """The primitive functions of a module, one per distinct group."""

    def __init__(self, names: Names) -> None:
        self.functions: dict[str, Function] = {}
        self._names = names
        self._by_key: dict[tuple[str, str], GlobalVar] = {}

    def call(self, cluster: _Cluster) -> Call:
        """The call that does what ``cluster`` does.  ``items[0]`` is its last, whose value it gives."""
        group, args = _group(cluster.items[::-1])
        device = cluster.items[0].device
        key = (group.key(), device)
        if key not in self._by_key:
            group = build_group(group.params, group.literals, group.nodes, group.results)
            function = function_of(group, device)
            name = self._names(group.name)
            self.functions[name] = function
            self._by_key[key] = GlobalVar(name, ty=function.ty)
        last = cluster.items[0].call
        reads = _reads(cluster.items[::-1])
        return Call(self._by_key[key], args, reads=tuple(map(reads.get, args)), span=last.span, ty=last.ty)


def alone(var: Var, call: Call, tensors: Sequence[tuple[Expr, ...]]) -> tuple[Group, tuple[Expr, ...]]:
    """The group of one operator call, and the arguments for its parameters.  ``tensors``: those of each input."""
    assert isinstance(call.op, Op)
    args = tuple(t if name.endswith("*") else t[0] for name, t in zip(call.op.inputs, tensors, strict=True))
    return _group([_Item(var, call, args)])


def _group(items: list[_Item]) -> tuple[Group, tuple[Expr, ...]]:
    """The group of ``items`` (in order), its outputs still to be derived, and the arguments for its parameters.

    Scalar constants become literals of the group.
    """
    return _grouped(items, inline=not any(map(_refuses_constants, items)))


def _refuses_constants(item: _Item) -> bool:
    """Whether the operator refuses a scalar constant that it is given, which was folded since types were inferred.

    As a parameter it is refused where the program runs, if it runs there.
    """
    if not any(isinstance(a, Constant) and not _is_param(a) and item.op.data_dependent[number] for number, a in item.tensors()):
        return False
    group, _ = _grouped([item], inline=True)
    try:
        build_group(group.params, group.literals, group.nodes, group.results)
    except TypeRelError:
        return True
    return False


def _grouped(items: list[_Item], inline: bool) -> tuple[Group, tuple[Expr, ...]]:
    inside = {item.var for item in items}
    params: dict[Expr, int] = {}
    literals: dict[str, Any] = {}
    for item in items:
        for _, atom in item.tensors():
            if inline and isinstance(atom, Constant) and not _is_param(atom):
                literals.setdefault(literal_key(atom), literal_of(atom))
            elif atom not in inside:
                params.setdefault(atom, len(params))
    refs: dict[Any, int] = {**params, **{key: len(params) + i for i, key in enumerate(literals)}}
    n = len(refs)
    nodes = []
    for item in items:
        args = tuple(
            tuple(_ref(a, refs, inline) for a in arg) if isinstance(arg, tuple) else _ref(arg, refs, inline) for arg in item.args
        )
        nodes.append(Node(item.op.name, item.call.attrs, args, ()))
        refs[item.var] = n
        n += item.outputs
    results = tuple(range(n - items[-1].outputs, n))
    return Group(_canonical(params), tuple(literals.values()), tuple(nodes), results), tuple(params)


def _reads(items: list[_Item]) -> dict[Expr, Span | None]:
    """Where each value is read: by the shape function of the first item that reads its data, else by the first item."""
    first: dict[Expr, Span | None] = {}
    data: dict[Expr, Span | None] = {}
    for item in items:
        for number, atom in item.tensors():
            (data if item.op.data_dependent[number] else first).setdefault(atom, item.call.span)
    return {**first, **data}


def _ref(atom: Expr, refs: dict[Any, int], inline: bool) -> int:
    return refs[literal_key(atom) if inline and isinstance(atom, Constant) and not _is_param(atom) else atom]


def _canonical(params: Iterable[Expr]) -> tuple[Tensor, ...]:
    """The parameters' types with unknown dims named ``d0 d1 ...`` in order of occurrence; equal dims get equal names."""
    names: dict[Dim, Dim] = {}

    def name(d: Dim) -> Dim:
        return d if const(d) is not None else names.setdefault(d, sym(f"d{len(names)}"))

    out = []
    for p in params:
        assert isinstance(p.ty, TensorType), p
        out.append(Tensor(p.ty.dtype, tuple(map(name, p.ty.shape))))
    return tuple(out)
