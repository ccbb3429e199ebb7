"""Relay's entry points beside ``relay.compile``: ``relay.vm``, executors, ``relay.build``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.executors.create_executor import KINDS

from ...programs import with_header

TEXT = """
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(2, 3), float32]) { @twice(add(%x, %w)) }
def @twice(%x: Tensor[(2, 3), float32]) { (multiply(%x, 2f), %x) }
def @rows(%x: Tensor[(?n), float32]) { add(%x, 1f) }
def @choice(%x: float32) { if (less(%x, 0f)) { 0f } else { %x } }
def @again(%x: float32) -> float32 { @again(%x) }
def @inner(%x: float32) { let %f = fn (%y: float32) { add(%y, 1f) }; %f(%x) }
"""
X, W = np.arange(6, dtype="float32").reshape(2, 3), np.ones((2, 3), "float32")
EXPECTED = [(2 * (X + W)).tolist(), (X + W).tolist()]


def program(text: str = TEXT) -> relay.IRModule:
    return relay.parse(with_header(text))


def values(results: Any) -> list[Any]:
    return [result.numpy().tolist() for result in results]


# ---- relay.vm --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "cpu", "sim"])
def test_compile(target: str) -> None:
    exe = relay.vm.compile(program(), target, params={"w": W, "no parameter": X})
    assert exe.target == ("cpu" if target == "llvm" else target) and [name for name, _ in exe.inputs] == ["x"]
    assert values(relay.vm.VirtualMachine(exe).run(X)) == EXPECTED


def test_the_compiler_step_by_step() -> None:
    compiler = relay.vm.VMCompiler()
    compiler.set_params({"w": W, "other": 1})
    w = compiler.get_params()["w"]
    assert w.numpy().tolist() == W.tolist() and type(w.numpy()) is np.ndarray and set(compiler.get_params()) == {"w", "other"}
    compiler.lower(program(), "llvm", target_host="llvm")
    compiler.codegen()
    assert isinstance(compiler.get_exec(), relay.Executable) and compiler.get_exec() is compiler.get_exec()
    assert len(compiler.get_exec().inputs) == 1


def test_optimize_gives_the_lowered_module() -> None:
    module, params = relay.vm.VMCompiler().optimize(program(), "llvm", params={"w": W})
    assert "memory.alloc_storage" in module.astext(show_meta_data=False) and list(params) == ["w"]
    assert relay.vm.VMCompiler().optimize(program(), "llvm")[1] == {}
    again, params = relay.optimize(program(), "llvm", {"w": W})
    assert relay.structural_equal(again, module) and params["w"].numpy().tolist() == W.tolist()


def test_the_pass_context_decides() -> None:
    with relay.transform.PassContext(opt_level=0):
        assert relay.vm.compile(program()).config["opt_level"] == "0"
        assert relay.create_executor("vm", program()).evaluate() is not None
    assert relay.vm.compile(program()).config["opt_level"] == "2"


def test_names_of_relay_vm() -> None:
    from relayvm.vm import VMExecutor, compile

    assert (relay.vm.compile, relay.vm.VMExecutor) == (compile, VMExecutor)
    assert relay.vm.VirtualMachine is relay.VirtualMachine and relay.vm.Executable is relay.Executable
    assert dir(relay.vm) == ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]
    with pytest.raises(AttributeError, match=r"there is no relay\.vm\.compiler; there are Executable, VMCompiler"):
        _ = relay.vm.compiler


# ---- executors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate(kind: str) -> None:
    executor = relay.create_executor(kind, program(), relay.cpu(), "llvm", params={"w": W, "other": X})
    assert values(executor.evaluate()(X)) == values(executor.evaluate()(x=X)) == EXPECTED
    assert values(executor.evaluate(relay.GlobalVar("twice"))(X)) == [(2 * X).tolist(), X.tolist()]
    y = relay.var("y", shape=(2,))
    assert executor.evaluate(relay.Function([y], y * 2.0))([1, 2]).tolist() == [2, 4]
    assert executor.evaluate(relay.const(1.0) + relay.const(2.0)).tolist() == 3
    assert executor.evaluate(y * 2.0, {y: np.ones(2, "float32")}).tolist() == [2, 2]
    x = relay.const(X)
    assert values(executor.evaluate(relay.GlobalVar("twice")(x))) == [(2 * X).tolist(), X.tolist()]
    assert list(executor.mod.functions) == list(program().functions)


def test_an_executor_without_a_module() -> None:
    assert relay.create_executor("vm").evaluate(relay.const(2.0)).tolist() == 2
    with pytest.raises(relay.ConfigError, match="the module has no function @main"):
        relay.create_executor("vm").evaluate()


def test_the_vm_runs_what_the_graph_executor_refuses() -> None:
    executor = relay.create_executor("vm", program(), "sim", "sim")
    assert executor.evaluate(relay.GlobalVar("rows"))([1, 2]).tolist() == [2, 3]
    assert executor.evaluate(relay.GlobalVar("choice"))(-1).tolist() == 0
    assert executor.evaluate(relay.GlobalVar("inner"))(1).tolist() == 2
    assert isinstance(executor, relay.vm.VMExecutor)


REFUSED = {
    "choice": "the graph executor runs no control flow: @choice has an `if`",
    "again": "the graph executor runs no control flow: @again calls itself",
    "inner": "the graph executor runs no control flow: @inner has a function within a function",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_the_graph_executor(name: str) -> None:
    executor = relay.create_executor("graph", program(), target="llvm")
    with pytest.raises(relay.TypeCheckError) as caught:
        executor.evaluate(relay.GlobalVar(name))
    first = caught.value.diagnostics[0]
    assert first.message == REFUSED[name] and first.span is not None and str(first.code) == "type/static"
    assert first.help == 'relay.create_executor("vm", ...) and relay.compile run every program'


def test_a_size_that_a_kernel_counts() -> None:
    text = "def @main(%x: Tensor[(3), float32]) { sum(argwhere(%x)) }"
    assert relay.create_executor("graph", program(text)).evaluate()(np.array([1, 0, 2], "float32")).tolist() == 2


LISTS = """
type List[A] { Cons(A, List[A]), Nil }
def @main(%x: float32) -> List[float32] { Cons(%x, Nil) }
def @length[A](%l: List[A]) -> int32 { match (%l) { Nil => 0, Cons(_, %t) => add(1, @length(%t)) } }
def @count(%l: List[float32]) -> int32 { @length(%l) }
"""


def test_lists_are_kept_and_refused_where_arrays_are_needed() -> None:
    vm = relay.VirtualMachine(relay.vm.compile(program(LISTS)))
    vm.invoke_stateful("main", 1.5)
    (cells,) = vm.get_outputs()
    assert vm.invoke("count", cells).tolist() == 1 == vm["count"]().tolist()
    with pytest.raises(relay.InputError, match="@main: the result contains an ADT, which no array can hold"):
        vm.invoke_with_outputs("main", [1.5], [np.zeros((), "float32")])
    graph = relay.create_executor("graph", program(LISTS))
    with pytest.raises(relay.TypeCheckError, match="the graph executor runs no control flow: @main has a constructor of a type"):
        graph.evaluate()
    graph.mod["main"] = program()["twice"]
    assert graph.evaluate()(X)[0].tolist() == (2 * X).tolist()  # functions beside it have types as parameters


# ---- relay.build -----------------------------------------------------------------------------------------------------


def test_build() -> None:
    lib = relay.build(program(), "llvm", params={"w": W, "other": X})
    assert {name: value.tolist() for name, value in lib.get_params().items()} == {"w": W.tolist()}
    module = lib["default"](relay.cpu())
    module.set_input("x", X)
    module.run()
    assert values(map(module.get_output, range(module.get_num_outputs()))) == EXPECTED
    module.run(x=2 * X)
    assert module.get_output(1).tolist() == (2 * X + W).tolist()
    assert (module.get_num_inputs(), module.get_input_index("x"), module.get_input_index("w")) == (1, 0, -1)
    assert len(module.benchmark(relay.cpu(), repeat=2, number=3).results) == 2


def test_weights_are_loaded_into_a_built_module(tmp_path: Path) -> None:
    module = relay.build(program(), "llvm")["default"]()
    (tmp_path / "weights").write_bytes(relay.save_param_dict({"w": W, "other": X}))
    module.load_params((tmp_path / "weights").read_bytes())
    module.set_input(0, X)
    module.run()
    assert module.get_output(0).tolist() == EXPECTED[0]


def test_the_triple_of_old_programs() -> None:
    with pytest.warns(DeprecationWarning, match=r"lib.get_graph_json\(\) and lib.get_params\(\)"):
        graph, lib, params = relay.build(program(), "llvm", params={"w": W})
    nodes = json.loads(graph)["nodes"]
    assert [node["name"] for node in nodes if node["op"] == "null"] == ["x"] and np.array_equal(params["w"], W)
    assert any("add" in node["name"] for node in nodes if node["op"] == "tvm_op")
    module = lib["default"](relay.cpu())
    module.run(x=X)
    assert module.get_output(0).tolist() == EXPECTED[0]


def test_the_triple_of_a_program_of_open_sizes() -> None:
    with pytest.warns(DeprecationWarning):
        _, lib, params = relay.build(program(TEXT.replace("2, 3", "?rows, 3")), "llvm", params={"v": W})
    assert params == {}
    module = lib["default"](relay.cpu())
    for rows in (0, 1, 5):
        x = np.arange(3 * rows, dtype="float32").reshape(rows, 3)
        module.set_input(x=x, w=-x)
        module.set_input("w", x)
        module.run()
        assert values(map(module.get_output, range(module.get_num_outputs()))) == [(4 * x).tolist(), (2 * x).tolist()]
    graph = relay.create_executor("graph", program(TEXT.replace("2, 3", "?, 3")))
    assert values(graph.evaluate()(X, W)) == EXPECTED
    assert graph.evaluate(relay.GlobalVar("rows"))(X[0]).tolist() == (X[0] + 1).tolist()


def test_parameters_bound_by_name() -> None:
    main = program()["main"]
    bound = relay.build_module.bind_params_by_name(main, {"w": W, "v": X})
    assert [p.name_hint for p in bound.params] == ["x"]
    assert relay.structural_equal(bound, relay.bind(main, {main.params[1]: relay.const(W)}))


def test_numbers_and_lists_take_the_dtypes_of_their_parameters() -> None:
    text = "def @main(%x: Tensor[(2), int16], %y: float32, %z: Tensor[(1, 2), float64]) { (%x, %y, %z) }"
    bound = relay.build_module.bind_params_by_name(program(text)["main"], {"x": [2, -3], "y": 2, "z": [(1, 2.5)]})
    assert [f.data.dtype.name for f in bound.body.fields] == ["int16", "float32", "float64"]
    assert [f.data.tolist() for f in bound.body.fields] == [[2, -3], 2.0, [[1.0, 2.5]]]
    run = relay.create_executor("vm", program(text), params={"x": [2, -3], "y": 2}).evaluate()
    assert values(run([[1, 2.5]])) == [[2, -3], 2.0, [[1.0, 2.5]]]


# ---- wrong uses ------------------------------------------------------------------------------------------------------

Wrong = tuple[Callable[[], object], str, Any]
WRONG: tuple[Wrong, ...] = (
    (lambda: relay.create_executor("aot"), "there is no executor 'aot'", "kinds: vm, graph, debug; `vm` runs every program"),
    (lambda: relay.create_executor("graphs", program()), "there is no executor 'graphs'; did you mean graph?",
     "kinds: vm, graph, debug; `vm` runs every program"),
    (lambda: relay.create_executor("vm", program()["main"]), "the executor's module must be an IRModule, not a Function",
     "relay.IRModule.from_expr(function) is one"),
    (lambda: relay.create_executor("vm", program(), target="llvm -mcpu=core-avx2"),
     "unknown target 'llvm -mcpu=core-avx2'; the CPU is called cpu here, and llvm takes no options",
     "valid targets: cpu, sim, cuda"),
    (lambda: relay.create_executor("vm", program(), params={"w": X[0]}),
     "params: %w is Tensor[(2, 3), float32], but the value is Tensor[(3), float32]", None),
    (lambda: relay.create_executor("vm", program(), "sim").evaluate(), "the executable was compiled for 'cpu', not 'sim'",
     "compile for it: target=..."),
    (lambda: relay.create_executor("vm").evaluate(relay.var("y")), "evaluate: the expression has free variables: %y",
     "evaluate(relay.Function([y], expr)) is a function of them"),
    (lambda: relay.create_executor("vm").evaluate(3), "evaluate: the argument must be an expression, not the int 3", None),
    (lambda: relay.create_executor("vm", program()).evaluate(relay.GlobalVar("f")), "the module has no function @f",
     "its functions: @main, @twice, @rows, @choice, @again, @inner"),
    (lambda: relay.vm.VMCompiler().codegen(), "VMCompiler.codegen: no module has been lowered",
     "call lower(mod, target) first"),
    (lambda: relay.vm.VMCompiler().get_exec(), "VMCompiler.get_exec: there is no executable yet",
     "call lower(mod, target) and codegen() first"),
    (lambda: relay.vm.compile(program(), "llvm", "sim"), "target_host cannot be 'sim'", "host code runs on cpu; leave it out"),
    (lambda: relay.vm.compile(program(), "llvm", "c"), "unknown target 'c'", "valid targets: cpu, sim, cuda"),
    (lambda: relay.vm.compile(3, "llvm"),
     "a program must be an IRModule, a Function, a text, a Path, a ModelProto or an ExportedProgram, not the int 3", None),
    (lambda: relay.vm.compile(program(), "llvm", params=[1]),
     "VMCompiler.set_params: params must be a dict with names as keys, not the list [1]",
     "parameters of @main by name"),
    (lambda: relay.vm.compile(program(), "llvm", params={"w": [[1], [1, 2]]}), "params: %w is no array: list", ...),
    (lambda: relay.build_module.bind_params_by_name(program(), {}),
     "bind_params_by_name: the function must be a relay.Function, not an IRModule", None),
    (lambda: relay.build_module.bind_params_by_name(program("def @main(%x: int8) { %x }")["main"], {"x": 300}),
     "params: %x is int8, but the value is int64", None),
    (lambda: relay.build_module.bind_params_by_name(program()["main"], {"w": X[0]}),
     "params: %w is Tensor[(2, 3), float32], but the value is Tensor[(3), float32]", None),
    (lambda: relay.build(program(), "llvm")["main"], "the library has no module 'main'", "it has 'default'"),
    (lambda: relay.build(program(), "llvm")["default"]().run(), "@main: no value for %x, %w",
     "its parameters: %x: Tensor[(2, 3), float32], %w: Tensor[(2, 3), float32]"),
    (lambda: relay.build(program(), "llvm")["default"]().get_output(0), "this VirtualMachine keeps no result", ...),
    (lambda: relay.build(program(TEXT.replace("@twice(add", "@choice(add").replace("2, 3", "")), "llvm"),
     "relay.build runs no control flow: @choice has an `if`",
     'relay.create_executor("vm", ...) and relay.compile run every program'),
    (lambda: relay.cpu(1), "cpu: the number must be 0, for there is one CPU, not the int 1", None),
    (lambda: relay.cuda("0"), "cuda: the number must be a whole number of at least 0, not the str '0'", None),
)  # fmt: skip


@pytest.mark.parametrize(("call", "message", "help"), WRONG, ids=[message for _, message, _ in WRONG])
def test_wrong_uses(call: Callable[[], object], message: str, help: Any) -> None:
    with pytest.raises(relay.RelayError) as caught:
        call()
    first = caught.value.diagnostics[0]
    assert first.message == message and (help is ... or first.help == help)


def test_device_names() -> None:
    assert (relay.cpu(), relay.cpu(0), relay.cuda(), relay.cuda(2)) == ("cpu", "cpu", "cuda", "cuda:2")
