"""Exports of profiles: views, CSV, Markdown, the Trace Event format, the data of the HTML page."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from typing import Any

import numpy as np
import pytest

from relayvm.compiler.compile import compile
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.diagnostics.source import InputError, SourceText
from relayvm.vm.report.export_html import html_page
from relayvm.vm.report.export_trace import chrome_trace
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.report.profile_views import VIEWS

from ...devices import DEVICES, HOST
from .profiles import WHY, example

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32], %s: Tensor[(1), int64]) { dyn.reshape(exp(%x), %s) }
"""


def measured(device: str, n: int = 3) -> Profile:
    return VirtualMachine(compile(PROGRAM, target=device, place="off")).profile(
        np.ones((n, 2), "f"), np.array([2 * n]), repeat=2, warmup=1
    )


#: A profile of a program without kernels.
EMPTY = dataclasses.replace(
    example(),
    activities=(),
    host=(),
    copies=(),
    series=(),
    sites=(),
    timeline=(),
    prepared=(),
    metrics=(),
    sources=(),
    float_products=(),
)


# ---- views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_has_a_heading_and_something_to_say(name: str) -> None:
    for found in (example(), EMPTY, measured("cpu"), measured("sim", 0)):
        first, times, count, *rest = found.view(name).splitlines()
        assert first.startswith(f"Profile: @main on {found.device}, ") and times.startswith("median ")
        assert count.startswith(f"{found.runs} runs, ")
        assert rest or name == "source"
        assert all(line == line.rstrip() for line in rest)


def test_another_view() -> None:
    with pytest.raises(InputError, match=r"no view 'operator'; did you mean operators\?\nhelp: views: nvprof, operators, f"):
        example().view("operator")


def test_the_number_formats_of_kernels() -> None:
    assert example().view("formats").splitlines()[3:] == [
        "number formats:",
        "Time(%)      Time  Calls  Kernels  Formats             Longest kernel",
        "100.00%  3.0000us      2        1  float32 -> float32  exp",
        "products of quantised tensors in floats:",
        "Operator  Place        Because",
        "nn.dense  a.relay:2:3  a scale is not finite",
    ]
    kernels = [s for s in measured("cpu").sites if s.kind == "kernel"]
    assert kernels and {s.formats for s in kernels} == {"float32 -> float32"}
    assert EMPTY.view("formats").splitlines()[3] == "number formats: none"


def test_the_program_with_figures_in_its_margin() -> None:
    assert example().view("source").splitlines()[3:] == [
        "Time(%)      Time  Calls  Copied  Shape fn       a.relay",
        f"{'':44}1 |  def @main() {{",
        "100.00%  3.0000us      2    16 B            2 |    <b>exp</b>",
        f"{'':46}|      ^ DtoH, 2 x 8 B: {WHY}",
        f"{'':44}3 |  }}",
    ]


def test_copies_and_the_waits_for_them() -> None:
    found = measured("sim")
    (wait,), (copy,) = ([s for s in found.sites if s.kind == kind] for kind in ("sync", "dtoh"))
    assert (wait.function, wait.pc) == (copy.function, copy.pc)
    lines = found.view("copies").splitlines()
    (line,) = [x for x in lines if x.startswith("DtoH")]
    assert "dyn.reshape: input 'newshape' is data-dependent" in line and line.endswith("<string>:2")
    assert any("waits for the device" in x for x in lines)


def test_the_curve_of_memory() -> None:
    text = example().view("memory")
    bars = [line.split("|")[1] for line in text.splitlines() if "|" in line]
    assert len(bars) == 8 and max(map(len, bars)) <= 72
    # 64 bytes from the start, 128 from 1.1 of 2 us on, 64 from 1.6
    assert bars[-1][0] == "█" and bars[0] == " " * 39 + "█" * 19
    assert "128 B |" in text and "2.0000us" in text


# ---- tables for other programs ---------------------------------------------------------------------------------------------


def test_csv_has_a_line_for_each_site() -> None:
    found = measured("sim")
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [(line["kind"], line["name"], int(line["total_ns"]), int(line["nbytes"])) for line in lines] == [
        (s.kind, s.name, s.total_ns, s.nbytes) for s in found.sites
    ]
    assert {line["runs"] for line in lines} == {"2"}
    assert [line["place"] for line in lines if line["kind"] == "dtoh"] == ["<string>:2"]


def test_markdown_tables_are_tables() -> None:
    for found in (measured("sim"), example(), EMPTY):
        blocks = re.findall(r"(?:^\|.*\n)+", found.to_markdown(), re.MULTILINE)
        assert blocks
        for block in blocks:
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1, block
            assert re.fullmatch(r"\|( -{3}:? \|)+", block.splitlines()[1])
    assert "| DtoH | 2 | 16 B |" in example().to_markdown()


# ---- the Trace Event format --------------------------------------------------------------------------------------------------

#: Required fields of an event besides name, ph and pid, with their types, by phase: from the definition of the format.
PHASES: dict[str, dict[str, tuple[type, ...]]] = {
    "X": {"tid": (int,), "ts": (int, float), "dur": (int, float), "cat": (str,), "args": (dict,)},
    "M": {"tid": (int,), "args": (dict,)},
    "C": {"ts": (int, float), "args": (dict,)},
    "s": {"tid": (int,), "ts": (int, float), "id": (str,), "cat": (str,)},
    "f": {"tid": (int,), "ts": (int, float), "id": (str,), "cat": (str,), "bp": (str,)},
}


