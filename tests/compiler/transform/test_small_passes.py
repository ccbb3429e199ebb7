"""Relay's passes and analyses that change or find a few calls: results equal those of the unchanged program."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

transform, analysis = relay.transform, relay.analysis


def main(*params: relay.Var, body) -> relay.IRModule:
    mod = relay.IRModule.from_expr(relay.Function(params, body))
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
    return mod


def evaluated(mod: relay.IRModule, *args: np.ndarray):
    return relay.create_executor("debug", mod).evaluate()(*args)


def calls(mod: relay.IRModule, name: str) -> int:
    nodes = post_order(*mod.functions.values())
    return sum(isinstance(n, relay.Call) and getattr(n.op, "name", None) == name for n in nodes)


# ---- transposed weights --------------------------------------------------------------------------------------------


def test_simplify_fc_transpose() -> None:
    x, v, w, b, both = (
        relay.var(name, shape) for name, shape in zip("xvwbu", ((3, 4), (2, 4), (4, 2), (4, 2), (4, 2)), strict=True)
    )
    transposed = relay.transpose(w, [1, 0])
    products = [relay.nn.dense(x, transposed), relay.nn.dense(relay.exp(x), transposed), relay.nn.dense(x, v)]
    used_otherwise = [
        relay.nn.dense(x, relay.transpose(b)),
        b,
        relay.exp(relay.transpose(both)),
        relay.nn.dense(x, relay.transpose(both)),
    ]
    function = relay.Function([x, v, w, b, both], relay.Tuple([*products, *used_otherwise]))
    assert analysis.search_fc_transpose(function) == ["w"]
    mod = main(*function.params, body=function.body)
    new = transform.SimplifyFCTranspose(["w", "b"])(mod)
    assert [p.name_hint for p in new["main"].params] == ["x", "v", "w.T", "b", "u"]
    assert relay.structural_equal(relay.parse(new.astext()), new) and calls(new, "transpose") == 3
    rng = np.random.default_rng(1)
    params = {p.name_hint: rng.normal(size=[int(str(d)) for d in p.annotation.shape]).astype("float32") for p in function.params}
    converted, transposed_params = relay.data_dep_optimization.simplify_fc_transpose.convert(function, params)
    assert relay.structural_equal(converted, new["main"]) and np.array_equal(transposed_params["w.T"], params["w"].T)
    want = evaluated(mod, *params.values())
    got = evaluated(relay.IRModule.from_expr(converted), *transposed_params.values())
    for one, other in zip(got, want, strict=True):
        assert np.array_equal(one.numpy(), other.numpy())


def test_parameters_of_called_functions_stay() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
    def @f(%x: Tensor[(3, 4), float32], %w: Tensor[(4, 2), float32]) { nn.dense(%x, transpose(%w, axes=[1, 0])) }
    def @main(%x: Tensor[(3, 4), float32], %w: Tensor[(4, 2), float32]) { @f(%x, %w) }""")
    assert relay.structural_equal(transform.SimplifyFCTranspose(["w"])(mod), mod)


# ---- numbers of expressions ----------------------------------------------------------------------------------------


def test_extract_an_expression_by_its_number() -> None:
    x, w = relay.var("x", (1, 1, 5, 1)), relay.var("w", (1, 1, 3, 3))
    y = relay.nn.conv2d(x, w, padding=1)
    total = relay.add(y, relay.nn.relu(y))
    first = relay.split(total, 1)
    mod = main(x, w, body=relay.add(first[0], relay.const(1.0)))
    expected = [y, relay.nn.relu(y), total, first.astuple(), first[0]]
    for number, body in enumerate(expected):
        assert relay.structural_equal(analysis.extract_intermdeiate_expr(mod, number), relay.IRModule.from_expr(body)), number
    assert relay.structural_equal(analysis.extract_intermdeiate_expr(mod, 5), mod)


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: analysis.extract_intermdeiate_expr(3, 0), "extract_intermdeiate_expr: the module must be an IRModule, not"),
        (lambda: analysis.extract_intermdeiate_expr(relay.IRModule.from_expr(relay.const(1) + 1), 1), "has 1 expressions with"),
        (lambda: analysis.search_fc_transpose(3), "search_fc_transpose: the argument must be an expression, not the int 3"),
        (lambda: transform.SimplifyFCTranspose("w"), "SimplifyFCTranspose: the weights must be a list or tuple, not the str"),
        (
            lambda: relay.data_dep_optimization.simplify_fc_transpose.convert(3, {}),
            "simplify_fc_transpose.convert: the function must be a relay.Function",
        ),
    ],
)  # fmt: skip
def test_wrong_uses(fails, text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        fails()
    assert text in str(error.value)


def test_missing_optimizations() -> None:
    with pytest.raises(AttributeError, match=r"no relay.data_dep_optimization.bsr_dence; did you mean bsr_dense"):
        _ = relay.data_dep_optimization.bsr_dence


# ---- reshapes, lifetimes ---------------------------------------------------------------------------------------------


def test_remove_standalone_reshapes() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
    def @main(%x: Tensor[(?n, 4), float32]) {
      let %y = reshape(exp(%x), newshape=[-1]);
      let %u = reshape(reshape(%y, newshape=[-1, 2, 2]), newshape=[-1, 4, 1]);
      (reshape(%y, newshape=[-1, 4]), %u, squeeze(%x, axis=[]), reshape(%x, newshape=[-1, 2])) }""")
    new = transform.RemoveStandaloneReshapes()(mod)
    assert relay.structural_equal(relay.parse(new.astext()), new) and calls(new, "reshape") == 2
    x = np.arange(8, dtype="float32").reshape(2, 4)
    for one, other in zip(evaluated(new, x), evaluated(mod, x), strict=True):
        assert one.shape == other.shape and np.array_equal(one.numpy(), other.numpy())


def test_manifest_lifetimes() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
    def @main(%x: Tensor[(?n, 4), float32]) { let %y = exp(%x); let %z = sum(%y); argwhere(greater(%y, %z)) }""")
    new = transform.ManifestLifetimes()(mod)
    assert relay.structural_equal(relay.parse(new.astext()), new)
    assert transform.ManifestLifetimes()(new) is new
    dead: set[relay.Expr] = set()
    body = new["main"].body
    while isinstance(body, relay.Let):
        value = body.value
        assert not dead & set(getattr(value, "args", ()))
        if isinstance(value, relay.Call) and getattr(value.op, "name", "") == "memory.kill":
            dead |= set(value.args)
        body = body.body
    assert len(dead) > 3 and body not in dead
