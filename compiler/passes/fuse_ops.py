"""Fuse operator calls into primitive functions, one kernel each.

    let %exp = exp(%x);                        def @fused_exp_add(%p0: Tensor[(?d0), float32], Primitive=1) {
    let %add = add(%exp, 1f);                    let %exp = exp(%p0);
    let %y = reshape(%add, newshape=[-1]);  ->   let %add = add(%exp, 1f);
    %y                                           %add
                                               }
                                               let %add = @fused_exp_add(%x);
                                               let %y = @reshape(%add);
                                               %y

A producer fuses into its consumers if all uses of its value are in one group and the patterns allow it.  Hence a group has one
result and no input that depends on this result, and can replace its last call.

A reduction fuses into the one group that uses it if all reductions of the group reduce the same rows (see
``ops.codegen.loop_nest.row_passes``): layer normalisation is one kernel with several passes over a row and one pass over memory.

An operator with kernels of its own, such as a convolution, fuses with the elementwise operators that use its result (a bias, an
activation, a residual), if its kernels can finish parts of the result while they are cached (see ``ops.codegen.cpu.epilogue``).
On GPUs a product fuses with the sums that its library can compute (see ``ops.codegen.cuda.library_sums``), or, if its rows may
be few, with the elementwise operators that use its result (see ``ops.codegen.cuda.following``).  Elementwise operators fuse into
a kernel that computes the elements of its inputs itself (see ``ops.codegen.loop_nest.element_inputs``).

A value whose elements the kernel of a group would compute several times, since an operator repeats them, or reads neighbours, is
computed by a kernel of its own if that is faster (see ``ops.analysis.evaluations``).

The value of a call that ``annotation.stop_fusion`` marks is the result of its primitive.
Calls marked by ``on_device`` fuse only with calls of the same mark; their primitive has the attribute ``device``.

Requires: typed A-normal form.
Ensures: every operator call outside primitives is a machine operator's (pattern MACHINE, ``shape_of``); arguments of primitives
are tensors (tuple inputs are flattened); equal primitives are one function; constants of rank 0 are part of the primitive,
others are arguments.
"""

from __future__ import annotations

from ...ops.core.implementation import GPU
from ...ops.core.op import Op, OpPattern
from ...ops.core.tensor_types import TupleType
from ...ops.core.type_relation import build_group
from ...ops.defs.machine.machine_ops import ON_DEVICE, STOP_FUSION
from ...vm.device_table import machine_of
from ..ir.anf import Names, inner_chains, operands, rebuild, uses
from ..ir.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    IRModule,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    make_lets,
    replace,
)
from ..ir.lowering_context import LoweringContext
from ..ir.pass_declaration import declare_pass
from ..ir.primitive import function_of
from .operator_clusters import Cluster, OperatorCall, group_of, read_spans

#: The most operators and parameters of a kernel: larger kernels gain nothing and take long to compile.
MAX_NODES, MAX_PARAMS = 64, 60


@declare_pass("FuseOps", "infer_type", "expand_composites")
def fuse_ops(mod: IRModule, context: LoweringContext, enabled: bool = True) -> IRModule:
    """The module with primitives; with ``enabled=False`` each operator is a primitive of its own.

    Nothing fuses into a flagged input (see ``LoweringContext.data_dependence``).
    """
    primitives = _Primitives(Names(set(mod.functions)))
    functions = {}
    for name, function in mod.functions.items():
        if function.is_primitive:
            functions[name] = function
        else:
            functions[name] = replace(function, body=_Fuser(primitives, enabled, context).chain(function.body))
    return replace(mod, functions={**functions, **primitives.functions})


