"""Significance of differences between two sets of times: rank tests and bootstrap intervals, robust to noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen

#: The probability that a whole table of equal rows shows a difference.
ALPHA = 0.05
#: Confidence of the interval of a ratio, in percent.
CONFIDENCE = 95
_RESAMPLES = 2000
_SEED = 7


@frozen
class Verdict:
    """B against A.  ``ratio``: of the medians; ``low``, ``high``: the ends of its bootstrap interval; ``p``: the p-value of Mann
    and Whitney's U, corrected for the number of rows in the table (Holm)."""

    ratio: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether both the test and the interval show a difference."""
        return self.p < ALPHA and not self.low <= 1 <= self.high


Samples = Sequence[float]


def judge(rows: Sequence[tuple[Samples, Samples]], paired: bool) -> list[Verdict | None]:
    """A verdict for each row ``(samples of A, samples of B)`` of one table; None if a median is 0.

    ``paired``: sample i of both sides is from the same round, so a disturbance is likely to be in both.
    """
    tested = [i for i, (a, b) in enumerate(rows) if len(a) and len(b) and np.median(a) > 0 and np.median(b) > 0]
    corrected = dict(zip(tested, holm([rank_test(*rows[i]) for i in tested]), strict=True))
    out: list[Verdict | None] = []
    for i, (a, b) in enumerate(rows):
        if i in corrected:
            out.append(Verdict(float(np.median(b) / np.median(a)), *interval(a, b, paired), corrected[i]))
        else:
            out.append(None)
    return out


def rank_test(a: Samples, b: Samples) -> float:
    """The p-value of Mann and Whitney's U test, two-sided."""
    from scipy import stats

    x, y = np.asarray(a, float), np.asarray(b, float)
    if np.ptp(np.concatenate([x, y])) == 0:
        return 1.0  # all values are tied
    return float(stats.mannwhitneyu(x, y).pvalue)


def interval(a: Samples, b: Samples, paired: bool) -> tuple[float, float]:
    """Bootstrap interval (95 %) of the ratio of the medians, B / A; from a fixed seed."""
    from scipy import stats

    def ratio(x: Any, y: Any, axis: int = -1) -> Any:
        below = np.median(x, axis=axis)
        return np.median(y, axis=axis) / np.where(below == 0, np.nan, below)  # a resampled median may be 0

    samples = (np.asarray(a, float), np.asarray(b, float))
    paired = paired and len(a) == len(b)
    if min(map(len, samples)) < 2:
        only = float(ratio(*samples))
        return only, only
    made = stats.bootstrap(
        samples,
        ratio,
        paired=paired,
        vectorized=True,
        n_resamples=_RESAMPLES,
        method="percentile",
        random_state=np.random.default_rng(_SEED),
    ).bootstrap_distribution
    low, high = np.nanpercentile(made, [50 - CONFIDENCE / 2, 50 + CONFIDENCE / 2])
    return float(low), float(high)


def holm(ps: Sequence[float]) -> list[float]:
    """Corrected p-values of several tests (Holm): each bounds the probability of *any* false positive among the tests."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    out, most = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[i]))
        out[i] = most
    return out


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of ratios: 1 for 2 and 1/2."""
    from scipy import stats

    return float(stats.gmean(ratios))
