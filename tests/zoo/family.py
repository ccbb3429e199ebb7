"""A family of networks: a small member with random weights, and its inputs at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """``make`` gives the module, ``draw`` its inputs at given sizes, of which the first are those of the export.

    ``open_axes``: for each input the axes whose sizes are open.  ``timed``: the sizes that ``benchmarks/torch_zoo.py`` times.
    ``wider``: the module with wider layers, by a factor; None for a network of one width.  ``finds_objects``: the first results
    are boxes, labels and scores of at least one object; objects of one label whose scores differ by the tolerance at most may
    change places.
    """

    name: str
    make: Callable[[], torch.nn.Module]
    draw: Callable[[Sizes], tuple[torch.Tensor, ...]]
    sizes: Sequence[Sizes]
    open_axes: Sequence[Sequence[int]]
    timed: Sequence[Sizes]
    tolerance: float = 1e-4
    wider: Callable[[int], torch.nn.Module] | None = None
    finds_objects: bool = False

    def module(self) -> torch.nn.Module:
        """The network, ready to run, with the same weights in each call."""
        torch.manual_seed(0)
        return self.make().eval()


@dataclass
class Families:
    """Families by name."""

    by_name: dict[str, Family] = field(default_factory=dict)

    def add(self, family: Family) -> None:
        """Add a family."""
        assert family.name not in self.by_name, family.name
        self.by_name[family.name] = family


class Part(torch.nn.Module):
    """The first tensors of a network's results, with named arguments."""

    def __init__(self, network: torch.nn.Module, names: Sequence[str], result: str, fixed: Mapping[str, Any]) -> None:
        super().__init__()
        self.network, self.names, self.result, self.fixed = network, names, result, fixed

    def forward(self, *args: torch.Tensor) -> Any:
        found = self.network(**dict(zip(self.names, args, strict=True)), **self.fixed)
        return found[self.result] if isinstance(found, Mapping) else getattr(found, self.result)
