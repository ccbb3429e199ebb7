"""Upper bounds that are given back: whose rows move into a storage of their own, where that pays at run time (``vm.trim``)."""

from __future__ import annotations

from collections.abc import Mapping

from ...ops.ty import TensorType
from ...shape_funcs.dims import const
from ..ir import Call, Var
from .storage_roots import ELSEWHERE, FOR_EVER, Storage, StorageRoots
from .taking_place import WORTH_ASKING, nbytes_of


def released(roots: StorageRoots, place: Mapping[Var, Var]) -> list[Call]:
    """The trims after which nothing but their result lies in the bound's storage, while the result lives on.

    ``place``: the storage that each storage has become.  A result lives on where it leaves the function, or where memory is taken
    or a function called before its last use; else a copy could save nothing.
    """
    bounds = [(at, trim, _bound(roots, at, trim)) for at, trim in roots.trims]
    return [trim for at, trim, bound in bounds if bound and _is_alone(roots, place, at, bound) and _lives_on(roots, at, bound)]


def _bound(roots: StorageRoots, at: int, trim: Call) -> Storage | None:
    """The storage of what is trimmed, if it is the function's own, is made for it, and nobody uses it untrimmed from then on."""
    data, held = trim.args[0], roots.of(trim.args[0])
    assert isinstance(data, Var)
    if len(held) != 1 or ELSEWHERE in held or max(roots.uses_of(data)) > at:
        return None
    storage = roots.storages[next(iter(held))]
    return storage if storage.tensor is data else None


def _is_alone(roots: StorageRoots, place: Mapping[Var, Var], at: int, bound: Storage) -> bool:
    """Is whatever else lies in the storage of a bound dead when that is trimmed?"""
    others = (s for s in roots.storages.values() if s is not bound and place[s.var] is place[bound.var])
    return all(s.last < at for s in others)


def _lives_on(roots: StorageRoots, at: int, bound: Storage) -> bool:
    """Is memory taken while the result of a trim lives?  Whoever uses the bound after its trim uses the result."""
    if bound.last == FOR_EVER or any(at < call <= bound.last for call in roots.calls):
        return True
    taken = [*roots.others, *(s.at for s in roots.storages.values() if not _is_small(s))]
    return any(at < number < bound.last for number in taken)


def _is_small(storage: Storage) -> bool:
    assert storage.tensor is not None and isinstance(storage.tensor.ty, TensorType)
    known = const(nbytes_of(storage.tensor.ty))
    return known is not None and known < WORTH_ASKING
