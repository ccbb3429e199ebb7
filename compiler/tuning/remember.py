"""Tuning records of the calls of programs, which choose implementations, and the trials that produce them.

``compile(tune=...)`` and ``relayvm tune`` use this module.  Nothing is measured without a request.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.conditions import Versions
from ...ops.core.implementation import OpCall
from ...ops.native.cache.cache_key import CacheKey
from ...ops.native.cache.disk_cache import CacheWarning
from ...ops.native.tuning import tuning_records
from ...ops.native.tuning.fingerprint import explain_miss, fingerprint
from ...ops.native.tuning.tuning_records import Record
from ...ops.strategy.choice import Preferred
from ...ops.strategy.measured import (
    Bucket,
    Finding,
    Preferences,
    bucket_of,
    bucket_text,
    key_of,
    libraries_of,
    static_shapes,
)
from ...vm.diagnostics.source import InputError, RelayError
from ...vm.loading.executable_fingerprint import machine_fields
from ..ir.expr import IRModule
from ..ir.structural_equal import structural_hash
from ..settings.config import Config
from .settings import CACHED, OFF, Sizes, Tuning
from .tunable import Tunable, tunable

#: The default sizes at which calls with unknown sizes are measured; all unknown sizes of a call are equal.
DEFAULT_SIZES = (1, 16, 256)
#: The subject of the record of a whole program.
MODULE = "module"

#: The counts of this process: ``trials``, ``confirmations`` (second trials of a changed choice), and ``found`` (known calls).
counters: Counter[str] = Counter()

# ---- at compile --------------------------------------------------------------------------------------------------------------


def preferred_for(mod: IRModule, config: Config, target: str, tuning: Tuning) -> Preferred | None:
    """The preferences that records hold for the calls of ``mod``, after the trials that ``tuning`` requests; None without
    records.

    Raises InputError for sizes of dims that the program does not have, TypeCheckError.
    """
    if tuning.mode == OFF:
        return None
    if tuning.mode != CACHED:
        calls = calls_at(tunable(mod, config, target), tuning.sizes)
        for _ in tune(calls, tuning.seconds):
            pass
    preferences = Preferences.of(tuning_records.load())
    return _Chooser(preferences, mod, config, target) if preferences else None


def remembered(mod: IRModule, config: Config, target: str) -> Preferred | None:
    """The preferences of ``preferred_for`` without any trial."""
    return preferred_for(mod, config, target, Tuning(OFF if config.tune == OFF else CACHED))


class _Chooser:
    """The lookup of records, which keeps the choices that they change under the program's fingerprint."""

    def __init__(self, preferences: Preferences, mod: IRModule, config: Config, target: str) -> None:
        self._preferences, self._of = preferences, (mod, config, target)
        self._changed: list[list[str]] = []

    def __call__(self, call: OpCall) -> Versions:
        found = self._preferences.preferred(call, machine_for(call))
        self._changed += [[call.op.name, name, " and ".join(map(str, conditions))] for name, conditions in found]
        return found

    def remember(self) -> None:
        """Save the record of the whole program, unless it exists."""
        if self._changed:
            record = Record(module_key(*self._of), {"changed": self._changed})
            if tuning_records.load().get(record.key.id) != record:
                tuning_records.save([record])


def remember(preferred: Preferred | None) -> None:
    """After compiling: save the choices that ``preferred`` changed."""
    if isinstance(preferred, _Chooser):
        preferred.remember()


def module_key(mod: IRModule, config: Config, target: str) -> CacheKey:
    """The fingerprint of a whole program on this machine."""
    settings = ",".join(f"{key}={value}" for key, value in config.texts().items() if key != "tune")
    about = {"module": f"{structural_hash(mod):016x}", "config": settings}
    return fingerprint(MODULE, about, machine_fields(target))


def machine_for(call: OpCall) -> dict[str, str]:
    """The properties of the machine that the times of a call depend on."""
    return machine_fields(call.device, libraries_of(call))


