"""torch's operator database: samples of the core operators run as in torch, or have a reason why not: ``make torch-suite``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from ..campaign.random_programs import kernels_once
from .coverage import NOT_COVERED, uncovered
from .expectations import NOT_RUN, Reason, reason
from .outcomes import outcomes
from .samples import DTYPES, core_overloads, operators, samples_of

pytestmark = pytest.mark.extensive

#: The operators are tested in so many parts.
PARTS = 40


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    """Generated kernels are the plain Python that they are made from: to compile them takes most of the time."""
    with kernels_once.looked_up_once(kernels_once.hand_written_native):
        yield


@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part: int) -> None:
    found = []
    for operator in list(operators())[part::PARTS]:
        samples = [s for dtype in DTYPES for s in samples_of(operator, dtype)]
        for sample, end in zip(samples, outcomes(samples), strict=True):
            if end.kind not in ("passed", "not exported") and reason(sample, end) is None:
                found.append(f"{sample.name} {sample.dtype}: {end.kind} {end.reason}")
    assert not found


@pytest.mark.parametrize("known", NOT_RUN, ids=lambda known: known.why)
def test_every_reason_is_of_a_sample(known: Reason) -> None:
    named = [name for name in operators() if any(re.fullmatch(pattern, name) for pattern in known.operators)]
    samples = (s for name in named for dtype in known.dtypes or DTYPES for s in samples_of(name, dtype))
    assert any(known.is_of(sample, outcomes([sample])[0]) for sample in samples)


def test_operators_without_a_converter_are_listed() -> None:
    assert set(uncovered()) == set(NOT_COVERED) < set(core_overloads())
