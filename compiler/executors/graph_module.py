"""``relay.build``: programs without control flow, run by Relay's graph interface: ``set_input``, ``run``, ``get_output``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...ops.core.ndarray import NDArray
from ...vm.api.executable import Executable
from ...vm.api.machine import VirtualMachine
from ...vm.bytecode.named_arrays import load_param_dict
from ...vm.device_table import DEVICES
from ...vm.diagnostics.argument_errors import UnknownName, a_count, a_text
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import InputError
from ...vm.report.benchmark import BenchmarkResult
from ..lowered import Program, as_module, bind_params
from .straight_program import check_straight
from .vm_compiler import VMCompiler, known_params


class GraphModule:
    """The program of a ``relay.build`` on a device."""

    def __init__(self, machine: VirtualMachine) -> None:
        self._machine = machine

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Keep one argument by name or number, and others by name.  Raises InputError as ``VirtualMachine.set_one_input``."""
        for name, given in ({} if key is None else {key: value}).items():
            self._machine.set_one_input("main", name, given)
        for name, given in params.items():
            self._machine.set_one_input("main", name, given)

    def load_params(self, params_bytes: bytes) -> None:
        """Keep the arguments among the arrays of ``relay.save_param_dict``."""
        known = {name: data for name, data in load_param_dict(params_bytes).items() if self.get_input_index(name) >= 0}
        self.set_input(None, None, **known)

    def run(self, **input_dict: Any) -> None:
        """Run ``main`` on the kept arguments.  Raises InputError for a missing argument, VMError for failures."""
        self.set_input(**input_dict)
        self._machine.invoke_stateful("main")

    def get_output(self, index: int) -> Any:
        """A result of the last ``run``.  Raises InputError for an unknown number, VMError before a run."""
        outputs = self._machine.get_outputs()
        if a_count(index, "get_output: the number") >= len(outputs):
            raise InputError(f"there is no output {index}", help=f"the program has {len(outputs)}")
        return outputs[index]

    def get_num_outputs(self) -> int:
        """The number of results of the last ``run``."""
        return len(self._machine.get_outputs())

    def get_num_inputs(self) -> int:
        """The number of parameters."""
        return len(self._machine["main"].function.params)

    def get_input_index(self, name: str) -> int:
        """The number of a parameter; -1 if there is no parameter of this name."""
        return self._machine.get_input_index(name)

    def benchmark(self, device: str | None = None, func_name: str = "run", **named: Any) -> BenchmarkResult:
        """Time the program on the kept arguments; see ``VirtualMachine.benchmark``."""
        return self._machine.benchmark(device, **named)


class GraphExecutorFactory:
    """The result of ``relay.build``: ``lib["default"](device)`` is the program on a device, a GraphModule."""

    def __init__(self, executable: Executable, params: Mapping[str, NDArray], name: str) -> None:
        self.executable, self._params, self.libmod_name = executable, dict(params), name

    def get_params(self) -> dict[str, NDArray]:
        """The values that became constants of the program, by name."""
        return dict(self._params)

    def __getitem__(self, name: str) -> Callable[..., GraphModule]:
        """The function from a device to a GraphModule.  Raises UnknownName for any name but ``default``."""
        if name != self.libmod_name:
            raise UnknownName(f"the library has no module {name!r}", here(), help=f"it has {self.libmod_name!r}")
        return lambda device=None: GraphModule(VirtualMachine(self.executable, device))

    def get_graph_json(self) -> str:
        """The parameters and kernels of the program as the nodes of a JSON text; the bytecode has their connections."""
        nodes = [{"op": "null", "name": name} for name, _ in self.executable.inputs]
        kernels = [{"op": "tvm_op", "name": line} for line in self.executable.primitives.splitlines()]
        return json.dumps({"nodes": nodes + kernels, "arg_nodes": list(range(len(nodes)))})

    def __iter__(self) -> Iterator[Any]:
        """Relay's old form ``graph, lib, params = relay.build(...)``, which is deprecated: the library has the three."""
        warnings.warn("lib = relay.build(...) has lib.get_graph_json() and lib.get_params()", DeprecationWarning, stacklevel=2)
        return iter((self.get_graph_json(), self, self.get_params()))


def build(
    ir_mod: Program, target: str = DEVICES[0], target_host: str | None = None, params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> GraphExecutorFactory:  # fmt: skip
    """Compile a program without control flow, of any sizes; ``relay.compile`` compiles every program.

    ``params``: values for parameters of ``main``, by name; names of no parameter are ignored.  Raises TypeCheckError for a
    program that the graph executor refuses, and as ``relay.compile``.
    """
    module, compiler = as_module(ir_mod, "build"), VMCompiler()
    compiler.set_params(params)
    values = known_params(module, compiler.get_params())
    module = bind_params(module, values)
    check_straight(module, "main", "relay.build")
    compiler.lower(module, target, target_host)
    compiler.codegen()
    return GraphExecutorFactory(compiler.get_exec(), values, a_text(mod_name, "build: mod_name"))
