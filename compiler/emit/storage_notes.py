"""Notes on storages in an executable, beside its code, collected while a function is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ops.core.effect import Role
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import ANY, RESULT, SYM, Dim, Shape
from ...shape_funcs.symbolic.dim_operations import substitute
from ...vm.bytecode.executable import MemoryNote
from ...vm.bytecode.size_expressions import nbytes, parameter_sizes, portable_dim
from ...vm.diagnostics.printable import printable_name
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, Var
from ..ir.primitive_shape import Primitive

_EMPTY = MemoryNote(-1)


class MemoryNotes:
    """The notes of one function.  Instructions are numbered in order; their addresses are known in the end (``table``)."""

    def __init__(self, function: Function) -> None:
        self._sizes = parameter_sizes((p.name, p.ty) for p in function.params if p.ty is not None)
        self._notes: dict[int, MemoryNote] = {}
        #: The instruction that allocates each storage.
        self._made_by: dict[Expr, int] = {}
        #: The storages whose size neither the code nor their type states.
        self._unsized: set[Expr] = set()
        #: The sizes in the vectors of a shape function, and in a single vector; for a trimmed result, the sizes of its bound.
        self._shapes: dict[Expr, tuple[Shape, ...]] = {}
        self._vectors: dict[Expr, Shape] = {}

    def storage(self, number: int, var: Var, call: Call) -> None:
        """Record that instruction ``number`` allocates the storage ``var`` by ``call``."""
        self._made_by[var] = number
        if Role.DONOR in effect_of(call).roles:
            (value,) = call.args
            assert isinstance(value, Var) and isinstance(value.ty, TensorType)
            note = MemoryNote(-1, printable_name(value.name), self._bytes(value.ty.shape, value.ty.dtype))
            is_stated = note.nbytes is not ANY
        else:
            assert isinstance(call.ty, TensorType)
            note = MemoryNote(-1, why=printable_name(call.attrs.why), nbytes=self._bytes(call.ty.shape, call.ty.dtype))
            is_stated = call.ty.shape[0].op != SYM
        self._notes[number] = note
        if not is_stated:
            self._unsized.add(var)

    def tensor(self, number: int, var: Var, call: Call) -> None:
        """Record that instruction ``number`` creates the tensor ``var``; the first tensor of a storage determines its size if
        neither the code nor the storage's type does."""
        assert isinstance(var.ty, TensorType)
        self._notes[number] = MemoryNote(-1, printable_name(var.name))
        if Role.SHAPE in effect_of(call).roles:
            storage, vector = call.args
            nbytes = self._bytes(self._vectors.get(vector, var.ty.shape), call.attrs.dtype)
            note = self._notes[self._made_by[storage]]
            if storage in self._unsized:
                self._unsized.remove(storage)
                self._notes[self._made_by[storage]] = replace(note, nbytes=nbytes)

    def part(self, number: int, var: Var) -> None:
        """Record that instruction ``number`` creates ``var``, a view of part of another tensor."""
        self._notes[number] = MemoryNote(-1, printable_name(var.name))

    def shape_func(self, var: Var, call: Call, primitive: Primitive) -> None:
        """Record the result vectors ``var`` of a primitive's shape function for the arguments of ``call``."""
        group = primitive.group
        sizes = {
            d: size
            for param, value in zip(group.params, call.args[1:], strict=True)
            if isinstance(value.ty, TensorType)
            for d, size in zip(param.shape, value.ty.shape, strict=True)
            if d.op == SYM
        }
        results = (group.values()[ref].shape for ref in group.results)
        bounds = (tuple(d.args[0] if d.op == RESULT else d for d in shape) for shape in results)
        self._shapes[var] = tuple(tuple(substitute(d, sizes) for d in shape) for shape in bounds)

    def vector(self, var: Var, vectors: Expr, index: int) -> None:
        """Record that ``var`` is a vector of a shape function."""
        shapes = self._shapes.get(vectors, ())
        if index < len(shapes):
            self._vectors[var] = shapes[index]

    def table(self, starts: Sequence[int]) -> tuple[MemoryNote, ...]:
        """The non-empty notes; ``starts``: the first word of each instruction."""
        return tuple(replace(note, pc=starts[number]) for number, note in sorted(self._notes.items()) if note != _EMPTY)

    def _bytes(self, shape: Shape, dtype: str) -> Dim:
        return portable_dim(nbytes(TensorType(shape, dtype)), self._sizes)
