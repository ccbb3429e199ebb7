"""What was measured of an operator's implementations: records by shape bucket, and which implementation they prefer.

A *bucket* holds the calls whose sizes are the same when each is rounded up to a power of two (0 and 1 are themselves): 9 to 16
are one size.  A record is measured at one call of its bucket and stands for all of them.  It changes the choice that is made
without it only where the gain is larger than what the measurement varies by.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.dims import Dim, const
from .group import attrs_json
from .implementation import Kernel, OpCall, is_known
from .native import disk
from .native.cache_key import CacheKey
from .native.fingerprint import TUNING, explain_miss, fingerprint
from .native.records import Record

#: Another implementation is chosen only if the one chosen without records takes so many times as long, and
#: three quarters of its samples are slower than three quarters of the other's.
WORTH = 1.05
#: Where sizes are unknown, a choice may be so many times slower than that without records in any bucket.
NEVER_SLOWER = 1.02

_BUCKET = "bucket"
Bucket = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Quartiles:
    """Nanoseconds of a call: a quarter, half and three quarters of the samples took less."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Finding:
    """What was measured in a bucket: times by implementation, what is chosen without them (``untuned``) and with them."""

    ns: Mapping[str, Quartiles]
    untuned: str
    chosen: str

    @staticmethod
    def of(ns: Mapping[str, Quartiles], untuned: str) -> Finding:
        """The fastest is chosen, where that is beyond doubt."""
        best = min(ns, key=lambda name: ns[name].median)
        sure = ns[best].high < ns[untuned].low and ns[best].median * WORTH < ns[untuned].median
        return Finding(ns, untuned, best if sure else untuned)

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``from_json`` gives back an equal finding."""
        return {"ns": {name: [q.low, q.median, q.high] for name, q in self.ns.items()}, "untuned": self.untuned}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finding | None:
        """None for data that is none of ours."""
        ns, untuned = data.get("ns"), data.get("untuned")
        if type(ns) is not dict or type(untuned) is not str or untuned not in ns or not all(map(_are_times, ns.values())):
            return None
        return Finding.of({name: Quartiles(*map(float, times)) for name, times in ns.items()}, untuned)


def _are_times(times: Any) -> bool:
    if type(times) is not list or len(times) != 3 or any(type(t) not in (int, float) for t in times):
        return False
    return 0 < times[0] <= times[1] <= times[2] < math.inf


# ---- calls and their keys ----------------------------------------------------------------------------------------------------


def rounded(size: int) -> int:
    """The size that stands for all sizes of its bucket."""
    return size if size <= 1 else 1 << (size - 1).bit_length()


def bucket_of(shapes: Sequence[Sequence[int]]) -> Bucket:
    """The bucket of a call whose inputs have these shapes."""
    return tuple(tuple(map(rounded, shape)) for shape in shapes)


def bucket_text(bucket: Bucket) -> str:
    """``(16, 64) (32,)``."""
    return " ".join(map(str, bucket))


def static_shapes(call: OpCall) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of a call's inputs; None where a size is unknown."""
    shapes = tuple(tuple(const(d) for d in t.shape) for t in call.inputs)
    return None if any(d is None for shape in shapes for d in shape) else shapes  # type: ignore[return-value]


def implementations(call: OpCall) -> tuple[Kernel, ...]:
    """Those that may be measured for a call of known sizes, in declared order."""
    return tuple(k for k in call.op.kernels_on(call.device) if k.takes(call) and is_known(k.fits(call)))


def untuned(call: OpCall) -> str:
    """The implementation that a call of known sizes gets without records: the first that is expected to be the fastest."""
    return next(k.name for k in implementations(call) if is_known(k.pays(call)))


def libraries_of(call: OpCall) -> set[str]:
    """The library functions that an implementation of the call may use."""
    return {name for kernel in call.op.kernels_on(call.device) for name in kernel.libraries.values()}


def key_of(call: OpCall, bucket: Bucket, machine: Mapping[str, str]) -> CacheKey:
    """The fingerprint of a call in a bucket on a ``machine`` (its ingredients by name)."""
    about = {
        "operator": call.op.name,
        "attributes": json.dumps(attrs_json(call.attrs), sort_keys=True, separators=(",", ":")),
        "implementations": " ".join(k.name for k in call.op.kernels_on(call.device)),
        "dtypes": " ".join(call.dtypes),
        _BUCKET: json.dumps(bucket, separators=(",", ":")),
    }
    return fingerprint(TUNING, about, machine)


