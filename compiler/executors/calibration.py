"""The values that enter and leave the functions for external compilers in a run: ``relay.analysis.get_calibration_data``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...vm.diagnostics.argument_errors import UnknownName, a_mapping, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Call, Expr, Function, GlobalVar, IRModule, Tuple, replace
from ..ir.visitor import post_order
from ..transform.inlining import graph_of
from ..transform.regions.region_set import scopes
from .create_executor import create_executor


class CalibrationData(Mapping[GlobalVar, dict[str, list[Any]]]):
    """Per function its ``inputs`` and ``outputs``, lists of values; found by a GlobalVar or a name."""

    def __init__(self, found: Mapping[str, dict[str, list[Any]]]) -> None:
        self._found = dict(found)

    def __getitem__(self, key: GlobalVar | str) -> dict[str, list[Any]]:
        """The values of a function.  Raises UnknownName."""
        name = key.name if isinstance(key, GlobalVar) else key
        if name not in self._found:
            raise UnknownName(f"there is no function @{name} with values", here(), help=f"there are {', '.join(self._found)}")
        return self._found[name]

    def __iter__(self) -> Iterator[GlobalVar]:
        return (GlobalVar(name) for name in self._found)

    def __len__(self) -> int:
        return len(self._found)


def get_calibration_data(mod: IRModule, data: Mapping[str, Any]) -> CalibrationData:
    """The inputs and outputs of each function with the attribute ``Compiler`` that ``main`` calls, in a run of ``main``.

    ``mod``: a module after ``PartitionGraph``.  ``data``: the arguments of ``main`` by name.  The debug executor evaluates.
    Raises ArgumentError, also for a function that is called twice or within a branch, and the program's errors.
    """
    if not isinstance(mod, IRModule):
        raise wrong("get_calibration_data: the module", "an IRModule", mod)
    given = a_mapping(data, "get_calibration_data: the data")
    main = graph_of(mod["main"], mod)
    calls = _calls(mod, main)
    fields = [Tuple(tuple(call.args)) for call in calls.values()]
    body = Tuple(tuple(part for call, inputs in zip(calls.values(), fields, strict=True) for part in (inputs, call)))
    probe = replace(main, body=body, ret_type=None, ty=None)
    values = create_executor("debug", replace(mod, functions={**mod.functions, "main": probe})).evaluate()(**given)
    pairs = zip(calls, values[::2], values[1::2], strict=True)
    return CalibrationData({name: {"inputs": list(args), "outputs": _listed(out)} for name, args, out in pairs})


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _calls(mod: IRModule, main: Function) -> dict[str, Call]:
    """The calls of functions with the attribute ``Compiler``, by name."""
    places, found = scopes(main), dict[str, Call]()
    outermost = places[id(main.body)]
    for node in post_order(main):
        name = _compiler_function(mod, node)
        if name is None or not isinstance(node, Call):
            continue
        if name in found or places[id(node)] is not outermost:
            why = "called more than once" if name in found else "called within a branch or function"
            raise ArgumentError(f"get_calibration_data: @{name} is {why}", node.span or here())
        found[name] = node
    return found


def _compiler_function(mod: IRModule, node: Expr) -> str | None:
    """The name of the function with the attribute ``Compiler`` that a call calls."""
    callee = node.op if isinstance(node, Call) else None
    return callee.name if isinstance(callee, GlobalVar) and "Compiler" in mod[callee].attrs else None
