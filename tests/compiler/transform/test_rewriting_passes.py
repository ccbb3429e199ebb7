"""Relay's passes that the compiler does not run by itself: results equal those of the unchanged program."""

from __future__ import annotations

from typing import Any as AnyValue

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

transform = relay.transform
X = np.random.default_rng(1).normal(size=(2, 4)).astype("float32")


def x(name: str = "x") -> relay.Var:
    return relay.var(name, shape=(relay.Any(), 4))


def main(*params: relay.Var, body: relay.Expr) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function(params, body))


def names(mod: relay.IRModule) -> list[str]:
    nodes = [n for f in mod.functions.values() for n in post_order(f)]
    return sorted(n.op.name for n in nodes if isinstance(n, relay.Call))


def run(mod: relay.IRModule, *args: np.ndarray) -> AnyValue:
    with relay.VirtualMachine(relay.compile(mod)) as vm:
        return vm.run(*args)


def weights(*shape: int) -> relay.Constant:
    return relay.const(np.random.default_rng(sum(shape)).normal(size=shape).astype("float32"))


# ---- operators one by one ----------------------------------------------------------------------------------------


def test_fast_math() -> None:
    a = x()
    mod = main(a, body=relay.nn.softmax(relay.tanh(relay.erf(relay.exp(a)))))
    assert names(transform.FastMath()(mod)) == ["fast_erf", "fast_exp", "fast_tanh", "nn.fast_softmax"]
    seq = transform.Sequential([transform.FastMath()])
    assert "exp" in names(seq(mod)), "its level is 4"
    with transform.PassContext(opt_level=4):
        assert "exp" not in names(seq(mod))


def test_div_to_mul() -> None:
    a = x()
    mod = main(a, body=relay.divide(relay.divide(a, relay.const([2.0, 4.0, 8.0, 0.5])), relay.exp(a)))
    new = transform.DivToMul()(mod)
    assert names(new) == ["divide", "exp", "multiply"]
    kept = main(a, body=relay.divide(a, relay.const(0.0)))
    assert names(transform.DivToMul()(kept)) == ["divide"]
    (reciprocal,) = [n for n in post_order(new["main"]) if isinstance(n, relay.Constant)]
    assert reciprocal.data.tolist() == [0.5, 0.25, 0.125, 2.0]


def test_canonicalize_ops() -> None:
    image = relay.var("image", (1, 3, 2, 2))
    mod = main(image, body=relay.nn.bias_add(image, relay.const([1.0, 2.0, 3.0])))
    new = transform.CanonicalizeOps()(mod)
    assert names(new) == ["add", "expand_dims"]
    data = np.arange(12, dtype="float32").reshape(1, 3, 2, 2)
    assert np.array_equal(run(new, data).numpy(), run(mod, data).numpy())
    divided = transform.DivToMul()(main(a := x(), body=relay.divide(a, relay.const(2.0))))
    assert np.array_equal(run(divided, X).numpy(), X / 2)


def test_fold_explicit_padding() -> None:
    image, kernel = relay.var("image", (1, 3, 5, 5)), relay.var("kernel", (2, 3, 3, 3))
    padded = relay.nn.pad(image, ((0, 0), (0, 0), (1, 2), (0, 3)))
    new = transform.FoldExplicitPadding()(main(image, kernel, body=relay.nn.conv2d(padded, kernel, padding=(1, 0))))
    assert names(new) == ["nn.conv2d"] and new["main"].body.attrs.padding == (2, 0, 3, 3)
    for other in (
        relay.nn.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)), 1.0),
        relay.nn.pad(image, ((0, 1), (0, 0), (1, 1), (1, 1))),
        relay.nn.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)), 0, "edge"),
    ):
        mod = main(image, kernel, body=relay.nn.conv2d(other, kernel))
        assert names(transform.FoldExplicitPadding()(mod)) == ["nn.conv2d", "nn.pad"]


# ---- functions and values ----------------------------------------------------------------------------------------


