"""Results written over inputs: where the kernel allows it and the input dies there, the result needs no storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...ops.in_place import Pair
from ...ops.ty import ITEMSIZE, TensorType
from ...shape_funcs.dims import Dim, const, product
from ..ir import Expr, GlobalVar, Var
from .storage_roots import ELSEWHERE, FOR_EVER, Launch, Storage, StorageRoots

#: Fewer bytes than this are allocated without asking whether there is something to take.
WORTH_ASKING = 4096


@dataclass
class Block:
    """Storages that are one: that of ``members[0]``, which the others take over one after the other.

    ``nbytes``: how large it is; ``why``: why it is one of its own; ``over``: the value, not of this function's making, whose
    storage it is if that is nobody else's at run time.
    """

    members: list[Storage]
    nbytes: Dim
    why: str = ""
    over: Var | None = None

    @property
    def base(self) -> Storage:
        return self.members[0]

    @property
    def start(self) -> int:
        return self.base.at

    @property
    def last(self) -> int:
        """The last number at which it is used."""
        return max(m.last for m in self.members)

    @property
    def escapes(self) -> bool:
        """Is something in it part of the function's result?"""
        return self.last == FOR_EVER

    def used_after(self, at: int) -> set[int]:
        """The numbers beyond ``at`` at which it is used."""
        return {u for m in self.members for u in m.uses if u > at}


@dataclass
class Places:
    """The blocks of a function, in the order of their allocation.  ``pairs``: which parameters of a launch (by its number) are
    overwritten by which results."""

    blocks: list[Block] = field(default_factory=list)
    pairs: dict[int, set[Pair]] = field(default_factory=dict)


def take_places(roots: StorageRoots, pairs_of: Callable[[GlobalVar], tuple[Pair, ...]]) -> Places:
    """Each storage in its block; ``pairs_of``: what the kernel of a primitive allows."""
    taking = _Taking(roots, pairs_of)
    for storage in roots.storages.values():
        taking.place(storage)
    return taking.places


def nbytes_of(ty: TensorType) -> Dim:
    """The bytes of a tensor; equal expressions are the same object."""
    return product(ty.shape) * ITEMSIZE[ty.dtype]


class _Taking:
    """The blocks of one function in the making."""

    def __init__(self, roots: StorageRoots, pairs_of: Callable[[GlobalVar], tuple[Pair, ...]]) -> None:
        self.roots, self.pairs_of = roots, pairs_of
        self.places = Places()
        self.block: dict[Var, Block] = {}

    def place(self, storage: Storage) -> None:
        """Find the block of a storage, or make one."""
        assert storage.tensor is not None and isinstance(storage.tensor.ty, TensorType)
        size, why, over = nbytes_of(storage.tensor.ty), "", None
        writers = self.roots.writers(storage.tensor)
        for value in writers[0].inputs if writers else ():
            if not isinstance(value.ty, TensorType) or nbytes_of(value.ty) is not size:
                continue
            refusal = self._refusal(storage, writers, value)
            if not refusal:
                self._take(storage, writers, value)
                return
            why = why or refusal
            over = over or self._at_run_time(storage, writers, value)
        block = self.block[storage.var] = Block([storage], size, why, over)
        self.places.blocks.append(block)
        if over is not None:
            self._note(storage, writers, lambda launch: {k for k, v in enumerate(launch.inputs) if v is over})

    def _take(self, storage: Storage, writers: list[Launch], value: Expr) -> None:
        (root,) = self.roots.of(value)
        block = self.block[storage.var] = self.block[root]
        self._note(storage, writers, lambda launch: {k for k, v in enumerate(launch.inputs) if self._lies_in(v, block)})
        block.members.append(storage)

    def _note(self, storage: Storage, writers: list[Launch], read: Callable[[Launch], set[int]]) -> None:
        """Record that the tensor of ``storage`` is written over the inputs ``read``."""
        for launch in writers:
            position = launch.outputs.index(storage.tensor)
            self.places.pairs.setdefault(launch.at, set()).update((k, position) for k in read(launch))

    def _at_run_time(self, storage: Storage, writers: list[Launch], value: Expr) -> Var | None:
        """``value`` if it is from elsewhere and its last use is to be written over: whether another value refers to its
        memory, too, is asked at run time.  What is known to be small is not worth the question."""
        assert isinstance(value, Var) and isinstance(value.ty, TensorType)
        known = const(nbytes_of(value.ty))
        if ELSEWHERE not in self.roots.of(value) or value.ty.rank == 0 or (known is not None and known < WORTH_ASKING):
            return None
        if any(at > storage.at and at not in {w.at for w in writers} for at in self.roots.uses_of(value)):
            return None
        for launch in writers:
            callee, position = launch.call.args[0], launch.outputs.index(storage.tensor)
            assert isinstance(callee, GlobalVar)
            if not {(k, position) for k, v in enumerate(launch.inputs) if v is value} <= set(self.pairs_of(callee)):
                return None
        return value

    def _pairs(self, storage: Storage, launch: Launch, block: Block) -> set[Pair]:
        """The pairs of what the launch reads in the block, and the tensor of ``storage``."""
        position = launch.outputs.index(storage.tensor)
        return {(k, position) for k, value in enumerate(launch.inputs) if self._lies_in(value, block)}

    def _lies_in(self, value: Expr, block: Block) -> bool:
        return any(self.block.get(root) is block for root in self.roots.of(value))

    def _refusal(self, storage: Storage, writers: list[Launch], value: Expr) -> str:
        """Why the tensor of ``storage`` cannot be written over ``value``; "" where it can."""
        assert isinstance(value, Var)
        held = self.roots.of(value)
        if len(held) != 1 or ELSEWHERE in held:
            return f"%{value.name} is not this function's own"
        block = self.block[next(iter(held))]
        if value in self.roots.shifted:
            return f"%{value.name} is part of another tensor"
        if block.base.device != storage.device:
            return f"%{value.name} is on {block.base.device}"
        if not block.base.is_in_scope(storage.path):
            return f"%{value.name} lies in a storage of another branch"
        if not block.used_after(storage.at) <= {launch.at for launch in writers}:
            return f"%{value.name} is used again"
        for launch in writers:
            callee = launch.call.args[0]
            assert isinstance(callee, GlobalVar)
            if any(self._lies_in(out, block) for out in launch.outputs if out is not storage.tensor):
                return f"%{value.name} is overwritten by another result"
            if any(v in self.roots.shifted and self._lies_in(v, block) for v in launch.inputs):
                return f"@{callee.name} reads a part of %{value.name}, too"
            if not self._pairs(storage, launch, block) <= set(self.pairs_of(callee)):
                return f"@{callee.name} does not write over %{value.name}"
        return ""
