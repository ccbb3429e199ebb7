"""Modules that are run by torch and, imported, by the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import relayvm as relay


class Of(torch.nn.Module):
    """The module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def program_of(module: torch.nn.Module, args: tuple[Any, ...], shapes: Any = None) -> Any:
    """The exported program; by default axis 0 of each argument is one open size."""
    if shapes is None:
        shapes = tuple({0: torch.export.Dim("n")} for _ in args)
    nested = (shapes,) if isinstance(module, Of) else shapes
    return torch.export.export(module.eval(), args, dynamic_shapes=nested, strict=False)


def machine_of(program: Any) -> Any:
    """The machine of an imported program."""
    return relay.VirtualMachine(relay.compile(relay.frontend.from_torch(program)[0]))


def results(found: Any) -> list[Any]:
    """The tensors of a result as arrays."""
    if isinstance(found, (list, tuple)):
        return [array for each in found for array in results(each)]
    return [found.numpy() if hasattr(found, "numpy") else np.asarray(found)]


def check(
    module: torch.nn.Module | Callable[..., Any],
    *runs: Sequence[Any],
    shapes: Any = None,
    tolerance: float = 1e-5,
) -> None:
    """Export with the arguments of the first run; compare each run with torch: dtypes, sizes and values."""
    module = module if isinstance(module, torch.nn.Module) else Of(module)
    machine = machine_of(program_of(module, tuple(runs[0]), shapes))
    for args in runs:
        with torch.no_grad():
            wanted = results(module(*args))
        given = results(machine.run(*[a.numpy() for a in args]))
        assert [(a.shape, a.dtype) for a in given] == [(a.shape, a.dtype) for a in wanted]
        for ours, theirs in zip(given, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