def _without_bucket(key: CacheKey) -> CacheKey:
    return CacheKey(tuple(field for field in key.fields if field[0] != _BUCKET))


def _bucket_in(key: CacheKey) -> Bucket | None:
    """The bucket of a record's key; None in a key that is none of ours."""
    try:
        shapes = json.loads(dict(key.fields)[_BUCKET])
        found = tuple(tuple(shape) for shape in shapes)
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return found if all(type(n) is int for shape in found for n in shape) else None


# ---- preferences -------------------------------------------------------------------------------------------------------------


class Preferences:
    """Which implementation the records of a machine prefer for a call."""

    def __init__(self, known: Mapping[str, Record]) -> None:
        self._known = known
        self._by_call: dict[str, list[tuple[Bucket, Finding]]] = {}
        for record in known.values():
            bucket, finding = _bucket_in(record.key), Finding.from_json(record.data)
            if record.key.kind == TUNING and bucket is not None and finding is not None:
                self._by_call.setdefault(_without_bucket(record.key).id, []).append((bucket, finding))

    def __bool__(self) -> bool:
        return bool(self._by_call)

    def finding(self, call: OpCall, bucket: Bucket, machine: Mapping[str, str]) -> Finding | None:
        """What was measured of a call in a bucket."""
        return dict(self._of(call, machine)).get(bucket)

    def preferred(self, call: OpCall, machine: Mapping[str, str]) -> str | None:
        """The implementation to take instead of that chosen without records; None: that one.

        With unknown sizes it is the one that is best over all buckets measured that such sizes can be in, none of which may be
        slower for it.  A call of which other buckets were measured but not its own is warned of, once in a process.
        """
        shapes = static_shapes(call)
        if shapes is None:
            found = [finding for bucket, finding in self._of(call, machine) if _may_be_in(call, bucket)]
            return _best_of_all(found)
        finding = self.finding(call, bucket_of(shapes), machine)
        if finding is None:
            self._warn(call, key_of(call, bucket_of(shapes), machine))
            return None
        return None if finding.chosen == finding.untuned else finding.chosen

    def _of(self, call: OpCall, machine: Mapping[str, str]) -> list[tuple[Bucket, Finding]]:
        return self._by_call.get(_without_bucket(key_of(call, (), machine)).id, [])

    def _warn(self, call: OpCall, wanted: CacheKey) -> None:
        of_op = [r.key for r in self._known.values() if dict(r.key.fields).get("operator") == call.op.name]
        if of_op:
            words = f"a call of {call.op.name} was not tuned: {explain_miss(wanted, of_op)}\nit is run as without tuning"
            disk.warn_once("not tuned", words)


def _may_be_in(call: OpCall, bucket: Bucket) -> bool:
    """Can the sizes of a call, of which some are unknown, be in this bucket?"""
    if [len(t.shape) for t in call.inputs] != [len(shape) for shape in bucket]:
        return False
    return _agrees((d, n) for t, shape in zip(call.inputs, bucket, strict=True) for d, n in zip(t.shape, shape, strict=True))


def _agrees(pairs: Iterator[tuple[Dim, int]]) -> bool:
    seen: dict[Dim, int] = {}
    for d, n in pairs:
        known = const(d)
        if (rounded(known) if known is not None else seen.setdefault(d, n)) != n:
            return False
    return True


def _best_of_all(found: Sequence[Finding]) -> str | None:
    """The implementation with the least regret over all findings, of those that are never slower; None: no other."""
    if not found or all(f.chosen == f.untuned for f in found):
        return None
    names = [
        name
        for name in found[0].ns
        if all(name in f.ns and f.ns[name].median <= NEVER_SLOWER * f.ns[f.untuned].median for f in found)
    ]
    # in a bucket where it is within the noise it must be what would be chosen there anyway, or at least no loss
    return min(names, key=lambda name: sum(math.log(f.ns[name].median) for f in found), default=None)
