"""Functions of one byte as tables: the results of the operators themselves, and the functions that stay."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.byte_tables import byte_tables
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....programs import HEADER

TO_FLOATS = "let %r = qnn.dequantize(%x, 0.05f, 3);"
#: Two functions of ``%x``, of which the first is part of the other: SiLU between conversions.
SILU = """let %s = qnn.quantize(sigmoid(%r), 0.0039f, 0, out_dtype="uint8");
    let %m = multiply(%r, qnn.dequantize(%s, 0.0039f, 0));"""


def program(dtype: str, body: str) -> str:
    return f"{HEADER}def @main(%x: Tensor[(?n, ?m), {dtype}], %y: Tensor[(?n, ?m), {dtype}]) {{ {TO_FLOATS} {body} }}"


def lookups(text: str) -> int:
    """The number of calls of ``take`` after the pass."""
    found = eliminate_dead_code(byte_tables(infer_type(to_a_normal_form(relay.parse(text)))), entries=("main",))
    return sum(isinstance(value, Call) and getattr(value.op, "name", "") == "take" for value in values(found["main"].body))


#: Bodies with the number of their tables.
BODIES = {
    "of the whole chain": (SILU + 'qnn.quantize(%m, 0.02f, 9, out_dtype="{}")', 1),
    "of an inner value with another use": (SILU + 'let %q = qnn.quantize(%m, 0.02f, 9, out_dtype="{}"); (%q, %s)', 2),
    "beside another tensor": (
        SILU + """let %q = qnn.quantize(%m, 0.02f, 9, out_dtype="{0}");
        qnn.quantize(add(qnn.dequantize(%q, 0.02f, 9), qnn.dequantize(%y, 0.1f, 0)), 0.1f, 0, out_dtype="{0}")""", 1,
    ),
    "of other scales": ('qnn.quantize(%r, 0.07f, 1, out_dtype="{}")', 0),
    "of two tensors": ('qnn.quantize(sigmoid(add(%r, qnn.dequantize(%y, 0.1f, 0))), 0.01f, 0, out_dtype="{}")', 0),
    "of a result in floats": ("sigmoid(%r)", 0),
    "used by a branch": (
        'let %q = qnn.quantize(sigmoid(%r), 0.0039f, 0, out_dtype="{0}"); if (greater(sum(%r), 0f)) {{ %q }} else {{ %x }}', 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_table_has_the_results_of_the_operators(dtype: str) -> None:
    every = np.arange(256, dtype="int64") + np.iinfo(dtype).min
    x = every.astype(dtype).reshape(16, 16)
    args = [(x[:rows], x[::-1][:rows].copy()) for rows in (0, 1, 16)]
    for name, (body, count) in BODIES.items():
        text = program(dtype, body.format(dtype))
        assert lookups(text) == count, name
        plain, tables = (relay.VirtualMachine(relay.compile(text, opt_level=level)) for level in (0, 2))
        for given in args:
            ones, others = plain.run(*given), tables.run(*given)
            for one, other in zip(*((r if isinstance(r, (tuple, list)) else [r]) for r in (ones, others)), strict=True):
                # at opt_level=2 a scale may be a part of another one: a quantum
                difference = np.abs(one.numpy().astype("float64") - other.numpy().astype("float64")).max(initial=0)
                assert one.shape == other.shape and difference <= (1 if one.dtype == dtype else 1e-6), name


@pytest.mark.extensive
@pytest.mark.optimized
def test_a_table_in_the_kernel_of_a_convolution() -> None:
    text = f"""{HEADER}def @main(%x: Tensor[(?n, 4, ?h, 5), uint8], %w: Tensor[(6, 4, 1, 1), int8]) {{
        let %y = nn.conv2d(qnn.dequantize(%x, 0.5f, 128), qnn.dequantize(%w, 0.25f, 0));
        let %q = qnn.quantize(%y, 8f, 100, out_dtype="uint8"); let %r = qnn.dequantize(%q, 8f, 100);
        qnn.quantize(multiply(%r, sigmoid(%r)), 4f, 3, out_dtype="uint8") }}"""
    rng = np.random.default_rng(2)
    weight = rng.integers(-128, 128, (6, 4, 1, 1)).astype("int8")
    plain, tables = (relay.VirtualMachine(relay.compile(text, params={"w": weight}, opt_level=level)) for level in (0, 2))
    for n, rows in ((0, 3), (1, 1), (2, 7)):  # rows of fewer elements than a vector, and of more
        x = rng.integers(0, 256, (n, 4, rows, 5)).astype("uint8")
        np.testing.assert_array_equal(tables.run(x).numpy(), plain.run(x).numpy())
