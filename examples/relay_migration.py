"""Programs in the Python of Relay's users: builder, prelude, tensor arrays, passes, compiler and machine.

    python examples/relay_migration.py

Each part builds a program, runs it, and compares its result with Python.  The only import is relayvm; its names are Relay's.
"""

import relayvm as relay

TOLERANCE = 1e-4


def dense_network(target):
    """A perceptron without a single annotated weight, with late-bound parameters and a batch of any size."""
    data = relay.var("data", shape=(relay.Any(), 4), dtype="float32")
    hidden = relay.nn.dense(data, relay.var("fc1_weight"), units=3)
    hidden = relay.nn.relu(relay.nn.bias_add(hidden, relay.var("fc1_bias")))
    scores = relay.nn.dense(hidden, relay.var("fc2_weight"), units=2)
    net = relay.Function(relay.analysis.free_vars(scores), scores)
    mod = relay.IRModule.from_expr(net)

    params = {
        "fc1_weight": [[0.1 * (i + j) for j in range(4)] for i in range(3)],
        "fc1_bias": [0.5, -0.5, 0.25],
        "fc2_weight": [[1.0, -1.0, 0.5], [0.25, 0.5, -2.0]],
    }
    params = {name: relay.const(value, "float32").data.numpy() for name, value in params.items()}
    params = relay.load_param_dict(relay.save_param_dict(params))
    with relay.transform.PassContext(opt_level=3):
        compiler = relay.vm.VMCompiler()
        compiler.set_params(params)
        compiler.lower(mod, target)
        compiler.codegen()
        exe = compiler.get_exec()
    vm = relay.VirtualMachine(exe)
    results = []
    for rows in (1, 3):
        batch = [[0.5 * i + j for j in range(4)] for i in range(rows)]
        vm.set_input("main", data=batch)
        vm.invoke_stateful("main")
        results.append((vm.get_outputs()[0], [reference_network(row, params) for row in batch]))
    return results


def reference_network(row, params):
    """The scores of one row."""
    hidden = [
        max(0.0, sum(a * b for a, b in zip(row, weights, strict=True)) + bias)
        for weights, bias in zip(params["fc1_weight"].tolist(), params["fc1_bias"].tolist(), strict=True)
    ]
    return [sum(a * b for a, b in zip(hidden, weights, strict=True)) for weights in params["fc2_weight"].tolist()]


def loop_with_scope_builder(target):
    """A loop as a recursive function, built with a ScopeBuilder: the powers of 2 below a limit."""
    mod = relay.IRModule()
    double = relay.GlobalVar("double")
    scalar = relay.scalar_type("int32")
    x, limit = relay.var("x", scalar), relay.var("limit", scalar)
    scope = relay.ScopeBuilder()
    with scope.if_scope(relay.less(x, limit)):
        twice = scope.let("twice", relay.multiply(x, relay.const(2, "int32")))
        scope.ret(double(twice, limit))
    with scope.else_scope():
        scope.ret(x)
    mod[double] = relay.Function([x, limit], scope.get(), scalar)
    bound = relay.var("bound", scalar)
    mod["main"] = relay.Function([bound], double(relay.const(1, "int32"), bound), scalar)

    exe = relay.vm.compile(mod, target)
    vm = relay.VirtualMachine(exe)
    results = []
    for bound_value in (1, 100, 1000):
        power = 1
        while power < bound_value:
            power *= 2
        results.append((vm.invoke("main", bound_value), power))
    return results


def lists_and_closures(target):
    """Lists of the prelude: the sum of squares of a list, and the composition of closures."""
    mod = relay.IRModule()
    prelude = relay.prelude.Prelude(mod)
    _, cons, nil = mod.get_type("List")
    scalar = relay.scalar_type("float32")

    numbers = nil()
    for number in (4.0, 3.0, 2.0, 1.0):
        numbers = cons(relay.const(number, "float32"), numbers)
    value = relay.var("value", scalar)
    square = relay.Function([value], relay.multiply(value, value))
    total, item = relay.var("total", scalar), relay.var("item", scalar)
    add = relay.Function([total, item], relay.add(total, item))
    scale, y = relay.var("scale", scalar), relay.var("y", scalar)
    scaled = relay.Function([y], relay.multiply(y, scale))  # captures %scale
    squares = prelude.map(square, numbers)
    both = prelude.compose(scaled, square)
    body = relay.Tuple(
        [
            prelude.foldl(add, relay.const(0.0, "float32"), squares),
            prelude.length(prelude.filter(relay.Function([z := relay.var("z", scalar)], relay.greater(z, scale)), squares)),
            both(relay.const(3.0, "float32")),
        ]
    )
    mod["main"] = relay.Function([scale], body)
    run = relay.create_executor("vm", mod, device=target, target=target).evaluate()
    total_value, count, composed = run(5.0)
    return [(total_value, 1.0 + 4.0 + 9.0 + 16.0), (count, 2), (composed, 45.0)]


