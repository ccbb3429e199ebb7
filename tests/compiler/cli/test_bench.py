"""``relayvm bench``: every case is called, in mixed order, by one machine or several."""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm as relay
from relayvm.vm.report.size_mix import CaseTimes, size_mix

from .answers import answer, data

TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, ?m), float32]) { exp(%x) + %x }\n'


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "a.relay"
    path.write_text(TEXT)
    return str(path)


def test_each_combination_of_sizes_is_a_case(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for callers in (1, 3):
        words = ("--shapes", "n=0,5", "--shapes", "m=2,3", "--duration", "0.01s", "--callers", str(callers))
        found = data(capsys, "bench", program, *words)
        assert [c["case"] for c in found["cases"]] == ["n=0, m=2", "n=0, m=3", "n=5, m=2", "n=5, m=3"]
        counts = {c["calls"] for c in found["cases"]}
        assert counts == {next(iter(counts))} and min(counts) >= callers and found["compiled"] == 0
        for c in found["cases"]:
            assert 0 < c["min_ns"] <= c["p50_ns"] <= c["p90_ns"] <= c["p99_ns"] <= c["max_ns"]
        assert found["calls_per_second"] == pytest.approx(sum(c["calls"] for c in found["cases"]) / found["seconds"])


def test_the_table(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = answer(capsys, "bench", program, "--dim", "n=2,m=2", "--duration", "0.01s", "--threads", "1").splitlines()
    relay.set_num_threads(None)
    assert lines[0].split() == ["Case", "Calls", "p50", "p90", "p99", "min", "max"]
    assert lines[1].startswith("main ") and lines[2].endswith("0 kernels compiled while measured")


def test_quantiles() -> None:
    times = CaseTimes("a", tuple(range(1, 101)))
    assert [times.quantile_ns(part) for part in (0.5, 0.9, 0.99)] == [50, 90, 99]
    assert CaseTimes("a", (4,)).quantile_ns(0.99) == 4


def test_errors_of_calls_and_of_the_measurement(program: str) -> None:
    exe = relay.compile(TEXT)
    machines = [relay.VirtualMachine(exe) for _ in range(2)]
    with pytest.raises(relay.RelayError, match="needs a case and a machine"):
        size_mix(machines, {}, 0.01, 0)
    with pytest.raises(relay.RelayError, match="x"):
        size_mix(machines, {"a": ["no array"]}, 0.01, 0)
