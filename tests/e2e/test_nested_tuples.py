"""Tuples in tuples: from an ``if``, from functions, from loops; of which some fields are used, and some of theirs."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

from ..devices import DEVICES

_T = "Tensor[(?), float32]"
_NESTED = "((({a}, {b}), {b}), ({c}, ({a}, {c})))"
_TYPE = f"((({_T}, {_T}), {_T}), ({_T}, ({_T}, {_T})))"
_ABC = _NESTED.format(a="%a", b="%b", c="%c")
_CBA = _NESTED.format(a="%c", b="%b", c="%a")
_ARGS = f"%a: {_T}, %b: {_T}, %c: {_T}"
_FUNCTIONS = f"""
def @once({_ARGS}) -> {_TYPE} {{ let %d = negative(%a); {_NESTED.format(a="%d", b="%b", c="%c")} }}
def @chosen(%y: bool, {_ARGS}) -> {_TYPE} {{ if (%y) {{ {_ABC} }} else {{ {_CBA} }} }}
def @loop(%i: int64, {_ARGS}) -> {_TYPE} {{
  if (less(%i, 1i64)) {{ {_ABC} }} else {{ @loop(subtract(%i, 1i64), %b, %c, add(%a, %b)) }}
}}
"""
#: What gives a nested tuple, and its ``a b c``.
MADE = {
    f"if (%y) {{ {_ABC} }} else {{ {_CBA} }}": lambda a, b, c: (a, b, c),
    f"if (%n) {{ {_ABC} }} else {{ {_CBA} }}": lambda a, b, c: (c, b, a),
    "@once(%a, %b, %c)": lambda a, b, c: (-a, b, c),
    "@chosen(%n, %a, %b, %c)": lambda a, b, c: (c, b, a),
    "@loop(2i64, %a, %b, %c)": lambda a, b, c: (c, a + b, b + c),
    f"{{ let %f = fn ({_ARGS}) -> {_TYPE} {{ {_ABC} }}; %f(%c, %a, %b) }}": lambda a, b, c: (c, a, b),
}
#: Uses of ``%t``, one after the other, and what they give of ``a b c``.
USES = {
    "let %p = %t.0; let %q = %p.0; (%q.1,)": lambda a, b, c: (b,),
    "let %p = %t.0; (%p.1,)": lambda a, b, c: (b,),
    "let %p = %t.1; (%p.0,)": lambda a, b, c: (c,),
    "let %p = %t.1; let %q = %p.1; (%q.0, %q.1)": lambda a, b, c: (a, c),
    "let %p = %t.1; let %q = %p.1; let %r = %t.0; (%q.0, %r.1)": lambda a, b, c: (a, b),
    "let %p = %t.1; let %q = %p.1; add(%q.1, %p.0)": lambda a, b, c: (c + c,),
    "let %p = %t.0; %p": lambda a, b, c: ((a, b), b),
    "%t": lambda a, b, c: (((a, b), b), (c, (a, c))),
}


@pytest.mark.thinned(2)
@pytest.mark.split(3)
@pytest.mark.spread("device")
@pytest.mark.parametrize("device", [d for d in DEVICES if d != "cuda"])
@pytest.mark.parametrize("made", MADE)
def test_fields_of_fields(made: str, device: str) -> None:
    a, b, c = (np.arange(4, dtype=np.float32) * k for k in (1, 10, 100))
    for use, wanted in USES.items():
        text = f'#[version = "0.0.5"]\ndef @main({_ARGS}, %y: bool, %n: bool) {{ let %t = {made}; {use} }}{_FUNCTIONS}'
        for level in (0, 2):
            found = relay.VirtualMachine(relay.compile(text, target=device, opt_level=level)).run(
                a, b, c, np.array(True), np.array(False)
            )
            _same(found if isinstance(found, tuple) else (found,), wanted(*MADE[made](a, b, c)))


def _same(found: object, wanted: object) -> None:
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple) and len(found) == len(wanted)
        for x, y in zip(found, wanted, strict=True):
            _same(x, y)
    else:
        np.testing.assert_array_equal(found.numpy(), wanted)  # type: ignore[attr-defined]
