"""Views of a profile as text: by name, operator, source line, memory, copy reason and bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...declarations.frozen_dataclass import frozen
from ...ops.core.similar_names import nearest
from ..diagnostics.argument_errors import a_text
from ..diagnostics.source import InputError
from ..inspection.figures import align, bytes_short, time_text
from ..runtime.tracing.trace_events import ALLOC, DTOH, HOST_CALL, HTOD, KERNEL, SHAPE_FUNC, SYNC
from .profile_data import Moment, ProfileData, Site
from .tables import heading, profile_text

#: Names of the directions of copies in tables.
DIRECTIONS = {DTOH: "DtoH", HTOD: "HtoD"}
_RUN_KINDS = (KERNEL, HOST_CALL)
#: Width and height of the memory curve in characters; the blocks fill a character from below.
_CURVE_WIDTH, _CURVE_HEIGHT, _BLOCKS = 72, 8, " ▁▂▃▄▅▆▇█"


@frozen
class Table:
    """A table of texts; ``left``: the numbers of the left-aligned columns."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.title}\n{align([self.header, *self.rows], self.left)}" if self.rows else f"{self.title} none"


def view(profile: ProfileData, name: str) -> str:
    """The text of the view ``name`` of VIEWS.  Raises InputError for another name."""
    if a_text(name, "view: the name", f"views: {', '.join(VIEWS)}") not in VIEWS:
        raise InputError(f"there is no view {name!r}{nearest(name, VIEWS)}", help=f"views: {', '.join(VIEWS)}")
    return VIEWS[name](profile)


# ---- tables ----------------------------------------------------------------------------------------------------------------


def operators(profile: ProfileData) -> Table:
    """Table with a row per operator, or per group of operators in one kernel: device time, host time, bytes, bandwidth."""
    groups: dict[tuple[str, str], list[Site]] = {}
    for site in profile.sites:
        if site.kind in _RUN_KINDS:
            groups.setdefault((site.op, site.name), []).append(site)
    total = sum(s.total_ns for found in groups.values() for s in found)
    rows = []
    for (op, name), found in sorted(groups.items(), key=lambda g: -sum(s.total_ns for s in g[1])):
        time, calls, nbytes = (sum(getattr(s, f) for s in found) for f in ("total_ns", "calls", "nbytes"))
        asked, longest = sum(s.asked_ns for s in found), max(found, key=lambda s: s.max_ns)
        cells = [_share(time, total), time_text(time), str(calls), time_text(time / calls), time_text(longest.max_ns)]
        cells += [time_text(asked), bytes_short(nbytes), f"{nbytes / time:.2f}" if time else "-"]
        different = " (and others)" if len({s.types for s in found}) > 1 or longest.n_types > 1 else ""
        rows.append((*cells, op, name, longest.types + different))
    header = ("Time(%)", "Time", "Calls", "Avg", "Max", "Host", "Bytes", "GB/s", "Operators", "Kernel", "Arguments")
    return Table("operators:", header, tuple(rows), (8, 9, 10))


def formats(profile: ProfileData) -> Table:
    """Table with a row per set of dtypes that kernels read and write, longest first: time, calls, kernels, the longest kernel."""
    groups: dict[str, list[Site]] = {}
    for site in profile.sites:
        if site.kind in _RUN_KINDS:
            groups.setdefault(site.formats, []).append(site)
    total = sum(s.total_ns for found in groups.values() for s in found)
    rows = []
    for dtypes, found in sorted(groups.items(), key=lambda g: -sum(s.total_ns for s in g[1])):
        time, calls = sum(s.total_ns for s in found), sum(s.calls for s in found)
        longest = max(found, key=lambda s: s.total_ns)
        rows.append((_share(time, total), time_text(time), str(calls), str(len({s.name for s in found})), dtypes, longest.name))
    header = ("Time(%)", "Time", "Calls", "Kernels", "Formats", "Longest kernel")
    return Table("number formats:", header, tuple(rows), (4, 5))


