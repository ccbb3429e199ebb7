"""Regions for external compilers: marks, merged regions, functions of their own; every stage gives the same results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

transform, analysis, op = relay.transform, relay.analysis, relay.op
begin, end = relay.annotation.compiler_begin, relay.annotation.compiler_end
HEADER = '#[version = "0.0.5"]\n'
STAGES = {
    "AnnotateTarget": transform.AnnotateTarget(["npu", "dsp"]),
    "MergeCompilerRegions": transform.MergeCompilerRegions(),
    "PartitionGraph": transform.PartitionGraph(),
    "Inline": transform.Inline(),
    "Outline": transform.OutlineCompilerFunctionsWithExistingGlobalSymbols(),
    "Extern": transform.MarkCompilerFunctionsAsExtern(),
}


@pytest.fixture(autouse=True, scope="module")
def supported() -> Iterator[None]:
    """The operators that the compilers of these tests take."""
    by = {"npu": ("abs", "add", "split", "concatenate"), "dsp": ("negative", "add")}
    attributes = [op_attr(name, f"target.{target}") for target, names in by.items() for name in names]
    for attribute in attributes:
        attribute.__enter__()
    yield
    for attribute in reversed(attributes):
        attribute.__exit__(None, None, None)


def op_attr(name: str, key: str):
    return relay.testing.TempOpAttr(name, key, lambda call: isinstance(call, relay.Call))


def module(text: str) -> relay.IRModule:
    return relay.parse(HEADER + text)


def evaluated(mod: relay.IRModule, *args: np.ndarray):
    return relay.create_executor("debug", mod).evaluate()(*args).tolist()


def marks(mod: relay.IRModule) -> list[str]:
    calls = [node for node in post_order(*mod.functions.values()) if isinstance(node, relay.Call)]
    found = [call for call in calls if "compiler_" in getattr(call.op, "name", "")]
    return [f"{call.op.name.partition('_')[2]} {call.attrs.compiler}" for call in found]


# ---- generated programs --------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> relay.IRModule:
    """A graph of operators for both compilers and for none, with ifs whose branches use values from outside."""

    def values(pool: list[relay.Expr], depth: int) -> list[relay.Expr]:
        for _ in range(draw(st.integers(1, 6))):
            a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
            match draw(st.integers(0, 6 if depth else 5)):
                case 0:
                    pool.append(relay.abs(a))
                case 1:
                    pool.append(relay.negative(a))
                case 2:
                    pool.append(relay.add(a, b))
                case 3:
                    pool.append(relay.maximum(a, b))
                case 4:
                    halves = relay.split(a, 2)
                    pool.append(relay.concatenate([halves[1], halves[0]], 0))
                case 5:
                    pool.append(relay.add(a, relay.const(np.arange(4, dtype="int32"))))
                case 6:
                    branches = [values(list(pool), depth - 1)[-1] for _ in range(2)]
                    pool.append(relay.If(relay.less(relay.take(a, relay.const(0)), relay.const(3)), *branches))
        return pool

    x = relay.var("x", shape=(4,), dtype="int32")
    return relay.IRModule.from_expr(relay.Function([x], relay.concatenate(values([x], 2)[-3:], 0)))


@settings(max_examples=100, deadline=None)
@given(programs())
def test_every_stage_gives_the_same_results(mod: relay.IRModule) -> None:
    x = np.array([3, -5, 0, 7], "int32")
    want = evaluated(mod, x)
    for name, stage in STAGES.items():
        mod = stage(mod)
        assert relay.structural_equal(relay.parse(mod.astext()), mod) and analysis.well_formed(mod), name
        assert evaluated(mod, x) == want, (name, mod)
        if name == "PartitionGraph":
            assert not marks(mod)
            partitioned = mod
            outside = {getattr(n.op, "name", "") for n in post_order(mod["main"]) if isinstance(n, relay.Call)}
            assert not outside & {"abs", "negative", "add", "split"}
        if name == "Outline":
            assert relay.structural_equal(mod, partitioned)
    inlined = transform.InlineCompilerFunctionsBoundTo(partitioned.get_global_vars())(partitioned)
    assert list(inlined.functions) == ["main"] and evaluated(inlined, x) == want


def test_the_machine_runs_every_stage() -> None:
    mod = module("""def @main(%x: Tensor[(?n), int32]) {
        let %a = abs(%x); let %s = split(%a + negative(%a), indices_or_sections=2);
        if (equal(sum(%x), 1)) { concatenate((%s.1, %s.0)) } else { maximum(%a, %x) } }""")
    x = np.array([3, -5, 0, 3], "int32")
    for name, stage in STAGES.items():
        mod = stage(mod)
        if name in ("MergeCompilerRegions", "PartitionGraph", "Inline"):
            for target in ("cpu", "sim"):
                with relay.VirtualMachine(relay.compile(mod, target=target)) as vm:
                    assert vm.run(x).tolist() == evaluated(mod, x) == [0, 0, 0, 0], (name, target)


# ---- each pass -----------------------------------------------------------------------------------------------------


def test_annotations_as_relay_writes_them() -> None:
    x = relay.var("x", shape=(10, 10))
    r = relay.abs(x)
    before = relay.add(relay.exp(r), relay.exp(r))
    y = relay.var("x", shape=(10, 10))
    inner = relay.abs(begin(y, "npu"))
    parts = [end(relay.exp(begin(end(inner, "npu"), "default")), "default") for _ in range(2)]
    after = end(relay.add(*(begin(part, "npu") for part in parts)), "npu")
    new = transform.AnnotateTarget("npu")(relay.IRModule.from_expr(relay.Function([x], before)))
    want = transform.ToGraphNormalForm()(transform.InferType()(relay.IRModule.from_expr(relay.Function([y], after))))
    assert relay.structural_equal(new, want)


@pytest.mark.parametrize("non_calls", [True, False])
def test_tuples(non_calls: bool) -> None:
    mod = module("def @main(%x: Tensor[(4), int32]) { concatenate((abs(%x), abs(%x))) }")
    new = transform.AnnotateTarget(["npu"], include_non_call_ops=non_calls)(mod)
    assert len(marks(new)) == (9 if non_calls else 6)
    merged = transform.MergeCompilerRegions()(new)
    assert len(marks(merged)) == (3 if non_calls else 6)


def test_a_second_compiler_gets_the_rest() -> None:
    mod = module('def @main(%x: Tensor[(4), int32]) { exp(cast(negative(abs(%x)), dtype="float32")) }')
    for target in ("npu", "dsp"):
        mod = transform.AnnotateTarget(target)(mod)
    assert marks(mod) == [f"{mark} {name}" for name in ("npu", "dsp", "default", "default") for mark in ("begin", "end")]
    assert list(transform.PartitionGraph("net")(mod).functions) == ["main", "tvmgen_net_npu_main_0", "tvmgen_net_dsp_main_1"]


def test_a_region_that_a_value_would_leave_and_enter_stays_in_two() -> None:
    mod = module("def @main(%x: Tensor[(4), int32]) { let %a = abs(%x); add(%a, maximum(%a, 3)) }")
    new = transform.Sequential([transform.AnnotateTarget("npu"), transform.MergeCompilerRegions(), transform.PartitionGraph()])(
        mod
    )
    assert len(new.functions) == 3
    forced = module("""def @main(%x: Tensor[(4), int32]) {
        %0 = annotation.compiler_begin(%x, compiler="npu");
        %1 = abs(%0);
        %2 = maximum(annotation.compiler_end(%1, compiler="npu"), 3);
        %3 = annotation.compiler_begin(%2, compiler="npu");
        annotation.compiler_end(add(%1, %3), compiler="npu") }""")
    with pytest.raises(
        relay.ArgumentError, match="a region of npu in @main cannot be one function: a value leaves it and comes back"
    ):
        transform.PartitionGraph()(forced)


def test_a_region_in_two_branches_is_refused() -> None:
    mod = module("""def @main(%x: Tensor[(4), int32], %c: bool) {
        %0 = annotation.compiler_begin(%x, compiler="npu");
        %1 = abs(%0);
        if (%c) { annotation.compiler_end(negative(%1), compiler="npu") }
        else { annotation.compiler_end(%1, compiler="npu") } }""")
    with pytest.raises(relay.ArgumentError, match="cannot be one function: its parts belong to several branches"):
        transform.PartitionGraph()(mod)


def test_several_results_and_constants() -> None:
    text = """def @main(%x: Tensor[(4), int32]) {
        let %a = abs(%x) + 1; let %b = add(%a, 2); (maximum(%a, %b), %b) }"""
    sequence = [transform.AnnotateTarget("npu"), transform.MergeCompilerRegions()]
    merged = transform.Sequential(sequence)(module(text))
    function = transform.PartitionGraph()(merged)["tvmgen_default_npu_main_0"]
    assert len(function.params) == 1 and len(function.body.fields) == 2
    assert dict(function.attrs) == {
        "Primitive": 1, "Compiler": "npu", "Inline": 1, "global_symbol": "tvmgen_default_npu_main_0",
    }  # fmt: skip
    unbound = transform.PartitionGraph(bind_constants=False)(merged)
    assert [p.name_hint for p in unbound["tvmgen_default_npu_main_0"].params] == ["npu_0_i0", "npu_0_i1", "npu_0_i2"]
    x = np.array([1, -2, 3, 4], "int32")
    result = relay.create_executor("debug", unbound).evaluate()(x)
    assert [r.tolist() for r in result] == [[4, 5, 6, 7], [4, 5, 6, 7]]


def test_composite_functions() -> None:
    pattern = relay.dataflow_pattern
    table = [("npu.add_abs", pattern.is_op("abs")(pattern.is_op("add")(pattern.wildcard(), pattern.wildcard())))]
    mod = module("def @main(%x: Tensor[(4), int32]) { maximum(abs(add(%x, %x)), %x) }")
    steps = [transform.MergeComposite(table), transform.AnnotateTarget("npu"), transform.PartitionGraph()]
    new = transform.Sequential(steps)(mod)
    assert 'Composite="npu.add_abs"' in new["tvmgen_default_npu_main_0"].astext()
    x = np.array([1, -2, 3, 4], "int32")
    bound = transform.InlineCompilerFunctionsBoundTo([new.get_global_var("tvmgen_default_npu_main_0")])(new)
    assert "Composite" not in bound.astext() and list(bound.functions) == ["main"]
    assert evaluated(bound, x) == evaluated(new, x) == [2, 4, 6, 8]


def test_region_set() -> None:
    data = relay.var("data", shape=(10, 10))
    cb_1 = begin(data, "npu")
    o_1 = relay.abs(cb_1)
    ce_1, ce_2 = end(o_1, "npu"), end(o_1, "npu")
    cb_2 = begin(ce_1, "npu")
    o_2 = relay.nn.relu(cb_2)
    ce_3 = end(o_2, "npu")
    cb_d = begin(ce_2, "default")
    x = relay.tanh(cb_d)
    ce_d = end(x, "default")
    cb_3, cb_4 = begin(ce_3, "npu"), begin(ce_d, "npu")
    o_3 = relay.add(cb_3, cb_4)
    ce_4 = end(o_3, "npu")
    diamond = relay.Function([data], ce_4)
    regions = analysis.AnnotatedRegionSet(diamond, op.get("annotation.compiler_begin"), op.get("annotation.compiler_end"))
    assert len(regions) == 4 and regions.get_region(data) is None and regions.get_region(diamond) is None
    for target, args, nodes, rets in [
        ("npu", [cb_1], [cb_1, o_1, ce_1, ce_2], [ce_1, ce_2]),
        ("npu", [cb_2], [cb_2, o_2, ce_3], [ce_3]),
        ("default", [cb_d], [cb_d, x, ce_d], [ce_d]),
        ("npu", [cb_3, cb_4], [cb_3, cb_4, o_3, ce_4], [ce_4]),
    ]:
        region = regions.get_region(args[0])
        assert region is not None and region.target == target
        assert (set(region.args), set(region.nodes), set(region.rets)) == (set(args), set(nodes), set(rets))


def test_a_function_for_a_compiler_runs_as_any_other() -> None:
    mod = module("""def @f(%x: Tensor[(4), int32], Primitive=1, Compiler="npu", global_symbol="f") {
        split(abs(%x), indices_or_sections=2).1 }
        def @main(%x: Tensor[(4), int32]) { @f(%x) }""")
    x = np.array([1, -2, 3, -4], "int32")
    with relay.VirtualMachine(relay.compile(mod)) as vm:
        assert vm.run(x).tolist() == evaluated(mod, x) == [3, 4]
    marked = transform.MarkCompilerFunctionsAsExtern("dsp")(mod)
    assert relay.structural_equal(marked, mod)
    marked = transform.MarkCompilerFunctionsAsExtern("npu")(mod)
    assert dict(marked["f"].attrs) == {"Extern": 1} and evaluated(marked, x) == [3, 4]


LITERAL = 'def @main(%x: int32) {{ fn (%y: int32, Compiler="npu"{}) {{ add(%y, {}) }}(%x) }}'


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: transform.AnnotateTarget(3), "AnnotateTarget: the targets must be a sequence"),
        (lambda: transform.AnnotateTarget(["npu", 3]), "AnnotateTarget: a target must be a str"),
        (lambda: transform.PartitionGraph(3), "PartitionGraph: the mod_name must be a str"),
        (lambda: transform.MergeCompilerRegions(3), "relay.transform.MergeCompilerRegions takes no arguments"),
        (lambda: transform.InlineCompilerFunctionsBoundTo(["f"]), "global_vars must be a list of GlobalVars"),
        (lambda: transform.InlineCompilerFunctionsBoundTo([relay.GlobalVar("g")])(relay.IRModule()), "no function @g"),
        (lambda: transform.MarkCompilerFunctionsAsExtern(1), "MarkCompilerFunctionsAsExtern: the compiler_filter must be a str"),
        (lambda: analysis.AnnotatedRegionSet(3, op.get("abs"), op.get("abs")), "the expression must be an expression"),
        (lambda: analysis.AnnotatedRegionSet(relay.const(1), "abs", op.get("abs")), "the mark must be an operator"),
        (lambda: begin(relay.const(1), 3), "compiler_begin: the compiler must be a str"),
        (
            lambda: STAGES["Outline"](module(LITERAL.format("", "%x"))),
            "a function for npu has no global_symbol",
        ),
        (lambda: STAGES["Outline"](module(LITERAL.format(', global_symbol="main"', "%y"))), "has a function @main already"),
        (lambda: STAGES["Outline"](module(LITERAL.format(', global_symbol="f"', "%x"))), "@f uses %x, which is bound outside"),
        (
            lambda: transform.PartitionGraph()(
                relay.IRModule.from_expr(end(relay.abs(begin(relay.var("x", shape=(2,)), "npu")), "dsp"))
            ),
            "a region has marks of the compilers npu and dsp",
        ),
    ],
)
def test_wrong_uses(fails, text: str) -> None:
    with pytest.raises(relay.RelayError) as error:
        fails()
    assert text in str(error.value)


def test_calibration_data() -> None:
    mod = module("def @main(%x: Tensor[(4), int32]) { let %a = abs(%x); add(split(%a, indices_or_sections=2).0, 1) }")
    merged = transform.MergeCompilerRegions()(transform.AnnotateTarget("npu", include_non_call_ops=False)(mod))
    new = transform.PartitionGraph()(merged)
    data = analysis.get_calibration_data(new, {"x": np.array([1, -2, 3, -4], "int32")})
    assert len(data) == 2 and [var.name_hint for var in data] == list(new.functions)[1:]
    first, second = (data[new.get_global_var(name)] for name in list(new.functions)[1:])
    assert [v.tolist() for v in first["inputs"]] == [[1, -2, 3, -4]]
    assert [v.tolist() for v in first["outputs"]] == [[1, 2], [3, 4]]
    assert [v.tolist() for v in second["inputs"]] == [[1, 2]] and [v.tolist() for v in second["outputs"]] == [[2, 3]]


TWICE = """def @f(%x: int32, Compiler="npu") {{ %x }}
def @main(%x: int32, %c: bool) {{ {} }}"""


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: analysis.get_calibration_data(3, {}), "get_calibration_data: the module must be an IRModule"),
        (lambda: analysis.get_calibration_data(module("def @main() { 1 }"), 3), "get_calibration_data: the data"),
        (lambda: analysis.get_calibration_data(module("def @main() { 1 }"), {})["f"], "there is no function @f with values"),
        (lambda: analysis.get_calibration_data(module(TWICE.format("@f(@f(%x))")), {}), "@f is called more than once"),
        (
            lambda: analysis.get_calibration_data(module(TWICE.format("if (%c) { @f(%x) } else { 1 }")), {}),
            "@f is called within a branch",
        ),
    ],
)
def test_wrong_calibrations(fails, text: str) -> None:
    with pytest.raises(relay.RelayError) as error:
        fails()
    assert text in str(error.value)
