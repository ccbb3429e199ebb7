"""Comparisons of profiles as one table: matching of rows, figures per run, marks, equal contents of text and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.comparison.compare import Case, Comparison, Method, compare_profiles
from relayvm.compiler.comparison.compare_rows import RUN, Difference, aligned
from relayvm.compiler.comparison.compare_text import comparison_text, delta, page_table, tables
from relayvm.compiler.comparison.significance import Verdict
from relayvm.compiler.comparison.verdict_text import LISTED, verdict_text
from relayvm.vm.diagnostics.source import InputError
from relayvm.vm.report.profile_data import COPY_NAMES, CopyRow, Row
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.report.series import Key, Sample, Series, series_of
from relayvm.vm.runtime.tracing.trace_events import DTOH, HTOD, KERNEL

FIGURES = [
    "wall time", "kernels time",
    "[memcpy DtoH] calls", "[memcpy DtoH] bytes", "[memcpy DtoH] time",
    "[memcpy HtoD] calls", "[memcpy HtoD] bytes", "[memcpy HtoD] time",
    "syncs", "launches", "instructions", "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls", "host_calls",
]  # fmt: skip
EXP = Key(KERNEL, "exp", "a.relay:3")
COPY = Key(DTOH, "[memcpy DtoH] dyn.topk: input 'k' is data-dependent", "a.relay:4")


def side(exp_ns: int = 1000, copies: int = 1, nbytes: int = 8, runs: int = 12, syncs: int = 1, extra: str = "") -> Profile:
    """A profile whose runs differ by a few nanoseconds."""
    noise = range(runs)
    series = [Series(EXP, (1,) * runs, tuple(exp_ns + i for i in noise), (0,) * runs)]
    if copies:
        series.append(Series(COPY, (copies,) * runs, tuple(50 + i for i in noise), (copies * nbytes,) * runs))
    if extra:
        series.append(Series(Key(KERNEL, extra, "a.relay:9"), (1,) * runs, (70,) * runs, (0,) * runs))
    counters = {"syncs": syncs, "launches": 1, "peak_bytes": 64, "dtoh_copies": copies, "dtoh_bytes": copies * nbytes}
    return Profile(
        device="sim",
        entry="main",
        config={"data_dependence": "input", "fuse": "on"},
        run_ns=tuple(2 * exp_ns + i for i in noise),
        counters=(counters,) * runs,
        activities=(Row(KERNEL, "exp", runs, 2000, 900, 1100, 0), Row(DTOH, COPY_NAMES[DTOH]), Row(HTOD, COPY_NAMES[HTOD])),
        host=(),
        copies=(CopyRow(DTOH, "why", copies, nbytes),),
        series=tuple(series),
    )


def of(*profiles: Profile, per_round: int = 1) -> Comparison:
    return Comparison(tuple("abcd"[: len(profiles)]), (Case("", profiles),), Method(12, per_round))


def row(found: Comparison, key: Key) -> Difference:
    (it,) = [r for r in found.differences if r.key == key]
    return it


# ---- rows -------------------------------------------------------------------------------------------------------------------


def test_every_figure_is_there_and_then_every_thing() -> None:
    found = of(side(), side(extra="add"))
    assert [d.name for d in found.differences if d.key.kind == RUN] == FIGURES
    assert [d.key for d in found.differences if d.key.kind != RUN] == [EXP, COPY, Key(KERNEL, "add", "a.relay:9")]


@given(st.integers(1, 10**6), st.integers(0, 5), st.integers(0, 2**40), st.integers(1, 12), st.integers(0, 9))
def test_a_profile_beside_itself_differs_in_nothing(exp: int, copies: int, nbytes: int, runs: int, syncs: int) -> None:
    same = side(exp, copies, nbytes, runs, syncs)
    found = of(same, same, same)
    assert all(d.change == 0 and d.ratio in (None, 1.0) for d in found.differences)
    assert found.significant() == ()


def test_figures_are_per_run_and_times_are_the_least_of_a_round() -> None:
    found = of(side(1000, 3, 8), side(2000, 5, 8), per_round=4)
    assert (found["[memcpy DtoH] calls"].a, found["[memcpy DtoH] calls"].b, found["[memcpy DtoH] bytes"].change) == (3, 5, 16)
    assert (row(found, EXP).a, row(found, EXP).b) == (1004, 2004), "of 0..3, 4..7 and 8..11 the least ones' median"
    assert (row(found, COPY).calls, row(found, COPY).nbytes) == ((3, 5), (24, 40))
    assert found["wall time"].a == 2004


def test_no_such_figure() -> None:
    with pytest.raises(KeyError, match="no figure 'speed'; there are wall time, kernels time"):
        of(side(), side())["speed"]


def test_marks() -> None:
    found = of(side(1000, copies=1), side(2000, copies=0, extra="add"), side(1000, copies=1, syncs=2))
    slower, gone, new = row(found, EXP), row(found, COPY), row(found, Key(KERNEL, "add", "a.relay:9"))
    assert [(r.mark(1), r.mark(2)) for r in (slower, gone, new)] == [("*", "~"), ("-", "~"), ("+", "=")]
    assert [(found[n].mark(1), found[n].mark(2)) for n in ("wall time", "syncs", "launches")] == [
        ("*", "~"),
        ("=", "*"),
        ("=", "="),
    ]
    assert [delta(r, 1) for r in (slower, gone, new, found["launches"])] == ["+99.5", "gone", "new", "="]
    assert set(found.significant()) >= {slower, gone, new, found["wall time"], found["syncs"]}
    verdict = slower.verdict(1)
    assert isinstance(verdict, Verdict) and verdict.low > 1.9 and verdict.p < 0.01 and slower.verdict(0) is None


keys = st.builds(
    Key, st.sampled_from(["kernel", "dtoh"]), st.sampled_from("fgh"), st.sampled_from(["", "a.relay:1", "a.relay:2"])
)


@given(st.lists(st.lists(keys, unique=True, max_size=6), min_size=2, max_size=4))
def test_what_has_kind_name_and_line_in_common_is_one_row(sides: list[list[Key]]) -> None:
    def number(n: int, i: int) -> Series:
        return Series(sides[n][i], (n,), (i + 1,), (0,))

    rows = aligned([[number(n, i) for i in range(len(side))] for n, side in enumerate(sides)])
    for n, side in enumerate(sides):
        assert sorted(s[n].total_ns[0] for _, s in rows if s[n] is not None) == list(range(1, len(side) + 1)), (
            "each is in one row"
        )
    for key, series in rows:
        assert any(s is not None for s in series) and len(series) == len(sides)
        assert all((s is not None) == (key in side) for s, side in zip(series, sides, strict=True))


def test_lines_of_two_files_go_beside_each_other_in_order() -> None:
    def things(file: str, *lines: int) -> list[Series]:
        return [Series(Key("kernel", "take", f"{file}:{n}"), (1,), (n,), (0,)) for n in lines]

    rows = aligned([things("a.relay", 3, 8), things("b.relay", 2, 5, 9)])
    assert [(k.line, *(s and s.total_ns[0] for s in pair)) for k, pair in rows] == [
        ("a.relay:3", 3, 2), ("a.relay:8", 8, 5), ("b.relay:9", None, 9),
    ]  # fmt: skip
    (first, second) = aligned([things("a.relay", 3), things("a.relay", 5)])
    assert None in first[1] and None in second[1], "in one file another line is another operator"


def test_a_copy_may_have_another_reason() -> None:
    def copied(why: str) -> list[Series]:
        return [Series(Key(DTOH, f"[memcpy DtoH] dyn.topk: input 'data' is {why}", "a.relay:3"), (1,), (5,), (8,))]

    ((key, pair),) = aligned([copied("copied because of op"), copied("data-dependent")])
    assert key.name.endswith("because of op") and None not in pair


events = st.lists(st.builds(Sample, keys, st.integers(0, 99), st.integers(0, 99)), max_size=8)


@given(st.lists(events, min_size=1, max_size=4))
def test_series_add_up_the_events_of_each_run(runs: list[list[Sample]]) -> None:
    made = series_of(runs)
    assert len({s.key for s in made}) == len(made)
    for i, run in enumerate(runs):
        assert sum(s.calls[i] for s in made) == len(run)
        for s in made:
            mine = [e for e in run if e.key == s.key]
            assert (s.calls[i], s.total_ns[i], s.nbytes[i]) == (len(mine), sum(e.ns for e in mine), sum(e.nbytes for e in mine))
    assert tuple(Series.from_data(json.loads(json.dumps(s.as_data()))) for s in made) == made


# ---- cases ------------------------------------------------------------------------------------------------------------------


def test_geometric_means_over_the_cases() -> None:
    cases = (
        Case("n=1", (side(1000, runs=1), side(2000, runs=1))),
        Case("n=9", (side(1000, runs=1), side(500, runs=1, extra="add"))),
    )
    found = Comparison(("a", "b"), cases, Method(1))
    means = {m.key: m.ratios for m in found.means}
    assert means[EXP] == pytest.approx((1, 1)) and means[Key(RUN, "wall time", "")] == pytest.approx((1, 1))
    assert Key(KERNEL, "add", "a.relay:9") not in means, "only what all cases have"
    assert means[Key(RUN, "[memcpy HtoD] time", "")] == (None, None), "nothing to divide by"
    assert "geometric mean over 2 cases" in str(found) and "n=9, per run" in str(found)
    assert of(side(), side()).means == ()


# ---- saved profiles -----------------------------------------------------------------------------------------------------------


def test_saved_profiles() -> None:
    found = compare_profiles({"a": side(), "b": side(2000), "c": side()})
    assert found.method == Method(12, interleaved=False, checked=False)
    assert found["wall time"].mark(1) == "*" and found["wall time"].mark(2) == "~"
    assert "taken one after the other" in str(found) and "The results were not compared." in str(found)
    assert found.as_data()["results_agree"] is None
    with pytest.raises(InputError, match="two profiles"):
        compare_profiles({"a": side()})


# ---- text and JSON ----------------------------------------------------------------------------------------------------------


def test_text() -> None:
    text = str(of(side(1000, copies=2), side(2000, copies=0, extra="add")))
    a, b, heading, times, whole, parts, legend = text.split("\n\n")
    assert a.startswith("A: @main on sim, ") and b.startswith("B: @main on sim, ")
    assert heading.splitlines()[-1] == "The results of A and B agree."
    assert times.splitlines()[:2] == ["time of a run, over all runs", "  Median       P90       P99       Min       Max  Runs/s"]
    assert [line.rpartition("  ")[2] for line in times.splitlines()[2:]] == ["A", "B"]
    assert whole.splitlines()[:3] == [
        "per run, medians over 12 samples, each one run",
        "       A         B      B - A       %     95 % interval       p",
        "2.0055us  4.0055us  +2.0000us   +99.7    +99.6 .. +99.9  <0.001  wall time",
    ]
    assert any(line.split() == ["16", "0", "-16", "-100.0", "[memcpy", "DtoH]", "bytes"] for line in whole.splitlines())
    names = [line.split("  ", 1)[1].strip() for line in parts.splitlines()[2:]]
    assert names[0].endswith("exp  a.relay:3")
    assert any("- [memcpy DtoH]  a.relay:4, 16 bytes, dyn.topk: input 'k' is data-dependent" in n for n in names)
    assert any("+ add  a.relay:9" in n for n in names)
    assert "Mann and Whitney" in legend


def test_verdict() -> None:
    heading, verdict = verdict_text(of(side(1000, copies=2), side(2000, copies=0))).split("\n\n")
    assert "  all:" not in heading and heading.endswith("The results of A and B agree.")
    assert verdict.splitlines() == [
        "per run                     A         B      vs A",
        "time of a run        2.0055us  4.0055us   +99.7 %",
        "[memcpy DtoH] calls         2         0  -100.0 %",
        "[memcpy DtoH] bytes      16 B       0 B  -100.0 %",
        "gone in B: 16 B at a.relay:4, dyn.topk: input 'k' is data-dependent",
    ]
    assert verdict_text(of(side(copies=0), side())).splitlines()[-1].startswith("only in B: 8 B at a.relay:4, dyn.topk")
    assert verdict_text(of(side(), side())).splitlines()[-1].startswith("to the host on each side: 8 B at a.relay:4")


def test_verdict_lists_some_copies_and_counts_the_others() -> None:
    keys = [Key(DTOH, f"[memcpy DtoH] take: input {i}", f"a.relay:{i}") for i in range(LISTED + 2)]
    copying = replace(side(copies=0), series=tuple(Series(k, (1,) * 12, (50,) * 12, (8,) * 12) for k in keys))
    lines = verdict_text(of(copying, side(copies=0))).splitlines()
    assert [line.partition(":")[0] for line in lines[-LISTED - 1 :]] == ["gone in B"] * (LISTED + 1)
    assert lines[-1] == "gone in B: 2 more"


def test_more_than_two_sides_and_the_widths_of_tables() -> None:
    found = of(side(), side(2000), side(1000, copies=0))
    assert "as nvprof" not in str(found) and "sim activities:" not in str(found)
    assert comparison_text(found, profiles=True).count("sim activities:") == 3
    _, whole, *_ = tables(found)
    assert whole.header == ("A", "B", "vs A", "C", "vs A", "")
    assert whole.tones[0] == "worse" and all(len(r) == len(whole.header) for r in whole.rows)


def test_a_side_that_does_not_differ_has_no_colour() -> None:
    found = of(side(), side(2000), side(1000), side(500))
    _, whole, *_ = tables(found)
    assert whole.by_cell[0] == ("", "worse", "worse", "", "", "better", "better", "")
    assert page_table(found)["rows"][0]["tones"] == ["", "", "worse", "worse", "", "", "better", "better"]


def test_rows_that_hardly_count_are_left_out_and_counted() -> None:
    long, short = side(100_000, extra="add"), side(100_000, extra="add")
    shown = list(tables(of(long, short)))[2]
    assert shown.title.endswith("2 more under 1 % of the time, no difference") and len(shown.rows) == 1
    assert len(list(tables(of(long, short), everything=True))[2].rows) == 3


def test_the_table_of_the_page() -> None:
    page = page_table(of(side(), side(2000, copies=0, extra="add")))
    assert {len(r["cells"]) for r in page["rows"]} == {len(page["header"])}
    rows = {r["cells"][0]: r for r in page["rows"]}
    assert rows["wall time"]["tones"][2] == "worse" and rows["+ add  a.relay:9"]["mark"] == "new"
    assert not any(rows["launches"]["tones"]) and not any(rows["+ add  a.relay:9"]["tones"]), "no colour where nothing was tested"
    copied = rows["[memcpy DtoH] bytes"]
    assert copied["cells"][1:4] == ["8 B", "0 B", "-8 B"] and copied["titles"][1] == "8 bytes" and copied["values"][1] == 8
    assert all(len(r[key]) == len(page["header"]) for r in page["rows"] for key in ("titles", "tones", "values"))
    assert json.loads(json.dumps(page)) == page


def test_json_holds_every_side_and_the_table() -> None:
    found = of(side(), side(2000, copies=0))
    data = json.loads(found.to_json())
    assert (data["schema"], data["results_agree"], data["sides"]) == (2, True, ["a", "b"])
    (case,) = data["cases"]
    assert [Profile.from_data(p) for p in case["profiles"]] == [found.a, found.b]
    by_name = {d["name"]: d for d in case["differences"]}
    assert by_name["[memcpy DtoH] bytes"] == {
        "kind": "run", "name": "[memcpy DtoH] bytes", "line": "", "unit": "bytes",
        "values": [8, 0], "marks": ["", "*"], "verdicts": [], "calls": [], "bytes": [],
    }  # fmt: skip
    assert by_name["exp"]["verdicts"][0] is None and by_name["exp"]["verdicts"][1]["significant"] is True
    assert (by_name[COPY.name]["values"][1], by_name[COPY.name]["marks"]) == (None, ["", "-"])


def cut(*kernels: tuple[str, int]) -> Profile:
    """A profile of kernels by name and line."""
    series = tuple(Series(Key(KERNEL, name, f"a.relay:{line}"), (1,) * 12, (100,) * 12, (8,) * 12) for name, line in kernels)
    return replace(side(), series=series)


def test_the_page_has_one_row_for_work_that_moved_between_kernels() -> None:
    whole = cut(("fused_add_exp_sigmoid", 5), ("fused_add_sqrt", 12), ("sum", 20), ("tanh", 30))
    apart = cut(("add", 3), ("exp", 4), ("sigmoid", 5), ("add", 7), ("sqrt", 12), ("sum", 20), ("negative", 40))
    page = page_table(of(whole, apart))
    kernels = [r for r in page["rows"] if ".relay:" in r["cells"][0]]
    found = {r["cells"][0].strip(): (r["cells"][1:5], r["mark"], r["tones"][2]) for r in kernels}
    assert found == {
        "fused_add_exp_sigmoid  a.relay:5, 1 > 3 calls, 8 > 24 bytes": (["100ns", "300ns", "+200ns", "+200.0"], "", ""),
        "fused_add_sqrt  a.relay:12, 1 > 2 calls, 8 > 16 bytes": (["100ns", "200ns", "+100ns", "+100.0"], "", ""),
        "- tanh  a.relay:30": (["100ns", "-", "-100ns", "gone"], "gone", ""),
        "+ negative  a.relay:40": (["-", "100ns", "+100ns", "new"], "new", ""),
        "sum  a.relay:20": (["100ns", "100ns", "", "~"], "", ""),
    }
    assert any("only moved between kernels" in note for note in page["notes"])
    assert not any("only moved" in note for note in page_table(of(whole, whole))["notes"])
