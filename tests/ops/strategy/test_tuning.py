"""Findings by shape bucket: when they change a choice, and for which sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.core.implementation import OpCall
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.tuning.fingerprint import TUNING, fingerprint
from relayvm.ops.native.tuning.tuning_records import Record
from relayvm.ops.strategy import measured
from relayvm.ops.strategy.choice import TUNED, choose
from relayvm.ops.strategy.measured import Finding, Preferences, Quartiles, bucket_of, key_of, rounded, static_shapes
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ... import two_ways as op
from ..native.fresh import fresh_cache

MACHINE = {"device": "cpu", "processor": "p"}
#: Another implementation is clearly faster; it is faster, but not clearly; it is slower.
FASTER = {op.SLOW: Quartiles(90, 100, 110), op.FAST: Quartiles(40, 50, 60)}
HARDLY = {op.SLOW: Quartiles(90, 100, 110), op.FAST: Quartiles(88, 95, 99)}
SLOWER = {op.SLOW: Quartiles(40, 50, 60), op.FAST: Quartiles(90, 100, 110)}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    fresh_cache(monkeypatch, tmp_path)
    with op.two_ways():
        yield


def call_of(*shape: Any, dtype: str = "float32", steps: int = 50) -> OpCall:
    tensor = Tensor(dtype, tuple(sym(d) if isinstance(d, str) else dim(d) for d in shape))
    return OpCall(get(op.NAME), op.TwoWaysAttrs(steps), (tensor,), (tensor,))


def record(call: OpCall, ns: dict[str, Quartiles], machine: dict[str, str] = MACHINE, untuned: str = op.SLOW) -> Record:
    shapes = static_shapes(call)
    assert shapes is not None
    return Record(key_of(call, bucket_of(shapes), machine), Finding.of(ns, untuned).to_json())


def preferences(*found: Record) -> Preferences:
    return Preferences({r.key.id: r for r in found})


def chosen(found: Preferences, call: OpCall) -> str:
    return str(choose(call, lambda c: found.preferred(c, MACHINE)))


@given(st.integers(0, 1 << 40))
def test_sizes_round_to_powers_of_two(n: int) -> None:
    assert rounded(n) >= n and rounded(rounded(n)) == rounded(n)
    assert n <= 1 or (rounded(n) < 2 * n and rounded(n) & (rounded(n) - 1) == 0)


def test_only_what_is_beyond_doubt_changes_a_choice() -> None:
    assert [Finding.of(ns, op.SLOW).chosen for ns in (FASTER, HARDLY, SLOWER)] == [op.FAST, op.SLOW, op.SLOW]
    unsteady = {op.SLOW: Quartiles(90, 100, 110), op.FAST: Quartiles(40, 101, 300)}
    assert Finding.of(unsteady, op.SLOW).chosen == op.SLOW, "it is faster in some samples only"
    barely = {op.SLOW: Quartiles(100, 100, 100), op.FAST: Quartiles(96, 96, 96)}
    assert Finding.of(barely, op.SLOW).chosen == op.SLOW, "the gain is not worth it"


def test_a_change_is_confirmed_at_another_time() -> None:
    first = Finding.of(FASTER, op.SLOW)
    assert first.confirmed_by(first) == first
    for again in (HARDLY, SLOWER):
        confirmed = first.confirmed_by(Finding.of(again, op.SLOW))
        assert confirmed.chosen == op.SLOW
        assert confirmed.ns == {op.SLOW: min(FASTER[op.SLOW], again[op.SLOW]), op.FAST: max(FASTER[op.FAST], again[op.FAST])}
    better = {op.SLOW: Quartiles(90, 100, 110), op.FAST: Quartiles(30, 40, 50)}
    assert first.confirmed_by(Finding.of(better, op.SLOW)) == first, "the worse times of what is chosen count"


def test_a_finding_is_plain_data() -> None:
    finding = Finding.of(FASTER, op.SLOW)
    assert Finding.from_json(finding.to_json()) == finding
    good = finding.to_json()
    for bad in (
        {}, {"ns": 1, "untuned": "a"}, {"ns": {}, "untuned": "a"}, good | {"untuned": 3}, good | {"untuned": "other"},
        good | {"ns": good["ns"] | {"x": [1, 2]}}, good | {"ns": good["ns"] | {"x": [3, 2, 1]}},
        good | {"ns": good["ns"] | {"x": [0, 2, 3]}}, good | {"ns": good["ns"] | {"x": ["1", "2", "3"]}},
    ):  # fmt: skip
        assert Finding.from_json(bad) is None, bad


def test_a_record_holds_for_its_bucket() -> None:
    found = preferences(record(call_of(100, 3), FASTER))
    assert [chosen(found, call_of(n, 4)) for n in (65, 128)] == [op.FAST, op.FAST]
    assert choose(call_of(100, 3), lambda c: found.preferred(c, MACHINE)).because == TUNED
    with pytest.warns(CacheWarning):
        assert [chosen(found, call_of(*s)) for s in ((64, 4), (129, 4), (100, 5), (100,))] == [op.SLOW] * 4
    for other in (call_of(100, 3, dtype="float64"), call_of(100, 3, steps=1)):
        assert chosen(found, other) == op.SLOW


def test_records_of_another_machine_do_not_count() -> None:
    found = preferences(record(call_of(100), FASTER, MACHINE | {"processor": "q"}))
    with pytest.warns(CacheWarning) as warned:
        assert chosen(found, call_of(100)) == op.SLOW
    assert str(warned[0].message) == (
        "a call of test.two_ways was not tuned: the nearest tuning record differs in processor:\n"
        "  processor: p is wanted, q was found\n"
        "it is run as without tuning"
    )


def test_the_warning_comes_once(recwarn: pytest.WarningsRecorder) -> None:
    found = preferences(record(call_of(100), FASTER))
    for n in (1, 2, 1000):
        assert chosen(found, call_of(n)) == op.SLOW
    assert len(recwarn) == 1 and "bucket: [[1]] is wanted, [[128]] was found" in str(recwarn[0].message)


def test_nothing_is_said_of_what_nobody_tuned(recwarn: pytest.WarningsRecorder) -> None:
    assert chosen(preferences(), call_of(100)) == op.SLOW
    assert not preferences() and preferences(record(call_of(1), FASTER))
    other = Record(fingerprint(TUNING, {"operator": "sort"}, MACHINE), {})
    assert chosen(preferences(other), call_of(100)) == op.SLOW and not recwarn.list


def test_unknown_sizes_get_a_version_for_each_range() -> None:
    findings = [(0, FASTER), (1, FASTER), (2, FASTER), (4, SLOWER), (100, FASTER), (200, FASTER), (5000, HARDLY), (9000, FASTER)]
    found = preferences(*(record(call_of(n), ns) for n, ns in findings))
    text = "fast if n <= 2 else fast if n > 64 and n <= 256 else fast if n > 8192 and n <= 16384 else slow"
    assert chosen(found, call_of("n")) == text
    assert chosen(preferences(record(call_of(1), FASTER)), call_of("n")) == "fast if n == 1 else slow"
    assert chosen(preferences(record(call_of(100), SLOWER)), call_of("n")) == op.SLOW


def test_ranges_of_several_sizes() -> None:
    found = preferences(record(call_of(100, 3), FASTER), record(call_of(100, 100), FASTER), record(call_of(7), FASTER))
    assert chosen(found, call_of("n", 4)) == "fast if n > 64 and n <= 128 else slow"
    assert chosen(found, call_of(70, "m")) == "fast if m > 2 and m <= 4 else fast if m > 64 and m <= 128 else slow"
    assert chosen(found, call_of("n", "n")) == "fast if n > 64 and n <= 128 else slow", "both are the same size"
    assert chosen(found, call_of(3, "m")) == op.SLOW
    both = chosen(found, call_of("n", "m"))
    first = "fast if n > 64 and n <= 128 and m > 2 and m <= 4"
    assert both == f"{first} else fast if n > 64 and n <= 128 and m > 64 and m <= 128 else slow"


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from([FASTER, HARDLY, SLOWER])), max_size=12), st.integers(0, 600))
def test_versions_agree_with_the_buckets(findings: list[tuple[int, dict[str, Quartiles]]], n: int) -> None:
    by_bucket = {rounded(size): (size, ns) for size, ns in findings}
    found = preferences(*(record(call_of(size), ns) for size, ns in by_bucket.values()))
    choice = choose(call_of("n"), lambda c: found.preferred(c, MACHINE))
    if len(choice.versions) <= measured.MOST_VERSIONS:
        from relayvm.shape_funcs.symbolic.dim_operations import evaluate

        taken = next((name for name, g in zip(choice.names, choice.guards, strict=False) if evaluate(g, {"n": n})), op.SLOW)
        assert taken == (op.FAST if by_bucket.get(rounded(n), (0, SLOWER))[1] is FASTER else op.SLOW)


def test_at_most_so_many_versions() -> None:
    found = preferences(*(record(call_of(1 << (2 * i)), FASTER) for i in range(20)))
    assert len(found.preferred(call_of("n"), MACHINE)) == measured.MOST_VERSIONS


def test_records_that_make_no_sense_are_not_used() -> None:
    good = record(call_of(100), FASTER)
    fields = dict(good.key.fields)
    for bucket in ("", "[", "1", '[["a"]]', "[[1.5]]", "[1]", "[" * 5000):
        key = type(good.key)(tuple((fields | {"bucket": bucket}).items()))
        assert not preferences(Record(key, good.data)), bucket
    assert not preferences(Record(good.key, {"ns": {}}))
    removed = Finding.of({"gone": Quartiles(1, 1, 1), op.SLOW: Quartiles(9, 9, 9)}, op.SLOW)
    assert chosen(preferences(Record(good.key, removed.to_json())), call_of(100)) == op.SLOW, "an implementation that is gone"


def convolution(name: str, rows: Any) -> OpCall:
    """A call of ``nn.conv2d``, or of the operator with a transformed weight."""
    shapes = [(1, 32, rows, 40), (32, 32, 3, 3), (16, 32, 32)][: len(get(name).inputs)]
    *inputs, output = (
        Tensor("float32", tuple(sym(d) if isinstance(d, str) else dim(d) for d in shape)) for shape in (*shapes, shapes[0])
    )
    return OpCall(get(name), get(name).attrs(padding=(1, 1, 1, 1)), tuple(inputs), (output,))


def test_records_of_a_convolution_hold_for_a_transformed_weight() -> None:
    """Unless its own operator was measured; they say nothing about other sizes."""
    faster = {"winograd": Quartiles(90, 100, 110), "shifts": Quartiles(40, 50, 60)}

    def measured_at(name: str, rows: int, ns: dict[str, Quartiles] = faster) -> Record:
        return record(convolution(name, rows), ns, untuned="winograd")

    def names(found: Preferences, rows: Any) -> str:
        return chosen(found, convolution("nn.winograd_conv2d", rows))

    plain = preferences(measured_at("nn.conv2d", 40))
    assert names(plain, 64) == names(plain, 40) == "shifts"
    assert names(plain, "h").startswith("shifts if h > 32 and h <= 64 else winograd if ")
    slower = {"winograd": faster["shifts"], "shifts": faster["winograd"]}
    own = preferences(measured_at("nn.conv2d", 40), measured_at("nn.winograd_conv2d", 40, slower))
    assert names(own, 40) == "winograd" and names(own, "h").startswith("winograd if ")
    with pytest.warns(CacheWarning, match=r"a call of nn.winograd_conv2d was not tuned"):
        assert names(own, 100) == "winograd"
