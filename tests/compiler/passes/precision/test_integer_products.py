"""Products of dequantised tensors as products of integers: within a quantum of those of floats; those that stay in floats."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.integer_products import integer_products
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....programs import HEADER

#: Sizes at run time: none, one, a few.
SIZES = (0, 1, 5)
DATA = "let %a = qnn.dequantize(%x, 0.05f, 7);"
ENDS = 'let %r = nn.relu(%y); qnn.quantize(%r, 0.8f, 2, out_dtype="uint8")'
#: By name: the types of ``%x`` and ``%w``, the operators between, the operators of the program after the pass.
INTEGERS = {
    "dense": ("(?n, 12), uint8", "(6, 12), int8", "let %y = nn.dense(%a, %b);", "qnn.dense"),
    "bytes with signs": ("(?n, 12), int8", "(6, 12), uint8", "let %y = nn.dense(%a, %b);", "qnn.dense"),
    "matmul": ("(?n, 3, 12), uint8", "(12, 6), int8", "let %y = nn.matmul(%a, %b);", "transpose qnn.dense"),
    "transposed": ("(?n, 12), int8", "(6, 12), int8", "let %y = nn.matmul(%a, %b, transpose_b=True);", "qnn.dense"),
    "batches": (
        "(?n, 2, 12), uint8", "(?n, 12, 6), int8", "let %y = nn.batch_matmul(%a, %b, transpose_b=False);",
        "transpose qnn.batch_matmul",
    ),
    "convolution": (
        "(?n, 4, 7, 7), uint8", "(6, 4, 3, 3), int8", "let %y = nn.conv2d(%a, %b, padding=[1, 1, 1, 1], strides=[2, 2]);",
        "qnn.conv2d",
    ),
    "depthwise": (
        "(?n, 6, 7, 7), int8", "(6, 1, 3, 3), int8", "let %y = nn.conv2d(%a, %b, groups=6, dilation=[2, 2]);",
        "qnn.conv2d",
    ),
    "moved": (
        "(?n, 4, 7, 7), uint8", "(6, 36), int8",
        "let %m = nn.max_pool2d(%a, pool_size=[3, 3], strides=[2, 2]); let %f = nn.batch_flatten(%m); let %y = nn.dense(%f, %b);",
        "nn.max_pool2d nn.batch_flatten qnn.dense",
    ),
}  # fmt: skip


def program(data: str, weight: str, between: str, scale: str = "0.03f", zero_point: str = "4", axis: int = 0) -> str:
    weights = f"let %b = qnn.dequantize(%w, {scale}, {zero_point}, axis={axis});"
    return f"{HEADER}def @main(%x: Tensor[{data}], %w: Tensor[{weight}]) {{ {DATA} {weights} {between} {ENDS} }}"


def operators(text: str) -> list[str]:
    """The operators after the pass, but those of dead values and of ``ENDS``."""
    mod = infer_type(to_a_normal_form(relay.parse(text)))
    found = eliminate_dead_code(integer_products(mod), entries=("main",))
    return [value.op.name for value in values(found["main"].body) if isinstance(value, Call)][:-2]


def given(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Integers of a type, among them the extreme ones."""
    shape, dtype = kind.rsplit(", ", 1)
    sizes = [n if part == "?n" else int(part) for part in shape.strip("()").split(", ")]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.where(rng.random(sizes) < 0.1, rng.choice((low, high)), rng.integers(low, high + 1, sizes)).astype(dtype)


@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_integers_are_within_a_quantum(name: str) -> None:
    data, weight, between, wanted = INTEGERS[name]
    text = program(data, weight, between)
    assert operators(text) == [*wanted.split(), "qnn.dequantize"]
    floats, integers = (relay.VirtualMachine(relay.compile(text, opt_level=level)) for level in (0, 2))
    rng = np.random.default_rng(5)
    for n in SIZES:
        args = given(data, n, rng), given(weight, n, rng)
        one, other = (np.array(vm.run(*args).numpy(), "int64") for vm in (floats, integers))
        assert one.shape == other.shape
        assert np.abs(one - other).max(initial=0) <= 1


def test_scales_by_channel() -> None:
    text = f"""{HEADER}def @main(%x: Tensor[(?n, 8), uint8], %w: Tensor[(3, 8), int8], %s: Tensor[(3), float32]) {{
        {DATA} let %b = qnn.dequantize(%w, %s, 0, axis=0); nn.dense(%a, %b) }}"""
    rng = np.random.default_rng(6)
    w, s = rng.integers(-128, 128, (3, 8)).astype("int8"), np.array([0.5, 0.25, 2.0], "float32")
    exe = relay.compile(text, params={"w": w, "s": s})
    x = rng.integers(0, 256, (4, 8)).astype("uint8")
    sums = (x.astype("int64") - 7) @ w.astype("int64").T
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(x).numpy(), sums.astype("float32") * (np.float32(0.05) * s))


#: As ``program`` takes them: products that stay in floats.
FLOATS: dict[str, dict[str, object]] = {
    "a scale that is no number": {"scale": "nanf"},
    "an infinite scale": {"scale": "inff"},
    "integers of 16 bits": {"data": "(?n, 12), int16"},
    "a sum that exceeds an int32": {"data": "(?n, 33026), uint8", "weight": "(2, 33026), int8"},
    "a sum of unknown length": {"data": "(?n, ?k), uint8", "weight": "(2, ?k), int8"},
    "a transposed matrix": {
        "data": "(12, ?n), uint8",
        "between": "let %y = nn.matmul(%a, %b, transpose_a=True, transpose_b=True);",
    },
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_product_stays_in_floats(name: str) -> None:
    case: dict = {"data": "(?n, 12), uint8", "weight": "(6, 12), int8", "between": "let %y = nn.dense(%a, %b);", **FLOATS[name]}
    assert operators(program(**case))[-1].startswith("nn.")


def test_a_scale_for_each_row_of_the_data_stays_in_floats() -> None:
    x, w = relay.var("x", (2, 8), "uint8"), relay.var("w", (3, 8), "int8")
    scales = relay.const(np.array([0.5, 0.25], "float32"))
    zero = relay.const(0)
    a = relay.qnn.op.dequantize(x, scales, zero, axis=0)
    b = relay.qnn.op.dequantize(w, relay.const(np.float32(0.5)), zero)
    mod = relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(a, b)))
    after = integer_products(infer_type(to_a_normal_form(mod)))
    assert "nn.dense" in {value.op.name for value in values(after["main"].body) if isinstance(value, Call)}


def test_embeddings_are_gathered_as_integers() -> None:
    text = f"""{HEADER}def @main(%x: Tensor[(?n, 8), uint8], %i: Tensor[(3), int64]) {{ {DATA} take(%a, %i, axis=0) }}"""
    found = eliminate_dead_code(integer_products(infer_type(to_a_normal_form(relay.parse(text)))), entries=("main",))
    calls = [value for value in values(found["main"].body) if isinstance(value, Call)]
    assert [call.op.name for call in calls] == ["take", "qnn.dequantize"]
