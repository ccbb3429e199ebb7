"""Every operator of Relay's last version is here, or the page of operators says why it is not planned."""

from __future__ import annotations

from functools import reduce

import pytest

import relayvm as relay
from relayvm.compiler.builder.absent_names import NOT_PLANNED, reason
from relayvm.compiler.docs.coming_from_relay import coming_from_relay_markdown, comparisons
from relayvm.compiler.docs.relay_names import relay_names, relay_operators, without_shape_function
from relayvm.compiler.operator_docs.operator_pages import operator, operators, ops_markdown
from relayvm.ops.core.op import REGISTRY
from relayvm.vm.diagnostics.source import InputError

RELAY = [name for names in relay_operators().values() for name in names]


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
    name = "nn.contrib_conv2d_winograd_nnpack_weight_transform"
    with pytest.raises(InputError, match=rf"there is no operator {name}, and none is planned") as error:
        operator(name)
    assert "its result is a format of the library NNPACK" in str(error.value)


# ---- names of Relay's Python interface -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "nn.contrib_conv2d_winograd_nnpack_weight_transform",
            "its result is a format of the library NNPACK; use relay.nn.contrib_conv2d_winograd_weight_transform",
        ),
        ("quantize", "there is no relay.quantize: scales are not chosen by a pass; use the operators of relay.qnn.op"),
        ("collage", "there is no relay.collage: there are no external code generators"),
        (
            "transform.CollagePartition",
            "there is no relay.transform.CollagePartition: there are no external code generators",
        ),
        ("analysis.list_op_freq", "there is no relay.analysis.list_op_freq; did you mean list_op_freqs?"),
        (
            "analysis.get_calibration_data",
            "there is no relay.analysis.get_calibration_data: there are no external code generators",
        ),
        ("nn.conv2", "there is no operator nn.conv2; did you mean nn.conv2d or qnn.conv2d?"),
    ],
)
def test_a_missing_name_says_why(path: str, text: str) -> None:
    with pytest.raises(AttributeError) as error:
        reduce(getattr, path.split("."), relay)
    assert text in str(error.value)


def test_the_page_counts_every_name_once() -> None:
    found = comparisons()
    assert len(found) == len({c.relay.path for c in found}) == len(relay_names()) > 440
    states = {c.relay.path: c.state for c in found}
    assert (states["relay.nn.conv2d"], states["relay.dyn.tile"], states["relay.quantize"]) == ("same", "better", "missing")
    total = next(line for line in coming_from_relay_markdown().splitlines() if line.startswith("| all |"))
    assert total.startswith(f"| all | {len(found)} |")


def test_improvements_are_of_operators_that_are_here() -> None:
    assert set(without_shape_function()) <= set(RELAY)
    assert all(c.note for c in comparisons() if c.state == "better")
