"""Modules taken apart in Relay's idioms: visitors, passes of one's own, instruments, patterns, generic functions.

    python examples/relay_passes.py

Each part looks at a module or changes it, runs it by the executors "debug" and "vm", and compares the results with Python.
A pass gives a module back in the form that it has: shared expressions, constructors and generic functions stay.
"""

import math

import relayvm as relay
from relayvm import dataflow_pattern as dfp

TOLERANCE = 1e-4
X, W = [[1.0, 2.0, -1.0], [0.0, 0.5, 0.25]], [[0.5, -0.5, 1.0], [0.1, 0.2, 0.3]]
DENSE = [[sum(a * b for a, b in zip(row, w, strict=True)) for w in W] for row in X]
EXPECTED = [[2 * math.tanh(value) for value in row] for row in DENSE]


def network():
    """``tanh(p) + tanh(p) * (0.25 + 0.75)`` of a product ``p``, one shared expression, for any number of rows."""
    x = relay.var("x", shape=(relay.Any(), 3), dtype="float32")
    w = relay.var("w", shape=(2, 3), dtype="float32")
    product = relay.nn.dense(x, w)
    one = relay.add(relay.const(0.25), relay.const(0.75))
    body = relay.add(relay.tanh(product), relay.multiply(relay.tanh(product), one))
    return relay.IRModule.from_expr(relay.Function([x, w], body))


def evaluated(mod, *args):
    """The results of both executors."""
    return [relay.create_executor(kind, mod, device="cpu", target="cpu").evaluate()(*args) for kind in ("debug", "vm")]


def operators(function):
    """The names of the operators that a function calls, each shared call once."""
    names = []
    relay.analysis.post_order_visit(function, lambda node: names.append(node.op.name) if isinstance(node, relay.Call) else None)
    return names


# ---- visitors ------------------------------------------------------------------------------------------------------------


class Multiplications(relay.ExprVisitor):
    """The multiplications of each product for a row, from the sizes of its weight; a shared expression counts once."""

    def __init__(self):
        super().__init__()
        self.found = []

    def visit_call(self, call):
        super().visit_call(call)
        if call.op == relay.op.get("nn.dense"):
            rows, columns = call.args[1].checked_type.shape
            assert (rows, columns) == (2, 3), "a known size is a number"
            self.found.append([rows * columns, len(range(rows)), int(columns)])


def visitors():
    """Types of every expression, on the graph that the program has."""
    mod = relay.transform.InferType()(network())
    function = mod["main"]
    left, right = function.body.args
    assert left.args[0] is right.args[0].args[0], "the product is still one expression"
    assert str(function.ret_type) == str(function.body.checked_type) == "Tensor[(?, 2), float32]"
    counter = Multiplications()
    counter.visit(function)
    return [(counter.found, [[6, 2, 3]]), *((result, EXPECTED) for result in evaluated(mod, X, W))]


# ---- passes --------------------------------------------------------------------------------------------------------------


@relay.transform.function_pass(opt_level=1, name="TanhAsSigmoid")
class TanhAsSigmoid:
    """``tanh(x)`` as ``2 sigmoid(2 x) - 1``."""

    def __init__(self, factor):
        self.factor = factor

    def transform_function(self, function, mod, context):
        factor = relay.const(self.factor)

        class Rewrite(relay.ExprMutator):
            def visit_call(self, call):
                new = super().visit_call(call)
                if new.op != relay.op.get("tanh"):
                    return new
                return relay.subtract(
                    relay.multiply(factor, relay.sigmoid(relay.multiply(factor, new.args[0]))), relay.const(1.0)
                )

        return Rewrite().visit(function)


class Log(relay.transform.PassInstrument):
    """The names of the passes that ran, each with the number of calls before and after it; ``SimplifyExpr`` does not run."""

    def __init__(self):
        self.lines = []

    def should_run(self, mod, info):
        return info.name != "SimplifyExpr"

    def run_before_pass(self, mod, info):
        self.lines.append([info.name, len(operators(mod["main"]))])

    def run_after_pass(self, mod, info):
        self.lines[-1].append(len(operators(mod["main"])))


def passes():
    """Passes in order, with one of one's own among them, under an instrument."""
    log = Log()
    listed = [relay.transform.FoldConstant(), relay.transform.SimplifyExpr(), relay.transform.EliminateCommonSubexpr()]
    with relay.transform.PassContext(opt_level=3, instruments=[log]):
        mod = network()
        for each in [*listed, TanhAsSigmoid(2.0)]:
            mod = each(mod)
    # the sum of constants, then the second tanh
    assert log.lines == [["FoldConstant", 6, 5], ["EliminateCommonSubexpr", 5, 4], ["TanhAsSigmoid", 4, 7]], log.lines
    assert not any(isinstance(node, relay.Let) for node in nodes(mod["main"])), "graph form stays graph form"
    normal = relay.transform.ToANormalForm()(mod)
    assert isinstance(normal["main"].body, relay.Let)
    assert isinstance(relay.transform.FoldConstant()(normal)["main"].body, relay.Let)
    back = relay.transform.ToGraphNormalForm()(normal)
    assert relay.structural_equal(back, mod)
    return [(result, EXPECTED) for each in (mod, normal, back) for result in evaluated(each, X, W)]


