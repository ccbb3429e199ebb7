"""What is remembered of the calls of programs: records that choose implementations, and trials that make them.

``compile(tune=...)`` and ``relayvm tune`` come here.  Nothing is measured unless it is asked for.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ops.choice import Preferred
from ...ops.conditions import Versions
from ...ops.implementation import HOST, OpCall
from ...ops.native import records
from ...ops.native.cache_key import CacheKey
from ...ops.native.disk import CacheWarning
from ...ops.native.fingerprint import explain_miss, fingerprint
from ...ops.native.records import Record
from ...ops.tuning import Bucket, Finding, Preferences, bucket_of, bucket_text, key_of, libraries_of, static_shapes
from ...vm.executable import DEVICES
from ...vm.fingerprint import machine_fields
from ...vm.layout import CUDA
from ...vm.source import ConfigError, InputError, RelayError
from ..config import Config, describe
from ..ir import IRModule
from ..structural_equal import structural_hash
from .trials import trial
from .tunable import Tunable, tunable

#: The values of the configuration key ``tune``.
OFF, CACHED, BUDGETED, FULL = next(values for key, _, values, _ in describe() if key == "tune")
#: How long trials go on unless ``tune_seconds`` says.
DEFAULT_SECONDS = 60.0
#: Sizes at which calls are measured whose sizes are unknown and not said; all unknown sizes of a call are one of them.
DEFAULT_SIZES = (1, 16, 256)
#: What the record of a whole program is about.
MODULE = "module"

#: What this process did: ``trials``, second ones to confirm a change, and calls that were ``found`` measured already.
counters: Counter[str] = Counter()

Sizes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Tuning:
    """What was asked for at ``compile``.  ``sizes``: by the names of dims, at which to measure."""

    mode: str = CACHED
    seconds: float | None = None
    sizes: Sizes | None = None

    @staticmethod
    def of(optimize: Any, mode: str, seconds: Any, sizes: Any) -> Tuning:
        """Raises ConfigError for values that are none, or do not go together."""
        if type(optimize) is not bool:
            raise ConfigError(f"optimize cannot be {optimize!r}", help="valid: True, False")
        measures = mode in (BUDGETED, FULL)
        if not optimize and measures:
            raise ConfigError(f"tune={mode!r} does not go with optimize=False", help="leave one of them out")
        if seconds is not None and mode != BUDGETED:
            raise ConfigError(f"tune_seconds does not go with tune={mode!r}", help=f"it goes with tune={BUDGETED!r}")
        if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
            raise ConfigError(f"tune_seconds cannot be {seconds!r}", help="give a number of seconds above 0")
        if sizes is not None and not measures:
            raise ConfigError(f"tune_sizes does not go with tune={mode!r}", help=f"it goes with {BUDGETED!r} and {FULL!r}")
        limit = (DEFAULT_SECONDS if seconds is None else float(seconds)) if mode == BUDGETED else None
        return Tuning(mode if optimize else OFF, limit, None if sizes is None else _checked(sizes))


def _checked(sizes: Any) -> Sizes:
    """Raises ConfigError for what is not ``{"n": [1, 16]}``."""
    words = f"tune_sizes cannot be {sizes!r}"
    if not isinstance(sizes, Mapping):
        raise ConfigError(words, help='give sizes by the names of dimensions: {"n": [1, 16, 256]}')
    out: dict[str, tuple[int, ...]] = {}
    for name, listed in sizes.items():
        numbers = tuple(listed) if isinstance(listed, (list, tuple)) else (listed,)
        if not numbers or any(type(n) is not int or n < 0 for n in numbers):
            raise ConfigError(words, help=f"the sizes of {name} are whole numbers of at least 0")
        out[str(name).removeprefix("?")] = numbers
    return out


# ---- at compile --------------------------------------------------------------------------------------------------------------


def preferred_for(mod: IRModule, config: Config, target: str, tuning: Tuning) -> Preferred | None:
    """What records say of the calls of ``mod``, after the trials that ``tuning`` asks for; None where they say nothing.

    Raises InputError for sizes of dims that the program does not have, TypeCheckError.
    """
    if tuning.mode == OFF:
        return None
    if tuning.mode != CACHED:
        calls = calls_at(tunable(mod, config, target), tuning.sizes)
        for _ in tune(calls, tuning.seconds):
            pass
    preferences = Preferences.of(records.known())
    return _Chooser(preferences, mod, config, target) if preferences else None


def remembered(mod: IRModule, config: Config, target: str) -> Preferred | None:
    """The same without any trial, for who only looks."""
    return preferred_for(mod, config, target, Tuning(OFF if config.tune == OFF else CACHED))


class _Chooser:
    """Asks the records, and remembers under the program's fingerprint what they changed."""

    def __init__(self, preferences: Preferences, mod: IRModule, config: Config, target: str) -> None:
        self._preferences, self._of = preferences, (mod, config, target)
        self._changed: list[list[str]] = []

    def __call__(self, call: OpCall) -> Versions:
        found = self._preferences.preferred(call, machine_for(call))
        self._changed += [[call.op.name, name, " and ".join(map(str, conditions))] for name, conditions in found]
        return found

    def remember(self) -> None:
        """Keep the record of the whole program, unless it is there."""
        if self._changed:
            record = Record(module_key(*self._of), {"changed": self._changed})
            if records.known().get(record.key.id) != record:
                records.save([record])