def recurrent_network(target):
    """A recurrent network over tensor arrays: unstack the steps, write each state, stack the states."""
    mod = relay.IRModule()
    prelude = relay.prelude.Prelude(mod)
    dtype, size = "float32", 2
    unstack = prelude.get_global_var("tensor_array_unstack_tensor2", dtype)
    read = prelude.get_global_var("tensor_array_read", dtype)
    write = prelude.get_global_var("tensor_array_write", dtype)
    array = prelude.get_global_var("tensor_array", dtype)
    stack = prelude.get_global_var("tensor_array_stack", dtype)
    tensor_t = prelude.get_type("tensor_t", dtype)
    tensor1, tensor2 = prelude.get_tensor_ctor("tensor1", dtype), prelude.get_tensor_ctor("tensor2", dtype)
    list_t = mod.get_global_type_var("List")

    # one step: h = tanh(w * x + h), written at its place
    index, count = relay.scalar_type("int32"), relay.scalar_type("int32")
    loop = relay.GlobalVar("loop")
    i, n = relay.var("i", index), relay.var("n", count)
    steps, states = relay.Var("steps", list_t(tensor_t())), relay.Var("states", list_t(tensor_t()))
    state, weight = relay.var("state", shape=(size,)), relay.var("weight", shape=(size,))
    scope = relay.ScopeBuilder()
    with scope.if_scope(relay.equal(i, n)):
        scope.ret(states)
    with scope.else_scope():
        found = relay.var("found", shape=(relay.Any(),))
        step = relay.Match(
            read(steps, i), [relay.Clause(relay.PatternConstructor(tensor1, [relay.PatternVar(found)]), found)], complete=False
        )
        row = scope.let(relay.var("row", shape=(size,)), step)
        new = scope.let("new", relay.tanh(relay.add(relay.multiply(weight, row), state)))
        scope.ret(loop(relay.add(i, relay.const(1, "int32")), n, steps, write(states, i, tensor1(new)), new, weight))
    mod[loop] = relay.Function([i, n, steps, states, state, weight], scope.get(), list_t(tensor_t()))

    data = relay.var("data", shape=(relay.Any(), size), dtype=dtype)
    w = relay.var("w", shape=(size,))
    length = relay.take(relay.shape_of(data, dtype="int32"), relay.const(0, "int32"), axis=0)
    begin = relay.zeros((size,), dtype)
    ran = loop(relay.const(0, "int32"), length, unstack(data), array(length), begin, w)
    rows = relay.var("rows", shape=(relay.Any(), relay.Any()))
    stacked = relay.Match(
        stack(ran), [relay.Clause(relay.PatternConstructor(tensor2, [relay.PatternVar(rows)]), rows)], complete=False
    )
    mod["main"] = relay.Function([data, w], stacked)

    vm = relay.VirtualMachine(relay.vm.compile(mod, target))
    results = []
    for steps_count in (1, 4):
        values = [[0.25 * k, -0.5 + 0.1 * k] for k in range(steps_count)]
        wanted, h = [], [0.0, 0.0]
        for value in values:
            h = [tanh(w * x + s) for w, x, s in zip((0.5, 2.0), value, h, strict=True)]
            wanted.append(h)
        results.append((vm.invoke("main", values, [0.5, 2.0]), wanted))
    return results


def tanh(x):
    """The hyperbolic tangent, without an import."""
    e = 2.718281828459045 ** (2 * x)
    return (e - 1) / (e + 1)


