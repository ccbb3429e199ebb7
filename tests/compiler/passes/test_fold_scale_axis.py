"""Scales and shifts per channel, folded: the results differ by rounding only, and the folded calls are gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, Constant, IRModule
from relayvm.compiler.passes.constant_weights.fold_scale_axis import fold_scale_axis
from relayvm.compiler.passes.fold_constant import fold_constant

from ...devices import DEVICES
from ...programs import HEADER
from .generated_programs import run, typed

BATCH_NORM = """def @main(%x: Tensor[(?n, ?h, ?w, 3), float32], %w: Tensor[(4, 2, 2, 3), float32], %b: Tensor[(4), float32],
    %gamma: Tensor[(4), float32], %beta: Tensor[(4), float32], %mean: Tensor[(4), float32], %var: Tensor[(4), float32]) {
  let %c = nn.conv2d(%x, %w, data_layout="NHWC", kernel_layout="OHWI", padding=[1, 0]);
  let %y = nn.batch_norm(nn.bias_add(%c, %b, axis=3), %gamma, %beta, %mean, %var, axis=3);
  nn.relu(%y.0)
}"""


def _parameters() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    vectors = {name: rng.normal(size=4).astype(np.float32) for name in ("b", "gamma", "beta", "mean")}
    return {"w": rng.normal(size=(4, 2, 2, 3)).astype(np.float32), **vectors, "var": rng.random(4).astype(np.float32) + 0.5}


@pytest.mark.split(3)
@pytest.mark.parametrize("target", DEVICES)
def test_a_batch_norm_and_a_bias_go_into_the_convolution_before_them(target: str) -> None:
    x = np.random.default_rng(4).normal(size=(2, 5, 4, 3)).astype(np.float32)
    results, kernels = [], []
    for level in (0, 2, 3):
        exe = relay.compile(HEADER + BATCH_NORM, target=target, params=_parameters(), opt_level=level)
        results.append(relay.VirtualMachine(exe).run(x).numpy())
        # of a kernel that has versions, the first
        several = [packed.group for packed in exe.packed if packed.because != "otherwise"]
        kernels.append([node.op for group in several for node in group.nodes])
    assert kernels[2] == ["nn.conv2d", "add", "nn.relu"]
    assert len(kernels[1]) > 3
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(results[2], results[0], rtol=1e-5, atol=1e-5)


#: The calls that may follow a product: the text, and the shapes of the constant that it takes (``C`` channels, behind ``x``).
STEPS = [
    "multiply({}, {c})", "multiply({c}, {})", "divide({}, {c})", "add({}, {c})", "subtract({}, {c})", "subtract({c}, {})",
    "negative({})", "nn.bias_add({}, {v})", "divide({c}, {})", "nn.relu({})", "add({}, {})",
]  # fmt: skip


@st.composite
def _chains(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    """A product of ``(?n, 3)`` with a constant weight, and steps behind it; with the constants."""
    constants: list[np.ndarray] = []

    def constant(*shape: int) -> str:
        seed = draw(st.integers(0, 99))
        data = np.random.default_rng(seed).uniform(0.5, 2, shape) * np.random.default_rng(seed + 1).choice([-1, 1], shape)
        constants.append(data.astype(np.float64))
        return f"%k{len(constants) - 1}"

    lines, value = [f"let %v0 = nn.dense(%x, {constant(4, 3)});"], "%v0"
    for n in range(draw(st.integers(1, 6))):
        shape = draw(st.sampled_from([(), (1,), (4,), (1, 4), (1, 1)]))
        step = draw(st.sampled_from(STEPS))
        c = constant(*shape) if "{c}" in step else ""
        v = constant(4) if "{v}" in step else ""
        lines.append(f"let %v{n + 1} = {step.format(*[value] * step.count('{}'), c=c, v=v)};")
        value = f"%v{n + 1}"
    lets = " ".join(lines)
    return f"def @main(%x: Tensor[(?n, 3), float64], {{params}}) {{{{ {lets} {value} }}}}", constants


def _bound(text: str, constants: list[np.ndarray]) -> IRModule:
    """The program in typed A-normal form with its constants in place."""
    from relayvm.compiler.lowered import bind_params
    from relayvm.compiler.passes.infer_type import infer_type
    from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
    from relayvm.compiler.text.parser import parse

    params = ", ".join(f"%k{i}: Tensor[({', '.join(map(str, c.shape))}), float64]" for i, c in enumerate(constants))
    mod = parse(HEADER + text.format(params=params.replace("Tensor[(), float64]", "float64")))
    return infer_type(to_a_normal_form(bind_params(mod, {f"k{i}": c for i, c in enumerate(constants)})))


@settings(max_examples=60)
@given(_chains(), st.integers(0, 3))
def test_chains_mean_the_same(program: tuple[str, list[np.ndarray]], rows: int) -> None:
    mod = _bound(*program)
    out = fold_scale_axis(mod)
    x = np.random.default_rng(rows).normal(size=(rows, 3))
    want, got = run(mod, x), run(out, x)
    # a division by the product makes any error larger
    tolerance = 1e-6 if "divide(%k" in program[0] else 1e-9
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    assert len(list(values(out["main"].body))) <= len(list(values(mod["main"].body)))


def test_the_new_weight_is_rounded_once() -> None:
    text = """def @main(%x: Tensor[(?n, 2), float32]) {
      let %w = expand_dims(expand_dims(0.1f, axis=0), axis=0);
      let %k = concatenate((%w, %w), axis=1);
      multiply(multiply(nn.dense(%x, %k), 0.7f), 0.3f)
    }"""
    out = fold_scale_axis(fold_constant(typed(text)))
    (call,) = (v for v in values(out["main"].body) if isinstance(v, Call))
    weight = call.args[1]
    assert isinstance(weight, Constant)
    exact = np.float64(np.float32(0.1)) * np.float64(np.float32(0.7)) * np.float64(np.float32(0.3))
    assert (weight.data == np.float32(exact)).all()
