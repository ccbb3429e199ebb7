"""Products, convolutions and pools of integers, reductions of bools, and blocked layouts, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import int_range

from .every_op.networks import blocked
from .images.test_conv import convolution
from .images.test_conv_transpose import transposed
from .images.test_pool import pooled, shared
from .refusals import refused

RNG = np.random.default_rng(5)


def run(name: str, arrays: list[np.ndarray], **attrs: Any) -> np.ndarray:
    params = [relay.var(f"x{k}", tuple(relay.Any() for _ in x.shape), x.dtype.name) for k, x in enumerate(arrays)]
    op = get(name)
    return np.array(
        relay.VirtualMachine(relay.compile(relay.Function(params, relay.Call(op, params, op.attrs(**attrs)))))
        .run(*arrays)
        .numpy()
    )


def whole(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Integers over the whole range of the dtype."""
    low, high = int_range(dtype)
    return RNG.integers(low, high, shape, dtype, endpoint=True)


@pytest.mark.extensive(axis=[1])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(("name", "function"), [("sum", np.any), ("max", np.max), ("min", np.min)])
def test_reductions_of_bools(name: str, function: Any, axis: int | None) -> None:
    x = np.array([[True, False, False], [True, True, False]])
    found = run(name, [x], axis=axis)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, function(x, axis=axis))


def test_reductions_of_no_bools() -> None:
    none = np.zeros((2, 0), bool)
    np.testing.assert_array_equal(run("sum", [none], axis=1), [False, False])
    for name in ("max", "min"):
        with pytest.raises(relay.VMError, match="empty axis"):
            run(name, [none], axis=1)


@pytest.mark.extensive(out=["int32"])
@pytest.mark.parametrize(
    ("first", "second", "out"), [("uint8", "int8", "int32"), ("int8", "int8", "int32"), ("int16", "uint8", "")]
)
def test_products_of_two_dtypes_of_integers(first: str, second: str, out: str) -> None:
    a, b = whole((3, 5), first), whole((4, 5), second)
    wanted = (a.astype("int64") @ b.T.astype("int64")).astype(out or first)
    found = run("nn.dense", [a, b], out_dtype=out)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(run("nn.matmul", [a, b], transpose_b=True, out_dtype=out), wanted)
    np.testing.assert_array_equal(run("nn.batch_matmul", [a[None], b[None]], out_dtype=out), wanted[None])


