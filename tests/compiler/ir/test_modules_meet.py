"""Modules that complete each other: functions that are missing when a text is parsed, ``init_module``, given metadata."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.text.parser import parse

from ...programs import HEADER

MAIN = HEADER + "def @main(%x: float32) { @double(%x) }"
DOUBLE = HEADER + "def @double(%x: float32) { %x + %x }"


def test_another_module_brings_a_function() -> None:
    mod = relay.parse(MAIN)
    with pytest.raises(relay.TypeCheckError, match="unknown function @double") as caught:
        relay.transform.InferType()(mod)
    assert caught.value.code == "type/unknown"
    mod.update(relay.parse(DOUBLE))
    typed = relay.transform.InferType()(mod)
    assert str(typed["main"].body.checked_type) == "float32"


def test_init_module() -> None:
    mod = relay.parse(MAIN, "main.relay", relay.parse(DOUBLE))
    assert list(mod.functions) == ["double", "main"] and mod.source is not None and mod.source.name == "main.relay"
    assert relay.structural_equal(mod, relay.parse(MAIN + DOUBLE.removeprefix(HEADER)))
    with pytest.raises(relay.ParseError, match="init_module has a function @main, too"):
        relay.parse(MAIN, init_module=mod)
    with pytest.raises(relay.ArgumentError, match="parse: init_module must be an IRModule, not the int 1"):
        relay.parse(MAIN, init_module=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["meta_table", "init_meta_table"])
def test_given_metadata(name: str) -> None:
    text = HEADER + "def @main() { (meta[relay.Constant][1], meta[relay.Constant][0]) }"
    one, two = relay.const([1, 2]), np.ones((2, 1), "float32")
    table = {name: {"relay.Constant": [one, two]}}
    mod = relay.parse(text, **table)  # type: ignore[arg-type]
    assert relay.structural_equal(mod["main"].body, relay.Tuple([relay.const(two), one]))
    assert relay.structural_equal(relay.parse(relay.astext(mod), **table), mod)  # type: ignore[arg-type]


def test_given_metadata_that_is_none() -> None:
    with pytest.raises(relay.ArgumentError, match="parse: meta_table must be a dict with the one key"):
        relay.parse(MAIN, meta_table={"relay.attrs": []})
    with pytest.raises(relay.ArgumentError, match=r"a constant of meta_table must be a relay\.Constant or an array"):
        relay.parse(MAIN, meta_table={"relay.Constant": ["x"]})


def test_fromtext() -> None:
    mod = relay.fromtext(DOUBLE, "double.relay")
    assert relay.structural_equal(mod, parse(DOUBLE)) and mod.source is not None and mod.source.name == "double.relay"
    assert relay.structural_equal(relay.fromtext(DOUBLE), mod)
