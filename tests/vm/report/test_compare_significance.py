"""Distinction of differences from noise, on simulated times of a busy machine with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.comparison.significance import ALPHA, Verdict, geometric_mean, holm, interval, judge, rank_test

ROWS, ROUNDS, PER_ROUND = 25, 20, 3


def times(random: np.random.Generator, base_ns: float, slower: float, drifts: float = 0.05) -> tuple[list[float], list[float]]:
    """Samples of one row for both sides of a comparison, the minimum of three runs each.

    The times have one-sided noise, a slow drift common to both sides, and occasional runs interrupted by another program.
    """
    drift = 1 + drifts * np.sin(np.linspace(0, 7, ROUNDS) + random.uniform(0, 6))
    out = []
    for factor in (1.0, slower):
        runs = base_ns * factor * drift[:, None] * (1 + np.abs(random.normal(0, 0.03, (ROUNDS, PER_ROUND))))
        runs *= np.where(random.random(runs.shape) < 0.15, random.uniform(1.2, 3, runs.shape), 1)
        out.append([float(t) for t in np.round(runs.min(axis=1))])
    return out[0], out[1]


def table(random: np.random.Generator, planted: float = 1.0) -> list[Verdict | None]:
    """A table with rows from 40 ns to 1 ms; the last row is ``planted`` times slower on the second side."""
    rows = [times(random, base, 1.0) for base in np.geomspace(40, 1e6, ROWS - 1)]
    return judge([*rows, times(random, 2e5, planted)], paired=True)


@pytest.mark.extensive
def test_identical_sides_show_no_difference_in_the_whole_table() -> None:
    random = np.random.default_rng(5)
    alarms = sum(any(v is not None and v.significant for v in table(random)) for _ in range(40))
    assert alarms <= 2, "at most 5 % of 40"


@pytest.mark.lengthy
def test_five_percent_are_found() -> None:
    random = np.random.default_rng(6)
    last = [table(random, planted=1.05)[-1] for _ in range(20)]
    assert sum(v is not None and v.significant and v.ratio > 1 for v in last) >= 18


@pytest.mark.lengthy
def test_a_single_test_is_wrong_as_often_as_it_says() -> None:
    random = np.random.default_rng(7)
    p = np.array([rank_test(*times(random, 1e5, 1.0, drifts=0)) for _ in range(600)])
    assert 0.5 * ALPHA < (p < ALPHA).mean() < 1.5 * ALPHA
    p = np.array([rank_test(*times(random, 1e5, 1.0)) for _ in range(200)])
    assert (p < ALPHA).mean() < ALPHA, "a drift that both sides share gives no false alarm"


def test_the_interval_covers_the_ratio() -> None:
    random = np.random.default_rng(8)
    found = [interval(*times(random, 1e5, 1.2), paired=True) for _ in range(60)]
    assert sum(low <= 1.2 <= high for low, high in found) >= 51
    assert all(low > 1 for low, _ in found)


def test_what_cannot_be_told() -> None:
    nothing, constant, one = [0.0] * 5, [3.0] * 5, [7.0]
    assert judge([(nothing, constant), (constant, nothing), ([], constant)], paired=True) == [None] * 3
    assert judge([(constant, constant), (one, one)], paired=True) == [Verdict(1, 1, 1, 1)] * 2
    (verdict,) = judge([(one, [14.0])], paired=True)
    assert verdict is not None and (verdict.ratio, verdict.low, verdict.high) == (2, 2, 2) and not verdict.significant


def test_sides_with_other_numbers_of_runs_are_not_paired() -> None:
    (verdict,) = judge([([10.0, 11, 12] * 4, [20.0, 21, 22] * 5)], paired=True)
    assert verdict is not None and verdict.significant and verdict.low > 1.5


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.5]) == [0.5]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_corrects_upwards_and_keeps_the_order(ps: list[float]) -> None:
    out = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, out, strict=True))
    assert all(out[i] <= out[j] for i in range(len(ps)) for j in range(len(ps)) if ps[i] < ps[j])
    assert not ps or min(out) == pytest.approx(min(1, len(ps) * min(ps)))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
def test_the_mean_of_ratios_and_of_their_inverses(ratios: list[float]) -> None:
    assert geometric_mean(ratios) * geometric_mean([1 / r for r in ratios]) == pytest.approx(1)
