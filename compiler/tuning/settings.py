"""The tuning arguments of ``compile``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics.source import ConfigError
from ..settings.config import describe

#: The values of the configuration key ``tune``.
OFF, CACHED, BUDGETED, FULL = next(values for key, _, values, _ in describe() if key == "tune")
#: The default of ``tune_seconds``: the time limit of trials.
DEFAULT_SECONDS = 60.0

Sizes = Mapping[str, Sequence[int]]


@frozen
class Tuning:
    """The tuning arguments of ``compile``.  ``sizes``: the sizes to measure at, by the names of dims."""

    mode: str = CACHED
    seconds: float | None = None
    sizes: Sizes | None = None

    @property
    def measures(self) -> bool:
        """Whether missing times are measured."""
        return self.mode in (BUDGETED, FULL)

    @staticmethod
    def of(optimize: Any, mode: str, seconds: Any, sizes: Any) -> Tuning:
        """The checked arguments.  Raises ConfigError for invalid values or combinations."""
        if type(optimize) is not bool:
            raise ConfigError(f"optimize cannot be {optimize!r}", help="valid: True, False")
        measures = Tuning(mode).measures
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
    """The sizes as tuples.  Raises ConfigError for anything but ``{"n": [1, 16]}``."""
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
