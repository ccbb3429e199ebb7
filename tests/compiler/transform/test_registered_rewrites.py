"""Functions registered for operators: ``Legalize``, ``AlterOpLayout``; ``LayoutConfig``."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

transform = relay.transform
RNG = np.random.default_rng(5)
IMAGE = RNG.normal(size=(1, 4, 5, 5)).astype("float32")
KERNEL = RNG.normal(size=(8, 4, 3, 3)).astype("float32")


def network() -> relay.IRModule:
    x, w = relay.var("x", IMAGE.shape), relay.var("w", KERNEL.shape)
    return relay.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.conv2d(x, w, padding=1))))


def evaluated(mod: relay.IRModule, *args: np.ndarray) -> np.ndarray:
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
    return relay.create_executor("debug", mod).evaluate()(*args).numpy()


def operators(mod: relay.IRModule) -> list[str]:
    return [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]


# ---- layouts -------------------------------------------------------------------------------------------------------


def to_nhwc(attrs, inputs, tinfos, out_type):
    assert [str(t) for t in (*tinfos, out_type)] == [
        "Tensor[(1, 4, 5, 5), float32]", "Tensor[(8, 4, 3, 3), float32]", "Tensor[(1, 8, 5, 5), float32]",
    ]  # fmt: skip
    return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"})


def to_blocks(attrs, inputs, tinfos, out_type):
    new = {key: attrs[key] for key in attrs.keys()}  # noqa: SIM118  Relay's idiom
    new |= {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o", "out_layout": "NCHW4c"}
    return relay.nn.contrib_conv2d_nchwc(*inputs, **new)


def with_own_kernel(attrs, inputs, tinfos, out_type):
    kernel = relay.transpose(inputs[1], [2, 3, 1, 0])
    return relay.nn.conv2d(inputs[0], kernel, **{**dict(attrs.items()), "data_layout": "NHWC", "kernel_layout": "HWIO"})


@pytest.mark.parametrize(
    ("alter", "found"),
    [
        (to_nhwc, ["layout_transform", "layout_transform", "nn.conv2d", "nn.relu", "layout_transform"]),
        (to_blocks, ["layout_transform", "layout_transform", "nn.contrib_conv2d_NCHWc", "nn.relu", "layout_transform"]),
        (with_own_kernel, ["layout_transform", "transpose", "nn.conv2d", "nn.relu", "layout_transform"]),
        (lambda attrs, inputs, tinfos, out_type: None, ["nn.conv2d", "nn.relu"]),
    ],
)
def test_alter_op_layout(alter, found: list[str]) -> None:
    mod = network()
    with relay.testing.TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", alter):
        new = transform.AlterOpLayout()(mod)
    assert operators(new) == found
    np.testing.assert_allclose(evaluated(new, IMAGE, KERNEL), evaluated(mod, IMAGE, KERNEL), rtol=1e-4, atol=1e-5)
    assert relay.structural_equal(transform.AlterOpLayout()(mod), transform.InferType()(mod)), "nothing is registered any more"


def test_opposite_transforms_between_two_calls_are_gone() -> None:
    x, w, v = relay.var("x", IMAGE.shape), relay.var("w", KERNEL.shape), relay.var("v", (2, 8, 1, 1))
    body = relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, w, padding=1)), v)
    mod = relay.IRModule.from_expr(relay.Function([x, w, v], body))

    def alter(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"})

    with relay.testing.TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", alter):
        new = transform.Sequential([transform.AlterOpLayout(), transform.SimplifyExprPostAlterOp()], opt_level=3)
        with transform.PassContext(opt_level=3):
            out = new(mod)
    calls = [node for node in post_order(out["main"]) if isinstance(node, relay.Call) and node.op.name == "layout_transform"]
    assert sorted(call.attrs.src_layout for call in calls) == ["NCHW", "NHWC", "OIHW", "OIHW"]


def test_layout_config() -> None:
    x, w = relay.var("x", (1, 4, 5, 5)), relay.var("w", (4, 4, 1, 1))
    body = x
    for _ in range(3):
        body = relay.nn.conv2d(body, w)
    mod = relay.IRModule.from_expr(relay.Function([x, w], body))

    def layouts() -> list[str]:
        new = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
        return [n.attrs.data_layout for n in post_order(new["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]

    with transform.LayoutConfig(skip_layers=[0, 2]):
        assert layouts() == ["NCHW", "NHWC", "NCHW"]
    assert layouts() == ["NHWC"] * 3


# ---- legalization --------------------------------------------------------------------------------------------------


def test_legalize() -> None:
    x, w = relay.var("x", (3, 4)), relay.var("w", (2, 4))
    mod = relay.IRModule.from_expr(relay.Function([x, w], relay.exp(relay.nn.dense(relay.tanh(x), w))))
    assert relay.structural_equal(transform.Legalize()(mod), transform.InferType()(mod))
    seen = []

    @relay.op.register_legalize("nn.dense", level=5)
    def legalize(attrs, inputs, types):
        seen.append(([str(ty) for ty in types], inputs[0].op.name, attrs.units))
        return relay.nn.matmul(inputs[0], inputs[1], transpose_b=True)

    try:
        relay.op.register_legalize("nn.dense", lambda attrs, inputs, types: None, level=4)
        new = transform.Legalize()(mod)
    finally:
        relay.op.reset_op_attr("nn.dense", "FTVMLegalize")
    shapes = ["Tensor[(3, 4), float32]", "Tensor[(2, 4), float32]", "Tensor[(3, 2), float32]"]
    assert seen == [(shapes, "tanh", None)] and operators(new) == ["tanh", "nn.matmul", "exp"]
    data = RNG.normal(size=(3, 4)).astype("float32"), RNG.normal(size=(2, 4)).astype("float32")
    assert np.allclose(evaluated(new, *data), evaluated(mod, *data))


def test_a_map_of_another_name() -> None:
    x = relay.var("x", (3,))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    with relay.testing.TempOpAttr("exp", "FTVMOwnLegalize", lambda attrs, inputs, types: relay.op.fast_exp(*inputs)):
        assert operators(transform.Legalize("FTVMOwnLegalize")(mod)) == ["fast_exp"]
        assert operators(transform.Legalize()(mod)) == ["exp"]


def test_attributes_of_a_call() -> None:
    seen = []
    with relay.testing.TempOpAttr("nn.conv2d", "FTVMLegalize", lambda attrs, inputs, types: seen.append(attrs)):
        transform.Legalize()(network())
    (attrs,) = seen
    assert attrs.get_int("groups") == 1 and attrs.get_str("data_layout") == "NCHW" and attrs.get_int_tuple("padding") == (1,)
    with pytest.raises(relay.ArgumentError, match="the call has no attribute padding2; did you mean padding"):
        _ = attrs["padding2"]


def legalized(function):
    with relay.testing.TempOpAttr("nn.conv2d", "FTVMLegalize", function):
        return transform.Legalize()(network())


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: relay.op.register_legalize("nn.dens"), "there is no operator nn.dens; did you mean nn.dense?"),
        (lambda: relay.op.register_legalize("nn.dense", 3), "FTVMLegalize of nn.dense must be a function, not the int 3"),
        (lambda: relay.op.register_op_attr("nn.dense", "x", 1, -1), "register_op_attr: the level must be a whole number"),
        (lambda: relay.op.register_op_attr("nn.dense", 3, 1), "register_op_attr: the attribute must be a str, not the int 3"),
        (lambda: legalized(lambda attrs, inputs, types: 3), "the result of FTVMLegalize of nn.conv2d must be an expression or"),
        (lambda: transform.Legalize(3), "Legalize: legalize_map_attr_name must be a str, not the int 3"),
        (lambda: transform.LayoutConfig(["a"]), "LayoutConfig: a layer must be a whole number of at least 0, not the str 'a'"),
        (lambda: transform.LayoutConfig(3), "LayoutConfig: skip_layers must be a list or tuple, not the int 3"),
    ],
)  # fmt: skip
def test_wrong_registrations(fails, text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        fails()
    assert text in str(error.value)
