"""``relay.transform``: the compiler's passes, passes of users, contexts, instruments."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.pass_declaration import DECLARED
from relayvm.compiler.ir.visitor import post_order
from relayvm.compiler.ir.well_formed import has_form

from ...programs import HEADER

transform = relay.transform
#: Arguments of the passes that need some.
ARGUMENTS = {"FlexibleShapeDispatch": ([8],)}
NAMES = sorted({declaration.name for declaration in DECLARED.values()} | {"RemoveUnusedFunctions"})


def program() -> relay.IRModule:
    x = relay.var("x", shape=(relay.Any(), 4))
    y = relay.add(relay.exp(x), relay.add(relay.const(1.0), relay.const(2.0)))
    return relay.IRModule.from_expr(relay.Function([x], relay.add(y, relay.exp(x))))


def calls(mod: relay.IRModule, name: str) -> int:
    nodes = post_order(*mod.functions.values())
    return sum(isinstance(n, relay.Call) and getattr(n.op, "name", None) == name for n in nodes)


@pytest.mark.parametrize("name", NAMES)
def test_each_pass_alone_gives_back_the_form_that_it_gets(name: str) -> None:
    run = getattr(transform, name)(*ARGUMENTS.get(name, ()))
    mod = run(program())
    untyped = ("ToANormalForm", "Monomorphize", "EliminateCommonSubexpr", "DeadCodeElimination", "RemoveUnusedFunctions")
    assert name in untyped or all(node.ty is not None for node in post_order(*mod.functions.values()))
    # calls are arguments of calls, but in the forms that two passes are for
    assert has_form(mod, typed=False) is (name in ("ToANormalForm", "Monomorphize"))
    normal = run(transform.ToANormalForm()(program()))
    assert has_form(normal, typed=name not in untyped) is (name != "ToBasicBlockNormalForm")
    assert isinstance(mod, relay.IRModule) and name in dir(transform)


def test_passes_do_their_work() -> None:
    mod = program()
    assert calls(transform.FoldConstant()(mod), "add") == 2 == calls(mod, "add") - 1
    assert calls(transform.EliminateCommonSubexpr()(mod), "exp") == 1 and calls(mod, "exp") == 2
    fused, single = transform.FuseOps()(mod), transform.FuseOps(fuse_opt_level=0)(mod)
    assert 1 < len(fused.functions) < len(single.functions)
    assert transform.InferType()(mod)["main"].body.ty is not None


def test_expressions_that_stay_repeated() -> None:
    mod = program()
    assert (
        calls(transform.EliminateCommonSubexpr(lambda expr: isinstance(expr, relay.Call) and expr.op.name == "exp")(mod), "exp")
        == 2
    )
    assert calls(transform.EliminateCommonSubexpr(fskip=lambda expr: False)(mod), "exp") == 1


def test_dead_code_options() -> None:
    text = (
        HEADER
        + """
    def @main(%x: float32, %r: ref(float32)) {
      let %unused = ref_write(%r, %x);
      let %once = exp(%x);
      let %twice = tanh(%once);
      let %captured = log(%x);
      let %f = fn (%y: float32) { %y + %captured };
      let %both = %twice * %twice;
      %f(%both)
    }"""
    )
    mod = relay.parse(text)
    plain, inlined = transform.DeadCodeElimination()(mod), transform.DeadCodeElimination(inline_once=True)(mod)
    pure = transform.DeadCodeElimination(ignore_impurity=True, inline_once=True)(mod)
    want = """
    def @main(%x: float32, %r: ref(float32)) {
      let %unused = ref_write(%r, %x);
      let %twice = tanh(exp(%x));
      let %captured = log(%x);
      let %f = fn (%y: float32) { %y + %captured };
      %f(%twice * %twice)
    }"""
    assert "%once" in plain.astext() and "ref_write" in plain.astext()
    ordered = want.replace("%f(%twice * %twice)", "let %last = %f(%twice * %twice); %last")
    assert relay.structural_equal(inlined, relay.parse(HEADER + ordered)), "a call keeps its place among writes"
    assert relay.structural_equal(pure, relay.parse(HEADER + want.replace("let %unused = ref_write(%r, %x);", "")))


def test_unused_functions_stay_until_they_are_removed() -> None:
    one = program()["main"]
    mod = relay.IRModule({"main": one, "other": program()["main"]})
    assert list(transform.DeadCodeElimination()(mod).functions) == ["main", "other"]
    assert list(transform.RemoveUnusedFunctions()(mod).functions) == ["main"]
    assert list(transform.RemoveUnusedFunctions(entry_functions=["other"])(mod).functions) == ["other"]


def test_dynamic_to_static() -> None:
    x = relay.var("x", shape=(2, 3))
    reshaped = relay.reshape(x, relay.add(relay.const([3, 1], "int64"), relay.const([0, 1], "int64")))
    mod = relay.IRModule.from_expr(relay.Function([x], reshaped))
    seq = transform.Sequential([transform.FoldConstant(), transform.DynamicToStatic()])
    assert (calls(mod, "dyn.reshape"), calls(seq(mod), "dyn.reshape"), calls(seq(mod), "reshape")) == (1, 0, 1)


def test_infer_type_raises_the_errors_of_the_program() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    with pytest.raises(relay.TypeCheckError):
        transform.InferType()(relay.IRModule.from_expr(relay.Function([x, y], relay.add(x, y))))


def test_sequential_obeys_the_context() -> None:
    passes = [transform.FoldConstant(), transform.EliminateCommonSubexpr()]
    seq = transform.Sequential(passes, name="both")

    def counts() -> tuple[int, int]:
        out = seq(program())
        return calls(out, "add"), calls(out, "exp")

    assert counts() == (2, 1)
    with transform.PassContext(opt_level=1):
        assert counts() == (2, 2)
        with transform.PassContext(opt_level=0) as inner:
            assert transform.PassContext.current() is inner and counts() == (3, 2)
        assert transform.PassContext.current().opt_level == 1
    with transform.PassContext(opt_level=0, required_pass=["FoldConstant"]):
        assert counts() == (2, 2)
    with transform.PassContext(opt_level=3, disabled_pass=["FoldConstant"]):
        assert counts() == (3, 1)
        assert calls(transform.FoldConstant()(program()), "add") == 2  # a pass alone always runs
    assert transform.PassContext.current().opt_level == 2 and seq.info.name == "both"


def test_decorated_functions_and_classes() -> None:
    seen: list[object] = []

    @transform.module_pass(opt_level=1, required=["InferType"])
    def whole(mod, ctx):
        seen.append((mod["main"].body.ty is not None, ctx.config))
        return mod

    @transform.function_pass(opt_level=3)
    class Replace:
        """Replace every body."""

        def __init__(self, value: float) -> None:
            self.value = value

        def transform_function(self, func, mod, ctx):
            return relay.Function(func.params, relay.const(self.value), None, func.attrs)

    @transform.module_pass(opt_level=0, name="named")
    class Whole:
        def transform_module(self, mod, ctx):
            return mod

    with transform.PassContext(config={"a": 1}):
        whole(program())
    assert seen == [(True, {"a": 1})] and whole.info == transform.PassInfo(1, "whole", ("InferType",))
    replace = Replace(2.0)
    assert isinstance(replace, transform.FunctionPass) and replace.value == 2.0 and Replace.__name__ == "Replace"
    assert replace(program())["main"].body.data == 2.0
    assert transform.Sequential([replace])(program())["main"].body.ty is None  # its level is above the default
    assert isinstance(Whole(), transform.ModulePass) and Whole().info.name == "named"
    assert transform.function_pass(lambda f, mod, ctx: f, opt_level=0)(program())["main"] is not None


def test_instruments() -> None:
    told: list[str] = []

    class Teller(transform.PassInstrument):
        def enter_pass_ctx(self):
            told.append("enter")

        def exit_pass_ctx(self):
            told.append("exit")

        def should_run(self, mod, info):
            return info.name != "SimplifyExpr"

        def run_before_pass(self, mod, info):
            told.append(f"before {info.name}")

        def run_after_pass(self, mod, info):
            told.append(f"after {info.name}")

    class Partial:
        def run_before_pass(self, mod, info):
            told.append("partial")

    with transform.PassContext(instruments=[Teller(), Partial()]) as context:
        transform.InferType()(program())
        untouched = program()
        assert transform.SimplifyExpr()(untouched) is untouched
        context.override_instruments(None)
        transform.InferType()(program())
    assert told == ["enter", "before InferType", "partial", "after InferType", "exit"]
    with transform.PassContext(instruments=[Teller()], required_pass=["SimplifyExpr"]):
        assert transform.SimplifyExpr()(untouched) is not untouched


def test_a_failing_instrument_leaves_no_context() -> None:
    left: list[str] = []

    class Good:
        def exit_pass_ctx(self):
            left.append("good")

    class Bad:
        def enter_pass_ctx(self):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError), transform.PassContext(opt_level=7, instruments=[Good(), Bad()]):
        pass
    assert left == ["good"] and transform.PassContext.current().opt_level == 2


def test_compile_takes_the_level_of_the_context() -> None:
    with transform.PassContext(opt_level=3):
        assert relay.compile(program()).config["opt_level"] == "3"
        assert relay.compile(program(), opt_level=0).config["opt_level"] == "0"
    assert relay.compile(program()).config["opt_level"] == "2"


def test_a_transformed_module_runs() -> None:
    seq = transform.Sequential(
        [getattr(transform, n)() for n in ("SimplifyInference", "FoldConstant", "SimplifyExpr", "FuseOps")]
    )
    x = np.ones((2, 4), "float32")
    expected = relay.VirtualMachine(relay.compile(program())).run(x).numpy()
    assert np.array_equal(relay.VirtualMachine(relay.compile(seq(program()))).run(x).numpy(), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: transform.InferType()(1), "InferType: the argument must be an IRModule, not the int 1"),
        (lambda: transform.EliminateCommonSubexpr(3), "EliminateCommonSubexpr: fskip must be a function of an expression"),
        (lambda: transform.InferType(1), "relay.transform.InferType takes no arguments"),
        (lambda: transform.Sequential([transform.InferType]), "Sequential: pass 0 must be a pass"),
        (lambda: transform.module_pass(lambda mod, ctx: mod), "module_pass: the opt_level must be a whole number of at least 0"),
        (lambda: transform.function_pass(opt_level=1)(int), "function_pass: the class must be one with the method"),
        (lambda: transform.module_pass(lambda mod, ctx: 1, opt_level=0)(program()), "<lambda>: the result must be an IRModule"),
        (
            lambda: transform.module_pass(lambda m, c: m, opt_level=0, required=["InferTipe"])(program()),
            "did you mean InferType?",
        ),
        (lambda: transform.PassContext(opt_level="3"), "PassContext: the opt_level must be a whole number"),
        (lambda: transform.RemoveUnusedFunctions("main"), "entry_functions must be a list of names"),
    ],
)
def test_wrong_arguments(make, message: str) -> None:
    with pytest.raises(relay.RelayError) as caught:
        make()
    assert message in str(caught.value) and isinstance(caught.value, TypeError)


def test_missing_names_say_what_to_use() -> None:
    with pytest.raises(AttributeError, match=r"no relay\.transform\.gradient: there are no gradients"):
        _ = transform.gradient
    with pytest.raises(AttributeError, match=r"no relay\.transform\.InferTypes; did you mean InferType"):
        _ = transform.InferTypes
    with pytest.raises(AttributeError):
        _ = relay.transformer


def test_no_absent_name_exists() -> None:
    from relayvm.compiler.transform.declared.declared_passes import ABSENT

    assert not set(ABSENT) & set(dir(transform))
