"""The tiers of tests together are all tests, and ``make test`` has every operator and every device."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import tiers
from .devices import DEVICES
from .ops.every_op.recipe import operators

ROOT = Path(__file__).resolve().parents[1]


def test_test_and_rest_are_all_tests() -> None:
    for extensive, drawn in itertools.product([False, True], repeat=2):
        assert tiers.belongs(None, extensive, drawn)
        assert tiers.belongs("test", extensive, drawn) or tiers.belongs("rest", extensive, drawn)
        assert tiers.belongs("check", extensive, drawn) == tiers.belongs("test", extensive, drawn) == (not extensive)
        assert tiers.belongs("rest", extensive, drawn) or not drawn, "a property has more examples in `rest`"


def test_processes_that_tests_start_know_the_tier() -> None:
    assert os.environ[tiers.VARIABLE] == (tiers.tier() or "")


def test_parameters_that_are_kept() -> None:
    def extensive(**parameters: object) -> bool:
        return tiers.is_extensive([pytest.mark.extensive(dtype=["float32"], jit=[True]).mark], parameters)

    assert not extensive(dtype="float32", jit=True, n=3)
    assert extensive(dtype="float32", jit=False) and extensive(dtype="int8", jit=True)
    assert tiers.is_extensive([pytest.mark.extensive.mark], {}) and not tiers.is_extensive([pytest.mark.quick.mark], {})


@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("n", range(6))
def test_that_is_spread(n: int, dtype: str, request: pytest.FixtureRequest) -> None:
    """A tier has one dtype for each ``n``, and every dtype."""
    if tiers.tier() is not None:
        assert dtype == ["float32", "int8", "bool"][n % 3]
        test = request.node.nodeid.partition("[")[0]
        assert sum(item.nodeid.startswith(f"{test}[") for item in request.session.items) <= 6


def test_a_tier_takes_every_value_and_rest_takes_others() -> None:
    for cases in range(1, 5):
        for tier in ("test", "rest"):
            assert {tiers.turn(tier, number, cases) for number in range(cases)} == set(range(cases))
        assert cases == 1 or all(tiers.turn("test", n, cases) != tiers.turn("rest", n, cases) for n in range(9))


@pytest.mark.split(3)
@pytest.mark.parametrize("n", range(8))
def test_that_is_split(n: int, request: pytest.FixtureRequest) -> None:
    """``test`` has one in three cases, ``rest`` the others."""
    test = request.node.nodeid.partition("[")[0]
    late = [tiers.is_late(test, k, 8, 3) for k in range(8)]
    assert late.count(False) in (2, 3)
    assert tiers.tier() is None or late[n] == (tiers.tier() == "rest")


@pytest.mark.extensive
@pytest.mark.thinned(3)
@pytest.mark.parametrize("n", range(8))
def test_that_is_thinned(n: int, request: pytest.FixtureRequest) -> None:
    """``rest`` has one in three of the extensive cases."""
    test = request.node.nodeid.partition("[")[0]
    assert tiers.tier() is None or not tiers.is_late(test, n, 8, 3)


def test_each_tier_has_a_case_of_a_split_test() -> None:
    for cases, part in itertools.product(range(1, 9), range(2, 5)):
        for test in "abcdefgh":
            late = [tiers.is_late(test, number, cases, part) for number in range(cases)]
            assert not all(late)
            assert any(late) or cases == 1


def test_some_values_are_never_none_and_together_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for tier in ("test", "rest"):
        monkeypatch.setattr(tiers, "_tier", tier)
        for count in range(6):
            for part in range(1, 5):
                found = [tiers.some(range(count), name, part) for name in "abcdefghijklmnopqrstuvwxyz"]
                assert all(found) or not count
                assert {value for values in found for value in values} == set(range(count))
    monkeypatch.setattr(tiers, "_tier", None)
    assert tiers.some(range(6), "a", 3) == range(6)


@settings(max_examples=200)
@given(st.integers())
def test_a_property(number: int) -> None:
    pass


def test_a_property_draws_a_part_of_its_examples() -> None:
    assert test_a_property._hypothesis_internal_use_settings.max_examples == tiers.examples(200)


@given(st.integers(1, 1000))
def test_rest_draws_what_test_has_not(number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        drawn = {}
        for tier in ("test", "rest"):
            patch.setattr(tiers, "_tier", tier)
            drawn[tier] = tiers.draws(number)
            assert len(drawn[tier]) == tiers.examples(number)
        assert tiers.examples(number, is_extensive=True) >= number // tiers.PART["rest"]
    assert [*drawn["test"], *drawn["rest"]] == [*range(max(number // tiers.PART["rest"], len(drawn["test"])))]
    assert len(drawn["test"]) >= min(number, tiers.FEWEST["test"])


def test_make_runs_every_tier() -> None:
    """``make test-all`` is ``make test`` and the rest, and a continuous-integration service calls it."""
    makefile = (ROOT / "Makefile").read_text()
    recipes = {m[1]: (m[2], m[3]) for m in re.finditer(r"^([a-z-]+):([^\n]*)\n((?:\t.*\n)+)", makefile, re.MULTILINE)}
    assert "--tier check" in recipes["check"][1]
    assert "--tier test" in recipes["test"][1]
    assert recipes["test-all"][0].split()[0] == "test" and "--tier rest" in recipes["test-all"][1]
    assert "make test-all" in (ROOT / ".ci" / "run").read_text()


def collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_make_test_has_every_operator_and_device() -> None:
    file = "tests/ops/test_every_op.py"
    every, test, rest = collected(file), collected(file, "--tier", "test"), collected(file, "--tier", "rest")
    thinned_out = {name for name in every if "::test_first_dtype_optimized[" in name} - rest
    assert every and test | rest | thinned_out == every and not test & rest, "no test of this file draws examples"
    assert 0 < len(thinned_out) < len(rest)
    for op in (op.name for op in operators()):
        assert f"{file}::test_first_dtype[{op}]" in test
        for device in set(DEVICES) & {"cuda"}:
            assert any(f"{file}::test_on_gpus[{name}]" in test for name in (f"{op}-{device}", f"{device}-{op}"))
