"""``relay.analysis``, the visitors of users, ``relay.bind`` and ``relay.assert_structural_equal``."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import relayvm as relay

x, y, z = (relay.var(name, shape=(2,)) for name in "xyz")
analysis = relay.analysis


def test_variables() -> None:
    f = relay.Function([x], relay.Let(z, relay.add(x, y), relay.add(z, z)))
    assert analysis.free_vars(f) == [y] and analysis.bound_vars(f) == [x, z] and analysis.all_vars(f) == [x, z, y]
    assert analysis.all_vars(relay.IRModule.from_expr(relay.Function([x], x))) == [x]


def test_post_order_visit_lists_each_node_once_after_its_parts() -> None:
    seen: list[object] = []
    total = relay.add(x, x)
    analysis.post_order_visit(relay.multiply(total, total), seen.append)
    assert [getattr(node, "name", "call") for node in seen] == ["multiply", "add", "x", "call", "call"]


def test_well_formed() -> None:
    assert analysis.well_formed(relay.Function([x], relay.Let(z, x, relay.add(z, y))))
    assert not analysis.well_formed(relay.Let(z, x, relay.Let(z, y, z)))
    assert not analysis.well_formed(relay.add(relay.Let(z, x, z), z))


def test_detect_feature() -> None:
    total = relay.add(x, x)
    names = {feature.name for feature in analysis.detect_feature(relay.Tuple([total, total]))}
    assert names == {"fVar", "fOp", "fCall", "fTuple", "fGraph"}
    assert "fGraph" not in {feature.name for feature in analysis.detect_feature(relay.add(x, x))}


def test_missing_analysis() -> None:
    with pytest.raises(AttributeError, match=r"no relay\.analysis\.free_var; did you mean free_vars"):
        _ = analysis.free_var


class Calls(relay.ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def visit_call(self, call):
        super().visit_call(call)
        self.names.append(call.op.name)


class Rename(relay.ExprMutator):
    def visit_call(self, call):
        new = super().visit_call(call)
        return relay.tanh(*new.args) if new.op.name == "exp" else new

    def visit_var(self, var):
        return y if var is x else var


def test_visitor_and_mutator() -> None:
    branch = relay.If(relay.const(True), relay.exp(x), relay.TupleGetItem([x, z], 0))
    f = relay.Function([x], relay.Let(z, relay.exp(relay.exp(x)), branch))
    visitor = Calls()
    visitor.visit(f)
    assert visitor.names == ["exp", "exp", "exp"]
    changed = Rename().visit(f)
    other = relay.Function(
        [y], relay.Let(z, relay.tanh(relay.tanh(y)), relay.If(relay.const(True), relay.tanh(y), relay.TupleGetItem([y, z], 0)))
    )
    relay.assert_structural_equal(changed, other)
    assert relay.structural_equal(changed, other) and changed.params == (y,)
    assert relay.ExprMutator().visit(f) is f


def test_a_mutator_in_a_pass_is_typed_again() -> None:
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.exp(x))))

    @relay.transform.function_pass(opt_level=0)
    def rename(function, mod, context):
        return Rename().visit(function)

    fused = relay.transform.FuseOps()(rename(mod))
    data = np.array([0.5, 1], "float32")
    assert np.allclose(relay.VirtualMachine(relay.compile(fused)).run(data).numpy(), np.tanh(data))


@pytest.mark.lengthy(levels=[50])
@pytest.mark.parametrize("levels", [50, 8_000])
def test_deep_programs(levels: int) -> None:
    limit = sys.getrecursionlimit()
    expr = x
    for _ in range(levels):
        expr = relay.exp(expr)
    visitor = Calls()
    visitor.visit(expr)
    assert len(visitor.names) == levels
    assert analysis.free_vars(Rename().visit(expr)) == [y] == analysis.all_vars(relay.bind(expr, {x: y}))
    assert sys.getrecursionlimit() == limit


def test_errors_of_methods_reach_the_caller() -> None:
    class Refuse(relay.ExprVisitor):
        def visit_var(self, var):
            raise KeyError(var.name)

    deep = x
    for _ in range(200):
        deep = relay.exp(deep)
    for expr in (x, deep):
        with pytest.raises(KeyError, match="x"):
            Refuse().visit(expr)


def test_bind() -> None:
    f = relay.Function([x, z], relay.add(relay.add(x, y), z))
    bound = relay.bind(f, {x: relay.const(np.ones(2, "float32")), y: z})
    assert bound.params == (z,) and analysis.all_vars(bound) == [z]
    assert relay.bind(f, {}) is f and relay.bind(x, {x: y}) is y
    with pytest.raises(relay.ArgumentError, match="%z is bound inside"):
        relay.bind(relay.Let(z, x, z), {z: y})
    with pytest.raises(relay.ArgumentError, match="a dict from variables"):
        relay.bind(x, {"x": y})


def test_assert_structural_equal_shows_the_first_difference() -> None:
    def program(op) -> relay.IRModule:
        a = relay.var("a", shape=(2,))
        return relay.IRModule.from_expr(relay.Function([a], op(relay.exp(a))))

    relay.assert_structural_equal(program(relay.tanh), program(relay.tanh))
    with pytest.raises(ValueError, match=r"call tanh 1 .* on the left, call sqrt 1 .* on the right") as caught:
        relay.assert_structural_equal(program(relay.tanh), program(relay.sqrt))
    assert "line 4 is `tanh(%0)` on the left, `sqrt(%0)` on the right" in str(caught.value)
    with pytest.raises(ValueError, match="%x on the left, %y on the right"):
        relay.assert_structural_equal(x, y)
    relay.assert_structural_equal(x, y, map_free_vars=True)


# ---- counts ------------------------------------------------------------------------------------------------------


def network() -> relay.IRModule:
    image, k1, k2 = relay.var("image", (1, 3, 8, 8)), relay.var("k1", (4, 3, 3, 3)), relay.var("k2", (4, 2, 1, 1))
    first = relay.nn.relu(relay.nn.conv2d(image, k1))
    second = relay.nn.conv2d(first, k2, groups=2)
    shape = relay.nn.batch_flatten(relay.add(second, first))
    body = relay.nn.dense(shape, relay.const(np.ones((10, 144), "float32")))
    return relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([image, k1, k2], body)))


def test_counts_of_operators_and_layers() -> None:
    mod = network()
    assert analysis.list_op_freqs(mod) == {
        "nn.conv2d": 2, "nn.relu": 1, "add": 1, "nn.batch_flatten": 1, "nn.dense": 1,
    }  # fmt: skip
    assert analysis.count_layers(mod, ["nn.conv2d", "nn.dense"]) == 3
    assert analysis.count_layers(mod, ["nn.relu"]) == 1 and analysis.count_layers(mod, ["tanh"]) == 0
    normal = relay.transform.ToANormalForm()(mod)
    assert analysis.count_layers(normal, ["nn.conv2d", "nn.dense"]) == 3


def test_multiplications() -> None:
    first, second, last = 4 * 6 * 6 * 3 * 3 * 3, 4 * 6 * 6 * 2, 10 * 144
    assert analysis.get_total_mac_number(network()) == first + second + last
    with pytest.raises(relay.ArgumentError, match=r"nn\.dense has no type yet"):
        analysis.get_total_mac_number(relay.nn.dense(x, x))
    rows = relay.var("rows", (relay.Any(), 4))
    mod = relay.IRModule.from_expr(relay.Function([rows], relay.nn.dense(rows, relay.const(np.ones((2, 4), "float32")))))
    with pytest.raises(relay.ArgumentError, match="get_total_mac_number: the sizes of a tensor must be known"):
        analysis.get_total_mac_number(relay.transform.InferType()(mod))


def test_dtypes_and_constants() -> None:
    flags = relay.var("flags", (2,), "bool")
    chosen = relay.where(flags, x, relay.const(2.0))
    assert analysis.all_dtypes(chosen) == {"bool", "float32"}
    assert analysis.all_dtypes(relay.transform.InferType()(relay.IRModule.from_expr(relay.cast(x, "int8")))) >= {"int8"}
    assert analysis.check_constant(relay.Tuple([relay.const(1), relay.const(2)]))
    assert not analysis.check_constant(relay.add(relay.const(1), relay.const(2))) and not analysis.check_constant(x)


def test_basic_block_normal_form() -> None:
    condition, total = relay.var("c", (), "bool"), relay.add(x, y)
    assert not analysis.check_basic_block_normal_form(relay.If(condition, total, relay.tanh(total)))
    assert analysis.check_basic_block_normal_form(relay.If(condition, relay.tanh(x), relay.tanh(x)))
    assert analysis.check_basic_block_normal_form(relay.Let(z, total, relay.If(condition, z, relay.tanh(z))))
    assert analysis.check_basic_block_normal_form(relay.multiply(total, total))


def test_call_graph() -> None:
    f, g, h = (relay.GlobalVar(name) for name in "fgh")
    module = relay.IRModule({
        "main": relay.Function([x], relay.add(f(x), relay.add(f(x), h(x)))),
        "f": relay.Function([y], g(y)), "g": relay.Function([z], f(z)), "h": relay.Function([w := relay.var("w", (2,))], w),
    })  # fmt: skip
    graph = analysis.CallGraph(module)
    assert graph.ref_count(f) == 2 and graph.ref_count("main") == 0 and graph.global_call_count("main") == 2
    assert graph.is_recursive("f") and graph.is_recursive(g) and not graph.is_recursive("main")
    assert str(graph) == "@main: @f, @h\n@f: @g\n@g: @f\n@h: no calls" and graph.print_var(f) == "@f: @g"
    with pytest.raises(relay.ArgumentError, match="CallGraph: the module has no function @k"):
        graph.ref_count("k")
    with pytest.raises(relay.ArgumentError, match="CallGraph: the module must be an IRModule"):
        analysis.CallGraph(x)


# ---- types and matches -------------------------------------------------------------------------------------------

TEXT = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @first[A](%l: List[A], %other: A) -> A { match? (%l) { Cons(%x, Cons(_, _)) => %x } }
def @both(%a: List[int32], %b: List[int32]) -> int32 { match? ((%a, %b)) { (Nil, _) => 0, (Cons(_, _), Nil) => 1 } }
def @all(%a: List[int32]) -> int32 { match (%a) { Nil => 0, Cons(%x, _) => %x } }
def @main(%n: int32) -> int32 { @all(Cons(%n, Nil())) }
"""


