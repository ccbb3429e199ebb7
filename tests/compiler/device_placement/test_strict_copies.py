"""strict_copies: rejected copies and allowed copies."""

from __future__ import annotations

from typing import Any

import pytest

from relayvm.compiler.compile import compile
from relayvm.vm.api.executable import Executable
from relayvm.vm.diagnostics.source import TypeCheckError

from ...programs import HEADER

SMALL = "def @main(%x: Tensor[(?, ?), float32], %r: Tensor[(2), int64]) { dyn.tile(%x, %r) }"


def program(text: str, **config: Any) -> Executable:
    """Compiled where nothing but strict_copies keeps a copy away."""
    return compile(HEADER + text, "sim", place="off", **config)


def test_a_copy_of_unknown_size_is_refused_at_its_place() -> None:
    with pytest.raises(TypeCheckError) as caught:
        program(SMALL, strict_copies="on", data_dependence="op")
    assert str(caught.value) == (
        "error: dyn.tile: input 'data' is copied because another input is data-dependent (data_dependence=op): "
        "4·x.shape[0]·x.shape[1] bytes, float32[x.shape[0], x.shape[1]], would be copied to the host, "
        "where strict_copies allows 64\n"
        " --> <string>:2:66\n"
        "  |\n"
        f"2 | {SMALL}\n"
        f"  | {' ' * 65}{'^' * 16}\n"
        "help: `relayvm explain` shows what removes a copy; strict_copies=N allows N bytes, strict_copies=off any number"
    )


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        "def @main(%x: Tensor[(?, ?), float32]) { argwhere(%x) }",
        "def @main(%x: Tensor[(?), float32], %c: bool) { if (%c) { %x } else { exp(%x) } }",
    ],
)
def test_shape_vectors_counts_and_conditions_pass(text: str) -> None:
    copies = [e for e in program(text, strict_copies="on").explain().transfers if e.host_waits and e.reason]
    assert len(copies) <= 1


@pytest.mark.parametrize(("limit", "passes"), [(16, True), (15, False), ("16", True), ("on", True), (0, False), ("off", True)])
def test_the_limit_is_in_bytes(limit: Any, passes: bool) -> None:
    if passes:
        assert program(SMALL, strict_copies=limit).config["strict_copies"] == str(limit)
        return
    with pytest.raises(TypeCheckError, match="16 bytes"):
        program(SMALL, strict_copies=limit)


def test_branches_are_looked_into_and_every_copy_is_named() -> None:
    text = (
        "def @main(%x: Tensor[(?, ?), float32], %r: Tensor[(2), int64], %c: bool) -> Tensor[(?, ?), float32] "
        "{ if (%c) { dyn.tile(%x, %r) } else { dyn.broadcast_to(%x, %r) } }"
    )
    with pytest.raises(TypeCheckError) as caught:
        program(text, strict_copies=8)
    assert [d.message.partition(":")[0] for d in caught.value.diagnostics] == ["dyn.tile", "dyn.broadcast_to"]


def test_where_host_and_target_are_one_nothing_is_refused() -> None:
    assert compile(HEADER + SMALL, "cpu", strict_copies=0, data_dependence="op").reasons == ()
