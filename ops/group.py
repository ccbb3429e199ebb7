"""A primitive, as data: the operators fused into one kernel and how they are wired.

This is what an executable holds instead of code.  From a group come its shape program (``ops.relate``), its kernel
source (``ops.kernels``) and the key under which the compiled kernel is cached.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.dims import Dim, const, dim, sym
from .implementation import HOST, Kernel, OpCall
from .op import Op, get
from .ty import Tensor

Ref = int  # a value of the group: parameters come first, then literals, then the outputs of the nodes in order
Arg = "Ref | tuple[Ref, ...]"


@dataclass(frozen=True)
class Literal:
    """A rank-0 constant, part of the kernel's source."""

    dtype: str
    value: float | int | bool


@dataclass(frozen=True)
class Node:
    """One operator call.  ``args`` has one entry per input; a tuple input is a tuple of refs."""

    op: str
    attrs: Any
    args: tuple[Any, ...]
    outputs: tuple[Tensor, ...]

    @property
    def operator(self) -> Op:
        return get(self.op)


@dataclass(frozen=True)
class Group:
    """A fused primitive: ``params``, ``literals``, ``nodes`` in dependency order, and which values are its ``results``.

    ``implementation``: by name, which of its operator's it is; "" is the one that the others fall back on, and of a group of
    fusable operators the only one.

    ``in_place``: pairs of a parameter, by number, and a result, by its position, that its calls give the same memory, as
    ``ops.in_place`` allows.  A kernel that is told so is right, too, where they lie apart.

    ``workspace``: its calls bring memory to work in, one more tensor behind all others.  A kernel for which it is too small, or
    which another part of the same call has, allocates what it needs.
    """

    params: tuple[Tensor, ...]
    literals: tuple[Literal, ...]
    nodes: tuple[Node, ...]
    results: tuple[Ref, ...]
    implementation: str = ""
    in_place: tuple[tuple[int, int], ...] = ()
    workspace: bool = False

    @property
    def n_outputs(self) -> int:
        """How many tensors its calls fill: the results, the counts of a kernel that counts them, the workspace."""
        return len(self.results) + self.counts + self.workspace

    @property
    def counts(self) -> bool:
        """Whether its kernel reports sizes, behind the results: also where the attributes of a call make none depend on them."""
        return any(n.operator.shape_func.upper_bound for n in self.nodes)

    def kernel_on(self, machine: str) -> Kernel | None:
        """Its kernel on ``machine`` (see ``Kernel.devices``); None for generated ones, and where it has none there."""
        kernels = [k for k in self.nodes[0].operator.kernels_on(machine) if self.implementation in ("", k.name)]
        return kernels[-1] if kernels else None

    def call_on(self, machine: str = HOST) -> OpCall:
        """The call of its one operator, as implementations are asked about it."""
        (node,), values = self.nodes, self.values()
        refs = [r for arg in node.args for r in (arg if isinstance(arg, tuple) else (arg,))]
        return OpCall(node.operator, node.attrs, tuple(values[r] for r in refs), node.outputs, machine)

    def values(self) -> tuple[Tensor, ...]:
        """Every value by its ref."""
        return self.params + tuple(Tensor(c.dtype, ()) for c in self.literals) + tuple(t for n in self.nodes for t in n.outputs)

    @property
    def name(self) -> str:
        """``fused_exp_add`` from the operators, at most 60 characters."""
        joined = "_".join(n.op.replace(".", "_") for n in self.nodes)
        return ("fused_" if len(self.nodes) > 1 else "") + joined[:60]

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``Group.from_json`` gives back an equal group.  Result shapes are not stored: they are derived."""
        return {
            "params": [[t.dtype, [_dim_json(d) for d in t.shape]] for t in self.params],
            "literals": [[c.dtype, c.value] for c in self.literals],
            "nodes": [
                {"op": n.op, "attrs": attrs_json(n.attrs), "args": [list(a) if isinstance(a, tuple) else a for a in n.args]}
                for n in self.nodes
            ],
            "results": list(self.results),
            "implementation": self.implementation,
            "in_place": [list(pair) for pair in self.in_place],
            "workspace": self.workspace,
        }

    def key(self) -> str:
        """Canonical text: equal for equal groups."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


def _dim_json(d: Dim) -> int | str:
    known = const(d)
    return d.key if known is None else known


def dim_from_json(value: int | str) -> Dim:
    return dim(value) if isinstance(value, int) else sym(value)


def attrs_json(attrs: Any) -> dict[str, Any]:
    """The attributes as plain data (tuples become lists)."""
    return {f.name: _plain(getattr(attrs, f.name)) for f in dataclasses.fields(attrs)}


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, (tuple, list)) else value


def attrs_from_json(cls: type, data: dict[str, Any]) -> Any:
    """The attrs object of class ``cls``; lists become tuples.  Raises TypeError for unknown or missing names."""
    return cls(**{k: _tuple(v) for k, v in data.items()})


def _tuple(value: Any) -> Any:
    return tuple(_tuple(v) for v in value) if isinstance(value, list) else value
