"""``compare --link``: the time of copies over a simulated link, and the texts that describe a link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.commands.cli import main
from relayvm.compiler.comparison.simulated_link import PCI_EXPRESS, SimulatedLink

from ...programs import HEADER

PROGRAM = f"""{HEADER}
def @main(%x: Tensor[(?n), float32]) {{ argwhere(greater(%x, 0f)) }}
"""


@given(st.builds(SimulatedLink, st.integers(0, 10**13), st.integers(0, 10**9)))
def test_a_printed_link_parses_back(link: SimulatedLink) -> None:
    assert SimulatedLink.parse(str(link)) == link


@pytest.mark.parametrize("text", ["16GB/s,5us", "5us,16GB/s", " 16 GB/s, 5 us", "16000MB/s,0.005ms"])
def test_forms_of_a_link(text: str) -> None:
    assert SimulatedLink.parse(text) == PCI_EXPRESS


@pytest.mark.parametrize(
    "text", ["", "fast", "16", "16GB", "16GB/s,", "0GB/s", "-1us", "1us,2us", "1GB/s,2MB/s", "16gb/s", "memory,5us"]
)
def test_texts_that_describe_no_link(text: str) -> None:
    with pytest.raises(relay.ConfigError) as error:
        SimulatedLink.parse(text)
    fact = f"{text!r} is no link: it is a speed, the time that each copy takes besides, or both"
    help = "for example 16GB/s,5us; units: kB/s, MB/s, GB/s, TB/s, ns, us, ms; or memory"
    assert [(d.message, d.help) for d in error.value.diagnostics] == [(fact, help)]


def copies(found: Any, name: str) -> tuple[Any, ...]:
    """The values of a figure of copies on each side."""
    rows = {d["name"]: d["values"] for d in found["cases"][0]["differences"]}
    return tuple(rows[name])


@pytest.mark.parametrize("link", ["3ms", "10kB/s", "10kB/s,3ms"])
def test_each_copy_takes_at_least_its_time_over_the_link(link: str) -> None:
    x = np.ones(40, "float32")
    kept = relay.compare(PROGRAM, {"bulk": "on"}, {"bulk": "off"}, [x], device="sim", repeat=2, link=link)
    found, of = kept.as_data(), SimulatedLink.parse(link)
    assert found["method"]["link"] == link and f"over a link {link}" in str(kept)
    for way in ("DtoH", "HtoD"):
        calls, nbytes, took = (copies(found, f"[memcpy {way}] {what}") for what in ("calls", "bytes", "time"))
        for n, size, ns in zip(calls, nbytes, took, strict=True):
            bound = n * of.latency_ns + (size * 1e9 / of.bytes_per_s if of.bytes_per_s else 0)
            assert n and bound <= ns


def test_a_comparison_without_a_link_says_nothing_of_a_link() -> None:
    found = relay.compare(PROGRAM, {"bulk": "on"}, {"bulk": "off"}, [np.ones(3, "float32")], device="sim", repeat=1)
    assert found.as_data()["method"]["link"] == "" and "link" not in str(found)


def test_a_link_without_a_device_behind_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(relay.InputError, match="a link leads to the device sim, and no side runs there"):
        relay.compare(PROGRAM, {"fuse": "on"}, {"fuse": "off"}, [np.ones(3, "float32")], link="1us")
    file = tmp_path / "rows.relay"
    file.write_text(PROGRAM)
    args = ["compare", str(file), "--dim", "n=3", "--repeat", "1"]
    assert main([*args, "--link", "fast"]) == 2
    assert "'fast' is no link" in capsys.readouterr().err
    preset = [*args, "--preset", "data-dependence", "--device", "sim"]
    assert main(preset) == 0 and f"over a link {PCI_EXPRESS};" in capsys.readouterr().out
    assert main([*preset, "--link", "memory"]) == 0 and "over a link" not in capsys.readouterr().out