def shown(pattern: relay.Pattern) -> str:
    if isinstance(pattern, relay.PatternConstructor):
        return pattern.constructor.name_hint + (f"({', '.join(map(shown, pattern.patterns))})" if pattern.patterns else "")
    return f"({', '.join(map(shown, pattern.patterns))})" if isinstance(pattern, relay.PatternTuple) else "_"


def test_unmatched_cases() -> None:
    mod = relay.parse(TEXT)
    found = {name: [shown(p) for p in analysis.unmatched_cases(mod[name].body, mod)] for name in ("first", "both", "all")}
    assert found == {"first": ["Cons(_, Nil)", "Nil"], "both": ["(Cons(_, _), Cons(_, _))"], "all": []}
    with pytest.raises(relay.ArgumentError, match="unmatched_cases: the module does not define the type List"):
        analysis.unmatched_cases(mod["all"].body)
    with pytest.raises(relay.ArgumentError, match="unmatched_cases: the first argument must be a match"):
        analysis.unmatched_cases(x)


def test_type_variables() -> None:
    mod = relay.parse(TEXT)
    (a,) = mod["first"].type_params
    assert analysis.all_type_vars(mod["first"]) == analysis.bound_type_vars(mod["first"]) == [a]
    assert analysis.free_type_vars(mod["first"]) == [] and analysis.all_type_vars(mod["main"]) == []
    assert analysis.free_type_vars(mod["first"].ret_type) == [a] and analysis.free_type_vars(mod["first"].params[0]) == [a]