def remember(preferred: Preferred | None) -> None:
    """After compiling: keep what ``preferred_for``'s answer changed."""
    if isinstance(preferred, _Chooser):
        preferred.remember()


def module_key(mod: IRModule, config: Config, target: str) -> CacheKey:
    """The fingerprint of a whole program on this machine."""
    settings = ",".join(f"{key}={value}" for key, value in config.texts().items() if key != "tune")
    about = {"module": f"{structural_hash(mod):016x}", "config": settings}
    return fingerprint(MODULE, about, machine_fields(target))


def machine_for(call: OpCall) -> dict[str, str]:
    """What the times of a call depend on besides the call."""
    return machine_fields(call.device, libraries_of(call))


def misses(mod: IRModule, config: Config, target: str, sizes: Sizes | None = None) -> Iterator[tuple[str, str | None]]:
    """What compiling ``mod`` looks for, the whole program and each call that can be tuned: why it is not found; None: it is.

    Raises InputError, as ``calls_at``.
    """
    found = records.known()
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


@dataclass(frozen=True)
class Tuned:
    """A call that was measured, now (``is_new``) or before."""

    call: OpCall
    bucket: Bucket
    finding: Finding
    is_new: bool


def calls_at(found: Sequence[Tunable], sizes: Sizes | None) -> list[OpCall]:
    """The calls at all combinations of ``sizes``, at DEFAULT_SIZES where that is None, one for each bucket.

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
    """Measure what is not measured yet, for ``seconds`` at most (what is begun is ended): each call as it is done.

    A call whose choice that changes comes a second time, measured again.  Each finding is kept at once.  A call that cannot run
    is left out, with a warning.  ``before``: called before each trial.
    """
    end = None if seconds is None else time.monotonic() + seconds
    known, changed = Preferences.of(records.known()), list[Tuned]()
    for call in calls:
        shapes = static_shapes(call)
        assert shapes is not None, call
        bucket = bucket_of(shapes)
        finding = known.finding(call, bucket, machine_for(call))
        if finding is not None:
            counters["found"] += 1
            yield Tuned(call, bucket, finding, is_new=False)
        elif end is None or time.monotonic() < end:
            tuned = _tried(call, bucket, before)
            if tuned is not None:
                yield tuned
                changed += [tuned] if tuned.finding.chosen != tuned.finding.untuned else []
    for tuned in changed:
        # at another time: what else the machine did then may have hit one of them only
        again = _tried(tuned.call, tuned.bucket, before, tuned.finding)
        if again is not None:
            yield again


def _tried(call: OpCall, bucket: Bucket, before: Callable[[OpCall], object], first: Finding | None = None) -> Tuned | None:
    """One trial, the second one where there is a ``first``, whose finding is kept; None, with a warning, where it cannot be."""
    before(call)
    try:
        finding = trial(call, DEVICES[0] if call.device == HOST else DEVICES[CUDA])
    except RelayError as error:
        why = error.diagnostics[0].message
        warnings.warn(f"{call.op.name} {bucket_text(bucket)} was not measured: {why}", CacheWarning, stacklevel=3)
        return None
    counters["trials" if first is None else "confirmations"] += 1
    finding = finding if first is None else first.confirmed_by(finding)
    records.save([Record(key_of(call, bucket, machine_for(call)), finding.to_json())])
    return Tuned(call, bucket, finding, is_new=True)