def misses(mod: IRModule, config: Config, target: str, sizes: Sizes | None = None) -> Iterator[tuple[str, str | None]]:
    """The records that compiling ``mod`` looks up, for the whole program and each tunable call: the reason of a miss, None for a
    hit.

    Raises InputError, as ``calls_at``.
    """
    found = tuning_records.load()
    keys = [record.key for record in found.values()]
    whole = module_key(mod, config, target)
    yield "the program", None if whole.id in found else explain_miss(whole, keys)
    for call in calls_at(tunable(mod, config, target), sizes):
        shapes = static_shapes(call)
        assert shapes is not None
        key = key_of(call, bucket_of(shapes), machine_for(call))
        of_op = [k for k in keys if dict(k.fields).get("operator") == call.op.name]
        what = f"{call.op.name} {bucket_text(bucket_of(shapes))}"
        yield what, None if key.id in found else explain_miss(key, of_op)


# ---- trials ------------------------------------------------------------------------------------------------------------------


@frozen
class Tuned:
    """A measured call, measured now (``is_new``) or before."""

    call: OpCall
    bucket: Bucket
    finding: Finding
    is_new: bool


def calls_at(found: Sequence[Tunable], sizes: Sizes | None) -> list[OpCall]:
    """The calls at all combinations of ``sizes``, at DEFAULT_SIZES if that is None, one for each bucket.

    Raises InputError for the name of a dim on which no call depends.
    """
    known = list(dict.fromkeys(name for t in found for name in t.unknown if name))
    unknown = [name for name in sizes or () if name not in known]
    if unknown:
        listed = f"there are {', '.join(known)}" if known else "all their sizes are known"
        raise InputError(f"no call that can be tuned depends on the size {unknown[0]}", help=f"of such calls {listed}")
    if sizes is None:
        points: list[dict[str, int]] = [dict.fromkeys(known, n) for n in DEFAULT_SIZES]
    else:
        points = [dict(zip(sizes, point, strict=True)) for point in itertools.product(*sizes.values())]
    calls: dict[tuple[Any, ...], OpCall] = {}
    for point in points:
        for t in found:
            call = t.at(point)
            if call is not None:
                shapes = static_shapes(call)
                assert shapes is not None
                calls.setdefault((call.op, call.attrs, call.dtypes, call.device, bucket_of(shapes)), call)
    return list(calls.values())


def tune(
    calls: Sequence[OpCall], seconds: float | None = None, before: Callable[[OpCall], object] = lambda call: None
) -> Iterator[Tuned]:
    """Measure the calls without a record, for at most ``seconds`` (a started trial is finished); yields each call when done.

    A call whose choice changes is yielded a second time, measured again.  Each finding is saved immediately.  A call that cannot
    run is omitted, with a warning.  ``before``: called before each trial.
    """
    end = None if seconds is None else time.monotonic() + seconds
    known, changed = Preferences.of(tuning_records.load()), list[Tuned]()
    for call in calls:
        shapes = static_shapes(call)
        assert shapes is not None, call
        bucket = bucket_of(shapes)
        finding = known.finding(call, bucket, machine_for(call))
        if finding is not None:
            counters["found"] += 1
            yield Tuned(call, bucket, finding, is_new=False)
        elif end is None or time.monotonic() < end:
            tuned = _measured(call, bucket, before)
            if tuned is not None:
                yield tuned
                changed += [tuned] if tuned.finding.chosen != tuned.finding.untuned else []
    for tuned in changed:
        # later: other load on the machine may have affected only one of the implementations
        again = _measured(tuned.call, tuned.bucket, before, tuned.finding)
        if again is not None:
            yield again


def _measured(call: OpCall, bucket: Bucket, before: Callable[[OpCall], object], first: Finding | None = None) -> Tuned | None:
    """One trial, or a second one to confirm ``first``; its finding is saved.  None, with a warning, if the call cannot run."""
    from .trials import trial  # with the machine and its reports: only who measures needs them

    before(call)
    try:
        finding = trial(call, call.device)
    except RelayError as error:
        why = error.diagnostics[0].message
        warnings.warn(f"{call.op.name} {bucket_text(bucket)} was not measured: {why}", CacheWarning, stacklevel=3)
        return None
    counters["trials" if first is None else "confirmations"] += 1
    finding = finding if first is None else first.confirmed_by(finding)
    tuning_records.save([Record(key_of(call, bucket, machine_for(call)), finding.to_json())])
    return Tuned(call, bucket, finding, is_new=True)