class _Fuser:
    """The rewriter of the chains of one function."""

    def __init__(self, primitives: _Primitives, enabled: bool, context: LoweringContext) -> None:
        self.primitives, self.enabled, self.dependence = primitives, enabled, context.data_dependence
        self.target, self.machine = context.target, machine_of(context.target)
        self.devices: dict[Expr, str] = {}
        self.tuples: dict[Expr, tuple[Expr, ...]] = {}
        self.renamed: dict[Expr, Expr] = {}
        self.stopped: set[Expr] = set()

    def atom(self, atom: Expr) -> Expr:
        return self.renamed.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        steps: list[OperatorCall | tuple[Var, Expr]] = []
        self._find_marks(bindings)
        for var, value in bindings:
            self._add_step(var, value, steps)
        result = self.atom(result)
        clusters = self._clusters(steps, result) if self.enabled else _singles(steps)
        out: list[tuple[Var, Expr]] = []
        for step in steps:
            if not isinstance(step, OperatorCall):
                out.append(step)
            elif clusters[step].items[0] is step:
                out.append((step.var, self.primitives.call(clusters[step])))
        return make_lets(_without_dead_tuples(out, result), result)

    def _find_marks(self, bindings: list[tuple[Var, Expr]]) -> None:
        """Record the operator calls of a chain that ``on_device`` or ``annotation.stop_fusion`` marks."""
        calls = {var for var, value in bindings if _has_kernel(value)}
        for var, value in bindings:
            if isinstance(value, Call) and value.op is STOP_FUSION:
                self.renamed[var] = self.atom(value.args[0])
                self.stopped.add(self.renamed[var])
            if isinstance(value, Call) and value.op is ON_DEVICE and value.args[0] in calls and value.args[0] not in self.devices:
                self.devices[value.args[0]] = value.attrs.device
                self.renamed[var] = value.args[0]

    def _add_step(self, var: Var, value: Expr, steps: list[OperatorCall | tuple[Var, Expr]]) -> None:
        """Append the rewritten binding; a projection of a tuple in scope is its field."""
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
            steps.append(OperatorCall(var, value, tuple(args), self.devices.get(var, "")))
            return
        if isinstance(value, Tuple):
            self.tuples[var] = value.fields
        steps.append((var, value))

    def _fields(self, whole: Expr, steps: list[OperatorCall | tuple[Var, Expr]]) -> tuple[Expr, ...]:
        """The tensors of a tuple argument; the fields of a tuple bound elsewhere are projected."""
        if whole not in self.tuples:
            assert isinstance(whole, Var) and isinstance(whole.ty, TupleType)
            fields = []
            for i, ty in enumerate(whole.ty.fields):
                fields.append(Var(f"{whole.name}_{i}", span=whole.span, ty=ty))
                steps.append((fields[-1], TupleGetItem(whole, i, span=whole.span, ty=ty)))
            # not remembered: another scope may not see these variables
            return tuple(fields)
        return self.tuples[whole]

    def _clusters(self, steps: list[OperatorCall | tuple[Var, Expr]], result: Expr) -> dict[OperatorCall, Cluster]:
        """The cluster of each call, assigned backwards: consumers before their producers."""
        pinned, consumers = _find_uses(steps, result)
        pinned |= self.stopped
        calls = [step for step in steps if isinstance(step, OperatorCall)]
        on_host = [call for call in calls if self.machine != GPU and not call.device]
        finished: dict[Expr, OperatorCall] = {call.var: call for call in on_host if call.is_finished and call.var not in pinned}

        def follows(items: list[OperatorCall]) -> bool:
            values, read = {item.var for item in items}, {atom for item in items for _, atom in item.tensors()}
            before = [finished[atom] for atom in read & finished.keys() if all(user.var in values for user, _ in consumers[atom])]
            return len(before) == 1 and Cluster([*items, *before]).fits

        while True:
            of = self._grown(calls, pinned, consumers)
            stored = {var for cluster in dict.fromkeys(of.values()) for var in cluster.better_stored(follows)}
            if not stored:
                return of
            pinned |= stored

    def _grown(
        self, calls: list[OperatorCall], pinned: set[Expr], consumers: dict[Expr, list[tuple[OperatorCall, int]]]
    ) -> dict[OperatorCall, Cluster]:
        """The cluster of each call, where values that are ``pinned`` end a cluster."""
        of: dict[OperatorCall, Cluster] = {}
        for step in reversed(calls):
            machine = machine_of(step.device or self.target)
            is_finished = step.is_added_to if machine == GPU else self.machine != GPU and step.is_finished
            is_fused = step.var not in pinned and (step.gives_elements or is_finished)
            users = consumers.get(step.var, []) if is_fused else []
            consumer = _sole_consumer(users, of, self.dependence, step.device, machine)
            wider = consumer.extended(step) if consumer is not None else None
            if consumer is None or wider is None or not _is_fusable(wider, step):
                of[step] = Cluster([step], step.params, machine)
            else:
                consumer.items, consumer.params = wider.items, wider.params
                of[step] = consumer
        for cluster in dict.fromkeys(of.values()):
            if not cluster.fits:
                of.update({item: Cluster([item]) for item in cluster.items})
        return of


def _is_fusable(cluster: Cluster, added: OperatorCall) -> bool:
    """Whether a cluster with a new call is within the limits and, where the call may not fit into the kernel, fits."""
    small = len(cluster.items) <= MAX_NODES and len(cluster.params) <= MAX_PARAMS
    if cluster.first is not None:
        return small and sum(bool(item.op.kernels) for item in cluster.items) == 1 and cluster.fits
    return small and (not added.is_reduction or cluster.fits)


def _has_kernel(value: Expr) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.pattern is not OpPattern.MACHINE


def _singles(steps: list[OperatorCall | tuple[Var, Expr]]) -> dict[OperatorCall, Cluster]:
    return {s: Cluster([s]) for s in steps if isinstance(s, OperatorCall)}


def _sole_consumer(
    consumers: list[tuple[OperatorCall, int]], of: dict[OperatorCall, Cluster], dependence: str, device: str, machine: str
) -> Cluster | None:
    """The one cluster, on ``device``, that contains all consumers, each of which takes elements; else None."""
    clusters = {of[item] for item, _ in consumers}
    if len(clusters) != 1 or not all(item.takes_elements(number, dependence, machine) for item, number in consumers):
        return None
    consumer = clusters.pop()
    return consumer if consumer.items[0].device == device else None


def _find_uses(
    steps: list[OperatorCall | tuple[Var, Expr]], result: Expr
) -> tuple[set[Expr], dict[Expr, list[tuple[OperatorCall, int]]]]:
    """The values used outside operator calls, and per value the calls that take it, with the number of the input.

    A tuple whose only uses are operator calls is no use of its fields.
    """
    pinned: set[Expr] = {result}
    consumers: dict[Expr, list[tuple[OperatorCall, int]]] = {}
    for step in reversed(steps):
        if isinstance(step, OperatorCall):
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


def _without_dead_tuples(bindings: list[tuple[Var, Expr]], result: Expr) -> list[tuple[Var, Expr]]:
    """The bindings without the dead tuples and projections."""
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

    def call(self, cluster: Cluster) -> Call:
        """The call of the primitive of ``cluster``; ``items[0]`` is its last operator call, whose value is the result."""
        group, args = group_of(cluster.in_order)
        device = cluster.items[0].device
        key = (group.key(), device)
        if key not in self._by_key:
            group = build_group(group.params, group.literals, group.nodes, group.results)
            function = function_of(group, device)
            name = self._names(group.name)
            self.functions[name] = function
            self._by_key[key] = GlobalVar(name, ty=function.ty)
        last = cluster.items[0].call
        reads = read_spans(cluster.in_order)
        return Call(self._by_key[key], args, reads=tuple(map(reads.get, args)), span=last.span, ty=last.ty)
