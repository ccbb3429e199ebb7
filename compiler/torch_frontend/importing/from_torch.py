"""``relay.frontend.from_torch``: the module of a program that torch exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....vm.diagnostics.argument_errors import wrong
from ...ir.expr import IRModule
from ..torch_package import torch_package


def from_torch(
    program: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    freeze_params: bool = True,
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """The module of a program that torch exports, and its parameters by name.

    ``program``: a ``torch.export.ExportedProgram``, or a module, which ``torch.export.export`` exports with the example arguments
    ``args`` and ``kwargs`` and ``dynamic_shapes``.  ``freeze_params``: parameters and buffers become constants; otherwise those
    that the program uses are parameters of ``main``, after its inputs, and their values are returned.

    A symbol of torch becomes a size ``?name``.  Results are those of the program, in the order of its flattened outputs, then
    the new values of buffers and inputs that the program writes.  Raises ModelError for a program that cannot be imported,
    ArgumentError for wrong arguments, and errors of ``torch.export`` as they are.
    """
    torch = torch_package()
    from .program import imported

    if isinstance(program, torch.nn.Module):
        if args is None and kwargs is None:
            raise wrong("from_torch: args", "example arguments for torch.export of a module", args)
        program = torch.export.export(program, tuple(args or ()), dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False)
    if not isinstance(program, torch.export.ExportedProgram):
        raise wrong("from_torch: program", "a torch.export.ExportedProgram, or a torch.nn.Module with example arguments", program)
    return imported(program, freeze_params)


def step_of_program(program: Any) -> IRModule:
    """The module of a step of a decoder, an ExportedProgram.  Raises as ``from_torch``.

    torch takes the past and the new positions to be 2 or more, so a mask of both to be 4 or more: no bound of the step.
    """
    torch_package()
    from .program import imported

    return imported(program, True, has_least=False)[0]
