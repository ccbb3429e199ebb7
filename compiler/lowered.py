"""A program after every pass: what ``compile`` makes an executable of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..declarations.frozen_dataclass import frozen
from ..ops.core.tensor_types import DTYPES, TensorType, dim_text
from ..shape_funcs.symbolic.dim import SYM, Dim, const
from ..vm.api.executable import Executable
from ..vm.diagnostics import codes
from ..vm.diagnostics.argument_errors import a_mapping, wrong
from ..vm.diagnostics.source import InputError, SourceText, TypeCheckError
from ..vm.machine.machine_code import compile_ahead
from ..vm.values.signature import as_array
from .emit.emitter import emit
from .inputs.model_files import is_model_file
from .ir.expr import Constant, Function, IRModule, Let, Var, replace
from .ir.lowering_context import LoweringContext
from .ir.signature_attrs import without_defaults
from .lowering.pipeline import context_of, lower
from .settings.config import Config
from .settings.targets import device_of
from .text.parser import as_source, parse
from .transform.inlining import inline
from .tuning.remember import preferred_for, remember
from .tuning.settings import Tuning


class OnnxModel(Protocol):
    """A ``ModelProto`` of the package onnx."""

    graph: Any

    def SerializeToString(self) -> bytes: ...


class TorchProgram(Protocol):
    """A ``torch.export.ExportedProgram``."""

    graph_module: Any
    graph_signature: Any


Program = IRModule | Function | SourceText | str | Path | OnnxModel | TorchProgram


@frozen
class Lowered:
    """A module after every pass, with its context and configuration."""

    module: IRModule
    context: LoweringContext
    settings: Config

    def emit(self) -> Executable:
        """The executable."""
        return emit(self.module, self.context, self.settings.texts())


def lowered(
    mod: Program, target: str, params: Mapping[str, Any] | None, settings: Config, tuning: Tuning, who: str = "compile",
    most: int | None = None,
) -> Lowered:  # fmt: skip
    """``mod`` after every pass; raises as ``compile``.  ``who`` is named in messages about the arguments.

    ``most``: the number of optional passes that run; None: all.
    """
    device = device_of(target)
    compile_ahead()
    module = bind_params(inline(as_module(mod, who)), a_mapping(params, f"{who}: params", "parameters of @main by name"))
    preferred = preferred_for(module, settings, device, tuning)
    found = lower(module, settings, device, preferred, most)
    remember(preferred)
    return Lowered(found, context_of(module, settings, device), settings)


def as_module(mod: Program, who: str = "compile") -> IRModule:
    """The module that ``mod`` is or describes.  Raises ParseError, TypeCheckError for a module without functions."""
    mod = imported(mod)
    if isinstance(mod, (str, SourceText, Path)):
        mod = parse(as_source(mod, who))
    if isinstance(mod, Function):
        mod = IRModule({"main": mod})
    if not isinstance(mod, IRModule):
        help = "its IRModule or text; an Executable runs as it is" if isinstance(mod, Executable) else None
        raise wrong("a program", "an IRModule, a Function, a text, a Path, a ModelProto or an ExportedProgram", mod, help)
    if not mod.functions:
        raise TypeCheckError("the module has no function", help="write `def @main(...) { ... }`", code=codes.Type.EMPTY)
    return replace(mod)  # its owner may change it later


def imported(mod: Any) -> Any:
    """The module of a model of ONNX (the path of its file, or a ModelProto) or of torch (an ExportedProgram); others as they are.

    Types are told by their names: neither package is imported for other programs.
    """
    package, name = type(mod).__module__.partition(".")[0], type(mod).__name__
    if is_model_file(mod) or (package, name) == ("onnx", "ModelProto"):
        from .onnx_frontend.importing.from_onnx import from_onnx  # many files, that other programs do not need

        return from_onnx(mod)[0]
    if (package, name) == ("torch", "ExportedProgram"):
        from .torch_frontend.importing.from_torch import from_torch  # as above

        return from_torch(mod)[0]
    return mod


def bind_params(mod: IRModule, params: Mapping[str, Any]) -> IRModule:
    """``mod`` with the given parameters of ``main`` as constants.  Raises InputError."""
    if not params:
        return mod
    if "main" not in mod.functions:
        raise InputError("params bind parameters of @main, but the module has no @main", code=codes.Input.PARAMETERS)
    main = mod["main"]
    names = [p.name for p in main.params]
    unknown = [name for name in params if name not in names]
    if unknown:
        listed = ", ".join(f"%{n}" for n in unknown)
        raise InputError(
            f"@main has no parameter {listed}",
            help=f"its parameters: {', '.join(f'%{n}' for n in names)}",
            code=codes.Input.PARAMETERS,
        )
    values = param_values(main.params, params)
    body = main.body
    for p in reversed(main.params):
        if p.name in params:
            body = Let(p, Constant(values[p]), body, span=p.span)
    left = tuple(p for p in main.params if p.name not in params)
    attrs = without_defaults(main, list(values))
    return replace(mod, functions={**mod.functions, "main": replace(main, params=left, body=body, attrs=attrs)})


def param_values(variables: Sequence[Var], params: Mapping[str, Any]) -> dict[Var, np.ndarray]:
    """The data of those of the parameters that have a value.

    Python's numbers and lists take the dtype of their parameter.  Raises InputError for a value that does not fit.
    """
    values = {p: _constant(p, params[p.name]) for p in variables if p.name in params}
    _check_sizes(values)
    return values


def _check_sizes(values: Mapping[Var, np.ndarray]) -> None:
    """Raises InputError if two values disagree on the size of a named dimension."""
    found: dict[Dim, tuple[int, str]] = {}
    for param, data in values.items():
        shape = param.annotation.shape if isinstance(param.annotation, TensorType) else ()
        for axis, (d, size) in enumerate(zip(shape, data.shape, strict=False)):
            before, where = found.setdefault(d, (size, f"axis {axis} of %{param.name}")) if d.op == SYM else (size, "")
            if before != size:
                message = f"params: {dim_text(d)} is {before} by {where}, but {size} by axis {axis} of %{param.name}"
                raise InputError(message, param.span, help="equal names are equal sizes", code=codes.Input.PARAMETERS)


def _constant(param: Var, value: Any) -> np.ndarray:
    """The value as a constant's data.  Raises InputError if it does not fit the parameter's type."""
    wanted = param.annotation
    if isinstance(wanted, TensorType) and isinstance(value, (bool, int, float, list, tuple)):
        value = as_array(param.name, value, wanted.dtype)
    data = np.array(value, order="C")
    data.setflags(write=False)
    if data.dtype.name not in DTYPES:
        raise InputError(
            f"params: %{param.name} has the dtype {data.dtype}",
            help=f"valid dtypes: {', '.join(DTYPES)}",
            code=codes.Input.PARAMETERS,
        )
    if isinstance(wanted, TensorType):
        fits = data.ndim == wanted.rank and data.dtype.name == wanted.dtype
        if not fits or any(const(d) not in (None, n) for d, n in zip(wanted.shape, data.shape, strict=True)):
            got = TensorType.of(data.shape, data.dtype.name)
            raise InputError(
                f"params: %{param.name} is {wanted}, but the value is {got}", param.span, code=codes.Input.PARAMETERS
            )
    return data
