"""Text output of figures: times, bytes, rates, aligned tables."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def time_text(ns: float) -> str:
    """A time with five significant digits and nvprof's units: ``960ns``, ``9.6000us``, ``123.45ms``, ``2.0000s``."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for size, unit in _UNITS:
        value = ns / size
        if value >= 0.999995:  # 1000.00 of a unit, after rounding, is 1.0000 of the next unit
            digits = 4 if value < 9.99995 else 3 if value < 99.9995 else 2
            return f"{sign}{value:.{digits}f}{unit}"
    return f"{sign}{ns:.0f}ns"


def bytes_text(n: float) -> str:
    """A number of bytes, exact and rounded: ``12 bytes``, ``67108876 bytes (64.00 MiB)``."""
    exact = f"{n:g}" if n != int(n) else str(int(n))
    plain = f"{exact} byte{'' if n == 1 else 's'}"
    for size, unit in _BYTES:
        if n >= size:
            return f"{plain} ({n / size:.2f} {unit})"
    return plain


def bytes_short(n: float) -> str:
    """A number of bytes, rounded: ``12 B``, ``64.0 MiB``."""
    for size, unit in _BYTES:
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n:.0f} B"


def align(lines: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Align the cells of lines in columns: right-aligned, or left-aligned for the columns in ``left``; no trailing blanks."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines
    )


def rate_text(per_second: float) -> str:
    """A rate of runs: ``2938 runs/s``, ``12.3 runs/s``, ``0.0412 runs/s``."""
    return f"{per_second:.0f} runs/s" if per_second >= 100 else f"{per_second:.3g} runs/s"