def test_fused_functions() -> None:
    mod = relay.transform.FuseOps()(relay.IRModule.from_expr(relay.Function([x], relay.tanh(relay.exp(x)))))
    (primitive,) = analysis.extract_fused_functions(mod).values()
    assert analysis.list_op_freqs(primitive) == {"exp": 1, "tanh": 1}
    with pytest.raises(relay.ArgumentError, match="extract_fused_functions: the module must be an IRModule"):
        analysis.extract_fused_functions(x)


def test_prelude() -> None:
    prelude = relay.Prelude()
    assert prelude.mod.get_type("List") == (prelude.rlist, prelude.cons, prelude.nil)
    assert prelude.map.name == "map" and "map" in prelude.mod
    numbers = prelude.cons(relay.const(1), prelude.cons(relay.const(2), prelude.nil()))
    prelude.mod["main"] = relay.Function([], prelude.length(numbers))
    assert relay.VirtualMachine(relay.compile(prelude.mod)).run().tolist() == 2
    with pytest.raises(AttributeError, match="the prelude has no fold; did you mean foldr or foldl"):
        _ = prelude.fold
    with pytest.raises(relay.ArgumentError, match="Prelude: the module must be an IRModule"):
        relay.Prelude(3)  # type: ignore[arg-type]
    assert relay.prelude.Prelude is relay.Prelude and relay.adt.Match is relay.Match
