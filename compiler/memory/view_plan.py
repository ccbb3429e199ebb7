"""Plan views: slices alias their source; concatenation inputs are written in place.

A slice along the first axis, or a section of a split, becomes a view of its source::

    let %y_storage = memory.alloc_storage(...);
    let %y = memory.alloc_tensor(%y_storage, shape=[2, 4]);      ->   let %y = vm.slice_tensor(%x, [2, 4], [12]);
    let %_ = vm.invoke_op(@strided_slice, %x, %y);

and the producers of a concatenation's inputs write into its result::

    let %a = memory.alloc_tensor(%a_storage, shape=[2, 4]);           let %y = memory.alloc_tensor(%y_storage, shape=[5, 4]);
    let %_ = vm.invoke_op(@f, %x, %a);                                let %a = vm.slice_tensor(%y, [2, 4], [0]);
    let %b = memory.alloc_tensor(%b_storage, shape=[3, 4]);      ->   let %_ = vm.invoke_op(@f, %x, %a);
    let %_1 = vm.invoke_op(@g, %x, %b);                               let %b = vm.slice_tensor(%y, [3, 4], [8]);
    let %y = memory.alloc_tensor(%y_storage, shape=[5, 4]);           let %_1 = vm.invoke_op(@g, %x, %b);
    let %_2 = vm.invoke_op(@concatenate, %a, %b, %y);

Both only where the peak of memory does not grow, for all values of the dims, and where no value that escapes is a view of a
larger tensor.  A view keeps its whole source allocated, so a view that outlives its source may cost more than a copy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...declarations.frozen_dataclass import frozen
from ...ops.analysis.views import Part, joined, parts
from ...ops.core.group import Group
from ...ops.core.tensor_types import ITEMSIZE, tensor_bytes
from ...shape_funcs.symbolic.dim import POLY, Dim, Shape, const, dim, is_nonneg, total
from ...shape_funcs.symbolic.dim_operations import substitute
from ..ir.expr import Expr, GlobalVar, Var, tensor_type
from .known_sizes import KnownSizes
from .liveness import EXTERNAL, LIVE_OUT, Launch, Liveness, Storage

#: The size in bytes of a cache line.  A kernel may write its results in whole lines: every result must begin at a line.
LINE_BYTES = 64


@frozen
class View:
    """``tensor`` aliases ``whole`` from element ``offset`` on."""

    tensor: Var
    whole: Var
    offset: Dim


@frozen
class Concatenation:
    """``tensor``, in ``storage``, is allocated before ``parts``, the views that its inputs become."""

    tensor: Var
    storage: Storage
    shape: Shape
    parts: tuple[View, ...]


@dataclass
class ViewPlan:
    """The views of one function.

    ``slices``: by the identity of a launch's call, the results that become views; ``concatenations``, by the storage before which
    they are allocated, the outermost first; ``elided``: the launches that are removed; ``parts``: the view of each tensor that is
    stored in a concatenation; ``eliminated``: the storages that are not allocated.
    """

    slices: dict[int, tuple[View, ...]] = field(default_factory=dict)
    concatenations: dict[Var, list[Concatenation]] = field(default_factory=dict)
    elided: set[int] = field(default_factory=set)
    parts: dict[Var, View] = field(default_factory=dict)
    eliminated: set[Var] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.slices or self.concatenations)


def plan_views(liveness: Liveness, sizes: KnownSizes, group_of: Callable[[GlobalVar], Group], held: Collection[Var]) -> ViewPlan:
    """The views of the function of ``liveness``.

    ``sizes``: the sizes known in that function; ``group_of``: the group of a primitive; ``held``: the values whose memory the
    caller or the executable holds for as long as the function runs.
    """
    planner = _ViewPlanner(liveness, sizes, group_of, held)
    for launch in liveness.launches:
        planner.launch(launch)
    return planner.plan


class _ViewPlanner:
    """The live ranges of the storages of one function, updated with each planned view."""

    def __init__(
        self, liveness: Liveness, sizes: KnownSizes, group_of: Callable[[GlobalVar], Group], held: Collection[Var]
    ) -> None:
        self.liveness, self.sizes, self.group_of, self.held = liveness, sizes, group_of, held
        self.plan = ViewPlan()
        storages = liveness.storages.values()
        self.start, self.last = {s.var: s.at for s in storages}, {s.var: s.last for s in storages}
        self.size = {s.var: tensor_bytes(tensor_type(s.tensor)) for s in storages if s.tensor is not None}
        #: The storage before which a concatenation is allocated, and the storages that replace each eliminated storage.
        self.anchor = {s.var: s for s in storages}
        self.forwarded: dict[Var, frozenset[Var]] = {}
        self.calls = set(liveness.calls)
        self.takes = sorted({*self.start.values(), *liveness.calls, *liveness.unplanned})

    def launch(self, launch: Launch) -> None:
        callee = launch.call.args[0]
        assert isinstance(callee, GlobalVar)
        owned = [self._own(out) for out in launch.outputs]
        results = [s for s, out in zip(owned, launch.outputs, strict=True) if s is not None and s.tensor is out]
        if len(results) < len(owned):
            return
        group = self.group_of(callee)
        found = parts(group)
        if found is not None:
            self._slices(launch, results, [self._view(launch, group, p, s) for p, s in zip(found, results, strict=True)])
            return
        found = joined(group)
        if found is not None:
            self._concatenation(launch, group, results[0], [self._view(launch, group, p, results[0]) for p in found])

    def _own(self, value: Expr) -> Storage | None:
        """The storage whose only content is ``value``, as its first tensor or as a view of all of it; None if there is none."""
        held = self.liveness.storages_of(value)
        storage = self.liveness.storages.get(next(iter(held))) if len(held) == 1 else None
        if storage is None or storage.tensor is None or storage.var in self.plan.eliminated or value in self.liveness.shifted:
            return None
        return storage if tensor_bytes(tensor_type(value)) is self.size[storage.var] else None

    def _view(self, launch: Launch, group: Group, part: Part, result: Storage) -> View:
        whole = launch.inputs[part.param]
        assert isinstance(whole, Var) and result.tensor is not None
        return View(result.tensor, whole, substitute(part.offset, _dims(launch, group)))

    def _storages_of(self, value: Expr) -> frozenset[Var]:
        """The storages that a value may alias under the plan so far."""
        found, pending = set(), list(self.liveness.storages_of(value))
        while pending:
            root = pending.pop()
            if root in self.forwarded:
                pending += self.forwarded[root]
            else:
                found.add(root)
        return frozenset(found)

    # ---- slices ------------------------------------------------------------------------------------------------

    def _slices(self, launch: Launch, results: list[Storage], slices: list[View]) -> None:
        if any(self.last[s.var] == LIVE_OUT for s in results) or len({s.var for s in results}) < len(results):
            return
        if not self.sizes.are_known([s.offset for s in slices], launch.at, launch.path):
            return  # a function may know the size n + 1 of an axis, and no tensor of size n
        until = max(self.last[s.var] for s in results)
        wholes = {s.whole: self._storages_of(s.whole) for s in slices}
        if not all(self._lives_on(launch.at, w, held, until, results) for w, held in wholes.items()):
            return
        for held in wholes.values():
            for root in held - {EXTERNAL}:
                self.last[root] = max(self.last[root], until)
        self.plan.slices[id(launch.call)] = tuple(slices)
        for view, storage in zip(slices, results, strict=True):
            self.plan.eliminated.add(storage.var)
            self.forwarded[storage.var] = wholes[view.whole]

    def _lives_on(self, at: int, whole: Var, held: frozenset[Var], until: int, instead: Sequence[Storage]) -> bool:
        """Whether ``whole``, in ``held``, may live to number ``until``, held instead of the results ``instead`` of launch
        ``at``."""
        own = held - {EXTERNAL}
        last = max([at, *self.liveness.uses_of(whole), *(self.last[r] for r in own)])
        if whole in self.held or last >= until:
            return True
        other = tensor_bytes(tensor_type(whole)) if EXTERNAL in held else dim(0)
        size = total(self.size[r] for r in own) + other

        def before(t: int) -> Dim:
            return self._sizes(s for s in instead if self._lives(s, t))

        return self._no_more(self._alive(at) + other, range(last + 1, until + 1), before, lambda t: size)

    # ---- concatenations ----------------------------------------------------------------------------------------

    def _concatenation(self, launch: Launch, group: Group, result: Storage, values: Sequence[View]) -> None:
        found = [self._own(w.whole) for w in values]
        owned = [s for s in found if s is not None and s.device == result.device and self.last[s.var] != LIVE_OUT]
        if len({s.var for s in (result, *owned)}) <= len(values):
            return
        tensor = _tensor(result)
        if not all(_at_a_line(w.offset * ITEMSIZE[tensor_type(tensor).dtype]) for w in values):
            return
        first = min((self.anchor[s.var] for s in owned), key=lambda s: s.at)
        last = max(self.last[s.var] for s in (result, *owned))
        view = tuple(View(_tensor(s), tensor, w.offset) for s, w in zip(owned, values, strict=True))
        size, both = self.size[result.var], [*owned, result]

        def before(t: int) -> Dim:
            return self._sizes(s for s in both if self._lives(s, t))

        if not self._no_more(self._alive(launch.at), range(first.at, last + 1), before, lambda t: size):
            return
        dims = _dims(launch, group)
        shape = tuple(substitute(d, dims) for d in group.values()[group.results[0]].shape)
        if not self.sizes.are_known([*shape, *(w.offset for w in view)], first.at, first.path):
            return
        self.plan.concatenations.setdefault(first.var, []).insert(0, Concatenation(tensor, result, shape, view))
        self.plan.elided.add(id(launch.call))
        self.plan.parts |= {w.tensor: w for w in view}
        for s in owned:
            self.plan.eliminated.add(s.var)
            self.forwarded[s.var] = frozenset([result.var])
        self.anchor[result.var], self.start[result.var], self.last[result.var] = first, first.at, last

    # ---- bytes -------------------------------------------------------------------------------------------------

    def _no_more(self, peak: Dim, when: range, before: Callable[[int], Dim], after: Callable[[int], Dim]) -> bool:
        """Whether at each allocation in ``when`` the bytes ``after`` are at most ``before``, or the total then is at most
        ``peak``."""
        low, high = bisect_left(self.takes, when.start), bisect_left(self.takes, when.stop)
        for t in self.takes[low:high]:
            was, becomes = before(t), after(t)
            if is_nonneg(was - becomes):
                continue
            if t in self.calls or not is_nonneg(peak - (self._alive(t) - was + becomes)):
                return False
        return True

    def _lives(self, storage: Storage, at: int) -> bool:
        return self.start[storage.var] <= at <= self.last[storage.var]

    def _sizes(self, storages: Iterable[Storage]) -> Dim:
        return total(self.size[s.var] for s in storages)

    def _alive(self, at: int) -> Dim:
        """The bytes of the function's own storages that are live at a number."""
        return self._sizes(
            s for var, s in self.liveness.storages.items() if var not in self.plan.eliminated and self._lives(s, at)
        )


def _dims(launch: Launch, group: Group) -> Mapping[Dim, Dim]:
    """The dims of the group's parameters, as dims of the function."""
    return {
        d: size
        for tensor, value in zip(group.params, launch.inputs, strict=True)
        for d, size in zip(tensor.shape, tensor_type(value).shape, strict=True)
        if const(d) is None
    }


def _tensor(storage: Storage) -> Var:
    assert storage.tensor is not None
    return storage.tensor


def _at_a_line(nbytes: Dim) -> bool:
    """Whether ``nbytes`` is a multiple of a line for all values of the dims."""
    if nbytes.op == POLY:
        return all(coefficient % LINE_BYTES == 0 for coefficient, _ in nbytes.args)
    known = const(nbytes)
    return known is not None and known % LINE_BYTES == 0
