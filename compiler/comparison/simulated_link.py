"""The link to the ``sim`` device in comparisons: copies take the time that they would take over the link."""

from __future__ import annotations

import re

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ConfigError

#: The form of a link's text, as an example.
FORM = "16GB/s,5us"
#: The link of a device in the memory of the host.
MEMORY = "memory"
_RATES = {"kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12}
_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6}


@frozen
class SimulatedLink:
    """A link of ``bytes_per_s`` (0: the speed of memory), over which each copy takes ``latency_ns`` besides."""

    bytes_per_s: int = 0
    latency_ns: int = 0

    @staticmethod
    def parse(text: str) -> SimulatedLink:
        """The link that a text such as ``16GB/s,5us`` describes; ``memory``: without either.  Raises ConfigError."""
        if text == MEMORY:
            return SimulatedLink()
        found: dict[str, int] = {}
        for part in text.split(","):
            number = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\S+)", part.strip())
            unit = number[2] if number else ""
            key = "bytes_per_s" if unit in _RATES else "latency_ns"
            value = round(float(number[1]) * {**_RATES, **_TIMES}.get(unit, 0)) if number else 0
            if value == 0 or key in found:
                raise ConfigError(
                    f"{text!r} is no link: it is a speed, the time that each copy takes besides, or both",
                    help=f"for example {FORM}; units: {', '.join((*_RATES, *_TIMES))}; or {MEMORY}",
                    code=codes.Config.LINK,
                )
            found[key] = value
        return SimulatedLink(**found)

    def __str__(self) -> str:
        parts = [_text(value, units) for value, units in ((self.bytes_per_s, _RATES), (self.latency_ns, _TIMES)) if value]
        return ",".join(parts) or MEMORY


def _text(value: int, units: dict[str, int]) -> str:
    """The value in its largest unit."""
    unit = max((u for u in units if units[u] <= value), key=lambda u: units[u], default=next(iter(units)))
    return f"{value / units[unit]:.15g}{unit}"


#: The link of presets: the nominal speed of PCI Express 3.0 with 16 lanes, and the time in which a copy of a few bytes is done.
PCI_EXPRESS = SimulatedLink(16 * 10**9, 5_000)
