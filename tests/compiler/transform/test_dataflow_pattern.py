"""``relay.dataflow_pattern`` and ``MergeComposite``."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

dp, transform = relay.dataflow_pattern, relay.transform
x, y = relay.var("x", (2, 3)), relay.var("y", (2, 3), "int32")
any_ = dp.wildcard


# ---- matches -------------------------------------------------------------------------------------------------------

SHARED = any_()
ELEMENTWISE = any_().has_attr({"TOpPattern": 0})(any_())
DIAMOND = dp.is_op("add")(any_(), any_()).dominates(dp.is_op("sort")(any_()), ELEMENTWISE)
SORTED, OTHER = relay.sort(x), relay.sort(x)
MATCHES = [
    (DIAMOND, relay.tanh(relay.exp(SORTED)) + relay.tanh(SORTED), True),
    (DIAMOND, relay.tanh(SORTED) + SORTED, True),
    (DIAMOND, SORTED + SORTED, True),
    (DIAMOND, relay.tanh(SORTED) + relay.tanh(OTHER), False),
    (DIAMOND, relay.tanh(SORTED) + relay.tanh(x), False),
    (DIAMOND, relay.sum(SORTED, 1) + relay.tanh(SORTED), False),
    (DIAMOND, relay.tanh(SORTED) + x, False),
    (DIAMOND, relay.tanh(SORTED), False),
    (dp.is_op("exp")(any_()).dominates(dp.is_var("x")), relay.exp(relay.sum(relay.tanh(x), 1)), True),
    (dp.is_op("exp")(any_()).dominates(dp.is_var("y")), relay.exp(relay.sum(relay.tanh(x), 1)), False),
    (dp.dominates(dp.is_var("x"), ELEMENTWISE, dp.is_op("exp")(any_())), relay.exp(relay.tanh(x)), True),
    (dp.is_let(SHARED, dp.is_constant(), dp.is_op("exp")(SHARED)), relay.Let(x, relay.const(1.0), relay.exp(x)), True),
    (dp.is_let(SHARED, any_(), SHARED), relay.Let(x, relay.const(1.0), relay.exp(x)), False),
    (dp.is_let(any_(), any_(), any_()), relay.exp(x), False),
    (dp.FunctionPattern([SHARED, any_()], dp.is_op("exp")(SHARED)), relay.Function([x, y], relay.exp(x)), True),
    (dp.FunctionPattern([any_(), SHARED], dp.is_op("exp")(SHARED)), relay.Function([x, y], relay.exp(x)), False),
    (dp.FunctionPattern([any_()], any_()), relay.Function([x, y], relay.exp(x)), False),
    (dp.FunctionPattern(None, any_()).has_attr({"Inline": 1}), relay.Function([x], x).with_attr("Inline", 1), True),
    (dp.FunctionPattern(None, dp.is_var()), relay.Function([x], relay.exp(x)), False),
    (any_(), x, True),
    (dp.is_var(), x, True),
    (dp.is_var("x"), x, True),
    (dp.is_var("z"), x, False),
    (dp.is_constant(), relay.const(1), True),
    (dp.is_constant(), x, False),
    (dp.is_op("exp")(any_()), relay.exp(x), True),
    (dp.is_op("exp")(any_()), relay.tanh(x), False),
    (dp.is_op("exp")(any_(), any_()), relay.exp(x), False),
    (dp.CallPattern(dp.is_op("add"), None), x + x, True),
    (dp.is_op("exp") | dp.is_op("tanh"), x, False),
    ((dp.is_op("exp") | dp.is_op("tanh"))(any_()), relay.tanh(x), True),
    (any_() + dp.is_constant(), relay.const(1.0) + x, True),
    (any_() - dp.is_constant(), relay.const(1.0) - x, False),
    (any_() * dp.is_constant(), relay.const(2.0) * x, True),
    (dp.is_constant() / any_(), relay.const(2.0) / x, True),
    (SHARED + SHARED, x + x, True),
    (SHARED + SHARED, x + relay.exp(x), False),
    (dp.is_op("exp")(SHARED) + SHARED, x + relay.exp(x), True),
    (dp.is_op("add")(SHARED | dp.is_constant(), dp.is_op("tanh")(SHARED)), relay.const(1.0) + relay.tanh(x), True),
    (dp.is_tuple([any_(), dp.is_constant()]), relay.Tuple([x, relay.const(1)]), True),
    (dp.is_tuple([any_()]), relay.Tuple([x, x]), False),
    (dp.is_tuple(), relay.Tuple([x, x]), True),
    (dp.is_tuple_get_item(any_(), 1), relay.split(x, 3, 1)[1], True),
    (dp.is_tuple_get_item(any_(), 0), relay.split(x, 3, 1)[1], False),
    (dp.is_tuple_get_item(dp.is_op("split")(any_())), relay.split(x, 3, 1)[1], True),
    (dp.is_if(any_(), dp.is_constant(), any_()), relay.If(relay.const(True), relay.const(1.0), x), True),
    (dp.is_expr(relay.exp(x)), relay.exp(x), True),
    (dp.is_expr(relay.exp(x)), relay.tanh(x), False),
    (dp.is_op("sum")(any_()).has_attr({"keepdims": True}), relay.sum(x, 1, True), True),
    (dp.is_op("sum")(any_()).has_attr({"keepdims": True}), relay.sum(x, 1), False),
    (dp.has_attr({"axis": (1,)}, dp.is_op("sum")(any_())), relay.sum(x, 1), True),
    (dp.has_attr({"no such": 1}), relay.sum(x, 1), False),
    (dp.has_dtype("int32"), y, True),
    (dp.has_dtype("int32"), x, False),
    (dp.has_shape((2, 3), dp.is_var()), x, True),
    (dp.has_shape((3, 2)), x, False),
    (dp.has_type(relay.TensorType((2, 3), "int32")), y, True),
    (dp.has_type(relay.TensorType((2, 3), "int32")), relay.exp(x), False),
    (dp.is_op("exp")(any_()).optional(lambda p: dp.is_op("tanh")(p)), relay.tanh(relay.exp(x)), True),
    (dp.is_op("exp")(any_()).optional(lambda p: dp.is_op("tanh")(p)), relay.exp(x), True),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "expr", "fits"), MATCHES)
def test_matches(pattern, expr, fits: bool) -> None:
    assert pattern.match(expr) is fits


# ---- rewrites ------------------------------------------------------------------------------------------------------


class LogOfExp(dp.DFPatternCallback):
    def __init__(self, **options):
        super().__init__(**options)
        self.x = any_()
        self.pattern = dp.is_op("log")(dp.is_op("exp")(self.x))

    def callback(self, pre, post, node_map):
        assert pre is post is node_map[self.pattern][0]
        return node_map[self.x][0]


class Float(dp.DFPatternCallback):
    def __init__(self):
        super().__init__(require_type=True)
        self.pattern = dp.is_op("exp")(any_()).has_dtype("float32")

    def callback(self, pre, post, node_map):
        return relay.tanh(post.args[0])


class Grow(dp.DFPatternCallback):
    def __init__(self, once: bool):
        super().__init__(rewrite_once=once)
        self.pattern = dp.is_op("exp")(any_())

    def callback(self, pre, post, node_map):
        return relay.exp(post)


def test_rewrites() -> None:
    nested = relay.log(relay.exp(relay.log(relay.exp(x) + relay.const(0.0))))
    assert relay.structural_equal(dp.rewrite(LogOfExp(), nested), relay.log(relay.exp(x) + relay.const(0.0)))
    function = relay.Function([x], relay.log(relay.exp(relay.log(relay.exp(x)))))
    assert relay.structural_equal(LogOfExp().rewrite(function), relay.Function([x], x))
    assert relay.structural_equal(dp.rewrite(Grow(once=True), relay.exp(x)), relay.exp(relay.exp(x)))
    with pytest.raises(relay.ArgumentError, match="rewrite: the replacements match the pattern again and again"):
        dp.rewrite(Grow(once=False), relay.exp(x))


# ---- composite functions -------------------------------------------------------------------------------------------


def composites(mod: relay.IRModule) -> list[tuple[str, str]]:
    functions = [n for n in post_order(mod["main"]) if isinstance(n, relay.Function) and "Composite" in n.attrs]
    return [(f.attrs["Composite"], f.attrs["PartitionedFromPattern"]) for f in functions]


def network() -> relay.IRModule:
    image, kernel = relay.var("image", (1, 3, 4, 4)), relay.var("kernel", (2, 3, 1, 1))
    bias = relay.const(np.array([[[1.0]], [[2.0]]], "float32"))
    first = relay.nn.relu(relay.add(relay.nn.conv2d(image, kernel), bias))
    second = relay.nn.relu(relay.nn.conv2d(first, relay.const(np.ones((2, 2, 1, 1), "float32"))))
    return relay.IRModule.from_expr(relay.Function([image, kernel], relay.exp(second)))


def conv_relu():
    convolution = dp.is_op("nn.conv2d")(any_(), any_())
    return dp.is_op("nn.relu")(convolution.optional(lambda p: p + dp.is_constant()))


def merged(table, mod: relay.IRModule) -> relay.IRModule:
    new = transform.MergeComposite(table)(mod)
    assert relay.structural_equal(relay.parse(new.astext()), new)
    assert str(transform.InferType()(new)["main"].ty) == str(transform.InferType()(mod)["main"].ty)
    return new


def test_merge_composite() -> None:
    mod = network()
    new = merged([("conv_relu", conv_relu())], mod)
    assert sorted(composites(new)) == [("conv_relu", "nn.conv2d_add_nn.relu_"), ("conv_relu", "nn.conv2d_nn.relu_")]
    rng = np.random.default_rng(2)
    data = rng.normal(size=(1, 3, 4, 4)).astype("float32"), rng.normal(size=(2, 3, 1, 1)).astype("float32")
    want, got = (relay.create_executor("debug", m).evaluate()(*data).numpy() for m in (mod, new))
    assert np.array_equal(got, want)
    functions = [n for n in post_order(new["main"]) if isinstance(n, relay.Function) and "Composite" in n.attrs]
    assert [len(f.params) for f in functions] == [2, 2], "the constant that the pattern names stays inside"


def test_the_table_has_an_order_and_checks() -> None:
    plain = dp.is_op("nn.conv2d")(any_(), any_())

    def has_bias(expr):
        return expr.args[0].op.name == "add"

    table = [
        ("never", conv_relu(), lambda expr: False),
        ("conv_relu", conv_relu(), has_bias),
        ("conv", plain),
    ]
    assert sorted(composites(merged(table, network()))) == [("conv", "nn.conv2d_"), ("conv_relu", "nn.conv2d_add_nn.relu_")]
    assert sorted(composites(merged(table[::-1], network()))) == [("conv", "nn.conv2d_"), ("conv", "nn.conv2d_")]


def test_a_value_that_is_used_elsewhere_prevents_the_match() -> None:
    a = relay.var("a", (4,))
    inner = relay.exp(a)
    pattern = [("both", dp.is_op("tanh")(dp.is_op("exp")(any_())))]
    kept = relay.IRModule.from_expr(relay.Function([a], relay.add(relay.tanh(inner), inner)))
    assert relay.structural_equal(transform.MergeComposite(pattern)(kept), transform.InferType()(kept))
    shared = relay.tanh(inner)
    twice = relay.IRModule.from_expr(relay.Function([a], relay.add(shared, shared)))
    assert composites(merged(pattern, twice)) == [("both", "exp_tanh_")]
    field = [("split", dp.is_tuple_get_item(dp.is_op("split")(any_())))]
    parts = relay.IRModule.from_expr(relay.Function([a], relay.split(a, 2)[1]))
    assert composites(merged(field, parts)) == [("split", "split_TupleGetItem1_")]


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: dp.is_op("nn.conv2"), "there is no operator nn.conv2; did you mean nn.conv2d"),
        (lambda: dp.is_op("exp")(3), "a pattern of an argument must be a pattern, not the int 3"),
        (lambda: dp.is_var(3), "is_var: the name must be a str, not the int 3"),
        (lambda: any_().match(3), "match: the expression must be an expression, not the int 3"),
        (lambda: any_().has_type(3), "has_type: the type must be a type, not the int 3"),
        (lambda: any_().optional(lambda p: 3), "the optional pattern must be a pattern, not the int 3"),
        (lambda: dp.rewrite(3, x), "rewrite: a callback must be a DFPatternCallback with a pattern"),
        (lambda: dp.rewrite(LogOfExp(), 3), "rewrite: the expression must be an expression, not the int 3"),
        (lambda: dp.FunctionPattern([3], any_()), "FunctionPattern: a parameter must be a pattern, not the int 3"),
        (lambda: dp.is_let(3, any_(), any_()), "is_let: a part must be a pattern, not the int 3"),
        (lambda: any_().dominates(3), "dominates: a part must be a pattern, not the int 3"),
        (lambda: any_().partition(3), "partition: the expression must be an expression, not the int 3"),
        (lambda: any_().partition(x, check=3), "partition: check must be a function of an expression, not the int 3"),
        (lambda: transform.MergeComposite([("a", 3)]), "a row of the pattern table must be a name, a pattern, and perhaps a"),
        (lambda: transform.MergeComposite(3), "MergeComposite: the pattern table must be a list or tuple, not the int 3"),
    ],
)  # fmt: skip
def test_wrong_patterns(fails, text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        fails()
    assert text in str(error.value)


def test_partition() -> None:
    body = relay.exp(relay.tanh(x)) + relay.tanh(relay.exp(y.astype("float32")))
    pattern = dp.is_op("exp")(any_())
    got = dp.partition(
        pattern, relay.Function([x, y], body), {"Kind": "e"}, lambda expr: isinstance(expr.args[0].op, relay.op.Op)
    )
    functions = [n for n in post_order(got.body) if isinstance(n, relay.Function)]
    assert [(dict(f.attrs), len(f.params)) for f in functions] == [({"Kind": "e", "PartitionedFromPattern": "exp_"}, 1)] * 2
    assert relay.structural_equal(relay.parse_expr(got.astext()), got)
    inlined = relay.transform.InferType()(relay.IRModule.from_expr(got))
    assert str(inlined["main"].ty.ret_type) == "Tensor[(2, 3), float32]"
    assert relay.structural_equal(dp.partition(pattern, got), got), "what is partitioned stays"
    assert pattern.partition(body, check=lambda expr: False) is body


def test_a_partition_of_a_diamond_has_its_path() -> None:
    diamond = relay.tanh(relay.exp(SORTED)) + relay.tanh(SORTED)
    got = DIAMOND.partition(relay.exp(diamond))
    (function,) = (n for n in post_order(got) if isinstance(n, relay.Function))
    assert function.attrs["PartitionedFromPattern"] == "sort_exp_tanh_tanh_add_" and len(function.params) == 1
    kept = relay.Tuple([diamond, SORTED])
    assert relay.structural_equal(DIAMOND.partition(kept), kept), "the sorted values are used elsewhere"


def test_a_rewrite_sees_the_path() -> None:
    class Between(dp.DFPatternCallback):
        def __init__(self):
            super().__init__(rewrite_once=True)
            self.pattern = DIAMOND

        def callback(self, pre, post, node_map):
            assert node_map[DIAMOND.parent][0].op.name == "sort"
            return relay.const(float(len(node_map[ELEMENTWISE])))

    found = Between().rewrite(relay.exp(relay.tanh(relay.exp(SORTED)) + relay.tanh(SORTED)))
    assert relay.structural_equal(found, relay.exp(relay.const(3.0)))