@pytest.mark.extensive(out=["int32"])
@pytest.mark.parametrize(("first", "second", "out"), [
    ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("int8", "int8", ""), ("int16", "int16", "int64"),
    ("int8", "int8", "float32"),
])  # fmt: skip
def test_convolutions_of_integers(first: str, second: str, out: str) -> None:
    data, weight = whole((2, 4, 6, 5), first), whole((3, 4, 3, 2), second)
    wanted = convolution(data, weight, {"padding": 1})  # exact in float64
    wanted = wanted.astype(out) if out == "float32" else wanted.astype("int64").astype(out or first)
    found = run("nn.conv2d", [data, weight], padding=1, out_dtype=out)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def wrapped(data: np.ndarray, weight: np.ndarray, padding: int = 0) -> np.ndarray:
    """The convolution over two axes modulo 2**64."""
    data, weight = data.astype("int64").astype("uint64"), weight.astype("int64").astype("uint64")
    data = np.pad(data, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    rows, columns = (n - k + 1 for n, k in zip(data.shape[2:], weight.shape[2:], strict=True))
    out = np.zeros((len(data), len(weight), rows, columns), "uint64")
    for y, x in np.ndindex(*weight.shape[2:]):
        out += np.einsum("nihw,oi->nohw", data[:, :, y : y + rows, x : x + columns], weight[:, :, y, x])
    return out


@pytest.mark.extensive(first=["int32"])
@pytest.mark.parametrize(("first", "second", "out"), [
    ("int32", "int32", ""), ("int64", "int64", ""), ("uint64", "int64", "uint64"), ("int8", "int32", "int64"),
    ("uint32", "uint8", "int16"), ("int64", "int64", "float32"),
])  # fmt: skip
def test_convolutions_of_wide_integers(first: str, second: str, out: str) -> None:
    """The results of any integers, modulo the width of the result."""
    data, weight = whole((2, 4, 6, 5), first), whole((4, 4, 3, 2), second)
    wanted = wrapped(data, weight, 1)
    wanted = wanted.astype("int64").astype(out) if out == "float32" else wanted.astype(out or first)
    found = run("nn.conv2d", [data, weight], padding=1, out_dtype=out)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    apart = np.concatenate([wrapped(data[:, k : k + 1], weight[k : k + 1, :1], 1) for k in range(4)], 1).astype(wanted.dtype)
    if out != "float32":
        np.testing.assert_array_equal(run("nn.conv2d", [data, weight[:, :1]], padding=1, groups=4, out_dtype=out), apart)


def test_a_transposed_convolution_of_wide_integers() -> None:
    data, weight = whole((2, 4, 3, 3), "int32"), whole((4, 3, 2, 2), "int32")
    flipped = weight.swapaxes(0, 1)[:, :, ::-1, ::-1]
    found = run("nn.conv2d_transpose", [data, weight], out_dtype="int64")
    np.testing.assert_array_equal(found, wrapped(data, flipped, 1).astype("int64"))


def test_a_transposed_convolution_of_integers() -> None:
    data, weight = whole((2, 4, 3, 3), "int8"), whole((4, 3, 2, 2), "int8")
    wanted = transposed(data.astype("float64"), weight.astype("float64"), {"strides": 2})
    np.testing.assert_array_equal(run("nn.conv2d_transpose", [data, weight], strides=2, out_dtype="int32"), wanted)
    nothing = run("nn.conv2d_transpose", [data[:, :, :0], weight], out_dtype="int32")
    np.testing.assert_array_equal(nothing, np.zeros((2, 3, 1, 4), "int32"))


@pytest.mark.extensive(dtype=["int8"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
def test_means_of_integers_are_rounded_towards_0(dtype: str) -> None:
    data = whole((2, 3, 6, 5), dtype)
    wide = data.astype("float64")
    attrs = {"pool_size": (2, 3), "strides": (2, 1), "padding": (1, 1)}
    wanted = pooled(wide, "avg", {"dilation": (1, 1), "ceil_mode": False, "count_include_pad": False, **attrs})
    np.testing.assert_array_equal(run("nn.avg_pool2d", [data], **attrs), np.trunc(wanted))
    np.testing.assert_array_equal(
        run("nn.adaptive_avg_pool2d", [data], output_size=(4, 2)), np.trunc(shared(wide, "avg", (4, 2)))
    )
    np.testing.assert_array_equal(run("nn.adaptive_max_pool2d", [data], output_size=(4, 2)), shared(wide, "max", (4, 2)))
    np.testing.assert_array_equal(run("nn.global_avg_pool2d", [data]), np.trunc(wide.mean((2, 3), keepdims=True)))


def test_the_mean_of_no_integers_is_0() -> None:
    found = run("nn.adaptive_avg_pool2d", [np.zeros((1, 2, 0, 3), "int8")], output_size=(1, 1))
    np.testing.assert_array_equal(found, np.zeros((1, 2, 1, 1)))


# ---- blocked layouts ---------------------------------------------------------------------------------------------------


def test_a_convolution_in_blocks() -> None:
    data, weight = RNG.standard_normal((2, 8, 5, 6)), RNG.standard_normal((8, 8, 3, 3))
    wanted = convolution(data, weight, {"padding": 1})
    given = [blocked(data, (4,), (1,)), blocked(weight, (4, 4), (1, 0))]
    layouts = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"}
    np.testing.assert_allclose(run("nn.conv2d", given, padding=1, **layouts), blocked(wanted, (4,), (1,)), atol=1e-4)
    np.testing.assert_allclose(
        run("nn.conv2d", given, padding=1, out_layout="NHWC", **layouts), np.moveaxis(wanted, 1, -1), atol=1e-4
    )
    bytes_ = [x.round().astype("int8") for x in given]
    assert run("nn.conv2d", bytes_, out_dtype="int32", **layouts).dtype == np.int32


@pytest.mark.parametrize("name", ["nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "nn.global_max_pool2d"])
def test_a_pool_in_blocks(name: str) -> None:
    data = RNG.standard_normal((2, 8, 6, 6), "float32")
    attrs: dict[str, Any] = (
        {} if "global" in name else {"output_size": 3} if "adaptive" in name else {"pool_size": 2, "strides": 2}
    )
    wanted = run(name, [data], **attrs)
    np.testing.assert_array_equal(run(name, [blocked(data, (4,), (1,))], layout="NCHW4c", **attrs), blocked(wanted, (4,), (1,)))


def test_what_is_refused() -> None:
    def types(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
        return [(s, dtype) for s in shapes]

    conv, pool, block = get("nn.conv2d").attrs, get("nn.max_pool2d").attrs, get("nn.contrib_conv2d_NCHWc").attrs
    data, weight, cut = (1, 8, 5, 5), (8, 8, 3, 3), (1, 2, 5, 5, 4)
    assert refused("nn.conv2d", types(data, weight, dtype="bool"), conv()) == (
        "nn.conv2d: data is bool; supported: float32, float64, float16, bfloat16, int8, int16, int32, int64, uint8, uint16, "
        "uint32, uint64"
    )
    assert refused("nn.conv2d", [(data, "float32"), (weight, "int8")], conv()) == (
        "nn.conv2d: data is float32 but weight is int8; they must have one dtype"
    )
    assert refused("nn.dense", [((2, 3), "float32"), ((2, 3), "int8")], get("nn.dense").attrs()).startswith(
        "nn.dense: data is float32"
    )
    assert refused("nn.conv2d", types(cut, weight), conv(data_layout="NCHW4")) == (
        "nn.conv2d: data_layout 'NCHW4' is no layout: it has '4' where a letter must be"
    )
    assert refused("nn.conv2d", types(data, weight), conv(data_layout="NCHW4c")) == (
        "nn.conv2d: layout_transform: src_layout 'NCHW4c' has 5 dimensions, the data 4"
    )
    assert "data_layout must be 'NCHW' or 'NHWC', not 'NWHC'" in refused(
        "nn.conv2d", types(cut, weight), conv(data_layout="NWHC4c")
    )
    assert "pool_size" in refused("nn.max_pool2d", types(cut), pool(layout="NCHW4c", pool_size=(1, 2, 3)))
    complaint = refused("nn.contrib_conv2d_NCHWc", types(cut, weight), block(data_layout="NCHW4c", out_layout="NCHW3c"))
    assert complaint.startswith("nn.contrib_conv2d_NCHWc: ")
    assert refused("nn.avg_pool2d", types(data, dtype="int64"), get("nn.avg_pool2d").attrs()).startswith(
        "nn.avg_pool2d: data is int64"
    )
    with pytest.raises(relay.VMError, match="layout_transform"):  # the sizes are known at run time only
        run("nn.conv2d", [np.ones(cut, "float32"), np.ones((6, 8, 3, 3), "float32")], data_layout="NCHW4c")


@pytest.mark.parametrize(
    ("shape", "newshape", "wanted"),
    [
        ((10, 5, 4), (-1, 0), (50, 4)),
        ((2, 3, 4), (-3, 0), (6, 4)),
        ((2, 3, 4), (-2, 2, 0), None),
        ((2, 3), (-1, 1, 0), (2, 1, 3)),
    ],
)
def test_a_reshape_from_the_right(shape: tuple[int, ...], newshape: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    attrs = get("contrib_reverse_reshape").attrs(newshape)
    if wanted is None:
        assert "cannot view 24 elements" in refused("contrib_reverse_reshape", [(shape, "float32")], attrs)
        return
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    np.testing.assert_array_equal(run("contrib_reverse_reshape", [x], newshape=newshape), x.reshape(wanted))


@pytest.mark.parametrize(
    ("newshape", "message"),
    [
        ((0, 0, 0), "newshape (0, 0, 0) wants axis -3 of the data for its entry 0, but the data has 2 dimensions"),
        ((-1, -1), "newshape (-1, -1) has more than one -1"),
        ((6, -7), "newshape (6, -7) has -7; valid are sizes, 0, -1, -2, -3 and -4"),
        ((-4, 2, 3), "newshape (-4, 2, 3) has -4, which splits from left to right; valid are sizes, 0, -1, -2 and -3"),
        ((4, -1), "cannot view 6 elements as (4, -1)"),
    ],
)
def test_what_is_no_shape_from_the_right(newshape: tuple[int, ...], message: str) -> None:
    attrs = get("contrib_reverse_reshape").attrs(newshape)
    assert refused("contrib_reverse_reshape", [((2, 3), "float32")], attrs) == f"contrib_reverse_reshape: {message}"
