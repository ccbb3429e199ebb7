"""Tuning records of an operator's implementations by shape bucket, and the choice of implementations by these records.

A *bucket* contains the calls whose sizes are equal after rounding each up to a power of two (0 and 1 are unchanged): 9 to 16 are
one size.  A record is measured at one call of its bucket and represents all its calls.  A record overrides the default choice
only if the gain exceeds the noise of the measurement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, const
from ..core.conditions import Condition, Conditions, Versions, condition, undecided
from ..core.group import attrs_json
from ..core.implementation import Kernel, OpCall
from ..native.cache import disk_cache
from ..native.cache.cache_key import CacheKey
from ..native.tuning.fingerprint import TUNING, explain_miss, fingerprint
from ..native.tuning.tuning_records import Record
from .choice import candidates, choose

#: Minimum speedup over the default choice for which a record overrides it.
WORTH = 1.05
#: Maximum number of buckets with an overridden choice for a call of symbolic sizes: each costs a test at every call.
MOST_VERSIONS = 8

_BUCKET = "bucket"
Bucket = tuple[tuple[int, ...], ...]
#: A half-open range of sizes: above the first number, up to and including the second.
_Range = tuple[int, int]


class Quartiles(NamedTuple):
    """Quartiles of the samples of a call, in nanoseconds."""

    low: float
    median: float
    high: float


@frozen
class Finding:
    """The measurement of a bucket: times by implementation, the default choice (``untuned``), the tuned choice (``chosen``)."""

    ns: Mapping[str, Quartiles]
    untuned: str
    chosen: str

    @staticmethod
    def of(ns: Mapping[str, Quartiles], untuned: str) -> Finding:
        """The finding that chooses the fastest implementation if it is significantly faster than ``untuned``.

        Other load of the machine slows down some samples and speeds up none: the lower quartiles measure an implementation.
        """
        best = min(ns, key=lambda name: ns[name].low)
        sure = ns[best].low * WORTH < ns[untuned].low and ns[best].median < ns[untuned].median
        return Finding(ns, untuned, best if sure else untuned)

    def confirmed_by(self, again: Finding) -> Finding:
        """The finding after a second measurement ``again`` of the same call: the default is overridden only if the worse times of
        the chosen implementation are still significantly better than the better times of the default."""

        def taken(name: str, a: Quartiles, b: Quartiles) -> Quartiles:
            return min(a, b) if name == self.untuned else max(a, b) if name == self.chosen else a

        return Finding.of({name: taken(name, q, again.ns.get(name, q)) for name, q in self.ns.items()}, self.untuned)

    def to_json(self) -> dict[str, Any]:
        """The finding as plain data; ``from_json`` restores an equal finding."""
        return {"ns": {name: [q.low, q.median, q.high] for name, q in self.ns.items()}, "untuned": self.untuned}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finding | None:
        """The finding in ``data``; None if ``data`` is malformed."""
        ns, untuned = data.get("ns"), data.get("untuned")
        if type(ns) is not dict or type(untuned) is not str or untuned not in ns or not all(map(_are_times, ns.values())):
            return None
        return Finding.of({name: Quartiles(*map(float, times)) for name, times in ns.items()}, untuned)


def _are_times(times: Any) -> bool:
    if type(times) is not list or len(times) != 3 or any(type(t) not in (int, float) for t in times):
        return False
    low, median, high = times
    return bool(0 < low <= median <= high < math.inf)


# ---- calls and their keys ----------------------------------------------------------------------------------------------------


def rounded(size: int) -> int:
    """The representative size of the bucket of ``size``."""
    return size if size <= 1 else 1 << (size - 1).bit_length()


def bucket_of(shapes: Sequence[Sequence[int]]) -> Bucket:
    """The bucket of a call whose inputs have these shapes."""
    return tuple(tuple(map(rounded, shape)) for shape in shapes)


def bucket_text(bucket: Bucket) -> str:
    """Text of a bucket, such as ``(16, 64) (32,)``."""
    return " ".join(map(str, bucket))


def static_shapes(call: OpCall) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of a call's inputs; None if a size is unknown."""
    shapes = []
    for t in call.inputs:
        sizes = [n for d in t.shape if (n := const(d)) is not None]
        if len(sizes) < len(t.shape):
            return None
        shapes.append(tuple(sizes))
    return tuple(shapes)


def implementations(call: OpCall) -> tuple[Kernel, ...]:
    """The implementations that may be measured for a call of known sizes, in declared order."""
    return tuple(k for k in candidates(call) if undecided(k.fits(call)) == ())


def untuned(call: OpCall) -> str:
    """The default implementation of a call of known sizes, without records."""
    return choose(call).names[-1]


def libraries_of(call: OpCall) -> set[str]:
    """The library functions that an implementation of the call may use."""
    return {name for kernel in call.op.kernels_on(call.device) for name in kernel.libraries.values()}


def plain_call(call: OpCall) -> OpCall | None:
    """The call of the ``plain`` operator of a call's operator; None if there is none."""
    plain = call.op.plain
    if plain is None:
        return None
    return replace(call, op=plain, attrs=plain.attrs(**vars(call.attrs)), inputs=call.inputs[: len(plain.inputs)])


def key_of(call: OpCall, bucket: Bucket, machine: Mapping[str, str]) -> CacheKey:
    """The fingerprint of a call in a bucket on a ``machine`` (its properties by name)."""
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
    """The bucket of a record's key; None if the key is malformed."""
    try:
        shapes = json.loads(dict(key.fields)[_BUCKET])
        bucket = tuple(tuple(shape) for shape in shapes)
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return bucket if all(type(n) is int for shape in bucket for n in shape) else None


