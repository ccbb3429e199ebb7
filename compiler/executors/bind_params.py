"""``relay.build_module.bind_params_by_name``: a function with values for some of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...vm.diagnostics.argument_errors import a_mapping, wrong
from ..analysis.substitution import bind
from ..ir.expr import Function, IRModule
from ..lowered import param_values
from .vm_compiler import known_params


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """The function with arrays in the place of the parameters of these names; names of no parameter are ignored.

    Raises ArgumentError, and InputError for an array that does not fit the parameter's type.
    """
    if not isinstance(func, Function):
        raise wrong("bind_params_by_name: the function", "a relay.Function", func)
    module = IRModule({"main": func})
    values = known_params(module, a_mapping(params, "bind_params_by_name: params", "parameters by name"))
    out = bind(func, param_values(func.params, values))
    assert isinstance(out, Function)
    return out
