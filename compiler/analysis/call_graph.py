"""``relay.analysis.CallGraph``: the calls among the global functions of a module."""

from __future__ import annotations

from collections import Counter

from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.call_graph import recursion_groups
from ..ir.expr import GlobalVar, IRModule
from ..ir.visitor import post_order


class CallGraph:
    """``CallGraph(mod)``.  Functions are named by GlobalVar or str; each method raises ArgumentError for an unknown function."""

    def __init__(self, module: IRModule) -> None:
        if not isinstance(module, IRModule):
            raise wrong("CallGraph: the module", "an IRModule", module)
        self.module = module
        self._uses = {
            name: Counter(node.name for node in post_order(function.body) if isinstance(node, GlobalVar))
            for name, function in module.functions.items()
        }
        self._groups = recursion_groups(module)

    def ref_count(self, var: GlobalVar | str) -> int:
        """The number of functions that mention the function."""
        name = self._name(var)
        return sum(name in uses for uses in self._uses.values())

    def global_call_count(self, var: GlobalVar | str) -> int:
        """The number of functions of the module that the function mentions."""
        return sum(name in self._uses for name in self._uses[self._name(var)])

    def is_recursive(self, var: GlobalVar | str) -> bool:
        """Whether the function calls itself, directly or through others."""
        name = self._name(var)
        return name in self._uses[name] or any(name in group and len(group) > 1 for group in self._groups)

    def print_var(self, var: GlobalVar | str) -> str:
        """The functions that a function mentions, as text."""
        name = self._name(var)
        return f"@{name}: " + (", ".join(f"@{other}" for other in self._uses[name] if other in self._uses) or "no calls")

    def __str__(self) -> str:
        return "\n".join(self.print_var(name) for name in self._uses)

    def _name(self, var: GlobalVar | str) -> str:
        name = var.name if isinstance(var, GlobalVar) else var
        if not isinstance(name, str):
            raise wrong("CallGraph: a function", "a GlobalVar or a name", var)
        if name not in self._uses:
            raise ArgumentError(f"CallGraph: the module has no function @{name}", here())
        return name
