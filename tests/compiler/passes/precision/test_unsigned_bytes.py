"""Signed bytes as unsigned ones: the same results, and signed bytes only where something else reads them."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.lowered import bind_params
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.unsigned_bytes import unsigned_bytes
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....programs import HEADER

WEIGHTS = {
    "w": np.random.default_rng(1).integers(-128, 128, (3, 4, 3, 3)).astype("int8"),
    "m": np.random.default_rng(2).integers(-128, 128, (5, 6)).astype("int8"),
    "e": np.array([-128, 127, 0, 5, -3, 64], "int8"),
}
#: By name: the body, of ``%q``, signed bytes of the zero point -3, and of ``%p``, a parameter; whether signed bytes remain.
CASES = {
    "dequantised": ("qnn.dequantize(%q, 0.5f, -3i8)", False),
    "another zero point": ("qnn.dequantize(%q, 0.5f, 127i8)", False),
    "a zero point of another dtype": ("qnn.dequantize(%q, 0.5f, -3)", False),
    "by a convolution": ("qnn.conv2d(%q, %w, -3i8, 0i8, 0.5f, 0.25f, padding=[1, 1])", False),
    "by a matrix": ('nn.matmul(%columns, %m, out_dtype="int32")', False),
    "by rows of a matrix": ('nn.dense(reshape(%q, newshape=[-1, 6]), %m, out_dtype="int32")', False),
    "less sums": ('subtract(nn.matmul(%columns, %m, out_dtype="int32"), [[1, 2, 3, -4, 5, 2147483647]])', False),
    "by a tensor": ('nn.matmul(%columns, reshape(%p, newshape=[5, -1]), out_dtype="int32")', True),
    "by itself": ("qnn.batch_matmul(%rows, %rows, -3i8, -3i8, 0.5f, 0.5f)", True),
    "pooled": ("qnn.dequantize(nn.max_pool2d(%q, pool_size=[2, 2], padding=[1, 1]), 0.5f, -3i8)", False),
    "moved": ("qnn.dequantize(reverse(transpose(%q, axes=[0, 1, 3, 2]), axis=3), 0.5f, -3i8)", False),
    "the largest": ("qnn.dequantize(max(%q, axis=[1]), 0.5f, -3i8)", False),
    "added to others": ("add(%q, %p)", True),
    "moved and added": ("add(reverse(%q, axis=1), %p)", True),
    "both": ("(%q, qnn.dequantize(%q, 0.5f, -3i8))", True),
    "used by a branch": ("if (greater(sum(%x), 0f)) { %q } else { %p }", True),
    "a constant": ("add(qnn.dequantize(%e, 0.5f, 0i8), qnn.dequantize(%q, 0.5f, -3i8))", False),
    "a zero point that is computed": ("qnn.dequantize(%q, 0.5f, min(%p))", True),
}


def program(body: str) -> str:
    given = ", ".join(f"%{name}: Tensor[{array.shape}, int8]".replace(",)", ")") for name, array in WEIGHTS.items())
    return f"""{HEADER}def @main(%x: Tensor[(?n, 4, 5, 6), float32], %p: Tensor[(?n, 4, 5, 6), int8], {given}) {{
        let %q = qnn.quantize(%x, 0.5f, -3i8, out_dtype="int8", ties="even");
        let %rows = reshape(%q, newshape=[-3, -2]); let %columns = reshape(%q, newshape=[-1, 5]); {body} }}"""


def moved(text: str) -> IRModule:
    typed = infer_type(to_a_normal_form(bind_params(relay.parse(text), WEIGHTS)))
    return eliminate_dead_code(unsigned_bytes(typed), entries=("main",))


def arrays(result: object) -> list[np.ndarray]:
    return [value.numpy() for value in (result if isinstance(result, (tuple, list)) else [result])]


@pytest.mark.parametrize("name", CASES)
def test_signed_bytes_are_computed_where_something_reads_them(name: str) -> None:
    body, remain = CASES[name]
    calls = [value for value in values(moved(program(body))["main"].body) if isinstance(value, Call)]
    quantised = [call for call in calls if call.op.name == "qnn.quantize"]
    assert [call.attrs.out_dtype for call in quantised] == ["uint8"]
    assert [call.args[2].data.item() for call in quantised] == [125]
    assert any(call.op.name == "bitwise_xor" for call in calls) is remain


@pytest.mark.extensive(name=("pooled", "less sums", "both"))
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_operators_in_order(name: str) -> None:
    text = program(CASES[name][0])
    plain, unsigned = (relay.VirtualMachine(relay.compile(text, params=WEIGHTS, opt_level=level)) for level in (0, 2))
    rng = np.random.default_rng(3)
    for n in (1, 3):
        x, p = rng.normal(0, 40, (n, 4, 5, 6)).astype("float32"), rng.integers(-128, 128, (n, 4, 5, 6)).astype("int8")
        x[0, 0, 0] = (1e30, -1e30, 62.0, -63.0, 0.25, -0.0)
        for one, other in zip(arrays(unsigned.run(x, p)), arrays(plain.run(x, p)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_zero_point_that_is_computed_stays_with_its_bytes() -> None:
    text = program("%q").replace("-3i8, out_dtype", "min(%p), out_dtype")
    mod = infer_type(to_a_normal_form(bind_params(relay.parse(text), WEIGHTS)))
    assert unsigned_bytes(mod) is mod