def check_trace(trace: dict[str, Any]) -> None:
    """Check a trace against the Trace Event format (JSON object form)."""
    trace = json.loads(json.dumps(trace, allow_nan=False))
    assert trace["displayTimeUnit"] in ("ms", "ns") and isinstance(trace["otherData"], dict)
    named, flows = set(), {}
    for e in trace["traceEvents"]:
        assert isinstance(e["name"], str) and isinstance(e["pid"], int) and e["ph"] in PHASES, e
        for key, types in PHASES[e["ph"]].items():
            assert isinstance(e[key], types) and not isinstance(e[key], bool), (key, e)
        assert e.get("ts", 0) >= 0 and e.get("dur", 0) >= 0
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "process_sort_index", "thread_name")
            named.add((e["pid"], e["tid"] if e["name"] == "thread_name" else None))
        elif e["ph"] == "C":
            assert all(isinstance(v, (int, float)) for v in e["args"].values())
        elif e["ph"] in "sf":
            flows.setdefault(e["id"], []).append(e["ph"])
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in slices} <= named and {(e["pid"], None) for e in slices} <= named
    assert all(ends == ["s", "f"] for ends in flows.values()), "an arrow has one start and one end"
    check_nesting(slices)


def check_nesting(slices: list[dict[str, Any]]) -> None:
    """Check that slices of one thread are disjoint or nested (up to the format's rounding)."""
    for thread in {(e["pid"], e["tid"]) for e in slices}:
        open_until: list[float] = []
        for e in sorted((e for e in slices if (e["pid"], e["tid"]) == thread), key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"] + 1e-6:
                open_until.pop()
            assert not open_until or e["ts"] + e["dur"] <= open_until[-1] + 1e-6, e
            open_until.append(e["ts"] + e["dur"])


def test_the_checker_finds_what_is_wrong() -> None:
    good = chrome_trace([("", example())])
    check_trace(good)
    event = next(e for e in good["traceEvents"] if e["ph"] == "X")
    for broken in (
        [{**event, "ph": "Q"}],
        [{k: v for k, v in event.items() if k != "dur"}],
        [{**event, "ts": -1}],
        [{**event, "tid": 99}],
        [{**event, "ts": 5000, "dur": 2}, {**event, "ts": 5001, "dur": 2}],  # they overlap
        [{"ph": "s", "name": "launch", "cat": "launch", "id": "one end", "pid": 1, "tid": 1, "ts": 0}],
    ):
        with pytest.raises((AssertionError, KeyError)):
            check_trace({**good, "traceEvents": [*good["traceEvents"], *broken]})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_trace_is_in_the_format(device: str, n: int) -> None:
    found = measured(device, n)
    trace = chrome_trace([("", found)])
    check_trace(trace)
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    launches = [e for e in slices if e["cat"] == "launch"]
    assert len(slices) - len(launches) == len(found.timeline)
    (kernel,) = [e for e in slices if e["cat"] == "kernel"]
    assert kernel["name"] == "exp" and kernel["args"]["arguments"] == f"float32[{n}, 2], float32[{n}, 2]"
    assert kernel["args"]["source"] == "<string>:2" and kernel["args"]["instruction"] == "InvokePacked"
    if device != HOST:
        copies = [e for e in slices if e["cat"] == "copy"]
        assert [e["args"]["reason"] for e in copies if e["name"] == "[memcpy DtoH]"] == [WHY]
        assert len(launches) == 1 and launches[0]["pid"] != kernel["pid"]
    else:
        assert {e["pid"] for e in slices} == {1}


def test_several_profiles_have_processes_of_their_own() -> None:
    trace = chrome_trace([("A", measured("sim")), ("B", measured("cpu"))])
    check_trace(trace)
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert sorted(names.values()) == ["A: @main on sim", "A: @main on the host", "B: @main on the host"]
    assert json.loads(measured("cpu").to_chrome_trace())["otherData"]["profile"]["entry"] == "main"


# ---- the HTML page -------------------------------------------------------------------------------------------------------------


def embedded(page: str) -> Any:
    """The data embedded in a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_the_page_holds_the_profiles_and_needs_no_network() -> None:
    hostile = SourceText("</script><script>alert(1)</script>", "<!--DATA--> </script> & <b> \u2028")
    page = html_page(
        [("A", dataclasses.replace(example(), sources=(hostile,))), ("B", measured("sim"))], {"header": [], "rows": []}
    )
    data = embedded(page)
    assert [p["name"] for p in data["profiles"]] == ["A", "B"] and data["comparison"] == {"header": [], "rows": []}
    assert data["profiles"][0]["sources"] == [{"name": hostile.name, "text": hostile.text}]
    assert data["profiles"][0]["timeline"] == [list(m) for m in example().timeline]
    assert page.count("<script") == 2 and "<!--" not in page
    assert not re.search(r"""(src|href)=["'](?!#)|https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#inside)""", page)


def test_a_profile_writes_its_own_page_and_trace() -> None:
    assert embedded(example().to_html())["profiles"][0]["median_ns"] == example().median_ns
