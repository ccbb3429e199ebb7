"""Operators on quantised tensors: extreme scales, axes known at run time only, Relay's calls, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.codegen.loop_nest import vector_math
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate

from ..programs import HEADER
from .every_op.quantised import clipped, rescaled

#: Ratios of scales from 2**-40 to 2**28; one of them rounds up to a power of two.
RATIOS = np.array([2.0**-40, 2.0**-32, 1.7 * 2**-32, 3e-7, 0.1, 0.5, 1 - 2**-24, 1.0, 1 + 2**-23, 3.3, 1e6, 2.0**28], "float32")
NUMBERS = np.array([-(2**31), 2**31 - 1, -(2**20), -3, -1, 0, 1, 2, 5, 127, 2**30], "int64").astype("int32")[:, None]


def tensor(*dims: Any, dtype: str = "int8") -> TensorType:
    return TensorType.of(dims, dtype)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_requantisation_is_exact_for_every_scale(rounding: str) -> None:
    x, scale = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="int32"), relay.var("scale", shape=(relay.Any(),))
    call = relay.qnn.op.requantize(x, scale, 0, 1.0, 0, axis=1, rounding=rounding, out_dtype="int32")
    vm = relay.VirtualMachine(relay.compile(relay.Function([x, scale], call)))
    data = np.tile(NUMBERS, (1, len(RATIOS)))
    wanted = clipped(rescaled(data, RATIOS, rounding == "TONEAREST"), "int32")
    np.testing.assert_array_equal(vm.run(data, RATIOS).numpy(), wanted)


def test_constant_scales_are_folded() -> None:
    x = relay.var("x", shape=(relay.Any(), 3), dtype="int32")
    scales = relay.const(np.array([0.5, 1, 2], "float32"))
    module = relay.IRModule.from_expr(relay.Function([x], relay.qnn.op.requantize(x, scales, 0, 0.25, 0)))
    text = relay.compile(module).bytecode
    assert "right_shift" in text and "reinterpret" not in text


WRONG = [
    ("qnn.quantize", [tensor(3, dtype="int8"), tensor(dtype="float32"), tensor(dtype="int32")], {}, 0,
     "qnn.quantize: data is int8"),
    ("qnn.quantize", [tensor(3, dtype="float32"), tensor(dtype="int32"), tensor(dtype="int32")], {}, 1,
     "qnn.quantize: output_scale is int32"),
    ("qnn.quantize", [tensor(3, dtype="float32"), tensor(4, dtype="float32"), tensor(dtype="int32")], {}, 1,
     "qnn.quantize: output_scale has 4 elements, but axis 0 of the data has size 3"),
    ("qnn.quantize", [tensor(3, dtype="float32"), tensor(dtype="float32"), tensor(dtype="float32")], {}, 2,
     "qnn.quantize: output_zero_point is float32"),
    ("qnn.quantize", [tensor(3, dtype="float32"), tensor(dtype="float32"), tensor(dtype="int32")], {"out_dtype": "float32"}, None,
     "qnn.quantize: out_dtype='float32' is not valid"),
    ("qnn.requantize", [tensor(3), *[tensor(dtype=d) for d in ("float32", "int32", "float32", "int32")]], {"rounding": "DOWN"},
     None, "qnn.requantize: attribute rounding must be 'None' or 'UPWARD' or 'TONEAREST', not 'DOWN'"),
    ("qnn.add", [tensor(3), tensor(3, dtype="uint8"), *[tensor(dtype=d) for d in ("float32", "int32") * 3]], {}, 1,
     "qnn.add: lhs is int8 but rhs is uint8"),
    ("qnn.dense", [tensor(3, 4), tensor(2, 4), tensor(4, dtype="int32"), tensor(dtype="int32"), tensor(dtype="float32"),
     tensor(dtype="float32")], {}, 2, "qnn.dense: input_zero_point must be a scalar; it has 1 dimension"),
    ("qnn.conv2d", [tensor(1, 2, 4, 4), tensor(3, 2, 2, 2), tensor(dtype="int32"), tensor(2, dtype="int32"),
     tensor(dtype="float32"), tensor(dtype="float32")], {}, 3,
     "qnn.conv2d: kernel_zero_point has 2 elements, but axis 0 of the data has size 3"),
    ("qnn.leaky_relu", [tensor(3), *[tensor(dtype=d) for d in ("float32", "int32") * 2]], {"alpha": 2.0}, None,
     "qnn.leaky_relu: alpha is 2.0; it must be at least 0 and at most 1"),
    ("fixed_point_multiply", [tensor(3, dtype="int32")], {"multiplier": 2**31, "shift": 0}, None,
     "fixed_point_multiply: multiplier=2147483648 is no int32"),
    ("fixed_point_multiply_per_axis", [tensor(3, 4, dtype="int32"), *[tensor(3, 4, dtype="int32")] * 3],
     {"is_lshift_required": True, "is_rshift_required": True, "axes": (1, 0)}, None,
     "fixed_point_multiply_per_axis: axes [1, 0] are not in ascending order"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "types", "attrs", "input", "text"), WRONG, ids=[w[4][:60] for w in WRONG])
def test_mistakes(name: str, types: list[TensorType], attrs: dict[str, Any], input: int | None, text: str) -> None:
    with pytest.raises(TypeRelError) as error:
        relate(get(name), types, get(name).attrs(**attrs))
    assert error.value.message.startswith(text)
    assert input is None or error.value.input == input


def test_weights_of_products_have_types_by_their_use() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(?n, 3, 8, 8), int8], %w, %v) {
      let %y = qnn.conv2d(%x, %w, 0, 0, 1f, 1f, channels=4, kernel_size=[3, 3]);
      let %z = qnn.requantize(%y, 1f, 0, 2f, 0);
      qnn.dense(nn.batch_flatten(%z), %v, 0, 0, 1f, 1f, units=5)
    }"""
    main = relay.transform.InferType()(relay.parse(text))["main"]
    assert [str(p.checked_type) for p in main.params[1:]] == ["Tensor[(4, 3, 3, 3), int8]", "Tensor[(5, 144), int8]"]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_quantised_floats_beyond_the_range(dtype: str) -> None:
    """Halves go to the even number; numbers beyond the range, also infinite ones, are limited before they become integers."""
    bounds = np.iinfo(dtype)
    x = np.concatenate([np.arange(-40, 40) / 2, [np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 16777217.0, -0.0]])
    x = np.concatenate([x, np.arange(bounds.max - 9, bounds.max + 2) / 2, np.arange(bounds.min - 2, bounds.min + 9) / 2])
    x = x.astype(np.float32)
    text = f'qnn.quantize(%x, %s, %z, out_dtype="{dtype}", ties="even")'
    mod = relay.parse(f"{HEADER}def @main(%x: Tensor[(?n), float32], %s: float32, %z: int32) {{ {text} }}")
    machine = relay.VirtualMachine(relay.compile(mod))
    for zero in (0, 3, -7):
        wanted = np.clip(np.rint(x.astype(np.float64) / 0.5) + zero, bounds.min, bounds.max).astype(dtype)
        np.testing.assert_array_equal(machine.run(x, np.float32(0.5), np.int32(zero)).numpy(), wanted)


def test_rounding_without_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_math, "has_rounding", lambda: False)
    for x in np.array([0.5, 1.5, -0.5, -2.5, 8388607.5, 1e30, -1e30, np.inf, -np.inf, -0.0, 3.49], np.float32):
        found = vector_math.round_float32(x)
        assert found == np.rint(x) and np.signbit(found) == np.signbit(np.rint(x))
    assert np.isnan(vector_math.round_float32(np.float32(np.nan)))
