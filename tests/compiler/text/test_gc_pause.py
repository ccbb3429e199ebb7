"""Pauses of Python's garbage collector while a program is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import relayvm as relay


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """A collector that runs before the test and after it."""
    gc.enable()
    yield
    gc.enable()


def test_a_parse_collects_nothing_and_enables_the_collector_again() -> None:
    collected: list[str] = []
    gc.callbacks.append(lambda phase, info: collected.append(phase))
    try:
        lets = "".join(f"let %x{k} = exp(%x);" for k in range(2000))
        relay.parse(f'#[version = "0.0.5"] def @main(%x: float32) {{ {lets} %x }}')
    finally:
        gc.callbacks.pop()
    assert len(collected) < 10
    assert gc.isenabled()


def test_a_syntax_error_enables_the_collector_again() -> None:
    with pytest.raises(relay.ParseError):
        relay.parse("def @main(")
    assert gc.isenabled()
