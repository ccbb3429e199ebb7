"""Relay's flags: one per input of our operators, stricter than ours."""

from __future__ import annotations

import pytest

import relayvm.ops  # noqa: F401  (registers the operators)
from relayvm.ops.core.op import get
from relayvm.shape_funcs.relay_flags import RELAY_FLAGS


@pytest.mark.parametrize("name", RELAY_FLAGS)
def test_relay_flags_every_input_that_we_flag_and_more(name: str) -> None:
    ours, relays = get(name).data_dependent, RELAY_FLAGS[name]
    assert len(ours) == len(relays)
    assert all(r or not o for o, r in zip(ours, relays, strict=True))
    assert ours != relays