def test_inline() -> None:
    a, b, c = x("a"), x("b"), x("c")
    double, twice = relay.GlobalVar("double"), relay.GlobalVar("twice")
    t = relay.var("t")
    mod = relay.IRModule({
        "main": relay.Function([a], twice(a) + twice(relay.exp(a))),
        "twice": relay.Function([b], double(double(b))).with_attr("Inline", 1),
        "double": relay.Function([c], relay.Let(t, c + c, t)).with_attr("Inline", 1),
    })  # fmt: skip
    new = transform.Inline()(mod)
    assert list(new.functions) == ["main"] and names(new) == ["add"] * 5 + ["exp"]
    assert relay.analysis.well_formed(new)
    assert np.allclose(run(new, X).numpy(), 4 * X + 4 * np.exp(X), rtol=1e-5)
    plain = relay.IRModule({name: f.with_attr("Inline", 0) for name, f in mod.functions.items()})
    assert list(transform.Inline()(plain).functions) == ["main", "twice", "double"]


ROWS = """
#[version = "0.0.5"]
def @both(%x: Tensor[(?n), float32], %y: Tensor[(?n), float32], Inline=1) -> Tensor[(?n), float32] { %x + %y }
def @main(%a: Tensor[(?n), float32], %b: Tensor[(?m), float32]) -> (Tensor[(?n), float32], Tensor[(?m), float32]) {
  (@both(%a, %a), @both(%b, %b))
}
"""


def test_named_sizes_of_an_inlined_function_are_its_own() -> None:
    mod = relay.parse(ROWS)
    assert list(transform.Inline()(mod).functions) == ["main"]
    first, second = run(mod, X[0], X[0, :3])  # `compile` puts the bodies in place of the calls
    assert np.array_equal(first.numpy(), 2 * X[0]) and np.array_equal(second.numpy(), 2 * X[0, :3])


def test_recursive_functions_are_not_inlined() -> None:
    n, loop = relay.var("n", (), "int32"), relay.GlobalVar("loop")
    body = relay.If(n < 1, n, loop(n - 1))
    mod = relay.IRModule({"main": relay.Function([m := relay.var("m", (), "int32")], loop(m))})
    mod["loop"] = relay.Function([n], body, relay.scalar_type("int32")).with_attr("Inline", 1)
    assert list(transform.Inline()(mod).functions) == ["main", "loop"]


def test_defuse_is_the_inverse_of_fuse() -> None:
    a = x()
    mod = main(a, body=relay.sum(relay.exp(relay.tanh(a)), axis=1))
    fused = transform.FuseOps()(mod)
    new = transform.DefuseOps()(fused)
    assert len(fused.functions) > 1 and list(new.functions) == ["main"] and names(new) == names(mod)
    assert np.allclose(run(new, X).numpy(), np.exp(np.tanh(X)).sum(1), rtol=1e-5)


def test_to_graph_normal_form() -> None:
    a, t, f, p = x(), relay.var("t"), relay.var("f"), x("p")
    square = relay.Function([p], relay.Let(u := relay.var("u"), p * p, u))
    mod = main(a, body=relay.Let(f, square, relay.Let(t, relay.exp(a), relay.add(relay.Call(f, [t]), t))))
    graph = transform.ToGraphNormalForm()(mod)
    lets = [n for n in post_order(graph["main"]) if isinstance(n, relay.Let)]
    assert [let.var for let in lets] == [f] and names(transform.ToANormalForm()(graph)) == names(transform.ToANormalForm()(mod))
    normal = transform.ToANormalForm()(program := main(a, body=relay.exp(relay.tanh(a)) + relay.tanh(a)))
    assert relay.structural_equal(transform.ToGraphNormalForm()(normal), program)


# ---- calls on the same data --------------------------------------------------------------------------------------


def test_combine_parallel_dense() -> None:
    a = x()
    parts = [relay.nn.dense(a, weights(n, 4)) for n in (3, 5, 2)]
    mod = main(a, body=relay.Tuple([*parts, relay.nn.dense(relay.exp(a), weights(3, 4))]))
    new = transform.CombineParallelDense()(mod)
    assert names(new).count("nn.dense") == 2 and names(new).count("strided_slice") == 3
    assert names(transform.CombineParallelDense(min_num_branches=4)(mod)).count("nn.dense") == 4
    for one, other in zip(run(new, X), run(mod, X), strict=True):
        assert np.allclose(one.numpy(), other.numpy(), rtol=1e-5)


