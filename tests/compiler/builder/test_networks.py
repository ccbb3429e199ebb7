"""The networks of ``relay.testing``: no weight has an annotation, and they compute what numpy does, at any batch size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order
from relayvm.ops.core.op import Op
from relayvm.ops.core.tensor_types import TensorType
from relayvm.shape_funcs.symbolic.dim import const

from ...ops.images.test_conv import convolution
from ...ops.images.test_conv_transpose import transposed
from ...ops.images.test_pool import pooled

BATCHES = (1, 3)
#: Every network at a small size.
NETWORKS: dict[str, Callable[..., relay.Function]] = {
    "mlp": lambda **how: relay.testing.mlp.get_net(relay.Any(), **how),
    "lstm": lambda **how: relay.testing.lstm.get_net(3, 5, relay.Any(), **how),
    "resnet": lambda **how: relay.testing.resnet.get_net(relay.Any(), 10, 18, (3, 32, 32), width=4, **how),
    "mobilenet": lambda **how: relay.testing.mobilenet.get_net(relay.Any(), 10, (3, 32, 32), alpha=0.125, **how),
    "dcgan": lambda **how: relay.testing.dcgan.get_net(relay.Any(), 6, (3, 32, 32), 2, **how),
    "dqn": lambda **how: relay.testing.dqn.get_net(relay.Any(), 5, (2, 44, 44), **how),
}


def drawn(name: str, array: np.ndarray) -> None:
    """An initializer under which every parameter matters."""
    random = np.random.default_rng(len(name) + array.size)
    if name.endswith(("gamma", "moving_var")):
        array[...] = random.uniform(0.5, 1.5, array.shape)
    else:
        relay.testing.random_weights(array.size)(name, array)
        array[...] += random.normal(0, 0.1, array.shape) if array.ndim == 1 else 0


def inputs(net: relay.Function, batch: int) -> np.ndarray:
    """Random data for the network."""
    ty = net.params[0].annotation
    assert isinstance(ty, TensorType)
    shape = [batch if const(d) is None else int(const(d) or 0) for d in ty.shape]
    return np.random.default_rng(batch).normal(size=shape).astype(ty.dtype)


# ---- numpy ---------------------------------------------------------------------------------------------------------------


def vector(v: np.ndarray, rank: int) -> np.ndarray:
    """A vector along axis 1."""
    return v.reshape(-1, *(1,) * (rank - 2))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def batch_norm(attrs: Any, x: np.ndarray, *vectors: np.ndarray) -> tuple[np.ndarray, ...]:
    gamma, beta, mean, variance = (vector(v, x.ndim) for v in vectors)
    return (x - mean) / np.sqrt(variance + attrs.epsilon) * gamma + beta, *vectors[2:]


def convolved(attrs: Any, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return convolution(x, w, vars(attrs))


NUMPY: dict[str, Callable[..., Any]] = {
    "add": lambda attrs, a, b: a + b,
    "nn.batch_flatten": lambda attrs, x: x.reshape(len(x), -1),
    "nn.batch_norm": batch_norm,
    "nn.bias_add": lambda attrs, x, b: x + vector(b, x.ndim),
    "nn.conv2d": convolved,
    "nn.conv2d_transpose": lambda attrs, x, w: transposed(x, w, vars(attrs)),
    "nn.dense": lambda attrs, x, w: x @ w.T,
    "nn.global_avg_pool2d": lambda attrs, x: x.mean((2, 3), keepdims=True),
    "nn.max_pool2d": lambda attrs, x: pooled(x, "max", vars(attrs)),
    "nn.relu": lambda attrs, x: np.maximum(x, 0),
    "nn.softmax": lambda attrs, x: softmax(x),
    "reshape": lambda attrs, x: x.reshape(attrs.newshape),
    "tanh": lambda attrs, x: np.tanh(x),
}


def computed(net: relay.Function, values: dict[str, np.ndarray]) -> np.ndarray:
    """The result of a network without inner functions, in float64."""
    found: dict[int, Any] = {}
    for node in post_order(net.body):
        match node:
            case relay.Var():
                found[id(node)] = values[node.name].astype("float64")
            case relay.TupleGetItem():
                found[id(node)] = found[id(node.tuple_value)][node.index]
            case relay.Call(op=Op(name=name)):
                found[id(node)] = NUMPY[name](node.attrs, *(found[id(a)] for a in node.args))
    return np.asarray(found[id(net.body)])


def lstm(values: dict[str, np.ndarray]) -> np.ndarray:
    """The recurrence by its definition, in float64."""
    values = {name: value.astype("float64") for name, value in values.items()}
    hidden = memory = np.zeros_like(values["data"][0])
    for x in values["data"]:
        gates = x @ values["i2h_weight"].T + values["i2h_bias"] + hidden @ values["h2h_weight"].T + values["h2h_bias"]
        enter, forget, change, leave = np.split(gates, 4, axis=1)
        memory = memory / (1 + np.exp(-forget)) + np.tanh(change) / (1 + np.exp(-enter))
        hidden = np.tanh(memory) / (1 + np.exp(-leave))
    return hidden


# ---- tests ---------------------------------------------------------------------------------------------------------------


@pytest.mark.lengthy(name=["mlp", "lstm", "dcgan", "dqn"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_weights_have_no_annotation_and_get_types(name: str) -> None:
    net = NETWORKS[name]()
    assert [p.annotation is None for p in net.params] == [False, *(True for _ in net.params[1:])]
    text = relay.astext(relay.IRModule.from_expr(net))
    module = relay.transform.InferType()(relay.parse(text))
    for param in module["main"].params[1:]:
        assert isinstance(param.annotation, TensorType) and param.annotation.is_static, param
    assert relay.structural_equal(relay.parse(relay.astext(module)), module)
    relay.compile(net, target="sim")


@pytest.mark.parametrize("name", ["mlp", "lstm"])
@pytest.mark.parametrize("bound", [False, True])
def test_dense_networks(name: str, bound: bool) -> None:
    net = NETWORKS[name]()
    module, params = relay.testing.create_workload(net, drawn)
    vm = relay.VirtualMachine(relay.compile(module, params=params if bound else {}))
    for batch in BATCHES:
        data = inputs(net, batch)
        wanted = lstm({"data": data, **params}) if name == "lstm" else computed(net, {"data": data, **params})
        np.testing.assert_allclose(vm.run(data, **({} if bound else params)).numpy(), wanted, rtol=1e-5, atol=1e-6)


#: The number of weights, and of numbers in norms that are not trained: those of the papers' networks.
PUBLISHED: dict[str, tuple[Callable[..., relay.Function], int]] = {
    "dqn": (lambda t: t.dqn.get_net(relay.Any()), 1_693_362),
    "squeezenet 1.0": (lambda t: t.squeezenet.get_net(relay.Any()), 1_248_424),
    "squeezenet 1.1": (lambda t: t.squeezenet.get_net(relay.Any(), version="1.1"), 1_235_496),
    "densenet": (lambda t: t.densenet.get_net(relay.Any()), 7_978_856 + 83_648),
    "inception_v3": (lambda t: t.inception_v3.get_net(relay.Any()), 23_834_568 + 34_432),
}


@pytest.mark.extensive(name=("dqn", "squeezenet 1.0"))
@pytest.mark.parametrize("name", PUBLISHED)
def test_numbers_of_weights(name: str) -> None:
    build, count = PUBLISHED[name]
    typed = relay.transform.InferType()(relay.IRModule.from_expr(build(relay.testing)))["main"]
    shapes = [param.annotation.concrete_shape for param in typed.params[1:]]
    assert sum(int(np.prod(shape)) for shape in shapes) == count
    assert str(typed.ret_type) == f"Tensor[(?, {18 if name == 'dqn' else 1000}), float32]"


def test_a_network_keeps_its_form() -> None:
    module, params = relay.testing.synthetic.get_workload()
    function = module["main"]
    assert isinstance(function.body, relay.Call) and function.body.op is relay.op.get("split"), "no let"
    assert str(function.ret_type) == "(Tensor[(1, 3, 24, 12), float32], Tensor[(1, 3, 24, 12), float32])"
    results = relay.create_executor("vm", module, device="cpu", target="cpu").evaluate()(
        np.ones((1, 3, 24, 12), "float32"), **params
    )
    assert [r.shape for r in results] == [(1, 3, 24, 12)] * 2


def test_natural_numbers() -> None:
    t = relay.testing
    prelude = relay.Prelude(relay.IRModule())
    t.add_nat_definitions(prelude)
    double = prelude.mod.get_global_var("nat_double")
    value = relay.create_executor("debug", prelude.mod, device="cpu", target="cpu").evaluate(double(t.make_nat_expr(prelude, 3)))
    assert t.count(prelude, value) == 6 == t.count(prelude, t.make_nat_value(prelude, 6))
    assert value.constructor == value.constructor.name_hint == "s" and value.tag == prelude.mod.get_type("nat")[2].tag
    with pytest.raises(relay.ArgumentError, match="count: the value must be a value of the type nat"):
        t.count(prelude, relay.ADT("Nil"))


#: For each layout the axes of data, and of a weight, and how the program is compiled.
LAYOUTS = {"NCHW": ((0, 1, 2, 3), (0, 1, 2, 3), {"opt_level": 3}), "NHWC": ((0, 2, 3, 1), (2, 3, 1, 0), {})}


@pytest.mark.thinned(2)
@pytest.mark.extensive
@pytest.mark.parametrize("name", ["resnet", "mobilenet", "dcgan", "dqn"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_networks_of_images(name: str, layout: str) -> None:
    """Both layouts give what numpy computes with the channels first."""
    plain, net = NETWORKS[name](), NETWORKS[name](layout=layout)
    _, params = relay.testing.create_workload(plain, drawn)
    data_axes, weight_axes, config = LAYOUTS[layout]
    given = {k: v.transpose(weight_axes) if v.ndim == 4 else v for k, v in params.items()}
    if layout == "NHWC" and name in LAST_CHANNELS:
        given |= LAST_CHANNELS[name](params)
    vm = relay.VirtualMachine(relay.compile(net, params=given, **config))
    for batch in BATCHES:
        data = inputs(plain, batch)
        wanted = computed(plain, {"data": data, **params})
        found = vm.run(data.transpose(data_axes) if data.ndim == 4 else data).numpy()
        wanted = wanted.transpose(data_axes) if wanted.ndim == 4 else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def units_of_dcgan(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first layer for channels last: its units are the elements of an image of 2 by 2."""
    weight, bias = params["g1_weight"], params["g1_bias"]
    return {
        "g1_weight": weight.reshape(-1, 2, 2, weight.shape[1]).transpose(1, 2, 0, 3).reshape(weight.shape),
        "g1_bias": bias.reshape(-1, 2, 2).transpose(1, 2, 0).reshape(-1),
    }


