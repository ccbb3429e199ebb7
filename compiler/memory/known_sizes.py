"""Sizes that are computable at a point of a lowered function, from the shapes of the tensors bound there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ops.core.tensor_types import TensorType, TupleType
from ...ops.defs.machine import machine_ops
from ...shape_funcs.symbolic.dim import ANY_DIM, RESULT, UNKNOWNS, Dim, Shape, const, postorder
from ...shape_funcs.symbolic.program import SIZE, assemble
from ..ir.expr import Call, Var
from .liveness import Liveness, Path
from .machine_calls import vector_type


class KnownSizes:
    """The tensors and axes of each size, by dim; a position is a number and the branches of ``Liveness``."""

    def __init__(self, liveness: Liveness) -> None:
        self._axes: dict[Dim, list[tuple[int, Path, Var, int]]] = {}
        for var, (at, path) in liveness.tensors.items():
            assert isinstance(var.ty, TensorType)
            for axis, d in enumerate(var.ty.shape):
                if const(d) is None:
                    self._axes.setdefault(d, []).append((at, path, var, axis))

    def are_known(self, dims: Iterable[Dim], at: int, path: Path) -> bool:
        """Whether ``dims`` are computable before number ``at``."""
        scope = _SizesInScope(self, at, path)
        return all(d in scope or d.op not in (*UNKNOWNS, RESULT, ANY_DIM) for d in postorder(dims, stop=scope))

    def compute(self, vectors: Sequence[Shape], at: int, path: Path) -> Call:
        """The call, of ``vm.bytecode.size_expressions``, that computes ``vectors``, which are computable before number ``at``."""
        scope = _SizesInScope(self, at, path)
        tensors: dict[Var, int] = {}
        loads = {}
        for d in postorder([d for v in vectors for d in v], stop=scope):
            if d in scope:
                var, axis = scope[d]
                loads[d] = tensors.setdefault(var, len(tensors)), SIZE, axis
        program = assemble(vectors, [], loads)
        attrs = machine_ops.SizesAttrs(program.loads, program.rows, program.outputs)
        ty = TupleType(tuple(vector_type(len(v)) for v in vectors))
        return Call(machine_ops.SIZES, tuple(tensors), attrs, ty=ty)

    def source(self, d: Dim, at: int, path: Path) -> tuple[Var, int] | None:
        """A tensor bound before number ``at`` and its axis of size ``d``; None if there is none."""
        for bound_at, bound_in, var, axis in self._axes.get(d, ()):
            if bound_at < at and path[: len(bound_in)] == bound_in:
                return var, axis
        return None


class _SizesInScope:
    """The sizes of the tensors bound at one position, as a container."""

    def __init__(self, sizes: KnownSizes, at: int, path: Path) -> None:
        self.sizes, self.at, self.path = sizes, at, path

    def __contains__(self, d: object) -> bool:
        return isinstance(d, Dim) and self.sizes.source(d, self.at, self.path) is not None

    def __getitem__(self, d: Dim) -> tuple[Var, int]:
        found = self.sizes.source(d, self.at, self.path)
        assert found is not None, d
        return found
