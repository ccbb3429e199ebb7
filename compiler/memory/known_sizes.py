"""Sizes computed anywhere in a lowered function: from the tensors that are bound there, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ops import machine
from ...ops.ty import TensorType, TupleType
from ...shape_funcs.dims import ANY_DIM, RESULT, SYM, Dim, Shape, const, postorder
from ...shape_funcs.program import SIZE, assemble
from ..ir import Call, Var
from ..placement import vector_type
from .storage_roots import Path, StorageRoots


class KnownSizes:
    """Which tensors and axes have a size, by what it is; places are numbers and branches of ``StorageRoots``."""

    def __init__(self, roots: StorageRoots) -> None:
        self._found: dict[Dim, list[tuple[int, Path, Var, int]]] = {}
        for var, (at, path) in roots.tensors.items():
            assert isinstance(var.ty, TensorType)
            for axis, d in enumerate(var.ty.shape):
                if const(d) is None:
                    self._found.setdefault(d, []).append((at, path, var, axis))

    def are_known(self, dims: Iterable[Dim], at: int, path: Path) -> bool:
        """Can ``dims`` be computed before number ``at``?"""
        here = _Here(self, at, path)
        return all(d in here or d.op not in (SYM, RESULT, ANY_DIM) for d in postorder(dims, stop=here))

    def computed(self, vectors: Sequence[Shape], at: int, path: Path) -> Call:
        """The call, of ``vm.sizes``, that computes ``vectors``, which are known before number ``at``."""
        here = _Here(self, at, path)
        tensors: dict[Var, int] = {}
        loads = {}
        for d in postorder([d for v in vectors for d in v], stop=here):
            if d in here:
                var, axis = here[d]
                loads[d] = tensors.setdefault(var, len(tensors)), SIZE, axis
        program = assemble(vectors, [], loads)
        attrs = machine.SizesAttrs(program.loads, program.rows, program.outputs)
        ty = TupleType(tuple(vector_type(len(v)) for v in vectors))
        return Call(machine.SIZES, tuple(tensors), attrs, ty=ty)

    def source(self, d: Dim, at: int, path: Path) -> tuple[Var, int] | None:
        """A tensor bound before number ``at``, and its axis that has the size ``d``; None if there is none."""
        for bound_at, bound_in, var, axis in self._found.get(d, ()):
            if bound_at < at and path[: len(bound_in)] == bound_in:
                return var, axis
        return None


class _Here:
    """The sizes that some tensor has at one place, as a container."""

    def __init__(self, sizes: KnownSizes, at: int, path: Path) -> None:
        self.sizes, self.at, self.path = sizes, at, path

    def __contains__(self, d: object) -> bool:
        return isinstance(d, Dim) and self.sizes.source(d, self.at, self.path) is not None

    def __getitem__(self, d: Dim) -> tuple[Var, int]:
        found = self.sizes.source(d, self.at, self.path)
        assert found is not None, d
        return found