def expression_trees(target):
    """An ADT of one's own: arithmetic expressions, and their evaluation by a recursive function."""
    mod = relay.IRModule()
    expr = relay.GlobalTypeVar("Arithmetic")
    tensor = relay.TensorType((relay.Any(),), "float32")
    number = relay.Constructor("Number", [tensor], expr)
    plus = relay.Constructor("Plus", [expr(), expr()], expr)
    times = relay.Constructor("Times", [expr(), expr()], expr)
    mod[expr] = relay.TypeData(expr, [], [number, plus, times])

    evaluate = relay.GlobalVar("evaluate")
    tree = relay.Var("tree", expr())
    value = relay.var("value")

    def both(constructor, operator):
        left, right = relay.var("left"), relay.var("right")
        pattern = relay.PatternConstructor(constructor, [relay.PatternVar(left), relay.PatternVar(right)])
        return relay.Clause(pattern, operator(evaluate(left), evaluate(right)))

    clauses = [
        relay.Clause(relay.PatternConstructor(number, [relay.PatternVar(value)]), value),
        both(plus, relay.add),
        both(times, relay.multiply),
    ]
    mod[evaluate] = relay.Function([tree], relay.Match(tree, clauses), tensor)
    x = relay.var("x", shape=(relay.Any(),), dtype="float32")
    mod["main"] = relay.Function([x], evaluate(plus(times(number(x), number(x)), plus(number(x), number(relay.const([1.0]))))))
    assert not relay.analysis.unmatched_cases(clauses_of(mod[evaluate]), mod)
    run = relay.create_executor("vm", mod, device=target, target=target).evaluate()
    values = [0.0, 1.5, -2.0]
    return [(run(values), [v * v + v + 1 for v in values])]


def clauses_of(function):
    """The match of a function whose body is one."""
    return function.body


def references(target):
    """References: a counter that a closure shares with its surroundings."""
    counter, tick = relay.var("counter"), relay.var("tick")
    step = relay.RefWrite(counter, relay.add(relay.RefRead(counter), relay.const(1, "int32")))
    unused = [relay.var("first"), relay.var("second")]
    body = relay.Let(
        counter,
        relay.RefCreate(relay.const(40, "int32")),
        relay.Let(
            tick,
            relay.Function([], step),
            relay.Let(unused[0], tick(), relay.Let(unused[1], tick(), relay.RefRead(counter))),
        ),
    )
    run = relay.create_executor("vm", relay.IRModule.from_expr(relay.Function([], body)), device=target, target=target).evaluate()
    return [(run(), 42)]


@relay.transform.function_pass(opt_level=1, name="ReplaceTanh")
def replace_tanh(function, module, context):
    """A pass of one's own: a rewrite of every tanh(x) to 2 sigmoid(2 x) - 1."""

    class Rewrite(relay.ExprMutator):
        def visit_call(self, call):
            new = super().visit_call(call)
            if getattr(new.op, "name", None) != "tanh":
                return new
            two, one = relay.const(2.0, "float32"), relay.const(1.0, "float32")
            return relay.subtract(relay.multiply(two, relay.sigmoid(relay.multiply(two, new.args[0]))), one)

    return Rewrite().visit(function)


def passes(target):
    """Passes on modules: a sequence, with one of one's own among them."""
    x = relay.var("x", shape=(relay.Any(), 2), dtype="float32")
    once = relay.tanh(x)
    again = relay.tanh(x)
    three = relay.add(relay.const(1.0, "float32"), relay.const(2.0, "float32"))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.add(relay.multiply(once, again), three)))
    sequence = relay.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.FoldConstant(),
            relay.transform.EliminateCommonSubexpr(),
            replace_tanh,
            relay.transform.InferType(),
        ]
    )
    with relay.transform.PassContext(opt_level=3):
        changed = sequence(mod)
    names = [getattr(node.op, "name", "") for node in calls(changed["main"])]
    assert names.count("sigmoid") == 1 and "tanh" not in names, names
    text = changed.astext()
    assert relay.structural_equal(relay.fromtext(text), changed)
    vm = relay.VirtualMachine(relay.vm.compile(changed, target))
    values = [[0.5, -1.0], [2.0, 0.0]]
    return [(vm.invoke("main", values), [[tanh(v) ** 2 + 3 for v in row] for row in values])]


def calls(function):
    """The calls in a function."""
    found = []
    relay.analysis.post_order_visit(function, lambda node: found.append(node) if isinstance(node, relay.Call) else None)
    return found


PARTS = (
    dense_network, loop_with_scope_builder, lists_and_closures, recurrent_network, expression_trees, references, passes,
)  # fmt: skip


def flat(value):
    """The numbers of nested lists."""
    return [number for item in value for number in flat(item)] if isinstance(value, list) else [float(value)]


def check(part, target):
    """Run a part; its results, compared with Python's."""
    results = part(target)
    for found, wanted in results:
        got = found.numpy().tolist()
        numbers = zip(flat(got), flat(wanted), strict=True)
        if any(abs(a - b) > TOLERANCE * (1 + abs(b)) for a, b in numbers):
            raise SystemExit(f"{part.__name__}: {got} instead of {wanted}")
    return results


def main(target="cpu"):
    """Run every part on a device."""
    for part in PARTS:
        results = check(part, target)
        print(f"{part.__name__:24} {len(results)} results as in Python, on {target}")


if __name__ == "__main__":
    for device in ("cpu", "sim"):
        main(device)
