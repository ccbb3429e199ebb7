"""In-place reuse: a kernel's result is written over an input that dies there, where the kernel allows it, and needs no
storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...ops.analysis.aliasing import Pair
from ...ops.core.tensor_types import TensorType, tensor_bytes
from ...shape_funcs.symbolic.dim import Dim, const
from ..ir.expr import Expr, GlobalVar, Var
from .liveness import EXTERNAL, LIVE_OUT, Launch, Liveness, Storage

#: The least size in bytes for a check at run time whether a storage can be reused; smaller storages are allocated.
MIN_REUSE_BYTES = 4096


@dataclass
class Block:
    """Storages with disjoint live ranges that share one memory, allocated at ``members[0]``.

    ``nbytes``: the size in bytes, of the largest member; ``why``: the reason why the block reuses no other block; ``donor``: an
    external value whose storage the block reuses if, at run time, nothing else refers to that storage.
    """

    members: list[Storage]
    nbytes: Dim
    why: str = ""
    donor: Var | None = None

    @property
    def base(self) -> Storage:
        return self.members[0]

    @property
    def largest(self) -> Storage:
        """The first member with the size of the block."""
        return next(m for m in self.members if m.nbytes is self.nbytes)

    @property
    def start(self) -> int:
        return self.base.at

    @property
    def last(self) -> int:
        """The last number at which a member is used."""
        return max(m.last for m in self.members)

    @property
    def escapes(self) -> bool:
        """Whether a member is part of the function's result."""
        return self.last == LIVE_OUT

    def used_after(self, at: int) -> set[int]:
        """The numbers greater than ``at`` at which a member is used."""
        return {u for m in self.members for u in m.uses if u > at}


@dataclass
class InPlaceReuse:
    """The blocks of a function, in order of allocation.

    ``pairs``: by the number of a launch, ``(parameter, result)`` for each result written over a parameter.
    """

    blocks: list[Block] = field(default_factory=list)
    pairs: dict[int, set[Pair]] = field(default_factory=dict)


def plan_in_place_reuse(liveness: Liveness, pairs_of: Callable[[GlobalVar], tuple[Pair, ...]]) -> InPlaceReuse:
    """Assign each storage to a block; ``pairs_of``: the in-place pairs that the kernel of a primitive allows."""
    planner = _ReusePlanner(liveness, pairs_of)
    for storage in liveness.storages.values():
        planner.place(storage)
    return planner.plan


class _ReusePlanner:
    """The plan of one function under construction."""

    def __init__(self, liveness: Liveness, pairs_of: Callable[[GlobalVar], tuple[Pair, ...]]) -> None:
        self.liveness, self.pairs_of = liveness, pairs_of
        self.plan = InPlaceReuse()
        self.block_of: dict[Var, Block] = {}

    def place(self, storage: Storage) -> None:
        """Add a storage to the block of an input, or to a new block."""
        assert storage.tensor is not None and isinstance(storage.tensor.ty, TensorType)
        size, why, donor = tensor_bytes(storage.tensor.ty), "", None
        writers = self.liveness.writers(storage.tensor)
        for value in writers[0].inputs if writers else ():
            if not isinstance(value.ty, TensorType) or tensor_bytes(value.ty) is not size:
                continue
            refusal = self._refusal(storage, writers, value)
            if not refusal:
                self._reuse(storage, writers, value)
                return
            why = why or refusal
            donor = self._donor(storage, writers, value) if donor is None else donor
        block = self.block_of[storage.var] = Block([storage], size, why, donor)
        self.plan.blocks.append(block)
        if donor is not None:
            self._record(storage, writers, lambda launch: {k for k, v in enumerate(launch.inputs) if v is donor})

    def _reuse(self, storage: Storage, writers: list[Launch], value: Expr) -> None:
        (root,) = self.liveness.storages_of(value)
        block = self.block_of[storage.var] = self.block_of[root]
        self._record(storage, writers, lambda launch: {k for k, v in enumerate(launch.inputs) if self._is_stored_in(v, block)})
        block.members.append(storage)

    def _record(self, storage: Storage, writers: list[Launch], read: Callable[[Launch], set[int]]) -> None:
        """Record that the tensor of ``storage`` is written over the inputs ``read``."""
        for launch in writers:
            position = launch.outputs.index(storage.tensor)
            self.plan.pairs.setdefault(launch.at, set()).update((k, position) for k in read(launch))

    def _donor(self, storage: Storage, writers: list[Launch], value: Expr) -> Var | None:
        """``value`` if it is external and every writer overwrites it at its last use; else None.

        Whether another value aliases its memory is checked at run time.  A value known to be small is not worth the check.
        """
        assert isinstance(value, Var) and isinstance(value.ty, TensorType)
        known = const(tensor_bytes(value.ty))
        if (
            EXTERNAL not in self.liveness.storages_of(value)
            or value.ty.rank == 0
            or (known is not None and known < MIN_REUSE_BYTES)
        ):
            return None
        if any(at > storage.at and at not in {w.at for w in writers} for at in self.liveness.uses_of(value)):
            return None
        for launch in writers:
            callee, position = launch.call.args[0], launch.outputs.index(storage.tensor)
            assert isinstance(callee, GlobalVar)
            if not {(k, position) for k, v in enumerate(launch.inputs) if v is value} <= set(self.pairs_of(callee)):
                return None
        return value

    def _pairs(self, storage: Storage, launch: Launch, block: Block) -> set[Pair]:
        """The pairs of each input of the launch that aliases the block, and the tensor of ``storage``."""
        position = launch.outputs.index(storage.tensor)
        return {(k, position) for k, value in enumerate(launch.inputs) if self._is_stored_in(value, block)}

    def _is_stored_in(self, value: Expr, block: Block) -> bool:
        return any(self.block_of.get(root) is block for root in self.liveness.storages_of(value))

    def _refusal(self, storage: Storage, writers: list[Launch], value: Expr) -> str:
        """The reason why the tensor of ``storage`` cannot be written over ``value``; "" if it can."""
        assert isinstance(value, Var)
        held = self.liveness.storages_of(value)
        if len(held) != 1 or EXTERNAL in held:
            return f"%{value.name} is not this function's own"
        block = self.block_of[next(iter(held))]
        if value in self.liveness.shifted:
            return f"%{value.name} is part of another tensor"
        if block.base.device != storage.device:
            return f"%{value.name} is on {block.base.device}"
        if not block.base.is_in_scope(storage.path):
            return f"%{value.name} is stored in another branch"
        if not block.used_after(storage.at) <= {launch.at for launch in writers}:
            return f"%{value.name} is used again"
        for launch in writers:
            callee = launch.call.args[0]
            assert isinstance(callee, GlobalVar)
            if any(self._is_stored_in(out, block) for out in launch.outputs if out is not storage.tensor):
                return f"%{value.name} is overwritten by another result"
            if any(v in self.liveness.shifted and self._is_stored_in(v, block) for v in launch.inputs):
                return f"@{callee.name} reads a part of %{value.name}, too"
            pairs = self._pairs(storage, launch, block)
            if not pairs <= set(self.pairs_of(callee)):
                return f"@{callee.name} does not write over %{value.name}"
            if len(pairs) > 1:  # the verifier accepts one parameter per result
                return f"@{callee.name} reads %{value.name} by two parameters"
        return ""
