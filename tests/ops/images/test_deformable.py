"""Deformable convolutions: layouts, groups, offsets far outside, shapes that contradict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.shape_funcs.symbolic.dim import sym


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=shape).astype("float32")


def test_without_offsets_it_is_a_convolution() -> None:
    """In groups, and with the channels last; NaN and what is far away are outside."""
    x, offset = relay.var("x", shape=(relay.Any(), 5, 6, 4)), relay.var("offset", shape=(relay.Any(), 5, 6, 18))
    weight = numbers(3, 3, 2, 6)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO", "groups": 2}
    of_offsets = relay.nn.deformable_conv2d(x, offset, relay.const(weight), padding=(1, 1), kernel_size=(3, 3), **layouts)
    plain = relay.nn.conv2d(
        relay.transpose(x, [0, 3, 1, 2]), relay.const(weight.transpose(3, 2, 0, 1).copy()), padding=(1, 1), groups=2
    )  # fmt: skip
    pair = relay.Tuple([of_offsets, relay.transpose(plain, [0, 2, 3, 1])])
    vm, data = relay.VirtualMachine(relay.compile(relay.Function([x, offset], pair))), numbers(2, 5, 6, 4)
    ours, wanted = (r.numpy() for r in vm.run(data, np.zeros((2, 5, 6, 18), "float32")))
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)
    for far in (1e30, -1e30, np.nan, np.inf):
        assert not vm.run(data, np.full((2, 5, 6, 18), far, "float32"))[0].numpy().any()


def tensor(*dims: Any, dtype: str = "float32") -> TensorType:
    return TensorType.of(dims, dtype)


X, OFFSET, WEIGHT = tensor(1, 4, 6, 6), tensor(1, 18, 4, 4), tensor(5, 4, 3, 3)
WRONG = [
    ([X, tensor(1, 9, 4, 4), WEIGHT], {}, "axis 1 of the offsets has size 9, it must be 18"),
    ([X, tensor(1, 18, 6, 4), WEIGHT], {}, "axis 2 of the offsets has size 6, it must be 4"),
    ([X, OFFSET, WEIGHT], {"kernel_size": (3, 2)}, "kernel_size says 2, the weight has 3"),
    ([X, OFFSET, tensor(5, 4, sym("k"), 3)], {},
     "kernel_size must be stated if the sizes of the weight are known at run time only"),
    ([X, OFFSET, WEIGHT], {"deformable_groups": 0}, "deformable_groups is 0; it must be at least 1"),
    ([X, OFFSET, WEIGHT], {"deformable_groups": 3}, "axis 1 of the data has size 4, not a multiple of 3 deformable groups"),
    ([X, OFFSET, tensor(4, 3, 3)], {}, "the weight must have 4 dimensions, not 3"),
    ([X, OFFSET, tensor(5, 4, 3, 3, dtype="float64")], {}, "data is float32 but weight is float64; they must have one dtype"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "attrs", "text"), WRONG, ids=[w[2][:60] for w in WRONG])
def test_mistakes(types: list[TensorType], attrs: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeRelError) as error:
        relate(get("nn.deformable_conv2d"), types, get("nn.deformable_conv2d").attrs(**attrs))
    assert text in error.value.message and error.value.message.startswith("nn.deformable_conv2d: ")
