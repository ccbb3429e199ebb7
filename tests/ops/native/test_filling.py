"""Templates: each instance is a function of its own, as plain Python, as machine code, and to the store."""

from __future__ import annotations

import ctypes

import pytest

from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.compiled.function_fingerprint import fingerprint
from relayvm.ops.native.memory import native
from relayvm.ops.native.templates import instantiate

operation = offset = None


@native
def template(a, b):  # type: ignore[no-untyped-def]
    return operation(a, b) + offset


@native
def less(a, b):  # type: ignore[no-untyped-def]
    return a - b


@native
def more(a, b):  # type: ignore[no-untyped-def]
    return a + b


FILLINGS = {(f, k): instantiate(template, "made", operation=f, offset=k) for f in (less, more) for k in (0, 7)}


def test_each_filling_does_its_own() -> None:
    for (f, k), made in FILLINGS.items():
        machine = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(kernel_store.address_of(made, "int64(int64, int64)"))
        assert made(5, 3) == machine(5, 3) == f(5, 3) + k
    assert len({fingerprint(made) for made in FILLINGS.values()}) == len(FILLINGS)


def test_the_template_and_its_module_stay_as_they_were() -> None:
    assert operation is offset is None and template.__name__ == "template"
    with pytest.raises(TypeError):
        template(5, 3)


def test_only_names_that_there_are_can_be_filled_in() -> None:
    with pytest.raises(KeyError, match="template has no nothing"):
        instantiate(template, "made", nothing=1)