def float_products(profile: ProfileData) -> Table:
    """Table with a row per product of quantised tensors that is computed with floats: its operator, place and reason."""
    rows = tuple((p.op, p.place, p.because) for p in profile.float_products)
    return Table("products of quantised tensors in floats:", ("Operator", "Place", "Because"), rows, (0, 1, 2))


def copies(profile: ProfileData) -> Table:
    """Table with a row per copy: figures, time of the host's wait, reason, location."""
    waited = {(s.function, s.pc): s.total_ns for s in profile.sites if s.kind == SYNC}
    rows = []
    for s in sorted((s for s in profile.sites if s.kind in DIRECTIONS), key=lambda s: (-s.nbytes, s.line)):
        wait = waited.get((s.function, s.pc), 0) if s.kind == DTOH else 0
        cells = (DIRECTIONS[s.kind], str(s.calls), bytes_short(s.nbytes), time_text(s.total_ns), time_text(wait))
        rows.append((*cells, s.reason, place(profile, s)))
    return Table("copies by reason:", ("", "Calls", "Bytes", "Time", "Waited", "Reason", "Place"), tuple(rows), (0, 5, 6))


def waits(profile: ProfileData) -> Table:
    """Table with a row per host synchronisation."""
    why = {(s.function, s.pc): s.reason for s in profile.sites if s.kind == DTOH}
    found = sorted((s for s in profile.sites if s.kind == SYNC), key=lambda s: -s.total_ns)
    rows = [(str(s.calls), time_text(s.total_ns), why.get((s.function, s.pc), s.reason), place(profile, s)) for s in found]
    return Table("waits for the device:", ("Calls", "Time", "Because", "Place"), tuple(rows), (2, 3))


def allocations(profile: ProfileData) -> Table:
    """Table with a row per allocating instruction, most bytes first."""
    found = sorted((s for s in profile.sites if s.kind == ALLOC), key=lambda s: (-s.nbytes, s.line))
    rows = [(str(s.calls), bytes_short(s.nbytes), bytes_short(s.nbytes / s.calls), s.holds, place(profile, s)) for s in found]
    return Table("allocations:", ("Calls", "Bytes", "Each", "Holds", "Place"), tuple(rows), (3, 4))


def bulks(profile: ProfileData) -> Table:
    """Table with a row per bulk of the timeline: the launches between two host synchronisations, and the cause of its end.

    A run on a device without a queue is one bulk, since the host never waits.
    """
    rows, launched = [], []
    why = {(s.function, s.pc): s.reason for s in profile.sites if s.kind == DTOH}
    for moment in sorted(profile.timeline, key=lambda m: m.asked_start_ns):
        site = profile.sites[moment.site]
        if site.kind in _RUN_KINDS and site.device == profile.device:
            launched.append(moment)
        elif site.kind == SYNC:
            reason = why.get((site.function, site.pc), site.reason) or "the run is over"
            rows.append(_bulk(profile, launched, reason, place(profile, site)))
            launched = []
    if launched:
        rows.append(_bulk(profile, launched, "the run is over", ""))
    numbered = tuple((str(i), *row) for i, row in enumerate(rows))
    header = ("Bulk", "Launches", "Time", "Longest", "From", "To", "Ended by", "Place")
    return Table("bulks, launches between two waits:", header, numbered, (3, 4, 5, 6, 7))


def _bulk(profile: ProfileData, launched: Sequence[Moment], reason: str, where: str) -> tuple[str, ...]:
    sites = [profile.sites[m.site] for m in launched]
    time = sum(m.end_ns - m.start_ns for m in launched)
    longest = max(launched, key=lambda m: m.end_ns - m.start_ns, default=None)
    name = profile.sites[longest.site].name if longest is not None else "-"
    first, last = (place(profile, s) for s in (sites[0], sites[-1])) if sites else ("", "")
    return str(len(launched)), time_text(time), name, first, last, reason, where


def place(profile: ProfileData, site: Site) -> str:
    """The source location ``file:line`` of a site; empty if there is none."""
    return f"{profile.sources[site.source].name}:{site.line}" if site.source >= 0 else ""


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


