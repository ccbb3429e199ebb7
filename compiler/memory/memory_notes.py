"""What an executable says of storages beside its code: gathered while a function is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ops import machine
from ...ops.ty import TensorType
from ...shape_funcs.dims import ANY, RESULT, SYM, Dim, Shape, substitute
from ...vm.executable import MemoryNote
from ...vm.sizes import nbytes, parameter_sizes, portable_dim
from ..ir import Call, Expr, Function, Var
from ..primitive_shape import Primitive

_EMPTY = MemoryNote(-1)


class MemoryNotes:
    """The notes of one function.  Instructions are numbered in their order; where each begins is known in the end (``table``)."""

    def __init__(self, function: Function) -> None:
        self._sizes = parameter_sizes((p.name, p.ty) for p in function.params if p.ty is not None)
        self._notes: dict[int, MemoryNote] = {}
        #: Which instruction makes a storage.
        self._made_by: dict[Expr, int] = {}
        #: The sizes in the vectors that a shape function gives, and in one of them; of a trimmed result, its bound's.
        self._shapes: dict[Expr, tuple[Shape, ...]] = {}
        self._vectors: dict[Expr, Shape] = {}

    def storage(self, number: int, var: Var, call: Call) -> None:
        """Instruction ``number`` makes the storage ``var``, as ``call`` says."""
        self._made_by[var] = number
        if call.op is machine.TAKE_STORAGE:
            (value,) = call.args
            assert isinstance(value, Var) and isinstance(value.ty, TensorType)
            self._notes[number] = MemoryNote(-1, value.name, self._bytes(value.ty.shape, value.ty.dtype))
        else:
            self._notes[number] = MemoryNote(-1, why=call.attrs.why)

    def tensor(self, number: int, var: Var, call: Call) -> None:
        """Instruction ``number`` makes the tensor ``var``.  The first of a storage says how large that is, if not the code."""
        assert isinstance(var.ty, TensorType)
        self._notes[number] = MemoryNote(-1, var.name)
        if call.op is machine.ALLOC_TENSOR_REG:
            storage, vector = call.args
            nbytes = self._bytes(self._vectors.get(vector, var.ty.shape), call.attrs.dtype)
            note = self._notes[self._made_by[storage]]
            if note.nbytes is ANY:
                self._notes[self._made_by[storage]] = replace(note, nbytes=nbytes)

    def part(self, number: int, var: Var) -> None:
        """Instruction ``number`` makes ``var``, part of another tensor."""
        self._notes[number] = MemoryNote(-1, var.name)

    def shape_func(self, var: Var, call: Call, primitive: Primitive) -> None:
        """``var``: the vectors that the shape function of a primitive gives for the arguments of ``call``."""
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
        """``var`` is one of the vectors of a shape function."""
        shapes = self._shapes.get(vectors, ())
        if index < len(shapes):
            self._vectors[var] = shapes[index]

    def table(self, starts: Sequence[int]) -> tuple[MemoryNote, ...]:
        """The notes that say something; ``starts``: the word at which each instruction begins."""
        return tuple(replace(note, pc=starts[number]) for number, note in sorted(self._notes.items()) if note != _EMPTY)

    def _bytes(self, shape: Shape, dtype: str) -> Dim:
        return portable_dim(nbytes(TensorType(shape, dtype)), self._sizes)