# ---- preferences -------------------------------------------------------------------------------------------------------------


class Preferences:
    """Preferred implementations of calls according to the tuning records of a machine."""

    _latest: ClassVar[Preferences | None] = None

    def __init__(self, known: Mapping[str, Record]) -> None:
        self._known = known
        self._by_call: dict[str, list[tuple[Bucket, Finding]]] = {}
        for record in known.values():
            bucket, finding = _bucket_in(record.key), Finding.from_json(record.data)
            if record.key.kind == TUNING and bucket is not None and finding is not None:
                self._by_call.setdefault(_without_bucket(record.key).id, []).append((bucket, finding))

    @staticmethod
    def of(known: Mapping[str, Record]) -> Preferences:
        """The preferences of these records, cached while ``known`` is the same object."""
        if Preferences._latest is None or Preferences._latest._known is not known:
            Preferences._latest = Preferences(known)
        return Preferences._latest

    def __bool__(self) -> bool:
        return bool(self._by_call)

    def finding(self, call: OpCall, bucket: Bucket, machine: Mapping[str, str]) -> Finding | None:
        """The finding of a call in a bucket; None if it was not measured."""
        return dict(self._of(call, machine)).get(bucket)

    def preferred(self, call: OpCall, machine: Mapping[str, str]) -> Versions:
        """The implementations that override the default choice, with their conditions on sizes.

        Records of the ``plain`` operator hold where the call's own operator was not measured.  Warns, once per process, of a call
        whose bucket was not measured while records of its operator exist.
        """
        shapes, plain = static_shapes(call), plain_call(call)
        if shapes is None:
            found = self._of(call, machine)
            return _versions(call, found) if plain is None else _versions(plain, self._with_plain(found, plain, machine))
        finding = self.finding(call, bucket_of(shapes), machine)
        if finding is None and plain is not None:
            finding = self.finding(plain, bucket_of(shapes[: len(plain.inputs)]), machine)
        if finding is None:
            self._warn(call, key_of(call, bucket_of(shapes), machine))
        return () if finding is None or finding.chosen == finding.untuned else ((finding.chosen, ()),)

    def records_of(self, call: OpCall, machine: Mapping[str, str]) -> list[Record]:
        """The records of a call, for all sizes."""
        wanted = _without_bucket(key_of(call, (), machine))
        return [r for r in self._known.values() if _without_bucket(r.key) == wanted]

    def _of(self, call: OpCall, machine: Mapping[str, str]) -> list[tuple[Bucket, Finding]]:
        return self._by_call.get(_without_bucket(key_of(call, (), machine)).id, [])

    def _with_plain(
        self, found: Sequence[tuple[Bucket, Finding]], plain: OpCall, machine: Mapping[str, str]
    ) -> list[tuple[Bucket, Finding]]:
        """The findings by the buckets of the inputs of ``plain``; those of ``plain`` in buckets without another."""
        own = {bucket[: len(plain.inputs)]: finding for bucket, finding in found}
        return list((dict(self._of(plain, machine)) | own).items())

    def _warn(self, call: OpCall, wanted: CacheKey) -> None:
        of_op = [r.key for r in self._known.values() if dict(r.key.fields).get("operator") == call.op.name]
        if of_op:
            words = f"a call of {call.op.name} was not tuned: {explain_miss(wanted, of_op)}\nit is run as without tuning"
            disk_cache.warn_once("not tuned", words)


def _versions(call: OpCall, found: Sequence[tuple[Bucket, Finding]]) -> Versions:
    """The versions of a call of symbolic sizes: for each bucket with an overridden choice, the name and the conditions of the
    bucket.  Adjacent buckets of a single symbolic size are merged into one version."""
    changed: list[tuple[str, dict[Dim, _Range]]] = []
    for bucket, finding in sorted(found, key=lambda row: row[0]):
        sizes = _sizes_in(call, bucket)
        if not sizes or finding.chosen == finding.untuned:
            continue
        ranges = {d: (n // 2 if n > 2 else n - 1, n) for d, n in sizes.items()}
        if changed and len(ranges) == 1 and changed[-1][0] == finding.chosen:
            ((d, (above, most)),) = changed[-1][1].items()
            if most == ranges[d][0]:
                changed[-1][1][d] = above, ranges[d][1]
                continue
        changed.append((finding.chosen, ranges))
    return tuple((name, _within(ranges)) for name, ranges in changed[:MOST_VERSIONS])


def _sizes_in(call: OpCall, bucket: Bucket) -> dict[Dim, int] | None:
    """The rounded values of the symbolic sizes of a call in this bucket; None if the call cannot be in the bucket."""
    if [len(t.shape) for t in call.inputs] != [len(shape) for shape in bucket]:
        return None
    sizes: dict[Dim, int] = {}
    for t, shape in zip(call.inputs, bucket, strict=True):
        for d, n in zip(t.shape, shape, strict=True):
            known = const(d)
            if (sizes.setdefault(d, n) if known is None else rounded(known)) != n:
                return None
    return sizes


def _within(ranges: Mapping[Dim, _Range]) -> Conditions:
    """The conditions that sizes are in these ranges."""
    out: list[Condition] = []
    for d, (above, most) in ranges.items():
        if most == above + 1:
            out.append(condition(d, "==", most))
        else:
            out += [condition(d, ">", above)] * (above >= 0) + [condition(d, "<=", most)]
    return tuple(out)
