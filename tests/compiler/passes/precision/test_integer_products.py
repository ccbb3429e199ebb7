"""Products of dequantised tensors as products of integers: within a quantum of those of floats; those that stay in floats."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.split(2)
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


@pytest.mark.parametrize("zero_point", [0, 3])
def test_equal_zero_points_by_channel_are_one(zero_point: int) -> None:
    parameters = "%x: Tensor[(?n, 8), uint8], %w: Tensor[(3, 8), int8], %s: Tensor[(3), float32], %z: Tensor[(3), int8]"
    text = f"{HEADER}def @main({parameters}) {{ {DATA} nn.dense(%a, qnn.dequantize(%w, %s, %z, axis=0)) }}"
    rng = np.random.default_rng(6)
    w, s = rng.integers(-128, 128, (3, 8)).astype("int8"), np.array([0.5, 0.25, 2.0], "float32")
    exe = relay.compile(text, params={"w": w, "s": s, "z": np.full(3, zero_point, "int8")})
    x = rng.integers(0, 256, (4, 8)).astype("uint8")
    sums = (x.astype("int64") - 7) @ (w.astype("int64") - zero_point).T
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(x).numpy(), sums.astype("float32") * (np.float32(0.05) * s))
    # a zero point that is not 0 takes the sums of the rows
    assert any("sum" in packed.name for packed in exe.packed) == (zero_point != 0)


#: Products that stay in floats, as ``program`` takes them, by the reason.
FLOATS: dict[str, dict[str, object]] = {
    "a scale is not finite": {"scale": "nanf"},
    "the scale of an operand is no constant": {"scale": "mean(%s)"},
    "the zero point of an operand is no constant": {"zero_point": "cast(sum(%s), dtype=\"int32\")"},
    "an operand is int16, not int8 or uint8": {"data": "(?n, 12), int16"},
    "a sum of 33026 products, more than 33025, might exceed an int32": {
        "data": "(?n, 33026), uint8", "weight": "(2, 33026), int8",
    },
    "the number of products in a sum is not known before the run": {"data": "(?n, ?k), uint8", "weight": "(2, ?k), int8"},
    "its data are transposed": {
        "data": "(12, ?n), uint8",
        "between": "let %y = nn.matmul(%a, %b, transpose_a=True, transpose_b=True);",
    },
    "the weight has a scale or a zero point for each index of another axis than its output channels": {"scale": "%s", "axis": 1},
    "an operand has scales or zero points of blocks": {"scale": "%t"},
}  # fmt: skip
_BOUND = {"s": np.full(12, 0.5, "float32"), "t": np.full((6, 12), 0.5, "float32")}


def noted(text: str) -> list[tuple[str, str]]:
    """The products that stay in floats, and the reasons."""
    main = relay.parse(text)["main"]
    bound = {p: relay.const(_BOUND[p.name]) for p in main.params if p.name in _BOUND and "(%s)" not in text}
    left = [p for p in main.params if p not in bound]
    mod = relay.IRModule.from_expr(relay.bind(relay.Function(left, main.body), bound))
    after = integer_products(infer_type(to_a_normal_form(mod)))
    assert any(isinstance(v, Call) and v.op.name.startswith("nn.") for v in values(after["main"].body))
    return [(p.op, p.because) for p in after.float_products]


@pytest.mark.parametrize("reason", FLOATS)
def test_a_product_stays_in_floats(reason: str) -> None:
    case: dict = {"data": "(?n, 12), uint8", "weight": "(6, 12), int8", "between": "let %y = nn.dense(%a, %b);", **FLOATS[reason]}
    more = "%s: Tensor[(12), float32], %t: Tensor[(6, 12), float32], "
    text = program(**case).replace("main(", f"main({more}")
    assert noted(text) == [("nn.matmul" if "transpose_a" in text else "nn.dense", reason)]


def test_a_scale_for_each_row_of_the_data_stays_in_floats() -> None:
    text = f"""{HEADER}def @main(%x: Tensor[(12, 8), uint8], %w: Tensor[(3, 8), int8], %s: Tensor[(12), float32]) {{
        let %a = qnn.dequantize(%x, %s, 0, axis=0); nn.dense(%a, qnn.dequantize(%w, 0.5f, 0)) }}"""
    assert noted(text) == [("nn.dense", "the data have a scale or a zero point for each channel")]


def test_floats_of_another_width() -> None:
    text = f"""{HEADER}def @main(%x: Tensor[(?n, 8), uint8], %w: Tensor[(3, 8), int8]) {{
        let %a = qnn.dequantize(%x, 0.5f, 0, out_dtype="float16");
        nn.dense(%a, qnn.dequantize(%w, 0.5f, 0, out_dtype="float16")) }}"""
    assert noted(text) == [("nn.dense", "an operand is dequantised to float16, not to float32")]


def test_the_reason_and_the_place_are_explained(tmp_path: Path) -> None:
    text = program("(?n, 12), int16", "(6, 12), int8", "let %m = nn.relu(%a); let %y = nn.dense(%a, %b);")
    exe = relay.compile(text, opt_level=2)
    exe.save(tmp_path / "product.rvm")
    for explained in (exe.explain(), relay.Executable.load(tmp_path / "product.rvm").explain()):
        (product,) = explained.float_products
        assert "products of quantised tensors in floats:\n" in str(explained)
        assert f"    nn.dense, {product.place}: an operand is int16, not int8 or uint8\n" in str(explained)
        assert explained.as_data()["float_products"] == [
            {"op": "nn.dense", "place": product.place, "because": "an operand is int16, not int8 or uint8"}
        ]
    integers = relay.compile(program("(?n, 12), int8", "(6, 12), int8", "let %y = nn.dense(%a, %b);")).explain()
    assert not integers.float_products
    assert "in floats" not in str(integers)


def test_embeddings_are_gathered_as_integers() -> None:
    text = f"""{HEADER}def @main(%x: Tensor[(?n, 8), uint8], %i: Tensor[(3), int64]) {{ {DATA} take(%a, %i, axis=0) }}"""
    found = eliminate_dead_code(integer_products(infer_type(to_a_normal_form(relay.parse(text)))), entries=("main",))
    calls = [value for value in values(found["main"].body) if isinstance(value, Call)]
    assert [call.op.name for call in calls] == ["take", "qnn.dequantize"]
