"""``relay.create_executor``: executors of a module, which run its functions and evaluate expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...ops.core.similar_names import did_you_mean
from ...vm.api.machine import VirtualMachine
from ...vm.device_table import DEVICES
from ...vm.diagnostics import codes
from ...vm.diagnostics.argument_errors import a_mapping, a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, ConfigError
from ..analysis.substitution import bind
from ..analysis.variables import free_vars
from ..evaluation.evaluator import Evaluator
from ..ir.expr import Expr, Function, GlobalVar, IRModule, replace
from ..lowered import bind_params
from ..settings.targets import device_of
from .straight_program import check_straight
from .vm_compiler import compile, known_params


class Executor:
    """An executor of a module on a device.

    ``evaluate()`` is the function that runs ``main``; each call of ``evaluate`` compiles the module as it is then.
    """

    kind = "vm"

    def __init__(self, mod: IRModule, device: str | None = None, target: str = DEVICES[0]) -> None:
        if not isinstance(mod, IRModule):
            help = "relay.IRModule.from_expr(function) is one" if isinstance(mod, Function) else None
            raise wrong("the executor's module", "an IRModule", mod, help)
        self.mod, self.device, self.target = mod, device, device_of(target)

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """The Python function that runs ``main``, or ``expr``: a Function or a GlobalVar of the module.

        Any other expression is evaluated: its value is the result.  ``binds``: values for variables of ``expr``.  Raises
        ArgumentError for an expression with free variables, ConfigError for an unknown function, and as ``relay.compile``.
        """
        if expr is None:
            return self._callable(self.mod, "main")
        if not isinstance(expr, Expr):
            raise wrong("evaluate: the argument", "an expression", expr)
        if isinstance(expr, GlobalVar):
            return self._callable(self.mod, expr.name)
        if binds:
            expr = bind(expr, binds)
        if free := free_vars(expr):
            listed = ", ".join(f"%{v.name}" for v in free)
            help = f"evaluate(relay.Function([{', '.join(v.name for v in free)}], expr)) is a function of them"
            raise ArgumentError(f"evaluate: the expression has free variables: {listed}", here(), help=help)
        function = expr if isinstance(expr, Function) else Function((), expr, span=expr.span)
        run = self._callable(replace(self.mod, functions={**self.mod.functions, "main": function}), "main")
        return run if isinstance(expr, Function) else run()

    def _callable(self, mod: IRModule, name: str) -> Callable[..., Any]:
        if name not in mod.functions:
            listed = ", ".join(f"@{n}" for n in mod.functions) or "none"
            message = f"the module has no function @{name}"
            raise ConfigError(message, here(), help=f"its functions: {listed}", code=codes.Config.FUNCTION)
        return self._runner(mod, name)

    def _runner(self, mod: IRModule, name: str) -> Callable[..., Any]:
        """The Python function that runs a function of a module."""
        return VirtualMachine(compile(mod, self.target), self.device)[name]


class VMExecutor(Executor):
    """``relay.vm.VMExecutor``: every program."""


class GraphExecutor(Executor):
    """Programs without control flow, as for Relay's graph executor; sizes may be open."""

    kind = "graph"

    def _runner(self, mod: IRModule, name: str) -> Callable[..., Any]:
        """As of every executor.  Raises TypeCheckError for a program that the graph executor refuses."""
        check_straight(mod, name, "the graph executor")
        return super()._runner(mod, name)


class DebugExecutor(Executor):
    """The evaluator of programs as they are written: no pass, no type inference, every device the host.

    A program that type inference refuses fails where it is wrong, if that is evaluated.  A result may be a function, which
    Python may call.
    """

    kind = "debug"

    def _runner(self, mod: IRModule, name: str) -> Callable[..., Any]:
        return Evaluator(replace(mod)).function(name)


#: The executors by Relay's names.
KINDS: dict[str, type[Executor]] = {each.kind: each for each in (VMExecutor, GraphExecutor, DebugExecutor)}


def create_executor(
    kind: str = "debug", mod: IRModule | None = None, device: str | None = None, target: str = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Executor:  # fmt: skip
    """The executor of a kind: ``vm`` runs every program, ``graph`` programs without control flow.

    ``debug`` evaluates every program expression by expression, without the compiler: it is slow, and shows what a program means.

    ``params``: values for parameters of ``main``, by name; names of no parameter are ignored.  Raises ConfigError for another
    kind, device or target, InputError for values that do not fit.
    """
    if a_text(kind, "create_executor: the kind") not in KINDS:
        message = f"there is no executor {kind!r}{did_you_mean(kind, KINDS)}"
        raise ConfigError(message, here(), help=f"kinds: {', '.join(KINDS)}; `vm` runs every program")
    executor = KINDS[kind](IRModule() if mod is None else mod, device, target)
    given = a_mapping(params, "create_executor: params", "parameters of @main by name")
    executor.mod = bind_params(executor.mod, known_params(executor.mod, given))
    return executor
