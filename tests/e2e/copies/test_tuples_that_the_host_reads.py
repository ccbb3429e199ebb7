"""The host needs a field of a tuple from a function or an ``if``: fields are stored on the target, so the field is copied."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

from ...devices import DEVICES

_MAIN = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), int32], %a: Tensor[(1), int64], %b: Tensor[(1), int64], %c: bool) {{
  let %t = {tuple};
  let %v = %t.{field};
  dyn.strided_slice(%x, %a, %v, %b)
}}
"""
_BY_FUNCTION = """
def @f(%x: Tensor[(?), int32], %a: Tensor[(1), int64]) -> (Tensor[(1), int64], Tensor[(1), int64]) {{
  let %s = shape_of(%x, dtype="int64");
  {result}
}}
"""
_PAIR, _SPLIT = "(%s, %a)", "split(concatenate((%s, %a), axis=0), indices_or_sections=2)"
_CHOICE = 'if (%c) {{ let %s = shape_of(%x, dtype="int64"); {then} }} else {{ {other} }}'
_AGAIN = "if (less(take(%a, 0i64), 1i64)) { @f(%x, add(%a, 1i64)) } else { (%s, %a) }"
PROGRAMS = {
    "a function": ("@f(%x, %a)", _PAIR, 0),
    "a function, by one operator": ("@f(%x, %a)", _SPLIT, 0),
    "a function, given on": ("@f(%x, %a)", "let %u = @g(%s, %a); %u", 1),
    "a function that calls itself": ("@f(%x, %a)", _AGAIN, 0),
    "an if": (_CHOICE.format(then=_PAIR, other="(%a, %b)"), "(%a, %s)", 0),
    "an if, by one operator": (_CHOICE.format(then=_SPLIT, other=_SPLIT.replace("%s", "%b")), "(%a, %s)", 0),
    "an if, a tuple in a tuple": (
        "{ let %q = " + _CHOICE.format(then="((%s, %a), %a)", other="((%a, %b), %a)") + "; %q.0 }",
        "(%a, %s)",
        0,
    ),
}


@pytest.mark.split(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_host_reads_a_field(name: str, device: str) -> None:
    made, result, field = PROGRAMS[name]
    text = _MAIN.format(tuple=made, field=field) + _BY_FUNCTION.format(result=result)
    text += "def @g(%s: Tensor[(1), int64], %a: Tensor[(1), int64]) -> (Tensor[(1), int64], Tensor[(1), int64]) { (%a, %s) }"
    x, zero, one = np.arange(3, dtype=np.int32), np.array([0]), np.array([1])
    for level in (0, 2):
        for dependence in ("input", "op"):
            exe = relay.compile(text, target=device, opt_level=level, data_dependence=dependence)
            found = relay.VirtualMachine(exe).run(x, zero, one, np.array(True))
            np.testing.assert_array_equal(found.numpy(), x)