# ---- views -----------------------------------------------------------------------------------------------------------------


def _with_heading(*tables: Callable[[ProfileData], Table]) -> Callable[[ProfileData], str]:
    return lambda profile: "\n".join([heading(profile), *(str(table(profile)) for table in tables)])


def source_text(profile: ProfileData) -> str:
    """The program with figures by line in the margin, over all traced runs: kernel time, launches, copied bytes."""
    by_line: dict[tuple[int, int], list[Site]] = {}
    for site in profile.sites:
        if site.source >= 0:
            by_line.setdefault((site.source, site.line), []).append(site)
    total = sum(s.total_ns for s in profile.sites if s.kind in _RUN_KINDS)
    parts = [heading(profile)]
    for number, source in enumerate(profile.sources):
        if not any(n == number for n, _ in by_line):
            continue
        rows: list[tuple[str, ...]] = [("Time(%)", "Time", "Calls", "Copied", "Shape fn", "", f"{source.name}")]
        for line, text in enumerate(source.text.splitlines(), 1):
            found = by_line.get((number, line), [])
            rows.append((*_margin(found, total), f"{line} |", text.expandtabs(4)))
            rows += [("", "", "", "", "", "|", f"    ^ {note}") for note in _notes(found)]
        parts.append(align(rows, (6,)))
    return "\n".join(parts)


def _margin(found: Sequence[Site], total: int) -> tuple[str, ...]:
    ran = [s for s in found if s.kind in _RUN_KINDS]
    copied = [s for s in found if s.kind in DIRECTIONS]
    shapes = [s for s in found if s.kind == SHAPE_FUNC]
    time = sum(s.total_ns for s in ran)
    return (
        _share(time, total) if ran else "",
        time_text(time) if ran else "",
        str(sum(s.calls for s in ran)) if ran else "",
        bytes_short(sum(s.nbytes for s in copied)) if copied else "",
        time_text(sum(s.total_ns for s in shapes)) if shapes else "",
    )


def _notes(found: Sequence[Site]) -> Iterator[str]:
    for s in found:
        if s.kind in DIRECTIONS:
            yield f"{DIRECTIONS[s.kind]}, {s.calls} x {bytes_short(s.nbytes / s.calls)}: {s.reason}"


def memory_text(profile: ProfileData) -> str:
    """Bytes in use during one run, as a curve of characters, then the table of allocations."""
    return "\n".join([heading(profile), *_curve(profile), str(allocations(profile))])


def _curve(profile: ProfileData) -> list[str]:
    points = sorted((m.end_ns, m.live_bytes) for m in profile.timeline)
    if not points:
        return ["memory: nothing was allocated"]
    length = max(profile.timeline_ns, points[-1][0], 1)
    columns, at, level = [], 0, 0
    for i in range(_CURVE_WIDTH):
        most = level
        while at < len(points) and points[at][0] * _CURVE_WIDTH <= (i + 1) * length:
            level = points[at][1]
            most, at = max(most, level), at + 1
        columns.append(most)
    peak = max(columns) or 1
    fill = [round(8 * _CURVE_HEIGHT * c / peak) for c in columns]
    lines = []
    for row in range(_CURVE_HEIGHT - 1, -1, -1):
        label = bytes_short(peak) if row == _CURVE_HEIGHT - 1 else "0 B" if row == 0 else ""
        bar = "".join(_BLOCKS[min(8, max(0, f - 8 * row))] for f in fill)
        lines.append(f"{label:>12} |{bar}".rstrip())
    end = time_text(length)
    return ["memory in use over one run:", *lines, f"{'':>12} +{'-' * _CURVE_WIDTH}", f"{'0':>14}{end:>{_CURVE_WIDTH}}"]


VIEWS: dict[str, Callable[[ProfileData], str]] = {
    "nvprof": profile_text,
    "operators": _with_heading(operators),
    "formats": _with_heading(formats, float_products),
    "source": source_text,
    "memory": memory_text,
    "copies": _with_heading(copies, waits),
    "bulks": _with_heading(bulks),
}
