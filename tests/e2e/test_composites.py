"""Composite operators in whole programs: every device, opt levels, named and unknown dims, mistakes that only the run sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ..devices import DEVICES, HOST
from ..programs import HEADER

ON_EACH = pytest.mark.parametrize("target", DEVICES)


def machine(text: str, target: str = "cpu", **config: Any) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(relay.parse(HEADER + text, source_name="norm.relay"), target=target, **config))


def array(*dims: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(dims), np.float32)


CHANNELS = """
def @main(%x: Tensor[(?n, ?c, ?), float32], %g: Tensor[(?), float32], %b: Tensor[(?), float32]) {
  let %y = nn.group_norm(exp(%x), %g, %b, num_groups=2);
  let %z = nn.batch_norm(%y, %g, %b, %b, abs(%g));
  nn.lrn(%z.0, size=3) + std(%x, axis=[1], keepdims=True)
}"""


def channels(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    y = np.exp(x).reshape(len(x), 2, -1)
    y = ((y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
    y = y * g[:, None] + b[:, None]
    y = (y - b[:, None]) / np.sqrt(np.abs(g)[:, None] + 1e-5) * g[:, None] + b[:, None]
    padded = np.pad(y**2, [(0, 0), (1, 1), (0, 0)])
    sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return y / (2 + 1e-5 / 3 * sums) ** 0.75 + x.std(1, keepdims=True)


@pytest.mark.extensive(level=(2,))
@ON_EACH
@pytest.mark.parametrize("level", [0, 2])
def test_chains_of_norms(target: str, level: int) -> None:
    vm, results = machine(CHANNELS, target, opt_level=level), 0
    for dims in ((2, 4, 5), (1, 2, 1), (0, 4, 3), (2, 4, 0)):
        x, g, b = array(*dims), array(dims[1], seed=1), array(dims[1], seed=2)
        with np.errstate(all="ignore"):
            wanted = channels(x.astype(float), g.astype(float), b.astype(float)) if x.size else np.zeros(dims)
        np.testing.assert_allclose(vm.run(x, g, b).numpy(), wanted, rtol=1e-4, atol=1e-4)
        results += wanted.size * 4
    # nothing but the results is ever copied to the host
    assert vm.counters["dtoh_bytes"] == (0 if target == HOST else results)


LOSS = """
def @main(%x: Tensor[(?n, ?), float32], %t: Tensor[(?), int64], %w: Tensor[(?), float32]) {
  (nn.nll_loss(nn.log_softmax(%x), %t, %w), logsumexp(%x, axis=[-1]))
}"""


@ON_EACH
def test_losses(target: str) -> None:
    vm = machine(LOSS, target)
    x, t, w = array(5, 3), np.array([0, 2, -100, 1, 1]), np.array([1, 2, 3], np.float32)
    loss, sums = vm.run(x, t, w)
    most = np.log(np.exp(x.astype(float)).sum(1))
    np.testing.assert_allclose(sums.numpy(), most, rtol=1e-6)
    kept = t >= 0
    each = (most - x[np.arange(5), np.where(kept, t, 0)])[kept]
    np.testing.assert_allclose(loss.numpy(), (each * w[t[kept]]).sum() / w[t[kept]].sum(), rtol=1e-6)


WRONG = [
    ((2, 4, 3), 3, "nn.batch_norm: moving_var has 3 elements"),
    ((2, 3, 3), 3, "reshape: cannot split an axis of size 3 into (2, -1)"),
    ((2, 4, 3), 1, "but axis 1 of the data has size 4"),
]


@ON_EACH
@pytest.mark.parametrize(("dims", "length", "text"), WRONG, ids=[w[2] for w in WRONG])
def test_sizes_that_only_the_run_knows(target: str, dims: tuple[int, ...], length: int, text: str) -> None:
    vm = machine(CHANNELS, target)
    with pytest.raises(relay.VMError) as error:
        vm.run(array(*dims), array(length), array(length))
    assert "norm.relay:" in str(error.value)
    assert any(part in str(error.value) for part in (text, "nn.group_norm: gamma has")), str(error.value)
    good = array(2, 4, 3), array(4), array(4)
    assert vm.run(*good).shape == (2, 4, 3)


@ON_EACH
def test_a_class_out_of_range_is_an_error(target: str) -> None:
    vm = machine(LOSS, target)
    with pytest.raises(relay.VMError, match="index"):
        loss, _ = vm.run(array(2, 3), np.array([0, 3]), np.ones(3, np.float32))
        loss.numpy()


def test_mistakes_are_told_at_compile_time_with_their_place() -> None:
    text = "def @main(%x: Tensor[(2, 3), float32], %g: Tensor[(4), float32]) { nn.layer_norm(%x, %g, %g) }"
    with pytest.raises(relay.TypeCheckError) as error:
        machine(text)
    assert "nn.layer_norm: gamma has 4 elements, but axis 1 of the data has size 3" in str(error.value)
    assert "norm.relay:2" in str(error.value)


def test_constant_vectors_are_folded_into_a_scale_and_a_shift() -> None:
    x = relay.var("x", (relay.Any(), 3, relay.Any()))
    g, b, m, v = (relay.const(np.abs(array(3, seed=k)) + np.float32(0.1)) for k in range(4))
    norm = relay.nn.batch_norm(x, g, b, m, v)
    vm = relay.VirtualMachine(relay.compile(relay.IRModule.from_expr(relay.TupleGetItem(norm, 0))))
    data = array(2, 3, 4)
    result = vm.run(data).numpy()
    scale = g.data / np.sqrt(v.data + 1e-5)
    np.testing.assert_allclose(result, (data - m.data[:, None]) * scale[:, None] + b.data[:, None], rtol=1e-4, atol=1e-5)
    assert vm.counters["launches"] == 1


def test_the_builder_and_the_text_agree() -> None:
    x, g = relay.var("x", (relay.Any(), 4)), relay.var("g", (4,))
    built = relay.IRModule.from_expr(relay.nn.layer_norm(x, g, g, axis=1, epsilon=1e-3))
    vm = relay.VirtualMachine(relay.compile(built))
    text = "def @main(%x: Tensor[(?, 4), float32], %g: Tensor[(4), float32]) { nn.layer_norm(%x, %g, %g, axis=1, epsilon=0.001) }"
    data = array(3, 4), array(4)
    np.testing.assert_array_equal(vm.run(*data).numpy(), machine(text).run(*data).numpy())
