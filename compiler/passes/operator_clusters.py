"""Clusters of operator calls that become one primitive: their group, whether one kernel computes it, and its values that another
kernel should compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ops.analysis.evaluations import evaluations, evaluations_by_threads
from ...ops.codegen import fits
from ...ops.codegen.loop_nest.layer_kinds import of_its_kind
from ...ops.core.group import Group, Node
from ...ops.core.group_memo import per_group
from ...ops.core.implementation import GPU, HOST
from ...ops.core.op import Op, OpPattern, TypeRelError
from ...ops.core.tensor_types import Tensor, TensorType, TupleType
from ...ops.core.type_relation import build_group, host_reads
from ...shape_funcs.symbolic.dim import Dim, const, sym
from ...vm.diagnostics.source import Span
from ..ir.expr import Call, Constant, Expr, Var
from ..ir.primitive import literal_key, literal_of


@dataclass(eq=False)
class OperatorCall:
    """A call of an operator with a kernel (or view), its tuple arguments flattened."""

    var: Var
    call: Call
    args: tuple[Any, ...]  # per input an atom, or a tuple of atoms
    device: str = ""  # the marked device, "" for the target
    #: Groups of clusters with this result, by their calls: a cluster is described each time that it may grow.
    groups: dict[tuple[OperatorCall, ...], Group | None] = field(default_factory=dict)

    @property
    def op(self) -> Op:
        assert isinstance(self.call.op, Op)
        return self.call.op

    @property
    def outputs(self) -> int:
        return len(self.call.ty.fields) if isinstance(self.call.ty, TupleType) else 1

    def tensors(self) -> Iterable[tuple[int, Expr]]:
        """``(input, atom)`` for each tensor argument."""
        for i, arg in enumerate(self.args):
            for atom in arg if isinstance(arg, tuple) else (arg,):
                yield i, atom

    @property
    def params(self) -> set[Expr]:
        """The arguments, except constants that are part of a kernel."""
        return {a for _, a in self.tensors() if _is_param(a)}

    @property
    def is_reduction(self) -> bool:
        return self.op.pattern is OpPattern.COMM_REDUCE

    @property
    def gives_elements(self) -> bool:
        """Whether a consumer can compute its elements one by one, or row by row."""
        return self.op.pattern <= OpPattern.COMM_REDUCE and self.outputs == 1 and not isinstance(self.call.ty, TupleType)

    @property
    def is_finished(self) -> bool:
        """Whether a kernel of its own can apply elementwise operators to its result, while parts of it are cached."""
        return any(k.finishes for k in self.op.kernels) and not isinstance(self.call.ty, TupleType)

    @property
    def is_added_to(self) -> bool:
        """Whether a kernel for GPUs can add tensors to its result, or compute elementwise operators of it."""
        return any(k.adds or k.follows for k in self.op.kernels) and not isinstance(self.call.ty, TupleType)

    def takes_elements(self, number: int, dependence: str, machine: str) -> bool:
        """Whether input ``number`` is read only elementwise, so that its producer can be part of the kernel."""
        fusable = self.op.pattern <= OpPattern.COMM_REDUCE and not isinstance(self.call.ty, TupleType)
        fusable |= machine == GPU and any(number in k.elements for k in self.op.kernels)
        return fusable and host_reads(self.op, dependence)[number] is None


@dataclass(eq=False)
class Cluster:
    """The operator calls of one primitive; ``params``: the values from outside."""

    items: list[OperatorCall]
    params: set[Expr] = field(default_factory=set)
    machine: str = HOST

    @property
    def first(self) -> OperatorCall | None:
        """The call whose kernel computes the other operators, too; None if the kernel is generated."""
        return next((item for item in self.items if item.op.kernels), None)

    @property
    def in_order(self) -> list[OperatorCall]:
        """The calls of the group, dependencies first; ``first`` depends on none, or on all."""
        first = None if self.items[0].op.kernels else self.first
        return [*([first] if first else []), *(item for item in self.items[::-1] if item is not first)]

    def extended(self, item: OperatorCall) -> Cluster:
        """The cluster with a producer of a value that has no other use."""
        return Cluster([*self.items, item], (self.params - {item.var}) | item.params, self.machine)

    def group(self) -> Group | None:
        """The group, with literals of its layer's kind; None if sizes contradict each other once the calls share operands, which
        is an error of the run."""
        groups, items = self.items[0].groups, tuple(self.items)
        if items not in groups:
            groups[items] = _inferred(of_its_kind(group_of(self.in_order)[0]))
        return groups[items]

    @property
    def fits(self) -> bool:
        """Whether code generation supports the cluster as one kernel."""
        if len(self.items) == 1:
            return True
        group = self.group()
        return group is not None and fits(group, self.machine)

    def better_stored(self, follows: Callable[[list[OperatorCall]], bool]) -> set[Expr]:
        """The values that another kernel should compute, those nearest to the result.

        ``follows``: whether the kernel of an operand can apply these calls to its result.
        """
        if len(self.items) == 1 or all(item.op.pattern is OpPattern.ELEMWISE for item in self.items):
            return set()
        group, items = self.group(), self.in_order
        if group is None:
            return set()
        first = len(group.params) + len(group.literals)
        found, known = set[Expr](), set[Expr]()
        for each in reversed((evaluations_by_threads if self.machine == GPU else evaluations)(group)):
            var = items[each.value - first].var
            if var not in known:
                needed = self._needed_for(var)
                apart = self.first is None and follows([item for item in self.items if item.var in needed])
                if each.is_better_stored(self.machine, apart):
                    found.add(var)
                    known |= needed
        return found

    def _needed_for(self, var: Expr) -> set[Expr]:
        """The values of the cluster that ``var`` is computed from, itself included."""
        calls, found, stack = {item.var: item for item in self.items}, set[Expr](), [var]
        while stack:
            value = stack.pop()
            if value in calls and value not in found:
                found.add(value)
                stack += [atom for _, atom in calls[value].tensors()]
        return found


@per_group
def _inferred(group: Group) -> Group | None:
    """The group with the types of its values; None if sizes contradict each other."""
    try:
        return build_group(group.params, group.literals, group.nodes, group.results)
    except TypeRelError:
        return None


def single_operator_group(var: Var, call: Call, tensors: Sequence[tuple[Expr, ...]]) -> tuple[Group, tuple[Expr, ...]]:
    """The group of one operator call, and the arguments for its parameters.  ``tensors``: the tensors of each input."""
    assert isinstance(call.op, Op)
    args = tuple(t if name.endswith("*") else t[0] for name, t in zip(call.op.inputs, tensors, strict=True))
    return group_of([OperatorCall(var, call, args)])


def group_of(items: list[OperatorCall]) -> tuple[Group, tuple[Expr, ...]]:
    """The group of ``items`` (in order), its outputs still to be derived, and the arguments for its parameters.

    Scalar constants become literals of the group.
    """
    return _group_with_literals(items, inline=not any(map(_rejects_literals, items)))


def _rejects_literals(item: OperatorCall) -> bool:
    """Whether the operator rejects a scalar constant argument that was folded after type inference.

    As a parameter, the constant is rejected at run time, if the call is reached.
    """
    if not any(isinstance(a, Constant) and not _is_param(a) and item.op.data_dependent[number] for number, a in item.tensors()):
        return False
    group, _ = _group_with_literals([item], inline=True)
    try:
        build_group(group.params, group.literals, group.nodes, group.results)
    except TypeRelError:
        return True
    return False


def _group_with_literals(items: list[OperatorCall], inline: bool) -> tuple[Group, tuple[Expr, ...]]:
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


def read_spans(items: list[OperatorCall]) -> dict[Expr, Span | None]:
    """The place at which each value is read: by the shape function of the first call that reads its data, else by the first
    call."""
    first: dict[Expr, Span | None] = {}
    data: dict[Expr, Span | None] = {}
    for item in items:
        for number, atom in item.tensors():
            (data if item.op.data_dependent[number] else first).setdefault(atom, item.call.span)
    return {**first, **data}


def _is_param(atom: Expr) -> bool:
    return not (isinstance(atom, Constant) and atom.data.ndim == 0)


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
