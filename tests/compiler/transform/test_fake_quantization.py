"""``FakeQuantizationToInteger``: integers give the floats' results, up to the rounding of a requantization."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

qnn, transform, const = relay.qnn.op, relay.transform, relay.const
RNG = np.random.default_rng(11)
HEADER = '#[version = "0.0.5"]\n'


def floats(var: relay.Var, scale=0.5, zero_point: int = 0, axis: int = -1) -> relay.Expr:
    return qnn.dequantize(var, const(np.asarray(scale, "float32")), const(zero_point), axis=axis)


def quantized(value: relay.Expr, scale: float = 0.25, zero_point: int = 3) -> relay.Expr:
    return qnn.quantize(value, const(np.float32(scale)), const(zero_point), out_dtype="int8")


def tensor(name: str, *shape: int, dtype: str = "int8") -> relay.Var:
    return relay.var(name, shape, dtype)


X, Y, W, B = tensor("x", 2, 4), tensor("y", 2, 4), tensor("w", 3, 4), tensor("b", 3, dtype="int32")
IMAGE, KERNEL = tensor("image", 1, 2, 3, 3), tensor("kernel", 2, 2, 2, 2)
A, C, D = tensor("a", 2, 2, 4), tensor("c", 2, 3, 4), tensor("d", 4, 3)
PER_CHANNEL = [0.01, 0.03]
CASES = {
    "dense": ([X, W], relay.nn.dense(floats(X, 0.5, 2), floats(W, 0.02)), {"nn.dense"}),
    "dense with relu": ([X, W], relay.nn.relu(relay.nn.dense(floats(X, 0.5), floats(W, 0.02, -3))), {"nn.dense", "nn.relu"}),
    "dense with bias": (
        [X, W, B], relay.nn.bias_add(relay.nn.dense(floats(X, 0.5), floats(W, 0.02)), floats(B, 0.01)),
        {"nn.dense", "nn.bias_add"},
    ),
    "convolution": (
        [IMAGE, KERNEL], relay.nn.relu(relay.nn.conv2d(floats(IMAGE, 0.1, 1), floats(KERNEL, PER_CHANNEL, axis=0), padding=1)),
        {"nn.conv2d", "nn.relu"},
    ),
    "channels last": (
        [IMAGE, KERNEL],
        relay.nn.conv2d(
            relay.transpose(floats(IMAGE, 0.1), [0, 2, 3, 1]), relay.transpose(floats(KERNEL, 0.02), [2, 3, 1, 0]),
            data_layout="NHWC", kernel_layout="HWIO",
        ), {"nn.conv2d", "transpose"},
    ),
    "products of batches": (
        [A, C], relay.nn.batch_matmul(floats(A), floats(C, 0.02)), {"nn.batch_matmul"}
    ),
    "matmul": (
        [A, D], relay.nn.matmul(floats(A, 0.5, 2), floats(D, [0.01, 0.03, 0.02], axis=1)), {"nn.matmul"}
    ),
    "products of batches in order": (
        [A], relay.nn.batch_matmul(floats(A), floats(relay.transpose(A, [0, 2, 1]), 0.02), transpose_b=False), {"nn.batch_matmul"}
    ),
    "product": ([X, Y], relay.multiply(floats(X, 0.2, 5), floats(Y, 0.1, -2)), {"multiply"}),
    "sum": ([X, Y], relay.add(floats(X, 0.2, 5), floats(Y, 0.2, -2)), {"add"}),
    "movement": (
        [X], relay.reshape(relay.transpose(relay.clip(floats(X, 0.5, 4), -2.0, 6.0)), [-1]), {"reshape", "transpose", "clip"}
    ),
    "pool": ([IMAGE], relay.nn.max_pool2d(floats(IMAGE, 0.1, 4), 2, padding=1), {"nn.max_pool2d"}),
    "concatenation": ([X, Y], relay.concatenate([floats(X, 0.5, 4), floats(Y, 0.25, 1)], 1), {"concatenate"}),
    "field": ([X], relay.split(floats(X, 0.5, 4), 2, 1)[1], {"split"}),
}  # fmt: skip


@pytest.mark.extensive(name=["dense"])
@pytest.mark.parametrize("name", CASES)
def test_integers_give_the_results_of_floats(name: str) -> None:
    params, body, operators = CASES[name]
    mod = relay.IRModule.from_expr(relay.Function(params, quantized(body)))
    assert set(relay.analysis.list_fake_quantized_op_freqs(mod)) == operators
    normal = transform.ToANormalForm()(mod)
    assert relay.analysis.extract_fake_quantized_ops(normal) == relay.analysis.list_fake_quantized_op_freqs(mod)
    new = transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert relay.structural_equal(relay.parse(new.astext()), new)
    typed = transform.InferType()(new)
    found = {n.op.name for n in post_order(new["main"]) if isinstance(n, relay.Call)}
    assert not found & {"qnn.quantize", "qnn.dequantize"}
    calls = [n for n in post_order(typed["main"]) if isinstance(n, relay.Call)]
    assert all("int" in str(call.ty) for call in calls) and str(typed["main"].ty) == str(transform.InferType()(mod)["main"].ty)
    args = [RNG.integers(-40, 40, [int(str(d)) for d in p.annotation.shape]).astype(p.annotation.dtype) for p in params]
    want, got = (relay.create_executor("debug", m).evaluate()(*args).numpy().astype("int32") for m in (mod, new))
    assert len(np.unique(want)) > 2 and np.abs(want - got).max() <= 1


@pytest.mark.parametrize("name", CASES)
@pytest.mark.extensive(name=["dense with bias", "concatenation"])
def test_operators_before_one_without_a_rule(name: str) -> None:
    """``use_qat``: the floats are those of the integers, which ``tanh`` takes."""
    params, body, operators = CASES[name]
    mod = relay.IRModule.from_expr(relay.Function(params, quantized(relay.tanh(body * const(0.125)))))
    assert relay.structural_equal(transform.FakeQuantizationToInteger()(mod), transform.InferType()(mod))
    new = transform.FakeQuantizationToInteger(use_qat=True)(mod)
    assert relay.structural_equal(relay.parse(new.astext()), new)
    typed = transform.InferType()(new)
    calls = [n for n in post_order(typed["main"]) if isinstance(n, relay.Call)]
    in_floats = {call.op.name for call in calls if "float" in str(call.ty)}
    assert in_floats == {"qnn.dequantize", "tanh", "multiply"} | (operators if name == "field" else set())
    args = [RNG.integers(-40, 40, [int(str(d)) for d in p.annotation.shape]).astype(p.annotation.dtype) for p in params]
    want, got = (relay.create_executor("debug", m).evaluate()(*args).numpy().astype("int32") for m in (mod, new))
    assert np.abs(want - got).max() <= 1


def test_relu_after_a_movement() -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], quantized(relay.nn.relu(relay.reshape(floats(X, 0.5, 4), [-1])))))
    new = transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    data = np.arange(-4, 4, dtype="int8").reshape(2, 4)
    want, got = (relay.create_executor("debug", m).evaluate()(data).numpy() for m in (mod, transform.InferType()(new)))
    assert np.array_equal(got, want)


X_F, SCALE = relay.var("f", (2, 4)), relay.var("s", ())


@pytest.mark.parametrize(
    ("params", "body", "text"),
    [
        ([X], relay.exp(floats(X)), "exp has no rule"),
        ([X], relay.add(floats(X), const(1.0)), "a constant of floats has no scale"),
        ([X, Y], relay.add(floats(X, 0.5), floats(Y, 0.25)), "a sum of values of different scales has no rule"),
        ([X, SCALE], relay.nn.relu(qnn.dequantize(X, SCALE, const(0))), "a scale or zero point is no constant"),
        ([X], relay.reshape(floats(X, [0.1] * 4, axis=1), [-1]), "scales for each channel have rules in products only"),
    ],
)
def test_other_regions_stay(params, body, text: str) -> None:
    mod = relay.IRModule.from_expr(relay.Function(params, quantized(body)))
    assert relay.structural_equal(transform.FakeQuantizationToInteger()(mod), transform.InferType()(mod))
    with pytest.raises(relay.ArgumentError) as error:
        transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert f"FakeQuantizationToInteger: {text}" in str(error.value)


def test_floats_from_elsewhere_are_not_fake_quantized() -> None:
    mod = relay.IRModule.from_expr(relay.Function([X, X_F], quantized(relay.nn.relu(relay.multiply(floats(X), X_F)))))
    assert relay.analysis.list_fake_quantized_op_freqs(mod) == {}
    assert relay.structural_equal(transform.FakeQuantizationToInteger(hard_fail=True)(mod), transform.InferType()(mod))


def test_wrong_options() -> None:
    with pytest.raises(relay.ArgumentError, match="optional_qnn_ops is not supported"):
        transform.FakeQuantizationToInteger(optional_qnn_ops=["nn.softmax"])
    with pytest.raises(relay.ArgumentError, match="list_fake_quantized_op_freqs: the module must be an IRModule, not the int 3"):
        relay.analysis.list_fake_quantized_op_freqs(3)


def test_the_compiler_is_at_its_path() -> None:
    assert relay.backend.vm.VMCompiler is relay.vm.VMCompiler
    with pytest.raises(AttributeError, match=r"there is no relay\.backend\.te_compiler: kernels are compiled by"):
        _ = relay.backend.te_compiler
