"""Every operator of Relay's last version is here, or the page of operators says why it is not planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.compiler.docs.not_planned import NOT_PLANNED, reason
from relayvm.compiler.docs.operator_pages import operator, operators, ops_markdown
from relayvm.ops.core.op import REGISTRY
from relayvm.vm.diagnostics.source import InputError

LISTED = Path(__file__).with_name("relay_operators.txt")
RELAY = [name for line in LISTED.read_text().splitlines() if not line.startswith("#") for name in line.split()]


def test_the_list_names_each_operator_once() -> None:
    assert len(RELAY) == len(set(RELAY)) == 230


def test_every_operator_is_declared_or_said_not_to_be_planned() -> None:
    missing = [name for name in RELAY if name not in REGISTRY and reason(name) is None]
    assert not missing, f"{len(missing)} of Relay's operators are neither here nor named as not planned: {' '.join(missing)}"


def test_what_is_not_planned_is_not_there_and_is_on_the_page() -> None:
    assert not [op.name for op in operators() if reason(op.name) is not None]
    page = ops_markdown()
    for entry in NOT_PLANNED:
        assert all(f"`{name}`" in page for name in entry.names) and entry.reason in page


def test_who_asks_for_one_is_told_why() -> None:
    with pytest.raises(InputError, match=r"there is no operator random\.uniform, and none is planned") as error:
        operator("random.uniform")
    assert "random numbers are state" in str(error.value)
