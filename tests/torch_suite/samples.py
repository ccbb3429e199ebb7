"""The samples of torch's operator database for the core ATen operators."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from relayvm.compiler.torch_frontend.importing.decompositions import KEPT

#: The dtypes of samples, by torch's names.
DTYPES = ("float32", "float16", "bfloat16", "int64", "bool")
#: An operator has at most so many samples of float32, and half as many of another dtype, spread over those of the database.
MOST = 4


class Call(torch.nn.Module):
    """The call of an operator: a module of the tensors among its arguments, of which the others are constants."""

    def __init__(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.form = tree_flatten((list(args), kwargs))
        self.positions = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        #: The tensors, in order.
        self.tensors = tuple(self.leaves[k] for k in self.positions)
        self.leaves = [None if k in self.positions else leaf for k, leaf in enumerate(self.leaves)]

    def forward(self, *tensors: Any) -> Any:
        leaves = list(self.leaves)
        for position, x in zip(self.positions, tensors, strict=True):
            leaves[position] = x
        args, kwargs = tree_unflatten(leaves, self.form)
        return self.function(*args, **kwargs)


class Calls(torch.nn.Module):
    """Calls one after the other: a module of the tensors of all."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = torch.nn.ModuleList(calls)
        self.tensors = tuple(x for call in calls for x in call.tensors)

    def forward(self, *tensors: Any) -> Any:
        results, rest = [], list(tensors)
        for call in self.calls:
            count = len(call.tensors)
            results.append(call(*rest[:count]))
            rest = rest[count:]
        return results


@dataclass(frozen=True)
class Sample:
    """A sample of an operator.  ``name``: that of the operator in the database, and the number of the sample."""

    operator: str
    name: str
    dtype: str
    call: Call


@functools.cache
def core_overloads() -> tuple[str, ...]:
    """The overloads that torch counts to its core ATen operators: ``add.Tensor``, ``relu.default``."""
    names = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            if torch.Tag.core in getattr(packet, overload).tags:
                names.append(f"{name}.{overload}")
    return tuple(names)


@functools.cache
def operators() -> dict[str, Any]:
    """The entries of the database, by name, for core operators and for those that the importer keeps whole."""
    from torch.testing._internal.common_methods_invocations import op_db

    core = {name.partition(".")[0] for name in (*core_overloads(), *KEPT)}
    named = [(entry.full_name, entry, entry.aten_name or entry.name) for entry in op_db]
    return {full: entry for full, entry, name in named if name in core}


def samples_of(operator: str, dtype: str, most: int = MOST) -> list[Sample]:
    """The samples of an operator; none for a dtype that torch's own operator does not take."""
    entry, of = operators()[operator], getattr(torch, dtype)
    if of not in entry.supported_dtypes("cpu"):
        return []
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = list(entry.sample_inputs("cpu", of, requires_grad=False))
    most = most if dtype == "float32" else max(most // 2, 1)
    step = max(1, len(drawn) // most)
    return [
        Sample(operator, f"{operator}[{k}]", dtype, Call(entry.op, [drawn[k].input, *drawn[k].args], dict(drawn[k].kwargs)))
        for k in range(0, len(drawn), step)[:most]
    ]
