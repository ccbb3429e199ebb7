"""Weights of few bits in panels: those that are packed, and those that are shared."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.passes.constant_weights.pack_weight_bits import pack_weight_bits

from ....programs import HEADER
from .test_pack_weights import typed

RNG = np.random.default_rng(5)
#: 19 units of 40 numbers in blocks of 32: the second block of each has 8 numbers.
PARTS = [
    RNG.integers(0, 256, (19, 2, 16)).astype("uint8"),
    RNG.uniform(0, 1, (19, 2)),
    RNG.integers(0, 256, (19, 1)).astype("uint8"),
]
PRODUCT = "nn.dense_bits(%x, %w, %s, %z, bits=4, block=32, inner=40)"


def module(body: str, dtype: str, count: int, more: str = "") -> IRModule:
    """A program over data ``%x`` whose first ``count`` parts of the weight are constants; ``more``: further parameters."""
    parts = [PARTS[0], PARTS[1].astype(dtype), PARTS[2]]
    types = (
        f"%x: Tensor[(?n, 40), {dtype}], %w: Tensor[(19, 2, 16), uint8], %s: Tensor[(19, 2), {dtype}], %z: Tensor[(19, 1), uint8]"
    )
    main = relay.parse(f"{HEADER}def @main({types}{more}) {{ {body} }}")["main"]
    constants = {p: relay.const(part) for p, part in zip(main.params[1 : 1 + count], parts, strict=False)}
    return relay.IRModule.from_expr(relay.bind(relay.Function([main.params[0], *main.params[1 + count :]], main.body), constants))


def operators(mod: IRModule) -> list[str]:
    """The operators of the program after the pass."""
    return [value.op.name for value in values(pack_weight_bits(typed(mod))["main"].body) if isinstance(value, Call)]


@pytest.mark.parametrize(("dtype", "count", "wanted"), [
    ("float32", 3, ["nn.dense_bit_panels"]),
    ("float16", 3, ["cast", "nn.dense_bit_panels", "cast"]),
    ("float64", 3, ["nn.dense_bits"]),
    ("float32", 2, ["nn.dense_bits"]),
    ("float32", 0, ["nn.dense_bits"]),
])  # fmt: skip
def test_constant_weights_are_packed(dtype: str, count: int, wanted: list[str]) -> None:
    assert operators(module(PRODUCT, dtype, count)) == wanted


def test_a_shared_weight_is_packed_once() -> None:
    body = f"let %a = {PRODUCT}; ({PRODUCT}, {PRODUCT.replace('%x', 'nn.relu(%x)')}, %a)"
    packed = pack_weight_bits(typed(module(body, "float32", 3)))
    calls = [v for v in values(packed["main"].body) if isinstance(v, Call) and v.op.name == "nn.dense_bit_panels"]
    assert len(calls) == 3
    assert len({tuple(map(id, call.args[1:])) for call in calls}) == 1


@pytest.mark.split(2)
@pytest.mark.parametrize("implementation", ["digits", "tiles"])
def test_elementwise_operators_are_computed_with_the_product(implementation: str) -> None:
    bias = RNG.standard_normal(19).astype("float32")
    body = f"let %p = {PRODUCT}; multiply(nn.relu(add(%p, %b)), exp(%r))"
    mod = module(body, "float32", 3, ", %b: Tensor[(19), float32], %r: Tensor[(?n, 19), float32]")
    exe = relay.compile(mod, **{"impl.nn.dense_bit_panels": implementation})
    assert [packed.group.nodes[0].op for packed in exe.packed] == ["nn.dense_bit_panels"]
    for rows in (0, 1, 3, 80):
        x, r = (RNG.standard_normal((rows, n)).astype("float32") for n in (40, 19))
        plain = relay.VirtualMachine(relay.compile(module(PRODUCT, "float32", 3))).run(x).numpy()
        found = relay.VirtualMachine(exe).run(x, bias, r).numpy()
        np.testing.assert_allclose(found, np.maximum(plain + bias, 0) * np.exp(r), rtol=1e-4, atol=1e-3)


def test_a_weight_without_rows() -> None:
    text = f"{HEADER}def @main(%x: Tensor[(?n, 40), float32], %w: Tensor[(0, 2, 16), uint8], %s: Tensor[(0, 2), float32])"
    main = relay.parse(f"{text} {{ nn.dense_bits(%x, %w, %s, 8u8, bits=4, block=32, inner=40) }}")["main"]
    parts = np.zeros((0, 2, 16), "uint8"), np.zeros((0, 2), "float32")
    constants = {p: relay.const(part) for p, part in zip(main.params[1:], parts, strict=True)}
    mod = relay.IRModule.from_expr(relay.bind(relay.Function(main.params[:1], main.body), constants))
    assert operators(mod) == ["nn.dense_bit_panels"]
    assert relay.VirtualMachine(relay.compile(mod)).run(np.ones((3, 40), "float32")).numpy().shape == (3, 0)


def test_both_ways_give_the_same_results() -> None:
    x = RNG.standard_normal((3, 40)).astype("float32")
    found = relay.VirtualMachine(relay.compile(module(PRODUCT, "float32", 3))).run(x).numpy()
    parts = PARTS[0], PARTS[1].astype("float32"), PARTS[2]
    unpacked = relay.VirtualMachine(relay.compile(module(PRODUCT, "float32", 0))).run(x, *parts).numpy()
    np.testing.assert_allclose(found, unpacked, rtol=1e-5, atol=1e-4)
