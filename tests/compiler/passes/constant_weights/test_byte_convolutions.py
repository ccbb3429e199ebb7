"""Convolutions of bytes in words: which calls are taken, and the results of the exact wide way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.passes.constant_weights.byte_convolutions import byte_convolutions
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.defs.weight_forms.byte_convolution import NAME

from ....programs import HEADER

RNG = np.random.default_rng(5)


def weight_of(shape: tuple[int, ...] = (6, 4, 3, 3), dtype: str = "int8") -> np.ndarray:
    bounds = np.iinfo(dtype)
    return RNG.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def module(call: str, weight: np.ndarray, data: str = "uint8", more: str = "") -> IRModule:
    """A program over data ``%x``, and further parameters, with the weight ``%w`` as a constant."""
    shape, dtype = ", ".join(map(str, weight.shape)), weight.dtype.name
    given = f"%x: Tensor[(?n, {weight.shape[1]}, ?h, ?w), {data}], %w: Tensor[({shape}), {dtype}]{more}"
    main = relay.parse(f"{HEADER}def @main({given}) {{ {call} }}")["main"]
    x, w, *rest = main.params
    return relay.IRModule.from_expr(relay.bind(relay.Function((x, *rest), main.body), {w: relay.const(weight)}))


def operators(mod: IRModule, forced: tuple[str, ...] = ()) -> list[str]:
    """The operators after the pass; a second run changes nothing."""
    once = byte_convolutions(infer_type(to_a_normal_form(mod)), forced)
    assert byte_convolutions(once, forced) is once
    return [v.op.name for v in values(once["main"].body) if isinstance(v, Call)]


def quantised(zero: Any = 3, of_weight: Any = 0, more: str = "padding=1") -> str:
    return f"qnn.conv2d(%x, %w, {zero}, {of_weight}, 1f, 1f, {more})"


def test_calls_that_are_taken() -> None:
    assert operators(module(quantised(), weight_of())) == [NAME]
    assert operators(module(quantised(of_weight=128), weight_of(dtype="uint8"))) == [NAME]
    assert operators(module('nn.conv2d(%x, %w, out_dtype="int32")', weight_of())) == [NAME]
    assert operators(module(quantised(-128), weight_of(), "int8")) == ["cast", "bitwise_xor", NAME]
    biased = module(f"nn.bias_add({quantised()}, %b)", weight_of(), more=", %b: Tensor[(6), int32]")
    assert operators(biased) == [NAME, "add", NAME]  # the first has no use
    bound = module(f"let %v = %w; let %zero = 3; {quantised('%zero').replace('%w', '%v')}", weight_of())
    assert operators(bound) == [NAME], "variables of constants, as parameters are that are bound"
    at_run_time = operators(module(quantised("%z"), weight_of(), more=", %z: Tensor[(), uint8]"))
    assert at_run_time == ["cast", "negative", "multiply", "cast", "reshape", NAME]


@pytest.mark.parametrize(
    ("call", "weight", "data"),
    [
        (quantised(300), weight_of(), "uint8"),  # no byte
        (quantised(-1), weight_of(), "uint8"),
        (quantised(of_weight=-1), weight_of(), "uint8"),  # a weight of 128
        (quantised(of_weight=127), weight_of(dtype="uint8"), "uint8"),
        (quantised(), weight_of(dtype="int16"), "uint8"),
        (quantised(), weight_of(), "int16"),
        (quantised(more='padding=1, out_dtype="int64"'), weight_of(), "uint8"),
        (quantised(more='kernel_layout="OHWI"'), weight_of((6, 3, 3, 3)), "uint8"),
        ("nn.conv2d(%x, %w)", weight_of(), "int8"),  # a result of int8
    ],
)
def test_calls_that_stay(call: str, weight: np.ndarray, data: str) -> None:
    assert NAME not in operators(module(call, weight, data))


def test_a_forced_operator_stays() -> None:
    assert operators(module(quantised(), weight_of()), ("nn.conv2d",)) == ["qnn.conv2d"]


@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_results_are_those_of_the_wide_way(data: str) -> None:
    """Extreme bytes, zero points that are constants and parameters, more than one window in one program."""
    one, deep, zero = weight_of(), weight_of((4, 1, 3, 3)), 77 if data == "uint8" else -77
    parts = [
        f"let %a = {quantised(zero)}",
        f"let %b = {quantised('%z', more='strides=2, padding=[0, 2, 1, 1]')}",
        "let %c = qnn.conv2d(%x, %d, %z, 0, 1f, 1f, padding=2, dilation=2, groups=4)",
        'let %e = nn.conv2d(%x, %w, padding=1, out_dtype="int32")',
    ]
    main = module("; ".join([*parts, "(%a, %b, %c, %e)"]), one, data, f", %z: Tensor[(), {data}], %d: Tensor[(4, 1, 3, 3), int8]")
    whole = main["main"]
    mod = relay.IRModule.from_expr(relay.bind(relay.Function(whole.params[:2], whole.body), {whole.params[2]: relay.const(deep)}))
    exe = relay.compile(mod)
    assert sum(packed.group.nodes[0].op == NAME for packed in exe.packed) == 3, "two of the four share a kernel"
    machines = relay.VirtualMachine(exe), relay.VirtualMachine(relay.compile(mod, opt_level=0))
    low, high = np.iinfo(data).min, np.iinfo(data).max
    for shape in ((0, 4, 5, 5), (1, 4, 1, 1), (1, 4, 6, 7), (2, 4, 23, 40)):
        x = RNG.choice(np.array([low, low + 1, 0, high], data), shape)
        for z in (low, zero, high):
            found, wanted = ([r.numpy() for r in machine.run(x, np.array(z, data))] for machine in machines)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b)
