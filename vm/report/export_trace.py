"""Export of timelines in the Trace Event format, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Each profile has a process for the host and a process for its device; the threads of a process are its queues.  An arrow leads
from the launch of a kernel on the host to its execution on the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...ops.core.implementation import HOST
from ..device_table import DEVICES
from ..runtime.tracing.trace_events import ALLOC, DTOH, HOST_CALL, HTOD, KERNEL, SHAPE_FUNC, SYNC
from .profile_data import Moment, ProfileData, Site
from .profile_views import place

#: Threads of a process.
HOST_THREAD, KERNEL_THREAD, COPY_THREAD = 1, 2, 3
_THREADS = {HOST_THREAD: "machine", KERNEL_THREAD: "kernels", COPY_THREAD: "copies"}
#: Threads of the events on the device, by kind; all other events are on the host.
_ON_DEVICE = {KERNEL: KERNEL_THREAD, DTOH: COPY_THREAD, HTOD: COPY_THREAD}
_CATEGORIES = {HOST_CALL: "kernel", SHAPE_FUNC: "shape function", SYNC: "wait", ALLOC: "memory", DTOH: "copy", HTOD: "copy"}


def chrome_trace(profiles: Sequence[tuple[str, ProfileData]]) -> dict[str, Any]:
    """The timelines of named profiles, as data for ``json.dump``.  A name may be empty."""
    events = [e for i, (name, profile) in enumerate(profiles) for e in _events(name, profile, 1 + i * len(DEVICES), i)]
    about = {name or "profile": _about(profile) for name, profile in profiles}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _about(profile: ProfileData) -> dict[str, Any]:
    return {
        "entry": profile.entry,
        "device": profile.device,
        "config": dict(profile.config),
        "arguments": list(profile.arguments),
        "environment": dict(profile.environment),
        "dropped_events": profile.timeline_dropped,
    }


def _events(name: str, profile: ProfileData, first_pid: int, number: int) -> Iterator[dict[str, Any]]:
    host, device = first_pid, first_pid + DEVICES.index(profile.device)
    prefix = f"{name}: " if name else ""
    used = {(host, HOST_THREAD)} | {_track(profile.sites[m.site], host, device) for m in profile.timeline}
    for pid in sorted({pid for pid, _ in used}):
        label = f"{prefix}@{profile.entry} on {'the host' if pid == host else profile.device}"
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": label}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for pid, tid in sorted(used):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": _THREADS[tid]}}
    for i, moment in enumerate(profile.timeline):
        site = profile.sites[moment.site]
        yield from _moment(profile, site, moment, host, device, f"{number}.{i}")


def _track(site: Site, host: int, device: int) -> tuple[int, int]:
    if site.kind not in _ON_DEVICE:
        return host, HOST_THREAD
    return (host if site.device == HOST else device), _ON_DEVICE[site.kind]


def _moment(profile: ProfileData, site: Site, moment: Moment, host: int, device: int, number: str) -> Iterator[dict[str, Any]]:
    pid, tid = _track(site, host, device)
    category = _CATEGORIES.get(site.kind, site.kind)
    yield _slice(site.name, category, pid, tid, moment.start_ns, moment.end_ns, _args(profile, site, moment))
    if site.kind == KERNEL and moment.asked_start_ns != moment.start_ns:
        yield _slice(
            f"launch {site.name}", "launch", host, HOST_THREAD, moment.asked_start_ns, moment.asked_end_ns, {"pc": site.pc}
        )
        flow = {"name": "launch", "cat": "launch", "id": number}
        yield {"ph": "s", **flow, "pid": host, "tid": HOST_THREAD, "ts": moment.asked_start_ns / 1e3}
        yield {"ph": "f", "bp": "e", **flow, "pid": pid, "tid": tid, "ts": moment.start_ns / 1e3}
    yield {"ph": "C", "name": "memory", "pid": host, "tid": 0, "ts": moment.end_ns / 1e3, "args": {"bytes": moment.live_bytes}}


def _slice(name: str, category: str, pid: int, tid: int, start_ns: int, end_ns: int, args: dict[str, Any]) -> dict[str, Any]:
    """A complete event ("X"); times in the format are in microseconds."""
    times = {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, **times, "args": args}


def _args(profile: ProfileData, site: Site, moment: Moment) -> dict[str, Any]:
    found = {
        "op": site.op,
        "source": place(profile, site),
        "function": site.function,
        "pc": site.pc,
        "instruction": site.instruction,
        "reason": site.reason,
        "arguments": moment.types,
        "bytes": moment.nbytes,
    }
    return {k: v for k, v in found.items() if v not in ("", -1) and (k != "bytes" or v)}
