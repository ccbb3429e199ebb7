"""Materialise a view plan: allocations become views, and concatenation inputs are written in place (see ``plan_views``)."""

from __future__ import annotations

from collections import ChainMap

from ...ops.core.implementation import HOST
from ...ops.defs.machine import machine_ops
from ...shape_funcs.symbolic.dim import Shape, const, is_static
from ..ir.anf import Names
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, If, TupleGetItem, Var, let_chain, make_lets, replace, tensor_type
from .known_sizes import KnownSizes
from .liveness import Liveness, Path
from .machine_calls import load_call, vector_constant, vector_type
from .view_plan import Concatenation, ViewPlan


def materialise_views(function: Function, liveness: Liveness, sizes: KnownSizes, plan: ViewPlan) -> Function:
    """``function`` with slices as views of their source and concatenations written in place."""
    return replace(function, body=_ViewMaterialiser(liveness, sizes, plan).chain(function.body))


class _ViewMaterialiser:
    """The rewriter of one function."""

    def __init__(self, liveness: Liveness, sizes: KnownSizes, plan: ViewPlan) -> None:
        self.liveness, self.sizes, self.plan = liveness, sizes, plan
        self.names = Names({v.name for v in liveness.bound})
        concatenations = [c for before in plan.concatenations.values() for c in before]
        self.tensors = {c.tensor for c in concatenations}
        self.storages = {c.storage.var for c in concatenations} | plan.eliminated
        self.position = {id(launch.call): (launch.at, launch.path) for launch in liveness.launches}
        #: The allocations that became views, for their shapes; the offsets of concatenation inputs; the constant vectors.
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
                    then, otherwise = self.chain(value.true_branch), self.chain(value.false_branch)
                    self.out.append((var, replace(value, true_branch=then, false_branch=otherwise)))
                case Call():
                    self.call(var, value)
                case _:
                    self.out.append((var, value))
        rebuilt = make_lets(self.out, result)
        self.out, self.constants = outer, self.constants.parents
        return rebuilt

    def call(self, var: Var, value: Call) -> None:
        effect = effect_of(value)
        if effect.makes_storage:
            for concat in self.plan.concatenations.get(var, ()):
                self.concatenation(concat, self.liveness.storages[var].at, self.liveness.storages[var].path)
            if var not in self.storages:
                self.out.append((var, value))
        elif effect.makes_tensor and value.args[0] in self.storages:
            if var in self.plan.parts and var not in self.tensors:
                self.view(var, self.shape_of(value))
            self.allocations[var] = value
        elif id(value) in self.plan.slices:
            for view in self.plan.slices[id(value)]:
                (offset,) = self.vectors([(view.offset,)], *self.position[id(value)])
                self.slice(view.tensor, view.whole, self.shape_of(self.allocations[view.tensor]), offset)
        elif id(value) not in self.plan.elided:
            self.out.append((var, value))

    def concatenation(self, concat: Concatenation, at: int, path: Path) -> None:
        """Allocate the result of a concatenation before its inputs; the result may itself be a view of another concatenation."""
        shape, *offsets = self.vectors([concat.shape, *((part.offset,) for part in concat.parts)], at, path)
        self.offsets |= {part.tensor: offset for part, offset in zip(concat.parts, offsets, strict=True)}
        if concat.tensor in self.plan.parts:
            self.view(concat.tensor, shape)
            return
        storage, made = concat.storage, concat.storage.makes
        assert made is not None
        is_known = tensor_type(concat.tensor).is_static
        self.out.append((storage.var, storage.call if is_known else replace(storage.call, args=(shape,))))
        self.out.append((concat.tensor, made if is_known else replace(made, args=(storage.var, shape))))

    def view(self, tensor: Var, shape: Var) -> None:
        self.slice(tensor, self.plan.parts[tensor].whole, shape, self.offsets[tensor])

    def slice(self, tensor: Var, whole: Var, shape: Var, offset: Var) -> None:
        call = Call(
            machine_ops.SLICE_TENSOR, (whole, shape, offset), machine_ops.SLICE_TENSOR.attrs(), ty=tensor.ty, span=tensor.span
        )
        self.out.append((tensor, call))

    def shape_of(self, allocation: Call) -> Var:
        """The shape vector of a tensor whose allocation became a view."""
        if len(allocation.args) > 1:
            vector = allocation.args[1]
            assert isinstance(vector, Var)
            return vector
        return self.constant(allocation.attrs.shape)

    def vectors(self, wanted: list[Shape], at: int, path: Path) -> list[Var]:
        """A host vector for each of ``wanted``, computed unless it is constant."""
        unknown = [v for v in wanted if not is_static(v)]
        found: dict[Shape, Var] = {}
        if unknown:
            call = self.sizes.compute(unknown, at, path)
            every = Var(self.names("sizes"), ty=call.ty)
            self.out.append((every, call))
            for k, dims in enumerate(unknown):
                item = TupleGetItem(every, k, ty=vector_type(len(dims)))
                found[dims] = Var(self.names("size"), ty=item.ty)
                self.out.append((found[dims], item))
        return [found[v] if v in found else self.constant(tuple(const(d) or 0 for d in v)) for v in wanted]

    def constant(self, sizes: tuple[int, ...]) -> Var:
        """A host vector of known sizes."""
        if sizes not in self.constants:
            constant = vector_constant(sizes)
            var = self.constants[sizes] = Var(self.names("const"), ty=constant.ty)
            self.out.append((var, load_call(constant, HOST)))
        return self.constants[sizes]
