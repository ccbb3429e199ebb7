"""``qnn.quantize`` in front of movements, and without a scale of its own: within a quantum of the operators in order."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.lowered import bind_params
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.early_quantisation import early_quantisation
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....programs import HEADER

QUANTIZED = 'qnn.quantize({}, 0.3f, 5, out_dtype="uint8")'
#: By name: the value that is quantised, of ``%a`` and ``%b`` (dequantised), ``%f`` and ``%c`` (floats); the operators afterwards.
CASES = {
    "an inverse": ("qnn.dequantize(%x, 0.3f, 5)", ""),
    "another zero point": ("qnn.dequantize(%x, 0.3f, 6)", "qnn.dequantize qnn.quantize"),
    "an activation": ("clip(nn.relu(%a), a_min=0.0, a_max=6.0)", "qnn.dequantize nn.relu clip qnn.quantize"),
    "a sum": ("add(%a, %b)", "qnn.dequantize qnn.dequantize add qnn.quantize"),
    "a bias": ("nn.bias_add(%a, %c)", "qnn.dequantize nn.bias_add qnn.quantize"),
    "a reshape": ("reshape(%a, newshape=[-1])", "qnn.dequantize qnn.quantize reshape"),
    "repeated": ("repeat(%f, repeats=2, axis=1)", "qnn.quantize repeat"),
    "joined": (
        "concatenate((qnn.dequantize(%x, 0.3f, 5), %f, repeat(%f, repeats=2, axis=0)), axis=0)",
        "qnn.quantize qnn.quantize repeat concatenate",
    ),
    "a mean": ("mean(%a, axis=[1])", "qnn.dequantize mean qnn.quantize"),
    "a function": ("sigmoid(%a)", "qnn.dequantize sigmoid qnn.quantize"),
    "a sum with floats": ("add(%a, %f)", "qnn.dequantize add qnn.quantize"),
    "fewer elements": ("max(%f, axis=[1])", "max qnn.quantize"),
}
#: The cases in which the ``qnn.quantize`` keeps its scale.
SCALED = {"a function", "a sum with floats", "repeated", "joined", "fewer elements"}


def program(body: str) -> str:
    return f"""{HEADER}def @main(%x: Tensor[(?n, 4), uint8], %f: Tensor[(?n, 4), float32], %c: Tensor[(4), float32]) {{
        let %a = qnn.dequantize(%x, 0.05f, 130); let %b = qnn.dequantize(%x, 0.02f, 7); {QUANTIZED.format(body)} }}"""


@pytest.mark.parametrize("name", CASES)
def test_quantised_early(name: str) -> None:
    body, wanted = CASES[name]
    text, bias = program(body), np.array([1.5, -2.0, 0.0, 1e-3], "float32")
    typed = infer_type(to_a_normal_form(bind_params(relay.parse(text), {"c": bias})))
    after = eliminate_dead_code(early_quantisation(typed), entries=("main",))
    calls = [value for value in values(after["main"].body) if isinstance(value, Call)]
    assert sorted(call.op.name for call in calls) == sorted(wanted.split())
    scales = {call.args[1].data.item() for call in calls if call.op.name == "qnn.quantize"}
    assert scales <= ({np.float32(0.3).item()} if name in SCALED else {1.0})
    plain, early = (relay.VirtualMachine(relay.compile(text, params={"c": bias}, opt_level=level)) for level in (0, 2))
    rng = np.random.default_rng(3)
    for n in (1, 9):
        args = rng.integers(0, 256, (n, 4)).astype("uint8"), rng.normal(0, 20, (n, 4)).astype("float32")
        one, other = (vm.run(*args).numpy().astype("int64") for vm in (plain, early))
        assert one.shape == other.shape and np.abs(one - other).max(initial=0) <= 1


def test_a_scale_that_is_no_number_stays() -> None:
    text = program("nn.relu(%a)").replace("0.3f", "nanf")
    mod = infer_type(to_a_normal_form(relay.parse(text)))
    assert early_quantisation(mod) is mod
