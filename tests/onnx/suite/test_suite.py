"""ONNX's own suite: every case of every kind, each case that does not run with its reason."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from relayvm.compiler.docs.onnx_page import SUITE
from relayvm.frontend import OnnxBackend

from ... import tiers
from ...campaign.random_programs import kernels_once
from .cases import KINDS, Case, cases, node_cases, outcome
from .core import is_core
from .expectations import COARSE, NOT_RUN, RANDOM, graded, why_not_run

#: The cases of single operators are tested in so many parts, each with a case of most operators.
PARTS = 96
#: In one of so many parts, every kernel is machine code.
NATIVE_ONE_OF = 24
#: The outcomes of cases with a reason in NOT_RUN.
REFUSED = ("unsupported", "refused")


def mistakes(chosen: Sequence[Case], device: str) -> list[str]:
    """The cases whose outcome is not the expected one."""
    found = []
    for case in chosen:
        end = outcome(graded(case), lambda model: OnnxBackend.prepare(model, device, opt_level=1))
        why = why_not_run(case.name)
        allowed = ("wrong", "passed") if why == RANDOM else REFUSED if why else ("passed",)
        if end.kind not in allowed:
            found.append(f"{case.name}: {end.kind} {end.reason}")
    return found


@pytest.mark.extensive(part=(0,), device=("sim",))
@pytest.mark.spread("device")
@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part: int, device: str) -> None:
    """In most parts, generated kernels are the plain Python that they are made from: to compile them takes most of the time."""
    native = part % NATIVE_ONE_OF == 0
    with contextlib.nullcontext() if native else kernels_once.looked_up_once(kernels_once.hand_written_native):
        assert not mistakes(node_cases()[part::PARTS], device)


@pytest.mark.extensive
@pytest.mark.parametrize(
    # whole networks would compute for minutes
    "kind",
    [pytest.param(k, marks=[pytest.mark.optimized] if k == "light" else []) for k in KINDS if k != "node"],
)
def test_models(kind: str) -> None:
    # a quarter of the whole networks, which take seconds each
    assert not mistakes(tiers.some(cases(kind), kind, 4) if kind == "light" else cases(kind), "cpu")


@pytest.mark.extensive
def test_every_pattern_is_of_a_case() -> None:
    names = [c.name for kind in KINDS for c in cases(kind)]
    counts = Counter(map(why_not_run, names))
    assert set(counts) == {"", *(r.why for r in NOT_RUN)} and set(COARSE) <= set(names)


@pytest.mark.extensive
def test_the_page_has_the_figures() -> None:
    names = {kind: [c.name for c in cases(kind)] for kind in KINDS}
    names["core"] = [c.name for c in node_cases() if is_core(c)]
    assert {k: (len(v), sum(not why_not_run(n) for n in v)) for k, v in names.items()} == SUITE


@pytest.mark.extensive
@pytest.mark.parametrize("name", [n for n in COARSE if not n.endswith("_expanded")])
def test_results_are_nearer_to_the_exact_values_than_the_expected_ones(name: str) -> None:
    case = next(c for c in node_cases() if c.name == name)
    inputs, [want] = case.data_sets[0]
    [have] = OnnxBackend.prepare(case.model).run(list(inputs))
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs]
    [exact] = ReferenceEvaluator(case.model).run(None, {
        i.name: a for i, a in zip(case.model.graph.input, wide, strict=True)})  # fmt: skip
    assert exact.dtype == np.float64
    assert np.abs(have - exact).max() < np.abs(want - exact).max()
