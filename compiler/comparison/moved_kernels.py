"""Kernels that one side cuts otherwise than another: one row for the work that only moved between kernels.

A fused kernel has the names of its operators in its name.  A kernel of one side whose name is part of the name of another side's
kernel has become part of that kernel; of several such kernels, of the next in the program, as a fused kernel has the line of its
last operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...vm.runtime.tracing.trace_events import KERNEL
from .compare_rows import Difference

_PREFIX = "fused_"


def joined(rows: Sequence[Difference]) -> list[Difference]:
    """The rows, with a single row for kernels that correspond to each other, in the place of its first.

    The row has the name and the line of the largest of the kernels, and their sums; it has no verdict: sums are not tested.
    """
    moved = [r for r in rows if r.key.kind == KERNEL and None in r.values]
    groups: dict[object, list[Difference]] = {}
    for row in moved:
        whole = _largest(row, moved)
        groups.setdefault(whole.key.line or whole.key, []).append(row)
    out, done = list[Difference](), set[int]()
    members = {id(row): group for group in groups.values() for row in group}
    for row in rows:
        group = members.get(id(row))
        if group is None:
            out.append(row)
        elif id(group) not in done:
            done.add(id(group))
            out += [_one(group)] if _is_on_several_sides(group) else group
    return out


def is_joined(row: Difference) -> bool:
    """Whether the row is one of several kernels."""
    return row.key.kind == KERNEL and None not in row.values and not row.verdicts


def _is_on_several_sides(group: Sequence[Difference]) -> bool:
    return len(group) > 1 and all(any(row.values[side] is not None for row in group) for side in range(len(group[0].values)))


def _one(group: Sequence[Difference]) -> Difference:
    whole = max(group, key=lambda row: len(row.key.name))
    values, calls, nbytes = (_sums(rows) for rows in zip(*((r.values, r.calls, r.nbytes) for r in group), strict=True))
    return replace(whole, values=values, verdicts=(), calls=calls, nbytes=nbytes)


def _sums(rows: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...]:
    """The sums by side of what is there; () without figures."""
    filled = [row for row in rows if row]
    return tuple(None if set(side) == {None} else sum(v or 0 for v in side) for side in zip(*filled, strict=True))


def _largest(row: Difference, moved: Sequence[Difference]) -> Difference:
    """The kernel that the kernel of ``row`` is part of on other sides; itself if there is none."""
    wholes = [other for other in moved if _is_part(row, other)]
    if not wholes:
        return row
    distances = {id(other): _number(other) - _number(row) for other in wholes}
    return _largest(min(wholes, key=lambda other: (distances[id(other)] < 0, abs(distances[id(other)]))), moved)


def _is_part(part: Difference, whole: Difference) -> bool:
    """Whether the operators of a kernel are some of those of a kernel of other sides, in one file."""
    name, of = (f"_{r.key.name.removeprefix(_PREFIX)}_" for r in (part, whole))
    apart = all(None in pair for pair in zip(part.values, whole.values, strict=True))
    return apart and len(name) < len(of) and name in of and _file(part) == _file(whole)


def _file(row: Difference) -> str:
    return row.key.line.rpartition(":")[0]


def _number(row: Difference) -> int:
    number = row.key.line.rpartition(":")[2]
    return int(number) if number.isdigit() else 0
