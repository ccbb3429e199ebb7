"""The Markdown page of a run, made from its JSON and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .figures import FAILED, HELD, INFORMATION, MISSED, UNFINISHED

#: Of the JSON form.
SCHEMA = 1


def markdown(run: dict[str, Any]) -> str:
    """The whole page."""
    return "\n".join([*_head(run), *_goals(run), *_parts(run), *_texts(run)]).rstrip() + "\n"


def summary(run: dict[str, Any]) -> str:
    """The outcome of the run, in one line."""
    figures = [f for p in run["parts"] for f in p["figures"] if f["goal"]]
    held, missed = (sum(f["verdict"] == v for f in figures) for v in (HELD, MISSED))
    failed, unfinished = ([p["name"] for p in run["parts"] if p["status"] == s] for s in (FAILED, UNFINISHED))
    words = f"{held} goals held, {missed} missed, {len(figures) - held - missed} not measured"
    return f"{words}; parts that failed: {', '.join(failed) or 'none'}; unfinished: {', '.join(unfinished) or 'none'}"


def _head(run: dict[str, Any]) -> list[str]:
    facts, smi = run["facts"], run["facts"]["nvidia_smi"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    load = ", after ".join(" ".join(f"{x:.2f}" for x in when["load"]) for when in (facts, facts["after"]))
    rows = [
        ("card", run["card"]),
        ("driver", f"{smi.get('driver_version', 'unknown')}, CUDA {run['cuda']}"),
        ("compiler", run["nvrtc"]),
        ("commit", facts["commit"]),
        ("versions", f"python {facts['python']}, {versions}"),
        ("machine", f"{facts['platform']}, {facts['cores']} cores, load before {load}"),
        ("clocks and state before", _state(smi)),
        ("clocks and state after", _state(facts["after"]["nvidia_smi"])),
        ("took", f"{run['seconds']:.0f} of {run['seconds_given']:g} s"),
    ]
    warning = ["**The GPU is emulated on the host: no figure here means anything.**", ""] if run["emulated"] else []
    table = _table(("", ""), rows, "ll")
    return [f"# {run['card']}, {run['date']}", "", *warning, f"{summary(run)}.", "", *table, ""]


def _state(smi: dict[str, str]) -> str:
    return ", ".join(f"{name} {smi[name]}" for name in smi if name not in ("name", "driver_version")) or "no nvidia-smi"


def _goals(run: dict[str, Any]) -> list[str]:
    rows = [
        (f["task"], f["who"], _value(f), _range(f), _goal(f), f["verdict"] + (f": {f['why']}" if f["why"] else ""))
        for p in run["parts"]
        for f in p["figures"]
        if f["goal"]
    ]
    return ["## Goals", "", *_table(("", "", "median", "min to max", "goal", ""), rows, "llrrll"), ""]


def _parts(run: dict[str, Any]) -> list[str]:
    lines = []
    for p in run["parts"]:
        lines += [f"## {p['name']}", "", f"{p['title']} {p['status'].capitalize()} in {p['seconds']:.0f} s.", ""]
        if p["why"]:
            lines += [f"{'**Failed**' if p['status'] == FAILED else 'Why'}: {_cell(p['why'])}", ""]
        rows = [
            (f["task"], f["who"], _value(f), _range(f), str(f["samples"]), _remark(f)) for f in p["figures"]
        ]  # every figure, those with goals too
        if rows:
            lines += [*_table(("", "", "median", "min to max", "samples", ""), rows, "llrrrl"), ""]
        lines += [f"* {name}: {_cell(str(value))}" for name, value in p["facts"].items()]
        lines += [""] if p["facts"] else []
    return lines


def _texts(run: dict[str, Any]) -> list[str]:
    lines = []
    for p in run["parts"]:
        for t in p["texts"]:
            lines += [f"## {p['name']}: {t['title']}", "", "```text", t["text"].rstrip().replace("```", "'''"), "```", ""]
    return lines


def _value(f: dict[str, Any]) -> str:
    return "-" if f["median"] is None else f"{_number(f['median'])} {f['unit']}"


def _range(f: dict[str, Any]) -> str:
    return "-" if f["samples"] < 2 else f"{_number(f['min'])} to {_number(f['max'])}"


def _goal(f: dict[str, Any]) -> str:
    words = {"at_most": "at most", "at_least": "at least"}
    return ", ".join(f"{words[kind]} {_number(value)}" for kind, value in f["goal"].items() if value is not None)


def _remark(f: dict[str, Any]) -> str:
    if f["why"]:
        return f"{f['verdict']}: {f['why']}"
    return "" if f["verdict"] == INFORMATION else f"{f['verdict']} ({_goal(f)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]], aligned: str) -> list[str]:
    marks = {"l": "---", "r": "---:"}
    lines = [list(header), [marks[a] for a in aligned], *([_cell(c) for c in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
