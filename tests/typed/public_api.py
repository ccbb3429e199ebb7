"""A program that uses the public face as its users do.  `make types` checks it with mypy --strict; it is never run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import relayvm as relay
from relayvm.transform import Sequential


def parsed(text: str) -> relay.IRModule:
    return relay.parse(text, source_name="example.relay")


def built() -> relay.IRModule:
    x = relay.var("x", shape=(relay.Any(), 4), dtype="float32")
    total = relay.sum(x, axis=1) + relay.const(1.0)
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(total)))


def changed(module: relay.IRModule, other: relay.IRModule) -> list[str]:
    x = relay.var("x", shape=(2,))
    module["main"] = relay.Function([x], x)
    module.update(other)
    module.update({"f": other["main"]})
    main: relay.GlobalVar = module.get_global_var("main")
    print(module[main], main in module, len(module), module.get_global_vars())
    return list(module)


def called(x: relay.Var, condition: relay.Expr) -> relay.Function:
    left, right = relay.TupleWrapper(relay.GlobalVar("halves")(x), 2)
    chosen = relay.If(condition < 1, left + 1.0, (2 * -right).astype("float32"))
    function = relay.Function([x], relay.Tuple([chosen, x])[0])
    print(len(chosen), chosen.astuple(), x.name_hint, x.type_annotation)
    return function.with_attr("Inline", 1)


def scoped(x: relay.Var) -> relay.Expr:
    builder = relay.ScopeBuilder()
    with builder.if_scope(relay.var("c", relay.scalar_type("bool"))):
        builder.ret(x)
    with builder.else_scope():
        double: relay.Var = builder.let("double", x + x)
        builder.ret(double)
    return builder.get()


def compiled(module: relay.IRModule, weights: dict[str, npt.NDArray[np.float32]]) -> relay.Executable:
    return relay.compile(module, target="sim", params=weights, data_dependence="op", fuse="off")


def stored(executable: relay.Executable, path: Path) -> relay.Executable:
    executable.save_cache(path, kind="tuning")
    assert executable.load_cache(path, strict=True).kernels == 0
    executable.save(path)
    code, library = executable.save()
    library.export_library(path)
    executable.move_late_bound_consts(path, byte_limit=1 << 20)
    executable.load_late_bound_consts(path)
    names: list[str] = relay.Executable.load_exec(code, library).get_function_params("main")
    print(names, executable.bytecode, executable.primitives, executable.globals)
    return relay.Executable.load(path)


def run(executable: relay.Executable, x: npt.NDArray[np.float32]) -> npt.NDArray[np.generic]:
    vm = relay.VirtualMachine(executable)
    result = vm.run(x)
    assert isinstance(result, relay.Tensor)
    size: int = result.shape[0]
    name: str = result.dtype.name
    bytes_copied: int = vm.counters["dtoh_bytes"]
    print(size, name, result.device, bytes_copied, vm["main"](x), vm.profile(x))
    return result.numpy()


def kept(vm: relay.VirtualMachine, x: npt.NDArray[np.float32]) -> float:
    vm.set_input("main", x=x)
    vm.set_one_input("main", "x", x)
    vm.invoke_stateful("main")
    first: relay.Tensor = vm.get_outputs()[vm.get_input_index("x")]
    vm.invoke_with_outputs("main", [x], [np.empty_like(x)])
    print(first, vm.invoke("main", x))
    return vm.benchmark(vm.device, x, repeat=3).median


def executed(module: relay.IRModule, weights: dict[str, npt.NDArray[np.float32]], x: npt.NDArray[np.float32]) -> None:
    compiler = relay.vm.VMCompiler()
    compiler.set_params(relay.load_param_dict(relay.save_param_dict(weights)))
    run = relay.create_executor("vm", module, relay.cpu(), "llvm", weights).evaluate()
    built = relay.build(module, "llvm", params=weights)["default"](relay.cuda(0))
    built.set_input("x", x)
    built.run()
    print(run(x), built.get_output(0), relay.vm.compile(module, "llvm"))


def threads() -> int:
    relay.set_num_threads(2)
    relay.set_num_threads(None)
    return relay.get_num_threads()


def reported(text: str) -> str:
    try:
        parsed(text)
    except relay.RelayError as error:
        return str(error.diagnostics[0])
    return ""


def closed(executable: relay.Executable, x: npt.NDArray[np.float32]) -> npt.NDArray[np.generic]:
    with relay.VirtualMachine(executable) as vm:
        result: relay.Tensor = vm(x)
    rows: list[list[float]] = result.tolist()
    print(rows, repr(vm), result[0], (result + 1) == x, list(result), np.add(result.numpy(), 1))
    return result.numpy()


def transformed(module: relay.IRModule) -> relay.IRModule:
    with relay.transform.PassContext(opt_level=3, disabled_pass=["FuseOps"]):
        return Sequential([relay.transform.InferType(), relay.transform.FuseOps()])(module)


class Renamed(relay.ExprMutator):
    def visit_var(self, var: relay.Var) -> relay.Expr:
        return relay.bind(var, {var: relay.var(var.name + "_")})


def analysed(module: relay.IRModule) -> list[relay.Var]:
    relay.assert_structural_equal(module, module)
    return relay.analysis.free_vars(module["main"].body)
