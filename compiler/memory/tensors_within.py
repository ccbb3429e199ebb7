"""A function in which what lies in another tensor is made there (see ``lying_within``)."""

from __future__ import annotations

from collections import ChainMap

from ...ops import machine
from ...shape_funcs.dims import Shape, const, is_static
from ..anf import Names
from ..ir import Call, Expr, Function, If, TupleGetItem, Var, let_chain, make_lets, replace
from ..placement import HOST, vector_constant, vector_type
from .known_sizes import KnownSizes
from .lying_within import Join, Lying
from .storage_roots import MAKES_STORAGE, MAKES_TENSOR, Path, StorageRoots


def make_within(function: Function, roots: StorageRoots, sizes: KnownSizes, lying: Lying) -> Function:
    """``function`` with its parts as views and its joins written in place."""
    return replace(function, body=_Making(roots, sizes, lying).chain(function.body))


class _Making:
    """One function as it becomes."""

    def __init__(self, roots: StorageRoots, sizes: KnownSizes, lying: Lying) -> None:
        self.roots, self.sizes, self.lying = roots, sizes, lying
        self.names = Names({v.name for v in roots.bound})
        joins = [j for before in lying.joins.values() for j in before]
        self.tensors, self.storages = {j.tensor for j in joins}, {j.storage.var for j in joins} | lying.gone
        self.places = {id(launch.call): (launch.at, launch.path) for launch in roots.launches}
        #: The allocations that became views, for their shapes; where the parts of joins begin; the vectors that are constants.
        self.allocations: dict[Var, Call] = {}
        self.offsets: dict[Var, Var] = {}
        self.constants: ChainMap[tuple[int, ...], Var] = ChainMap()
        self.out: list[tuple[Var, Expr]] = []

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        outer, self.out, self.constants = self.out, [], self.constants.new_child()
        for var, value in bindings:
            match value:
                case If():
                    branches = {name: self.chain(getattr(value, name)) for name in ("true_branch", "false_branch")}
                    self.out.append((var, replace(value, **branches)))
                case Call():
                    self.call(var, value)
                case _:
                    self.out.append((var, value))
        made = make_lets(self.out, result)
        self.out, self.constants = outer, self.constants.parents
        return made

    def call(self, var: Var, value: Call) -> None:
        if value.op in MAKES_STORAGE:
            for join in self.lying.joins.get(var, ()):
                self.join(join, self.roots.storages[var].at, self.roots.storages[var].path)
            if var not in self.storages:
                self.out.append((var, value))
        elif value.op in MAKES_TENSOR and value.args[0] in self.storages:
            if var in self.lying.parts and var not in self.tensors:
                self.part(var, self.shape_of(value))
            self.allocations[var] = value
        elif id(value) in self.lying.slices:
            for within in self.lying.slices[id(value)]:
                (offset,) = self.vectors([(within.offset,)], *self.places[id(value)])
                self.slice(within.tensor, within.whole, self.shape_of(self.allocations[within.tensor]), offset)
        elif id(value) not in self.lying.joined:
            self.out.append((var, value))

    def join(self, join: Join, at: int, path: Path) -> None:
        """What is joined, before its parts; it may be part of something itself."""
        shape, *offsets = self.vectors([join.shape, *((part.offset,) for part in join.parts)], at, path)
        self.offsets |= {part.tensor: offset for part, offset in zip(join.parts, offsets, strict=True)}
        if join.tensor in self.lying.parts:
            self.part(join.tensor, shape)
            return
        storage, made = join.storage, join.storage.makes
        assert made is not None
        is_known = join.tensor.ty.is_static  # type: ignore[union-attr]
        self.out.append((storage.var, storage.call if is_known else replace(storage.call, args=(shape,))))
        self.out.append((join.tensor, made if is_known else replace(made, args=(storage.var, shape))))

    def part(self, tensor: Var, shape: Var) -> None:
        self.slice(tensor, self.lying.parts[tensor].whole, shape, self.offsets[tensor])

    def slice(self, tensor: Var, whole: Var, shape: Var, offset: Var) -> None:
        call = Call(machine.SLICE_TENSOR, (whole, shape, offset), machine.SLICE_TENSOR.attrs(), ty=tensor.ty, span=tensor.span)
        self.out.append((tensor, call))

    def shape_of(self, allocation: Call) -> Var:
        """The vector of the shape of a tensor that would have been allocated."""
        if len(allocation.args) > 1:
            vector = allocation.args[1]
            assert isinstance(vector, Var)
            return vector
        return self.constant(allocation.attrs.shape)

    def vectors(self, wanted: list[Shape], at: int, path: Path) -> list[Var]:
        """A vector on the host for each of ``wanted``, computed where that is not known; bound from here on."""
        unknown = [v for v in wanted if not is_static(v)]
        found: dict[Shape, Var] = {}
        if unknown:
            call = self.sizes.computed(unknown, at, path)
            every = Var(self.names("sizes"), ty=call.ty)
            self.out.append((every, call))
            for k, dims in enumerate(unknown):
                item = TupleGetItem(every, k, ty=vector_type(len(dims)))
                found[dims] = Var(self.names("size"), ty=item.ty)
                self.out.append((found[dims], item))
        return [found[v] if v in found else self.constant(tuple(const(d) or 0 for d in v)) for v in wanted]

    def constant(self, sizes: tuple[int, ...]) -> Var:
        """A vector of known sizes."""
        if sizes not in self.constants:
            constant = vector_constant(sizes)
            var = self.constants[sizes] = Var(self.names("const"), ty=constant.ty)
            self.out.append((var, Call(machine.LOAD_CONST, (constant,), machine.LoadConstAttrs(HOST), ty=constant.ty)))
        return self.constants[sizes]