def inputs_of_dqn(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first dense layer for channels last: its inputs are the elements of an image of 2 by 2."""
    weight = params["dense1_weight"]
    return {"dense1_weight": weight.reshape(len(weight), -1, 2, 2).transpose(0, 2, 3, 1).reshape(weight.shape)}


#: The dense layers beside an image whose elements are in another order.
LAST_CHANNELS = {"dcgan": units_of_dcgan, "dqn": inputs_of_dqn}


@pytest.mark.parametrize(("layers", "count"), [(18, 16 + 8 * 10 + 3), (50, 16 + 16 * 15 + 4)])
def test_resnet_of_more_layers_and_a_larger_image(layers: int, count: int) -> None:
    net = relay.testing.resnet.get_net(relay.Any(), 1000, layers, (3, 224, 224))
    module = relay.transform.InferType()(relay.IRModule.from_expr(net))
    found = str(module["main"].body.ty), len(net.params)
    assert found == ("Tensor[(?, 1000), float32]", count)  # weights and vectors of the units, of projections, of the rest


def test_get_workload_is_reproducible_and_has_the_dtype() -> None:
    first, second = (relay.testing.mlp.get_workload(batch_size=2, dtype="float16") for _ in range(2))
    assert relay.structural_equal(first[0], second[0]) and str(first[0]["main"].body.ty) == "Tensor[(2, 10), float16]"
    assert {k: v.dtype.name for k, v in first[1].items()} == dict.fromkeys(
        ["fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "fc3_weight", "fc3_bias"], "float16"
    )
    assert all(np.array_equal(first[1][k], second[1][k]) for k in first[1])
    assert [len(getattr(relay.testing, name).get_workload(*args)[1]) for name, args in SIZES.items()] == [4, 94, 137, 22]


SIZES: dict[str, tuple[Any, ...]] = {
    "lstm": (2, 4),
    "resnet": (1, 2, 18, (3, 8, 8), "NCHW", "float32", 1),
    "mobilenet": (1, 2, (3, 8, 8), "float32", "NCHW", 0.125),
    "dcgan": (1, (3, 16, 16), 1),
}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda t: t.resnet.get_net(1, 10, 19), "resnet: num_layers must be 18, 34, 50, 101, 152, not the int 19"),
        (lambda t: t.resnet.get_net(1, 10, 18, layout="NCWH"), "layout must be 'NCHW' or 'NHWC', not the str 'NCWH'"),
        (lambda t: t.dcgan.get_net(1, oshape=(3, 20, 32)), "dcgan: the height and the width in oshape must be multiples of 16"),
        (lambda t: t.lstm.get_net(0, 4), "lstm: the iterations must be at least 1, not the int 0"),
        (
            lambda t: t.run_opt_pass(relay.var("x", ()), "fold"),
            "run_opt_pass: the pass must be a pass or a list of passes, not the",
        ),
        (lambda t: t.create_workload("mlp"), "create_workload: the network must be a relay.Function, not the str 'mlp'"),
    ],
)
def test_wrong_argument(build: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(relay.ArgumentError) as caught:
        build(relay.testing)
    assert message in str(caught.value)


def test_a_parameter_of_unknown_size_has_no_random_value() -> None:
    x = relay.var("x", shape=(2, relay.Any()))
    net = relay.Function([x, w := relay.var("w")], relay.nn.dense(x, w, units=3))
    with pytest.raises(relay.TypeCheckError, match=r"%w is Tensor\[\(3, \?\), float32\]: no value can be drawn"):
        relay.testing.create_workload(net)


def test_an_expression_through_passes() -> None:
    x = relay.var("x", shape=(relay.Any(), 4))
    dense = relay.nn.dense(x, relay.var("w"), units=3)
    assert str(relay.testing.run_infer_type(dense).checked_type) == "Tensor[(?, 3), float32]"
    first, second = relay.testing.run_infer_type(relay.split(x, 2, axis=1))
    assert str(first.checked_type) == str(second.checked_type) == "Tensor[(?, 2), float32]"
    function = relay.testing.run_infer_type(relay.Function([x], relay.nn.relu(x)))
    assert isinstance(function, relay.Function) and str(function.body.checked_type) == "Tensor[(?, 4), float32]"
    twice = relay.Function([x], relay.add(relay.exp(x), relay.exp(x)))
    passes = [relay.transform.EliminateCommonSubexpr(), relay.transform.DeadCodeElimination()]
    assert relay.astext(relay.testing.run_opt_pass(twice, passes)).count("exp(") == 1


def test_an_unknown_name_is_answered_with_the_names() -> None:
    with pytest.raises(AttributeError, match=r"there is no relay\.testing\.resnext; did you mean resnet"):
        _ = relay.testing.resnext
