"""Types of weights inferred from the data, for every operator that has a rule."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from relayvm.ops.core.input_types import infer_inputs
from relayvm.ops.core.op import Op, TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.shape_funcs.symbolic.dim import Dim, fresh, sym

from .every_op.recipe import Call, attrs_of, dtypes_of, operators
from .test_every_op import calls_of

RULED = [op for op in operators() if op.infer_inputs is not None]
#: Of their inputs the weight alone gets a type, with the dtype of the data.
QUANTISED = {"qnn.dense", "qnn.contrib_dense_pack", "qnn.conv2d", "qnn.conv2d_transpose"}
#: Rows of choices of each recipe.
VARIANTS = range(24)


def test_the_operators_with_weights_have_a_rule() -> None:
    convolutions = {f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose")}
    norms = {f"nn.{kind}_norm" for kind in ("batch", "layer", "group", "instance")}
    winograd = {f"nn.contrib_conv{rank}d_winograd_without_weight_transform" for rank in (2, 3)}
    products = {"nn.contrib_dense_pack", "nn.dense", "nn.matmul"}
    assert {op.name for op in RULED} == convolutions | winograd | norms | products | {"nn.bias_add", "nn.prelu"} | QUANTISED


def _stated(op: Op, made: Call) -> Any:
    """The attributes of a recipe's call with the sizes of its weight."""
    attrs, weight = attrs_of(op, made), made.inputs[1].shape
    if ".conv" in op.name:
        size = dict(zip(attrs.kernel_layout, weight, strict=True))
        channels = size["O"] * (attrs.groups if op.name.endswith("_transpose") else 1)
        window = tuple(n for letter, n in size.items() if letter not in "OI")
        return dataclasses.replace(attrs, channels=channels, kernel_size=window)
    if op.name.endswith("dense_pack"):
        return dataclasses.replace(attrs, units=weight[0] * (weight[2] if len(weight) == 3 else 1))
    if op.name.endswith(".dense"):
        return dataclasses.replace(attrs, units=weight[0])
    return dataclasses.replace(attrs, units=weight[0 if attrs.transpose_b else 1]) if op.name == "nn.matmul" else attrs


@pytest.mark.parametrize("op", RULED, ids=lambda op: op.name)
def test_the_types_of_every_recipe_are_found(op: Op) -> None:
    for variant in VARIANTS:
        made = calls_of(op, dtypes_of(op.name)[0], variant)["odd"]
        data, *others = (TensorType.of(a.shape, a.dtype.name) for a in made.inputs)
        attrs = _stated(op, made)
        found = infer_inputs(op, [data, *(None for _ in others)], attrs)
        if op.name.endswith("dense_pack") and attrs.weight_layout == "NC":  # groups of any size: a plain weight is one of them
            others[0] = TensorType.of((attrs.units, data.shape[-1]), others[0].dtype)
        if op.name in QUANTISED:
            others = [TensorType(others[0].shape, data.dtype), *(None for _ in others[1:])]
        assert found == (data, *others)


def test_a_known_type_stays_and_unknown_data_determine_nothing() -> None:
    op = get("nn.layer_norm")
    x, wrong = TensorType.of((2, 4)), TensorType.of((9,))
    assert infer_inputs(op, [x, wrong, None], op.attrs()) == (x, wrong, TensorType.of((4,)))
    assert infer_inputs(op, [None, wrong, None], op.attrs()) == (None, wrong, None)
    assert infer_inputs(get("add"), [x, None], get("add").attrs()) == (x, None)


@pytest.mark.parametrize("size", [sym("n"), fresh()])
def test_an_unknown_size_is_that_of_the_data(size: Dim) -> None:
    op = get("nn.dense")
    found = infer_inputs(op, [TensorType((fresh(), size), "float16"), None], op.attrs(units=3))
    assert found[1] == TensorType.of((3, size), "float16")


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "message"),
    [
        ("nn.dense", (2, 4), {}, "nn.dense gives the weight a type only with units="),
        ("nn.matmul", (2, 4), {}, "nn.matmul gives the weight a type only with units="),
        ("nn.matmul", (4,), {"units": 3}, "nn.matmul: the data must have at least 2 dimensions, not 1"),
        ("nn.dense", (), {"units": 3}, "nn.dense: the data must have at least 1 dimension, not 0"),
        ("nn.conv2d", (1, 3, 8, 8), {"channels": 4}, "nn.conv2d gives the weight a type only with kernel_size="),
        ("nn.conv1d", (1, 3, 8), {}, "nn.conv1d gives the weight a type only with channels= and kernel_size="),
        ("nn.conv1d", (1, 3), {"channels": 4, "kernel_size": 3}, "nn.conv1d: the data must have 3 dimensions, not 2"),
        ("nn.conv1d", (1, 3, 8), {"channels": 4, "kernel_size": 3, "groups": 0}, "nn.conv1d: groups must be at least 1, not 0"),
        ("nn.conv1d", (1, 3, 8), {"channels": 4, "kernel_size": (3, 3)}, "nn.conv1d: kernel_size must have 1 number, not 2"),
        ("nn.bias_add", (2, 4), {"axis": 2}, "nn.bias_add: axis 2 is out of range for 2 dimensions (valid: -2 to 1)"),
    ],
)
def test_refusal(name: str, shape: tuple[int, ...], attrs: dict[str, Any], message: str) -> None:
    op = get(name)
    with pytest.raises(TypeRelError) as caught:
        infer_inputs(op, [TensorType.of(shape), None], op.attrs(**attrs))
    assert caught.value.message == message
