"""Trims that shrink the storage of an upper bound: its rows move to a storage of their exact size, if that pays.

``vm.runtime`` decides for each run.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ops.core.tensor_types import TensorType, tensor_bytes
from ...shape_funcs.symbolic.dim import const
from ..ir.expr import Call, Var
from .in_place_reuse import MIN_REUSE_BYTES
from .liveness import EXTERNAL, LIVE_OUT, Liveness, Storage


def shrinkable_trims(liveness: Liveness, storage_of: Mapping[Var, Var]) -> list[Call]:
    """The trims whose result is the only live alias of the bound's storage, and outlives another allocation.

    ``storage_of``: the planned storage of each storage.  A result outlives an allocation where it escapes, or where memory is
    allocated or a function is called before its last use; else a copy could save nothing.
    """
    bounds = [(at, trim, _bound(liveness, at, trim)) for at, trim in liveness.trims]
    return [
        trim
        for at, trim, bound in bounds
        if bound and _is_alone(liveness, storage_of, at, bound) and _lives_on(liveness, at, bound)
    ]


def _bound(liveness: Liveness, at: int, trim: Call) -> Storage | None:
    """The storage of the trimmed tensor, if the function allocated it for that tensor and no use of the untrimmed tensor
    follows."""
    data, held = trim.args[0], liveness.storages_of(trim.args[0])
    assert isinstance(data, Var)
    if len(held) != 1 or EXTERNAL in held or max(liveness.uses_of(data)) > at:
        return None
    storage = liveness.storages[next(iter(held))]
    return storage if storage.tensor is data else None


def _is_alone(liveness: Liveness, storage_of: Mapping[Var, Var], at: int, bound: Storage) -> bool:
    """Whether every other tensor in the storage of a bound is dead at the trim."""
    others = (s for s in liveness.storages.values() if s is not bound and storage_of[s.var] is storage_of[bound.var])
    return all(s.last < at for s in others)


def _lives_on(liveness: Liveness, at: int, bound: Storage) -> bool:
    """Whether memory is allocated while the result of a trim is live.  Uses of the bound after the trim are uses of the
    result."""
    if bound.last == LIVE_OUT or any(at < call <= bound.last for call in liveness.calls):
        return True
    taken = [*liveness.unplanned, *(s.at for s in liveness.storages.values() if not _is_small(s))]
    return any(at < number < bound.last for number in taken)


def _is_small(storage: Storage) -> bool:
    assert storage.tensor is not None and isinstance(storage.tensor.ty, TensorType)
    known = const(tensor_bytes(storage.tensor.ty))
    return known is not None and known < MIN_REUSE_BYTES
