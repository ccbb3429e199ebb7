"""Check of the signatures of a comparison's sides: all sides run on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...ops.core.tensor_types import TensorType, TupleType, Type
from ...shape_funcs.symbolic.dim import const
from ...vm.api.executable import Executable
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import InputError, RelayError
from ..load_program import function_of
from .compare_text import side_name


def check_signatures(exes: Mapping[str, Executable], entry: str, programs: Mapping[str, Any]) -> VMFunction:
    """The first side's function ``entry``.  ``programs``: the source of each side, for its file's name.

    Raises InputError, which names the side, if a side has no such function or takes other inputs than the first.
    """
    (first_name, first_exe), *others = exes.items()
    first = function_of(first_exe, entry)
    for name, exe in others:
        label = _label(name, programs)
        try:
            function = function_of(exe, entry)
        except RelayError as error:
            found = error.diagnostics[0]
            raise InputError(f"{label}: {found.message}", help=found.help, code=found.code) from None
        wanted, have = first.params, function.params
        if len(have) != len(wanted) or not all(_fit(a, b) for (_, a), (_, b) in zip(have, wanted, strict=True)):
            message = f"@{entry} takes ({_text(first)}) in {_label(first_name, programs)}, but ({_text(function)}) in {label}"
            raise InputError(message, help="all sides run on the same inputs", code=codes.Input.TYPE)
    return first


def _label(name: str, programs: Mapping[str, Any]) -> str:
    program = programs.get(name)
    return f"{side_name(name)}, {program}" if isinstance(program, Path) else side_name(name)


def _text(function: VMFunction) -> str:
    return ", ".join(f"%{name}: {ty}" for name, ty in function.params)


def _fit(a: Type, b: Type) -> bool:
    """Whether there is a value of both types."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        sizes = [{const(x), const(y)} - {None} for x, y in zip(a.shape, b.shape, strict=False)]
        return (a.dtype, a.rank) == (b.dtype, b.rank) and all(len(s) < 2 for s in sizes)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.fields) == len(b.fields) and all(map(_fit, a.fields, b.fields))
    return type(a) is type(b)
