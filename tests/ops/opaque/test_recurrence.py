"""Recurrences: every activation, sequences of every length, lengths out of range, shapes and attributes that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.kernels.recurrence.activations import ACTIVATIONS
from relayvm.ops.native.status import INDEX_OUT_OF_RANGE

from .opaque_kernels import run

#: ONNX's definitions, with alpha and beta.
REFERENCE: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
}


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-2, 2, shape).astype("float32")


@pytest.mark.extensive(name=["Tanh"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    """A step from the state 0 is the activation of what is given; the parameters are ours, then those by default."""
    x, state, lengths = numbers(1, 2, 3), np.zeros((1, 2, 3), "float32"), np.ones(2, "int32")
    for alpha, beta in ((0.75, 0.25), ACTIVATIONS[name]):
        more = {"activation_alpha": (alpha,), "activation_beta": (beta,)} if (alpha, beta) != ACTIVATIONS[name] else {}
        found = run("nn.rnn", [x, numbers(1, 3, 3), state, lengths], activations=(name,), **more)
        assert found.status == 0
        np.testing.assert_allclose(found.outputs[1][0], REFERENCE[name](x[0], alpha, beta), rtol=1e-6, atol=1e-6)


def test_a_sequence_is_reversed_within_its_length() -> None:
    x, weight, state = numbers(4, 2, 3), numbers(1, 3, 3), np.zeros((1, 2, 3), "float32")
    short = run("nn.rnn", [x, weight, state, np.array([2, 4])], direction="reverse").outputs
    transposed = np.concatenate([x[1::-1, :1], np.zeros((2, 1, 3), "float32")])
    forward = run("nn.rnn", [transposed, weight, state[:, :1], np.array([2])]).outputs
    np.testing.assert_array_equal(short[0][:2, 0, 0], forward[0][1::-1, 0, 0])
    np.testing.assert_array_equal(short[1][:, :1], forward[1])
    assert not short[0][2:, 0, 0].any() and short[0][2:, 0, 1].all()


@pytest.mark.parametrize("length", [-1, 5])
def test_lengths_out_of_range(length: int) -> None:
    inputs = [numbers(4, 1, 3), numbers(1, 3, 3), numbers(1, 1, 3), np.array([length])]
    assert run("nn.rnn", inputs).status == INDEX_OUT_OF_RANGE


def tensor(*dims: Any, dtype: str = "float32") -> TensorType:
    return TensorType.of(dims, dtype)


GIVEN, WEIGHT, STATE, LENGTHS = tensor(5, 2, 9), tensor(1, 9, 3), tensor(1, 2, 3), tensor(2, dtype="int32")
BIAS = tensor(1, 3)
WRONG = [
    ([GIVEN, tensor(2, 9, 3), STATE, BIAS, LENGTHS], {}, 1, "nn.gru: the weight has 2 directions, forward has 1"),
    ([GIVEN, tensor(1, 8, 3), STATE, BIAS, LENGTHS], {}, 1,
     "nn.gru: axis 1 of the weight has size 8, not 3 gates of its units: 9"),
    ([tensor(5, 2, 8), WEIGHT, STATE, BIAS, LENGTHS], {}, 0,
     "nn.gru: axis 2 of projected has size 8, not 3 gates of all directions: 9"),
    ([GIVEN, WEIGHT, tensor(1, 4, 3), BIAS, LENGTHS], {}, 2, "nn.gru: axis 1 of initial_state has size 4, it must be 2"),
    ([GIVEN, WEIGHT, STATE, tensor(1, 4), LENGTHS], {}, 3, "nn.gru: axis 1 of reset_bias has size 4, it must be 3"),
    ([GIVEN, WEIGHT, STATE, BIAS, tensor(3, dtype="int32")], {}, 4, "nn.gru: axis 0 of lengths has size 3, it must be 2"),
    ([GIVEN, WEIGHT, STATE, BIAS, tensor(2)], {}, 4, "nn.gru: lengths is float32; supported: int8"),
    ([tensor(5, 2, 9, dtype="float16"), WEIGHT, STATE, BIAS, LENGTHS], {}, 1,
     "nn.gru: projected is float16 but weight is float32"),
    ([GIVEN, WEIGHT, STATE, BIAS, LENGTHS], {"activations": ("Tanh",)}, None,
     "nn.gru: activations has 1 elements; forward has 2 activations"),
    ([GIVEN, WEIGHT, STATE, BIAS, LENGTHS], {"activations": ("Tanh", "Sine")}, None,
     "nn.gru: activations='Sine' is not valid; valid: 'Sigmoid'"),
    ([GIVEN, WEIGHT, STATE, BIAS, LENGTHS], {"clip": -1.0}, None, "nn.gru: clip=-1.0 is no finite bound of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "attrs", "input", "text"), WRONG, ids=[w[3][:60] for w in WRONG])
def test_mistakes(types: list[TensorType], attrs: dict[str, Any], input: int | None, text: str) -> None:
    with pytest.raises(TypeRelError) as error:
        relate(get("nn.gru"), types, get("nn.gru").attrs(**attrs))
    assert error.value.message.startswith(text)
    assert input is None or error.value.input == input
