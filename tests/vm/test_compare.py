"""Two profiles as one table: differences, ratios, and zeros that divide nothing."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.vm.compare import Comparison, Difference
from relayvm.vm.profiling import COPY_NAMES, DTOH, HTOD, KERNEL, CopyReason, Profile, Row


def side(calls: int = 2, nbytes: int = 16, runs: int = 2, syncs: int = 1) -> Profile:
    """A profile of ``runs`` runs with these many copies to the host in all."""
    return Profile(
        device="sim",
        entry="main",
        config={"data_dependence": "input"},
        run_ns=tuple(1000 * (i + 1) for i in range(runs)),
        counters=tuple({"syncs": syncs, "launches": 1, "peak_bytes": 64} for _ in range(runs)),
        activities=(
            Row(KERNEL, "exp", runs, 2000, 900, 1100, 0),
            Row(DTOH, COPY_NAMES[DTOH], calls, 50 * calls, 50, 50, nbytes),
            Row(HTOD, COPY_NAMES[HTOD]),
        ),
        host=(),
        copies=(CopyReason(DTOH, "why", calls, nbytes),) if calls else (),
    )


def test_every_figure_is_there() -> None:
    names = [d.name for d in Comparison(side(), side()).differences]
    assert names == [
        "kernels time",
        "[memcpy DtoH] calls", "[memcpy DtoH] bytes", "[memcpy DtoH] time",
        "[memcpy HtoD] calls", "[memcpy HtoD] bytes", "[memcpy HtoD] time",
        "syncs", "launches", "instructions", "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls",
        "wall time",
    ]  # fmt: skip


@given(st.integers(0, 1000), st.integers(0, 2**40), st.integers(1, 5), st.integers(0, 9))
def test_a_profile_beside_itself_differs_in_nothing(calls: int, nbytes: int, runs: int, syncs: int) -> None:
    same = side(calls, nbytes, runs, syncs)
    assert all(d.change == 0 and d.ratio in (None, 1.0) for d in Comparison(same, same).differences)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 100), st.integers(0, 100))
def test_figures_are_per_run(runs_a: int, runs_b: int, per_run_a: int, per_run_b: int) -> None:
    found = Comparison(side(per_run_a * runs_a, 8, runs_a), side(per_run_b * runs_b, 8, runs_b))["[memcpy DtoH] calls"]
    assert (found.a, found.b, found.change) == (per_run_a, per_run_b, per_run_b - per_run_a)
    assert found.ratio == (per_run_b / per_run_a if per_run_a else None)


def test_no_such_figure() -> None:
    with pytest.raises(KeyError, match="no figure 'speed'; there are kernels time"):
        Comparison(side(), side())["speed"]


def test_text() -> None:
    text = str(Comparison(side(4, 128), side(0, 0)))
    a, b, table = text.split("\n\n")
    assert a.startswith("A: @main on sim, data_dependence=input\n") and b.startswith("B: @main on sim")
    assert "[memcpy DtoH]  128 bytes" in a and "[memcpy DtoH]  0 bytes" in b and "no copies between host and device" in b
    assert table == (
        "The results of A and B agree.\n"
        "per run                                          A                              B   B - A  B / A\n"
        "kernels time                              1.0000us                       1.0000us     0ns  1.000\n"
        "[memcpy DtoH] calls                              2                              0      -2  0.000\n"
        "[memcpy DtoH] bytes                             64                              0     -64  0.000\n"
        "[memcpy DtoH] time                           100ns                            0ns  -100ns  0.000\n"
        "[memcpy HtoD] calls                              0                              0       0      -\n"
        "[memcpy HtoD] bytes                              0                              0       0      -\n"
        "[memcpy HtoD] time                             0ns                            0ns     0ns      -\n"
        "syncs                                            1                              1       0  1.000\n"
        "launches                                         1                              1       0  1.000\n"
        "instructions                                     0                              0       0      -\n"
        "allocs                                           0                              0       0      -\n"
        "alloc_bytes                                      0                              0       0      -\n"
        "peak_bytes                                      64                             64       0  1.000\n"
        "shape_func_calls                                 0                              0       0      -\n"
        "wall time            1.5000us (1.0000us..2.0000us)  1.5000us (1.0000us..2.0000us)     0ns  1.000\n"
        "wall time: median (min..max)"
    )


def test_json_holds_both_sides_and_the_table() -> None:
    found = Comparison(side(4, 128), side(0, 0))
    data = json.loads(found.to_json())
    assert (data["schema"], data["results_agree"]) == (1, True)
    assert Profile.from_data(data["a"]) == found.a and Profile.from_data(data["b"]) == found.b
    by_name = {d["name"]: d for d in data["differences"]}
    assert by_name["[memcpy DtoH] bytes"] == {
        "name": "[memcpy DtoH] bytes", "unit": "bytes", "a": 64, "b": 0, "change": -64, "ratio": 0.0,
    }  # fmt: skip
    assert by_name["[memcpy HtoD] calls"]["ratio"] is None


def test_a_difference_is_plain() -> None:
    assert dataclasses.astuple(Difference("syncs", "calls", 4, 1)) == ("syncs", "calls", 4, 1)
    assert (Difference("syncs", "calls", 4, 1).change, Difference("syncs", "calls", 4, 1).ratio) == (-3, 0.25)
