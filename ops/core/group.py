"""Primitives as data: the operators fused into one kernel, and their data flow.

An executable holds groups instead of code.  A group determines its shape program (``ops.core.type_relation``), its kernel source
(``ops.codegen``) and the cache key of the compiled kernel.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cached_property
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, Shape, const, dim, sym
from .implementation import HOST, Kernel, OpCall
from .op import Op, get
from .tensor_types import Tensor

Ref = int  # number of a value of the group: parameters, then literals, then the outputs of the nodes in order


@frozen
class Literal:
    """A rank-0 constant, part of the kernel's source."""

    dtype: str
    value: float | int | bool


@frozen
class Node:
    """An operator call.  ``args``: one entry per input; a tuple input is a tuple of refs."""

    op: str
    attrs: Any
    args: tuple[Any, ...]
    outputs: tuple[Tensor, ...]

    @property
    def operator(self) -> Op:
        return get(self.op)


@frozen
class Group:
    """A fused primitive: ``params``, ``literals``, ``nodes`` in dependency order, and the refs of its ``results``.

    ``implementation``: the name of an implementation of its operator; "" is the last one in the fallback order, and the only
    implementation of a group of fusable operators.

    ``in_place``: pairs of a parameter (number) and a result (position) that share memory in its calls, as
    ``ops.analysis.aliasing`` allows.  The kernel is also correct if the pair does not share memory.

    ``workspace``: whether its calls pass a scratch tensor as last argument.  If the workspace is too small, or in use by another
    part of the same call, the kernel allocates its scratch buffers.
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
        """The number of tensors written by a call: the results, the counts of an upper-bound kernel, the workspace."""
        return len(self.results) + self.counts + self.workspace

    @property
    def has_epilogue(self) -> bool:
        """Whether the first operator has kernels of its own, which apply the other operators to their result."""
        return len(self.nodes) > 1 and bool(self.nodes[0].operator.kernels)

    @property
    def has_prologue(self) -> bool:
        """Whether the last operator has kernels of its own, which compute its inputs by the other operators."""
        return len(self.nodes) > 1 and not self.nodes[0].operator.kernels and bool(self.nodes[-1].operator.kernels)

    @property
    def main(self) -> Node:
        """The call of the operator that has kernels of its own; the first call of a group whose kernel is generated."""
        return self.nodes[-1] if self.has_prologue else self.nodes[0]

    @property
    def counts(self) -> bool:
        """Whether the kernel reports true sizes in an output after the results, even if the attributes make no size depend on
        them."""
        return any(n.operator.shape_func.upper_bound for n in self.nodes)

    def kernel_on(self, machine: str) -> Kernel | None:
        """The hand-written kernel on ``machine`` (see ``Kernel.devices``); None for generated kernels, or if none runs there."""
        kernels = [k for k in self.main.operator.kernels_on(machine) if self.implementation in ("", k.name)]
        return kernels[-1] if kernels else None

    def call_on(self, machine: str = HOST) -> OpCall:
        """The call of the operator with kernels of its own, for the predicates of its implementations."""
        node, values = self.main, self.values()
        refs = [r for arg in node.args for r in (arg if isinstance(arg, tuple) else (arg,))]
        return OpCall(node.operator, node.attrs, tuple(values[r] for r in refs), node.outputs, machine)

    def values(self) -> tuple[Tensor, ...]:
        """All values, indexed by ref."""
        return self._values

    @cached_property
    def _values(self) -> tuple[Tensor, ...]:
        return self.params + tuple(Tensor(c.dtype, ()) for c in self.literals) + tuple(t for n in self.nodes for t in n.outputs)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of all values, indexed by ref."""
        return tuple(t.shape for t in self.values())

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # without what follows from them

    @property
    def name(self) -> str:
        """A name derived from the operators, such as ``fused_exp_add``; the operators contribute at most 60 characters."""
        joined = "_".join(n.op.replace(".", "_") for n in self.nodes)
        return ("fused_" if len(self.nodes) > 1 else "") + joined[:60]

    def to_json(self) -> dict[str, Any]:
        """The group as plain data; ``group_from_json`` restores an equal group.  Result shapes are derived, not stored."""
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
        """Canonical text of the group: equal for equal groups."""
        return self._key

    @cached_property
    def _key(self) -> str:
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