def nodes(expr):
    """The expressions in an expression."""
    found = []
    relay.analysis.post_order_visit(expr, found.append)
    return found


# ---- patterns ------------------------------------------------------------------------------------------------------------


class OneTanh(dfp.DFPatternCallback):
    """``a + a * 1`` as ``2 a``."""

    def __init__(self):
        super().__init__()
        self.value, self.one = dfp.wildcard(), dfp.is_constant()
        self.pattern = dfp.is_op("add")(self.value, dfp.is_op("multiply")(self.value, self.one))

    def callback(self, pre, post, node_map):
        (value,), (one,) = node_map[self.value], node_map[self.one]
        return relay.multiply(relay.const(2.0), value) if one.data.numpy() == 1 else post


def patterns():
    """A rewrite by a pattern, after the passes that make the pattern occur."""
    prepare = relay.transform.Sequential([relay.transform.FoldConstant(), relay.transform.EliminateCommonSubexpr()])
    with relay.transform.PassContext(opt_level=3):
        mod = prepare(network())
    new = dfp.rewrite(OneTanh(), mod["main"])
    assert operators(new) == ["nn.dense", "tanh", "multiply"], operators(new)
    return [(result, EXPECTED) for result in evaluated(relay.IRModule.from_expr(new), X, W)]


# ---- generic functions -----------------------------------------------------------------------------------------------------


def generic_functions():
    """Lists of the prelude after type inference: signatures over type variables, instances at calls."""
    mod = relay.IRModule()
    prelude = relay.prelude.Prelude(mod)
    _, cons, nil = mod.get_type("List")
    scalar = relay.scalar_type("float32")
    x, y = relay.var("x", scalar), relay.var("y", scalar)
    square = relay.Function([y], relay.multiply(y, y))
    numbers = cons(x, cons(relay.const(2.0), nil()))
    total, item = relay.var("total", scalar), relay.var("item", scalar)
    add = relay.Function([total, item], relay.add(total, item))
    mod["main"] = relay.Function([x], prelude.foldl(add, relay.const(0.0), prelude.map(square, numbers)))
    typed = relay.transform.InferType()(mod)
    assert str(typed["map"].checked_type) == "fn [A, B](fn (A) -> B, List[A]) -> List[B]", typed["map"].checked_type
    calls = {
        node.op.name_hint: node for node in nodes(typed["main"]) if isinstance(node, relay.Call) and hasattr(node.op, "name_hint")
    }
    assert [str(ty) for ty in calls["map"].type_args] == ["float32", "float32"] and "Cons" in calls
    assert str(calls["map"].checked_type) == "List[float32]"
    assert len(typed.functions) == len(mod.functions) > 20, "the functions of the prelude stay"
    folded = relay.transform.FoldConstant()(typed)
    assert folded["map"].type_params and relay.structural_equal(relay.fromtext(folded.astext()), folded)
    return [(result, 13.0) for each in (typed, folded) for result in evaluated(each, 3.0)]


def tensor_arrays():
    """Rows of a tensor as a tensor array, written in another order and stacked again."""
    mod = relay.IRModule()
    prelude = relay.prelude.Prelude(mod)
    unstack, read, write, stack = (
        prelude.get_global_var(f"tensor_array_{name}", "float32") for name in ("unstack_tensor2", "read", "write", "stack")
    )
    data = relay.var("data", shape=(2, 3), dtype="float32")
    zero, one = relay.const(0, "int32"), relay.const(1, "int32")
    rows = relay.var("rows")
    swapped = write(write(rows, zero, read(rows, one)), one, read(rows, zero))
    stacked = relay.var("stacked", shape=(relay.Any(), relay.Any()))
    tensor2 = prelude.get_tensor_ctor("tensor2", "float32")
    clause = relay.Clause(relay.PatternConstructor(tensor2, [relay.PatternVar(stacked)]), stacked)
    body = relay.Let(rows, unstack(data), relay.Match(stack(swapped), [clause], complete=False))
    mod["main"] = relay.Function([data], body)
    typed = relay.transform.InferType()(mod)
    let = typed["main"].body
    assert isinstance(let, relay.Let) and isinstance(let.body, relay.Match) and str(let.var.checked_type).startswith("List[")
    return [(result, X[::-1]) for result in evaluated(typed, X)]


PARTS = (visitors, passes, patterns, generic_functions, tensor_arrays)


def flat(value):
    """The numbers of nested lists."""
    return [number for item in value for number in flat(item)] if isinstance(value, list) else [float(value)]


def check(part):
    """Run a part; its results, compared with Python's."""
    results = part()
    for found, wanted in results:
        got = found if isinstance(found, list) else found.numpy().tolist()
        if any(abs(a - b) > TOLERANCE * (1 + abs(b)) for a, b in zip(flat(got), flat(wanted), strict=True)):
            raise SystemExit(f"{part.__name__}: {got} instead of {wanted}")
    return results


if __name__ == "__main__":
    for each in PARTS:
        print(f"{each.__name__:24} {len(check(each))} results as in Python")