def test_combine_parallel_conv2d_and_batch_matmul() -> None:
    image = relay.var("image", (1, 3, 4, 4))
    kernels = [relay.var(f"k{n}", (n, 3, 1, 1)) for n in (2, 4)]
    results = [relay.nn.conv2d(image, k, channels=n) for k, n in zip(kernels, (2, 4), strict=True)]
    mod = main(image, *kernels, body=relay.Tuple(results))
    new = transform.CombineParallelConv2D(2)(mod)
    assert names(new) == ["concatenate", "nn.conv2d", "strided_slice", "strided_slice"]
    typed = transform.InferType()(new)["main"].ty
    assert typed is not None and typed.result == transform.InferType()(mod)["main"].ty.result
    b = relay.var("b", (2, 3, 4))
    products = main(b, body=relay.Tuple([relay.nn.batch_matmul(b, weights(2, n, 4)) for n in (1, 2, 3)]))
    with transform.PassContext(opt_level=4):
        assert names(transform.BatchingOps()(products)).count("nn.batch_matmul") == 1


def test_weights_that_are_computed_are_not_combined() -> None:
    a = x()
    first = relay.nn.dense(a, weights(4, 4))
    mod = main(a, body=relay.Tuple([first, relay.nn.dense(a, relay.nn.dense(weights(4, 4), weights(4, 4)))]))
    assert names(transform.CombineParallelDense(2)(mod)) == ["nn.dense"] * 3


# ---- whole programs and expressions ------------------------------------------------------------------------------


def test_annotate_spans() -> None:
    a = x()
    new = transform.AnnotateSpans()(main(a, body=relay.exp(a)))
    assert relay.structural_equal(new, main(a, body=relay.exp(a)))
    span = new["main"].body.span
    assert span is not None and span.source.name == "GeneratedSource"


def test_change_batch() -> None:
    data, weight = relay.var("data", (1, 4)), relay.var("weight", (3, 4))
    mod = transform.InferType()(main(data, weight, body=relay.nn.dense(data, weight)))
    typed = transform.InferType()(transform.ChangeBatch({mod["main"].params[0]: 0}, 8)(mod))
    assert str(typed["main"].ret_type) == str(typed["main"].ty.result) == "Tensor[(8, 3), float32]"


def test_expressions() -> None:
    a = x()
    assert transform.InferTypeLocal(relay.sum(a, axis=1)).dtype == "float32"
    assert transform.InferTypeLocal(relay.sum(a, axis=1)).rank == 1
    normal = transform.ToANormalFormExpr(relay.exp(relay.tanh(a)))
    assert isinstance(normal, relay.Let) and normal.value.op.name == "tanh"
    assert transform.build_config(opt_level=3).opt_level == 3


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: transform.FastMath(1), "relay.transform.FastMath takes no arguments"),
        (lambda: transform.CombineParallelDense(1), "CombineParallelDense: min_num_branches must be"),
        (lambda: transform.ChangeBatch({"x": 0}), "ChangeBatch: the data must be a dict from parameters with shapes to their ax"),
        (lambda: transform.ChangeBatch(3), "ChangeBatch: the data must be a dict from parameters with shapes to their axes"),
        (lambda: transform.InferTypeLocal(3), "InferType: the argument must be an expression, not"),
    ],
)  # fmt: skip
def test_wrong_uses(fails: AnyValue, text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        fails()
    assert text in str(error.value)


# ---- precision ---------------------------------------------------------------------------------------------------


def dtypes(mod: relay.IRModule) -> dict[str, str]:
    typed = transform.InferType()(mod)
    calls = [n for n in post_order(typed["main"]) if isinstance(n, relay.Call)]
    return {call.op.name: call.ty.dtype for call in calls if call.op.name != "cast"}


def test_mixed_precision() -> None:
    a, bias = x(), relay.var("bias", (3,))
    product = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(a, weights(3, 4)), bias))
    joined = relay.concatenate([product, relay.exp(product)], 1)
    mod = main(a, bias, body=relay.sum(joined, axis=1))
    new = transform.ToMixedPrecision()(mod)
    assert dtypes(new) == {
        "nn.dense": "float16", "nn.bias_add": "float16", "nn.relu": "float16", "exp": "float32", "concatenate": "float16",
        "sum": "float32",
    }  # fmt: skip
    given = np.ones(3, "float32")
    assert np.allclose(run(new, X, given).numpy(), run(mod, X, given).numpy(), rtol=2e-2)


