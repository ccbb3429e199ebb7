"""Weights of few bits made of weights of float32: the error that is documented, and the weights that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.passes.constant_weights.quantize_weights import in_blocks, quantize_weights
from relayvm.ops.kernels.weight_bits.weight_layout import unpacked

from .test_pack_weights import module, typed

RNG = np.random.default_rng(11)
WEIGHT = RNG.standard_normal((130, 120)).astype("float32")


def operators(mod: IRModule) -> list[str]:
    return [value.op.name for value in values(quantize_weights(typed(mod))["main"].body) if isinstance(value, Call)]


def test_a_weight_changes_by_half_a_step_at_most() -> None:
    rows = np.array([[*range(40)], [-3.0] * 40, [0.0] * 40, [1e-34, -1e-34] * 20, [1e38, -1e30] * 20], "float32")
    for weight in (WEIGHT[:, :100], rows, np.abs(WEIGHT), -np.abs(WEIGHT)):
        for bits, block in ((2, 16), (4, 32), (8, 128)):
            numbers, scales, zeros = in_blocks(weight, bits, block)
            points = unpacked(zeros, bits)[:, : scales.shape[1]]
            whole = unpacked(numbers, bits).astype(np.float64) - points[..., None]
            found = (whole * scales[..., None].astype(np.float64)).reshape(len(weight), -1)[:, : weight.shape[1]]
            padded = np.pad(weight, [(0, 0), (0, -weight.shape[1] % block)]).reshape(len(weight), -1, block).astype(np.float64)
            span = padded.max(2, initial=0) - padded.min(2, initial=0)
            bound = (span / (2 ** (bits + 1) - 2) * (1 + 1e-5) + 1e-44).repeat(block, 1)[:, : weight.shape[1]]
            assert (np.abs(found - weight) <= bound).all()
            assert (found[weight == 0] == 0).all()


@pytest.mark.parametrize(("body", "weight", "wanted"), [
    ("nn.dense(%x, %w)", WEIGHT, "nn.dense_bits"),
    ("nn.matmul(%x, %w)", WEIGHT.T.copy(), "nn.dense_bits"),
    ("nn.matmul(%x, %w, transpose_b=True)", WEIGHT, "nn.dense_bits"),
    ("nn.dense(%x, %w)", WEIGHT[:30], "nn.dense"),
    ("nn.dense(%x, %w)", WEIGHT.astype("float64"), "nn.dense"),
    ("nn.dense(%x, %w)", np.where(WEIGHT > 3, np.inf, WEIGHT).astype("float32"), "nn.dense"),
])  # fmt: skip
def test_weights_that_are_rounded(body: str, weight: np.ndarray, wanted: str) -> None:
    assert operators(module(body, weight)) == [wanted]


@pytest.mark.parametrize("options", [{}, {"precision": "float16"}, {"opt_level": 0}])
def test_a_program_with_rounded_weights(options: dict[str, Any]) -> None:
    mod, x = module("nn.relu(nn.dense(%x, %w))", WEIGHT), RNG.standard_normal((7, 120)).astype("float32")
    wanted = np.maximum(x @ WEIGHT.T, 0)
    for weights, part in (("int4", 30), ("int8", 510)):
        exe = relay.compile(mod, weights=weights, **options)
        assert "nn.dense_bit_panels" in {node.op for packed in exe.packed for node in packed.group.nodes}
        found = relay.VirtualMachine(exe).run(x).numpy()
        assert np.abs(found - wanted).max() <= np.abs(x).sum(1).max() * np.ptp(WEIGHT) / part
        assert np.abs(found - wanted).max() > 0
    by_pass = relay.transform.QuantizeWeights(bits=8, block=64)(mod)
    error = np.abs(relay.VirtualMachine(relay.compile(by_pass)).run(x).numpy() - wanted).max()
    assert 0 < error <= np.abs(x).sum(1).max() * np.ptp(WEIGHT) / 510


@pytest.mark.parametrize(("options", "text"), [
    ({"bits": 3}, "QuantizeWeights: bits must be one of 2, 4, 8, not the int 3"),
    ({"block": 24}, "QuantizeWeights: block must be a power of 2 from 16 on, not the int 24"),
])  # fmt: skip
def test_options_that_do_not_fit(options: dict[str, int], text: str) -> None:
    with pytest.raises(relay.RelayError) as caught:
        relay.transform.QuantizeWeights(**options)
    assert text in str(caught.value)


def test_weights_are_rounded_for_the_cpu() -> None:
    with pytest.raises(relay.RelayError) as caught:
        relay.compile(module("nn.dense(%x, %w)", WEIGHT), target="cuda", weights="int4")
    assert str(caught.value) == (
        "error: configuration key 'weights' cannot be 'int4' for the target cuda\n"
        "help: compile for cpu, or leave weights=float32; precision=float16 halves the memory of weights on a GPU"
    )
