"""Operator functions have Relay's parameters: names, order and defaults; calls written for Relay build the operators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from typing import Any as AnyValue

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.builder.operator_functions import COMPOSED
from relayvm.compiler.builder.signatures import bound, parameters
from relayvm.compiler.docs.relay_names import RelayName, relay_names
from relayvm.compiler.text.attributes import attributes
from relayvm.ops.core.op import REGISTRY, Op

pytestmark = pytest.mark.many

EMPTY = inspect.Parameter.empty


def is_here(name: str) -> bool:
    return name in COMPOSED or (name in REGISTRY and REGISTRY[name].in_language)


#: Operators of Relay that are here, with Relay's parameters.
OPERATORS = [entry for entry in relay_names() if entry.parameters is not None and is_here(entry.path.removeprefix("relay."))]


def function(entry: RelayName) -> AnyValue:
    return reduce(getattr, entry.path.split(".")[1:], relay)


def same_default(relays: AnyValue, ours: AnyValue) -> bool:
    """Whether two defaults mean the same: one number stands for one number for each axis, None for no choice."""
    if isinstance(relays, tuple) and len(set(relays)) == 1 and not isinstance(ours, tuple):
        return bool(relays[0] == ours)
    return relays is None or relays is EMPTY or (ours is not EMPTY and relays == ours)


@pytest.mark.parametrize("entry", OPERATORS, ids=lambda entry: entry.path)
def test_the_parameters_are_relays(entry: RelayName) -> None:
    ours = inspect.signature(function(entry)).parameters
    assert entry.parameters is not None
    assert list(ours)[: len(entry.parameters)] == list(entry.parameters)
    for name, default in entry.parameters.items():
        assert same_default(default, ours[name].default), f"{name}: {default!r} in Relay, here {ours[name].default!r}"
        assert ours[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


def test_most_operators_of_relay_are_compared() -> None:
    assert len(OPERATORS) > 170


def test_declared_parameters_are_inputs_and_attributes() -> None:
    for op in REGISTRY.values():
        if op.python is not None and op.python.call is None:
            known = {*(name.rstrip("*") for name in op.inputs), *attributes(op)}
            assert set(parameters(op)) == known, op.name
        for parameter in parameters(op).values():
            if parameter.dtype:
                assert parameter.dtype in {*parameters(op), "int32", "int64", "float32"}, op.name


def test_a_signature_shows_the_defaults() -> None:
    assert str(inspect.signature(relay.nn.pad)) == "(data, pad_width, pad_value=0, pad_mode='constant')"
    assert str(inspect.signature(relay.gather)) == "(data, axis, indices)"
    assert str(inspect.signature(relay.sum)) == "(data, axis=None, keepdims=False, exclude=False)"


# ---- calls as written for Relay ----------------------------------------------------------------------------------


def var(name: str, *shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape, dtype)


X, Y, IMAGE = var("x", 2, 4), var("y", 2, 4), var("image", 1, 3, 8, 8)
INDEX, SIZE, COUNT = var("index", 2, 4, dtype="int64"), var("size", 2, dtype="int64"), var("count", dtype="int32")
KEY = var("key", 10, dtype="uint64")
KERNEL, BOXES, SCORES = var("kernel", 3, 5, 3, 3), var("boxes", 1, 6, 4), var("scores", 1, 2, 6)
POINTS, VALUES, ROWS = var("points", 3, dtype="int32"), var("values", 3), var("rows", 1, 6, 6)
BYTES = var("bytes", 2, 4, 3, 3, dtype="int8")
UNKNOWN = relay.GlobalVar("f")(X)

CALLS: list[tuple[Callable[[], relay.Expr], str]] = [
    (lambda: relay.random.uniform(KEY, (4,)), "random.uniform(%key, 0f, 1f, shape=[4])"),
    (lambda: relay.random.normal(KEY, (4,), "float64", scale=2), 'random.normal(%key, 0f64, 2f64, shape=[4], dtype="float64")'),
    (lambda: relay.nn.pad(X, ((1, 1), (0, 2)), 3), "nn.pad(%x, 3f, pad_width=[[1, 1], [0, 2]])"),
    (lambda: relay.nn.pad(X, ((1, 1), (0, 2))), "nn.pad(%x, 0f, pad_width=[[1, 1], [0, 2]])"),
    (lambda: relay.nn.pad(INDEX, ((1, 1), (0, 2))), "nn.pad(%index, 0i64, pad_width=[[1, 1], [0, 2]])"),
    (lambda: relay.nn.pad(X, ((1, 1), (0, 2)), relay.const(7.0), "edge"),
     'nn.pad(%x, 7f, pad_width=[[1, 1], [0, 2]], pad_mode="edge")'),
    (lambda: relay.nn.pad(UNKNOWN, ((1, 1), (0, 0))), "nn.pad(@f(%x), cast_like(0, @f(%x)), pad_width=[[1, 1], [0, 0]])"),
    (lambda: relay.nn.pad(X, INDEX), "dyn.nn.pad(%x, %index, 0f)"),
    (lambda: relay.gather(X, 1, INDEX), "gather(%x, %index, axis=1)"),
    (lambda: relay.arange(5), "arange(0f, 5f, 1f)"),
    (lambda: relay.arange(1, 5), "arange(1f, 5f, 1f)"),
    (lambda: relay.arange(1, 5, 2, "int32"), 'arange(1, 5, 2, dtype="int32")'),
    (lambda: relay.arange(COUNT, dtype="int32"), 'arange(0, %count, 1, dtype="int32")'),
    (lambda: relay.arange(COUNT, None, relay.const(2), "int32"), 'arange(0, %count, 2, dtype="int32")'),
    (lambda: relay.full(1.5), "full(1.5f, shape=[])"),
    (lambda: relay.full(relay.const(1), (2, 3), "int64"), 'full(1, shape=[2, 3], dtype="int64")'),
    (lambda: relay.full(relay.const(1), SIZE), "dyn.full(1, %size)"),
    (lambda: relay.zeros((2, 3), "int8"), 'zeros(shape=[2, 3], dtype="int8")'),
    (lambda: relay.zeros(3, "float32"), "zeros(shape=[3])"),
    (lambda: relay.reshape(X, -1), "reshape(%x, newshape=[-1])"),
    (lambda: relay.reshape(X, (relay.const(4), 2)), "reshape(%x, newshape=[4, 2])"),
    (lambda: relay.reshape(X, (X.type_annotation.shape[1], -1)), "reshape(%x, newshape=[4, -1])"),
    (lambda: relay.cast(X, np.int8), 'cast(%x, dtype="int8")'),
    (lambda: relay.zeros((2,), np.dtype("float64")), 'zeros(shape=[2], dtype="float64")'),
    (lambda: relay.clip(X, 0, 6), "clip(%x, a_min=0.0, a_max=6.0)"),
    (lambda: relay.clip(a=X, a_min=0, a_max=6), "clip(%x, a_min=0.0, a_max=6.0)"),
    (lambda: relay.cumsum(X, None, None, None), "cumsum(%x)"),
    (lambda: relay.cumsum(X, 1, "float64", True), 'cumsum(%x, axis=1, dtype="float64", exclusive=True)'),
    (lambda: relay.split(X, 2, 1), "split(%x, indices_or_sections=2, axis=1)"),
    (lambda: relay.strided_slice(X, [0, 1], [2, 3], None), "strided_slice(%x, begin=[0, 1], end=[2, 3])"),
    (lambda: relay.strided_slice(X, [0], [2], [1], [1]), "strided_slice(%x, begin=[0], end=[2], axes=[1])"),
    (lambda: relay.strided_slice(X, SIZE, [2, 3]),
     "dyn.strided_slice(%x, %size, meta[relay.Constant][0], meta[relay.Constant][1])"),
    (lambda: relay.strided_set(X, Y, [0, 1], [2, 3]),
     "strided_set(%x, %y, meta[relay.Constant][0], meta[relay.Constant][1], meta[relay.Constant][2])"),
    (lambda: relay.one_hot(POINTS, relay.const(1.0), relay.const(0.0), 5, -1, "float32"), "one_hot(%points, 1f, 0f, depth=5)"),
    (lambda: relay.one_hot(POINTS, 1, 0, COUNT, 0, "int32"), 'dyn.one_hot(%points, 1, 0, %count, axis=0, dtype="int32")'),
    (lambda: relay.topk(X, 3, -1, "values"), 'topk(%x, k=3, ret_type="values")'),
    (lambda: relay.topk(X, COUNT), "dyn.topk(%x, %count)"),
    (lambda: relay.sort(X, 0, 0), "sort(%x, axis=0, is_ascend=False)"),
    (lambda: relay.shape_of(X), 'shape_of(%x)'),
    (lambda: relay.sparse_to_dense(POINTS, (5,), VALUES), "sparse_to_dense(%points, %values, 0f, output_shape=[5])"),
    (lambda: relay.sparse_to_dense(POINTS, SIZE, VALUES, 2), "dyn.sparse_to_dense(%points, %values, 2f, %size)"),
    (lambda: relay.nn.sparse_dense(X, (VALUES, POINTS, POINTS), True),
     "nn.sparse_dense(%x, %values, %points, %points, sparse_lhs=True)"),
    (lambda: relay.nn.sparse_conv2d(IMAGE, (X, POINTS, POINTS), "NCHW", 3),
     'nn.sparse_conv2d(%image, %x, %points, %points, layout="NCHW", kernel_size=3)'),
    (lambda: relay.nn.sparse_add(X, (VALUES, POINTS, POINTS)), "nn.sparse_add(%x, %values, %points, %points)"),
    (lambda: relay.nn.sparse_transpose((VALUES, POINTS, POINTS)), "nn.sparse_transpose(%values, %points, %points)"),
    (lambda: relay.matrix_set_diag(X, VALUES), "matrix_set_diag(%x, %values)"),
    (lambda: relay.matrix_set_diag(X, Y, (0, 1), "LEFT_LEFT"), "matrix_set_diag(%x, %y, k2=1, super_diag_right_align=False)"),
    (lambda: relay.stft(VALUES, 4), "stft(%values, meta[relay.Constant][0], n_fft=4, hop_length=1, win_length=4)"),
    (lambda: relay.stft(VALUES, 3, 1, 2, X), "stft(%values, %x, n_fft=3, hop_length=1, win_length=2)"),
    (lambda: relay.variance(X, 1, True), "variance(%x, axis=[1], keepdims=True)"),
    (lambda: relay.variance(X, 1, False, False, True), "unbiased_variance(%x, axis=[1])"),
    (lambda: relay.variance(X, 1, with_mean=Y), "variance_with_mean(%x, %y, axis=[1])"),
    (lambda: relay.cast_like(X, dtype_like=Y), "cast_like(%x, %y)"),
    (lambda: relay.broadcast_to_like(X, broadcast_type=Y), "broadcast_to_like(%x, %y)"),
    (lambda: relay.reshape_like(X, shape_like=Y), "reshape_like(%x, %y)"),
    (lambda: relay.image.resize2d(IMAGE, (4, 4)), "image.resize2d(%image, size=[4, 4])"),
    (lambda: relay.image.resize2d(IMAGE, (4, 4), None, "NCHW", "nearest_neighbor", "asymmetric", "", -0.5, 0, 0.0, "float32"),
     'image.resize2d(%image, method="nearest_neighbor", coordinate_transformation_mode="asymmetric", out_dtype="float32", '
     "size=[4, 4])"),
    (lambda: relay.image.resize2d(IMAGE, SIZE), "dyn.image.resize2d(%image, %size, meta[relay.Constant][0])"),
    (lambda: relay.nn.upsampling(IMAGE, 2, 3, "NCHW", "bilinear", True),
     'nn.upsampling(%image, method="bilinear", align_corners=True, scale_h=2.0, scale_w=3.0)'),
    (lambda: relay.nn.upsampling(IMAGE, VALUES, 3), "dyn.nn.upsampling(%image, %values, 3f)"),
    (lambda: relay.nn.upsampling3d(IMAGE, 2),
     'nn.upsampling3d(%image, coordinate_transformation_mode="half_pixel", scale_d=2.0)'),
    (lambda: relay.nn.conv2d_transpose(
        IMAGE, KERNEL, (2, 2), (1, 1), (1, 1), 1, 5, (3, 3), "NCHW", "IOHW", "", (1, 1), "float32"),
     'nn.conv2d_transpose(%image, %kernel, strides=[2, 2], padding=[1, 1], dilation=[1, 1], channels=5, kernel_size=[3, 3], '
     'output_padding=[1, 1], out_dtype="float32")'),
    (lambda: relay.vision.get_valid_counts(ROWS, 0), "vision.get_valid_counts(%rows, 0f)"),
    (lambda: relay.vision.non_max_suppression(ROWS, POINTS, INDEX),
     "vision.non_max_suppression(%rows, %points, %index, -1, 0.5f)"),
    (lambda: relay.vision.non_max_suppression(ROWS, POINTS, INDEX, 3, 1, True),
     "vision.non_max_suppression(%rows, %points, %index, 3, 1f, force_suppress=True)"),
    (lambda: relay.vision.all_class_non_max_suppression(BOXES, SCORES),
     "vision.all_class_non_max_suppression(%boxes, %scores, -1, -1f, -1f)"),
    (lambda: relay.qnn.op.quantize(X, 0.5, 3, out_dtype="uint8"), 'qnn.quantize(%x, 0.5f, 3, out_dtype="uint8")'),
    (lambda: relay.qnn.op.leaky_relu(BYTES, 0.1, 0.5, 1, 0.25, 2), "qnn.leaky_relu(%bytes, 0.5f, 1, 0.25f, 2, alpha=0.1)"),
    (lambda: relay.qnn.op.conv2d(BYTES, BYTES, 1, 2, 0.5, 0.25, (3, 3), 8, padding=(1, 1)),
     "qnn.conv2d(%bytes, %bytes, 1, 2, 0.5f, 0.25f, padding=[1, 1], channels=8, kernel_size=[3, 3])"),
    (lambda: relay.qnn.op.conv2d_transpose(BYTES, BYTES, 1, 2, 0.5, 0.25, (2, 2), (1, 1), (1, 1), 8, (3, 3), 1),
     "qnn.conv2d_transpose(%bytes, %bytes, 1, 2, 0.5f, 0.25f, strides=[2, 2], padding=[1, 1], dilation=[1, 1], channels=8, "
     "kernel_size=[3, 3])"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_calls_as_written_for_relay(call: Callable[[], relay.Expr], text: str) -> None:
    *bindings, result = str(call()).splitlines()
    for line in reversed(bindings):  # of calls in calls
        name, _, value = line.rstrip(";").partition(" = ")
        result = result.replace(name, value)
    assert result == text


def is_reordered(op: Op) -> bool:
    return list(parameters(op)) != [*(name.rstrip("*") for name in op.inputs), *attributes(op)]


def test_every_operator_whose_order_differs_is_called() -> None:
    called = {text.partition("(")[0] for _, text in CALLS}
    differ = {op.name for op in REGISTRY.values() if op.python is not None and not op.name.startswith("dyn.")}
    one_of_a_kind = {"image.resize1d", "image.resize3d"}
    # most on quantised tensors declare only the dtypes of numbers
    one_of_a_kind |= {name for name in differ if name.startswith("qnn.") and not is_reordered(REGISTRY[name])}
    assert differ - one_of_a_kind <= called


# ---- wrong calls -------------------------------------------------------------------------------------------------

WRONG: list[tuple[Callable[[], relay.Expr], str]] = [
    (lambda: relay.gather(X, INDEX), "gather: missing a required argument: 'indices'; it takes data, axis, indices"),
    (lambda: relay.gather(X, INDEX, 1), "gather: axis must be known at compile time; an expression has a value only at run time"),
    (lambda: relay.gather(X, indices=INDEX), "gather: missing a required argument: 'axis'; it takes data, axis, indices"),
    (lambda: relay.nn.pad(X), "nn.pad: attribute pad_width is missing (pad_width takes a list of lists)"),
    (lambda: relay.nn.pad(X, ((1, 1), (0, 0)), 0.5, "constant", 1),
     "nn.pad: too many positional arguments; it takes data, pad_width, pad_value, pad_mode"),
    (lambda: relay.nn.pad(INDEX, ((1, 1), (0, 0)), 0.5),
     "0.5 is no int64"),
    (lambda: relay.nn.pad(X, pad_widths=((1, 1), (0, 0))),
     "nn.pad: got an unexpected keyword argument 'pad_widths'; it takes data, pad_width, pad_value, pad_mode"),
    (lambda: relay.arange(), "arange: missing a required argument: 'start'; it takes start, stop, step, dtype"),
    (lambda: relay.arange(1.5, dtype="int32"), "1.5 is no int32"),
    (lambda: relay.matrix_set_diag(X, Y, 0, "RIGHT"),
     "matrix_set_diag: align is RIGHT_LEFT or LEFT_RIGHT or LEFT_LEFT or RIGHT_RIGHT, not 'RIGHT'"),
    (lambda: relay.matrix_set_diag(X, Y, "a"), 'matrix_set_diag: attribute k1 takes an integer, not "a"'),
    (lambda: relay.variance(X, unbiased=True, with_mean=Y),
     "variance: unbiased=True cannot be given with with_mean"),
    (lambda: relay.stft(VALUES, 2, window=[1.0, "a"]),
     "no constant can be made of the list [1.0, 'a']: the dtypes are"),
    (lambda: relay.reshape(X, None), "reshape: attribute newshape is missing (newshape takes a list of integers)"),
    (lambda: relay.reshape(X, True), "reshape: attribute newshape takes a list of integers, not True"),
    (lambda: relay.nn.pad(X, 0, ((1, 1), (0, 0))), "nn.pad: attribute pad_width takes a list of lists, not 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_calls(call: Callable[[], relay.Expr], text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        call()
    assert text in str(error.value)
    assert "test_operator_signatures.py" in str(error.value)


def test_bound_names_the_called_operator() -> None:
    called, given = bound(REGISTRY["variance"], (X,), {"unbiased": True})
    assert called.name == "unbiased_variance" and given == {"data": X}


def test_shape_of_has_one_default_in_python_and_in_text() -> None:
    """Relay's: int32."""
    x = relay.var("x", shape=(relay.Any(), 2), dtype="float32")
    built = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.shape_of(x))))["main"]
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 2), float32]) { shape_of(%x) }'
    parsed = relay.transform.InferType()(relay.parse(text))["main"]
    assert str(built.body.checked_type) == str(parsed.body.checked_type) == "Tensor[(2), int32]"
    assert relay.structural_equal(built, parsed)