def test_mixed_precision_of_the_result() -> None:
    a = x()
    mod = main(a, body=relay.nn.dense(a, weights(3, 4)))
    changed = transform.InferType()(transform.ToMixedPrecision("bfloat16")(mod))
    assert changed["main"].ty.result.dtype == "bfloat16" and changed["main"].params[0].annotation.dtype == "float32"
    with transform.PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        kept = transform.InferType()(transform.ToMixedPrecision()(mod))
    assert kept["main"].ty.result.dtype == "float32"
    plain = main(a, body=relay.exp(a) + a)
    assert relay.structural_equal(transform.ToMixedPrecision()(plain), transform.InferType()(plain))


def test_recast() -> None:
    a = x()
    body = relay.nn.dense(relay.nn.dense(a, weights(4, 4)), weights(2, 4))
    new = transform.recast(relay.Function([a], body), "float16", "float32", ["nn.dense"], skip_layers=[-1])
    typed = transform.InferType()(relay.IRModule.from_expr(new))
    products = [n for n in post_order(typed["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.dense"]
    assert [call.args[0].ty.dtype for call in products] == ["float16", "float32"]
    assert all(call.ty.dtype == "float32" for call in products)
    same = transform.recast(relay.Function([a], body), "float16", "float16")
    assert names(relay.IRModule.from_expr(same)) == ["nn.dense", "nn.dense"]


def test_wrong_precision() -> None:
    with pytest.raises(relay.ArgumentError, match="mixed_precision_type must be float16 or bfloat16, not"):
        transform.ToMixedPrecision("int8")
    with pytest.raises(relay.ArgumentError, match="recast: the first argument must be an expression"):
        transform.recast(3, "float16", "float32")
    assert relay.pretty_print(x()) == relay.astext(x(), show_meta_data=False)


def test_reads_and_writes_of_references_keep_their_order() -> None:
    a, cell, old, ignored = relay.var("a", ()), relay.var("cell"), relay.var("old"), relay.var("_")
    body = relay.Let(ignored, relay.RefWrite(cell, relay.exp(a)), relay.add(old, relay.RefRead(cell)))
    body = relay.Let(cell, relay.RefCreate(a), relay.Let(old, relay.RefRead(cell), body))
    mod = main(a, body=body)
    graph = transform.ToGraphNormalForm()(mod)
    lets = [n.var for n in post_order(graph["main"]) if isinstance(n, relay.Let)]
    assert set(lets) == {cell, old, ignored}


# ---- layouts and values that are functions -----------------------------------------------------------------------


def test_convert_layout() -> None:
    image = relay.var("image", (1, 3, 6, 6))
    first = relay.nn.relu(relay.nn.conv2d(image, weights(4, 3, 3, 3), padding=1))
    pooled = relay.nn.max_pool2d(first, 2, 2)
    mod = main(image, body=relay.nn.conv2d(pooled, weights(2, 4, 1, 1)))
    layouts = {"nn.conv2d": ["NHWC", "default"], "nn.max_pool2d": ["NHWC"]}
    new = transform.ConvertLayout(layouts)(mod)
    calls = [n for n in post_order(new["main"]) if isinstance(n, relay.Call)]
    assert [c.attrs.data_layout for c in calls if c.op.name == "nn.conv2d"] == ["NHWC", "NHWC"]
    transforms = [(c.attrs.src_layout, c.attrs.dst_layout) for c in calls if c.op.name == "layout_transform"]
    assert sorted(transforms) == [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("OIHW", "HWIO"), ("OIHW", "HWIO")]
    data = np.random.default_rng(3).normal(size=(1, 3, 6, 6)).astype("float32")
    assert np.allclose(run(new, data).numpy(), run(mod, data).numpy(), rtol=1e-4, atol=1e-5)
    assert relay.structural_equal(transform.ConvertLayout({"nn.conv2d": ["NCHW"]})(mod), transform.InferType()(mod))


def test_eta_expand() -> None:
    text = """#[version = "0.0.5"]
    type Box { Full(int32), Empty }
    def @next(%n: int32) -> int32 { %n + 1 }
    def @twice(%f: fn(int32) -> int32, %n: int32) -> int32 { %f(%f(%n)) }
    def @main(%n: int32) -> int32 { let %box = Full; @twice(@next, %n) }
    """
    mod = relay.parse(text)
    new = transform.EtaExpand(expand_global_var=True)(mod)
    (argument,) = [n.args[0] for n in post_order(new["main"]) if isinstance(n, relay.Call) and n.op.name == "twice"]
    assert isinstance(argument, relay.Function) and argument.body.op.name == "next"
    assert run(new, np.int32(3)).tolist() == 5
    assert isinstance(transform.EtaExpand(expand_constructor=True)(mod)["main"].body.value, relay.Function)
    assert relay.structural_equal(transform.EtaExpand()(mod), mod)


@pytest.mark.parametrize(
    ("layouts", "text"),
    [
        ({"nn.dense": ["NC"]}, "ConvertLayout: an operator must be a convolution or a pool, not"),
        ({"nn.conv2d": ["NHWC", "HWIO", "NHWC"]}, "ConvertLayout: the layouts of nn.conv2d must be the layouts of data and"),
        ({"nn.max_pool2d": ["NHWC", "default"]}, "ConvertLayout: the layouts of nn.max_pool2d must be one layout, not"),
    ],
)  # fmt: skip
def test_wrong_layouts(layouts: dict[str, list[str]], text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        transform.ConvertLayout(layouts)
    assert text in str(error.value)


def test_optimize() -> None:
    a = x()
    module, params = relay.optimize(main(a, body=relay.exp(a)), "cpu")
    assert isinstance(module, relay.IRModule) and params == {}


@pytest.mark.parametrize("crops", [((0, 0), (0, 0)), ((1, 1), (2, 0))])
def test_flatten_atrous_conv(crops: tuple[tuple[int, int], ...]) -> None:
    image = relay.var("image", (1, 8, 8, 2))
    blocks = relay.nn.space_to_batch_nd(image, (2, 2), ((2, 2), (2, 2)))
    conv = relay.nn.conv2d(blocks, weights(3, 3, 2, 3), data_layout="NHWC", kernel_layout="HWIO")
    mod = main(image, body=relay.nn.batch_to_space_nd(conv, (2, 2), crops))
    new = transform.FlattenAtrousConv()(mod)
    assert names(new) == ["nn.conv2d"] and new["main"].body.attrs.dilation == (2, 2)
    data = np.random.default_rng(4).normal(size=(1, 8, 8, 2)).astype("float32")
    assert np.allclose(run(new, data).numpy(), run(mod, data).numpy(), rtol=1e-4, atol=1e-5)
    with_strides = relay.nn.conv2d(blocks, weights(3, 3, 2, 3), 2, data_layout="NHWC", kernel_layout="HWIO")
    kept = main(image, body=relay.nn.batch_to_space_nd(with_strides, (2, 2), crops))
    assert relay.structural_equal(transform.FlattenAtrousConv()(kept), kept)


def test_canonicalize_cast() -> None:
    a = relay.var("a", (2,), "int8")
    wide = relay.cast(a, "int32")
    mod = main(a, body=relay.Tuple([relay.add(wide, wide), relay.negative(wide)]))
    assert names(mod).count("cast") == 1
    assert names(transform.CanonicalizeCast()(mod)).count("cast") == 3


def test_while_loop() -> None:
    i, rows = relay.var("i", (), "int32"), relay.var("rows", (relay.Any(), 2))
    loop = relay.loops.while_loop(lambda i, rows: i < 3, [i, rows], lambda i, rows: [i + 1, relay.concatenate([rows, rows], 0)])
    start = relay.var("start", (1, 2))
    count, found = run(main(start, body=relay.Call(loop, [relay.const(0), start])), np.ones((1, 2), "float32"))
    assert count.tolist() == 3 and found.shape == (8, 2)
    assert [
        p.annotation.dtype for p in relay.loops.while_loop(lambda n: n < 2, [relay.const(0)], lambda n: [n]).value.params
    ] == ["int32"]
    with pytest.raises(relay.ArgumentError, match="while_loop: the result of loop_bodies must be 2 expressions, one for each"):
        relay.loops.while_loop(lambda i, rows: i < 3, [i, rows], lambda i, rows: [i])
    with pytest.raises(relay.ArgumentError, match="while_loop: cond must be a function of the loop's variables, not"):
        relay.loops.while_loop(3, [i], lambda i: [i])
