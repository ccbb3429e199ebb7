"""Tensors that need no memory of their own because they lie in another one: parts of what is there, and what will be joined.

A part (a slice along the first axis, a part of a split) becomes a view::

    let %y_storage = memory.alloc_storage(...);
    let %y = memory.alloc_tensor(%y_storage, shape=[2, 4]);      ->   let %y = vm.slice_tensor(%x, [2, 4], [12]);
    let %_ = vm.invoke_op(@strided_slice, %x, %y);

and what makes the tensors of a join writes them where the join wants them::

    let %a = memory.alloc_tensor(%a_storage, shape=[2, 4]);           let %y = memory.alloc_tensor(%y_storage, shape=[5, 4]);
    let %_ = vm.invoke_op(@f, %x, %a);                                let %a = vm.slice_tensor(%y, [2, 4], [0]);
    let %b = memory.alloc_tensor(%b_storage, shape=[3, 4]);      ->   let %_ = vm.invoke_op(@f, %x, %a);
    let %_1 = vm.invoke_op(@g, %x, %b);                               let %b = vm.slice_tensor(%y, [3, 4], [8]);
    let %y = memory.alloc_tensor(%y_storage, shape=[5, 4]);           let %_1 = vm.invoke_op(@g, %x, %b);
    let %_2 = vm.invoke_op(@concatenate, %a, %b, %y);

Both only where no more memory is held at any time than would have been at some time, for all sizes, and where nothing that leaves
the function lies in something larger.  A view holds what it lies in, so a part that outlives its whole costs more than a copy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ops.contiguous import Part, joined, parts
from ...ops.group import Group
from ...ops.ty import ITEMSIZE
from ...shape_funcs.dims import POLY, Dim, Shape, const, dim, is_nonneg, substitute, total
from ..ir import Expr, GlobalVar, Var
from .known_sizes import KnownSizes
from .storage_roots import ELSEWHERE, FOR_EVER, Launch, Storage, StorageRoots
from .taking_place import nbytes_of

#: A kernel may write its results in whole lines of so many bytes: every result must begin at one.
LINE_BYTES = 64


@dataclass(frozen=True)
class Within:
    """``tensor`` lies in ``whole``, from element ``offset`` on."""

    tensor: Var
    whole: Var
    offset: Dim


@dataclass(frozen=True)
class Join:
    """``tensor``, in its storage, is there before ``parts``, which are written into it."""

    tensor: Var
    storage: Storage
    shape: Shape
    parts: tuple[Within, ...]


@dataclass
class Lying:
    """What is decided for one function.

    ``slices``: the results that a launch (by its call's identity) need not make; ``joins``, by the storage that they go before,
    the outermost first; ``joined``: the launches that have nothing left to do; ``parts``: the tensors that lie in a join, and
    where; ``gone``: the storages that are not needed.
    """

    slices: dict[int, tuple[Within, ...]] = field(default_factory=dict)
    joins: dict[Var, list[Join]] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)
    parts: dict[Var, Within] = field(default_factory=dict)
    gone: set[Var] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.slices or self.joins)


def lying_within(roots: StorageRoots, sizes: KnownSizes, group_of: Callable[[GlobalVar], Group], held: Collection[Var]) -> Lying:
    """What of the function of ``roots`` lies in what.

    ``sizes``: those of that function; ``group_of``: the group of a primitive; ``held``: the values whose memory is somebody
    else's for as long as the function runs.
    """
    deciding = _Deciding(roots, sizes, group_of, held)
    for launch in roots.launches:
        deciding.launch(launch)
    return deciding.lying


class _Deciding:
    """The lives of the storages of one function, as they become."""

    def __init__(
        self, roots: StorageRoots, sizes: KnownSizes, group_of: Callable[[GlobalVar], Group], held: Collection[Var]
    ) -> None:
        self.roots, self.sizes, self.group_of, self.held = roots, sizes, group_of, held
        self.lying = Lying()
        storages = roots.storages.values()
        self.start, self.last = {s.var: s.at for s in storages}, {s.var: s.last for s in storages}
        self.size = {s.var: nbytes_of(s.tensor.ty) for s in storages if s.tensor is not None}  # type: ignore[arg-type]
        #: Which storage that of a join goes before, and what those that are gone have become.
        self.anchor = {s.var: s for s in storages}
        self.become: dict[Var, frozenset[Var]] = {}
        self.calls = set(roots.calls)
        self.takes = sorted({*self.start.values(), *roots.calls, *roots.others})

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
            self._slices(launch, results, [self._within(launch, group, p, s) for p, s in zip(found, results, strict=True)])
            return
        found = joined(group)
        if found is not None:
            self._join(launch, group, results[0], [self._within(launch, group, p, results[0]) for p in found])

    def _own(self, value: Expr) -> Storage | None:
        """The storage that ``value`` has for itself, as its first tensor or as another view of all of it."""
        held = self.roots.of(value)
        storage = self.roots.storages.get(next(iter(held))) if len(held) == 1 else None
        if storage is None or storage.tensor is None or storage.var in self.lying.gone or value in self.roots.shifted:
            return None
        return storage if nbytes_of(value.ty) is self.size[storage.var] else None  # type: ignore[arg-type]

    def _within(self, launch: Launch, group: Group, part: Part, result: Storage) -> Within:
        whole = launch.inputs[part.param]
        assert isinstance(whole, Var) and result.tensor is not None
        return Within(result.tensor, whole, substitute(part.offset, _dims(launch, group)))

    def _roots(self, value: Expr) -> frozenset[Var]:
        """What a value lies in by now."""
        found, pending = set(), list(self.roots.of(value))
        while pending:
            root = pending.pop()
            if root in self.become:
                pending += self.become[root]
            else:
                found.add(root)
        return frozenset(found)

    # ---- parts of what is there --------------------------------------------------------------------------------

    def _slices(self, launch: Launch, results: list[Storage], slices: list[Within]) -> None:
        if any(self.last[s.var] == FOR_EVER for s in results) or len({s.var for s in results}) < len(results):
            return
        until = max(self.last[s.var] for s in results)
        wholes = {s.whole: self._roots(s.whole) for s in slices}
        if not all(self._lives_on(launch.at, w, held, until, results) for w, held in wholes.items()):
            return
        for held in wholes.values():
            for root in held - {ELSEWHERE}:
                self.last[root] = max(self.last[root], until)
        self.lying.slices[id(launch.call)] = tuple(slices)
        for within, storage in zip(slices, results, strict=True):
            self.lying.gone.add(storage.var)
            self.become[storage.var] = wholes[within.whole]

    def _lives_on(self, at: int, whole: Var, held: frozenset[Var], until: int, instead: Sequence[Storage]) -> bool:
        """May ``whole``, in ``held``, live to number ``until``, held instead of the results ``instead`` of launch ``at``?"""
        own = held - {ELSEWHERE}
        last = max([at, *self.roots.uses_of(whole), *(self.last[r] for r in own)])
        if whole in self.held or last >= until:
            return True
        other = nbytes_of(whole.ty) if ELSEWHERE in held else dim(0)  # type: ignore[arg-type]
        size = total(self.size[r] for r in own) + other

        def before(t: int) -> Dim:
            return self._sizes(s for s in instead if self._lives(s, t))

        return self._no_more(self._alive(at) + other, range(last + 1, until + 1), before, lambda t: size)

    # ---- what will be joined -----------------------------------------------------------------------------------

    def _join(self, launch: Launch, group: Group, result: Storage, values: Sequence[Within]) -> None:
        found = [self._own(w.whole) for w in values]
        owned = [s for s in found if s is not None and s.device == result.device and self.last[s.var] != FOR_EVER]
        if len({s.var for s in (result, *owned)}) <= len(values):
            return
        tensor = _tensor(result)
        if not all(_at_a_line(w.offset * ITEMSIZE[tensor.ty.dtype]) for w in values):  # type: ignore[union-attr]
            return
        first = min((self.anchor[s.var] for s in owned), key=lambda s: s.at)
        last = max(self.last[s.var] for s in (result, *owned))
        within = tuple(Within(_tensor(s), tensor, w.offset) for s, w in zip(owned, values, strict=True))
        size, both = self.size[result.var], [*owned, result]

        def before(t: int) -> Dim:
            return self._sizes(s for s in both if self._lives(s, t))

        if not self._no_more(self._alive(launch.at), range(first.at, last + 1), before, lambda t: size):
            return
        dims = _dims(launch, group)
        shape = tuple(substitute(d, dims) for d in group.values()[group.results[0]].shape)
        if not self.sizes.are_known([*shape, *(w.offset for w in within)], first.at, first.path):
            return
        self.lying.joins.setdefault(first.var, []).insert(0, Join(tensor, result, shape, within))
        self.lying.joined.add(id(launch.call))
        self.lying.parts |= {w.tensor: w for w in within}
        for s in owned:
            self.lying.gone.add(s.var)
            self.become[s.var] = frozenset([result.var])
        self.anchor[result.var], self.start[result.var], self.last[result.var] = first, first.at, last

    # ---- bytes -------------------------------------------------------------------------------------------------

    def _no_more(self, peak: Dim, when: range, before: Callable[[int], Dim], after: Callable[[int], Dim]) -> bool:
        """Is, when memory is taken, ``after`` no more than ``before``, or all that is held then no more than ``peak``?"""
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
        """The bytes of the function's own storages that are alive at a number."""
        return self._sizes(s for var, s in self.roots.storages.items() if var not in self.lying.gone and self._lives(s, at))


def _dims(launch: Launch, group: Group) -> Mapping[Dim, Dim]:
    """What the dims of the group's parameters are in the function."""
    return {
        d: size
        for tensor, value in zip(group.params, launch.inputs, strict=True)
        for d, size in zip(tensor.shape, value.ty.shape, strict=True)  # type: ignore[union-attr]
        if const(d) is None
    }


def _tensor(storage: Storage) -> Var:
    assert storage.tensor is not None
    return storage.tensor


def _at_a_line(nbytes: Dim) -> bool:
    """Is it a multiple of a line, whatever the sizes are?"""
    if nbytes.op == POLY:
        return all(coefficient % LINE_BYTES == 0 for coefficient, _ in nbytes.args)
    known = const(nbytes)
    return known is not None and known % LINE_BYTES == 0
