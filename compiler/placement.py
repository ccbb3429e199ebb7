"""Where each value is while allocation is made explicit, and the one way to bring it elsewhere.

A :class:`Scope` is a chain of lets being built.  What an outer chain knows, an inner one uses; what an inner one copies,
the outer one does not see.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ops import machine
from ..ops.op import Op
from ..ops.ty import ITEMSIZE, TensorType, TupleType, Type
from ..shape_funcs.dims import Shape, const, fresh
from ..shape_funcs.program import INT64_MAX
from ..vm import codes
from ..vm.copy_reason import CopyReason
from ..vm.executable import DEVICES
from ..vm.source import Span, TypeCheckError
from .anf import Names
from .ir import Call, Constant, Expr, GlobalVar, If, Tuple, Var, make_lets, replace

#: The device that shape functions run on and the machine branches on.
HOST = DEVICES[0]


@dataclass(frozen=True)
class Place:
    """Where a value is: a variable on the host, one on the target, or both.

    ``fields``: those of a tuple that was built here, so that a projection needs no instruction.  ``narrow``: the host
    variable holds int64 where the program says this dtype (the vector of a ``shape_of``).
    """

    host: Var | None = None
    target: Var | None = None
    fields: tuple[Expr, ...] | None = None
    narrow: str | None = None


@dataclass
class Frame:
    """What all scopes of a function share.  ``cast(vector, dtype, device)`` is the primitive that casts it."""

    target: str
    names: Names
    cast: Callable[[Var, str, str], GlobalVar]
    alias: dict[Var, Expr] = field(default_factory=dict)

    def resolve(self, atom: Expr) -> Expr:
        """What an atom stands for, through ``let %a = %b``."""
        while isinstance(atom, Var) and atom in self.alias:
            atom = self.alias[atom]
        return atom


def vector_type(rank: int) -> TensorType:
    """The type of a shape."""
    return TensorType.of((rank,), "int64")


def vector_constant(sizes: Sequence[int]) -> Constant:
    """Known sizes as an int64 vector."""
    data = np.array(sizes, np.int64)
    data.setflags(write=False)
    return Constant(data, ty=vector_type(len(sizes)))


class Scope:
    """The chain being built, and what is known in it.

    ``shapes`` maps the dims of a shape to the host vector that holds it; ``ran`` the runs of shape functions to what
    they gave.
    """

    def __init__(self, frame: Frame, outer: Scope | None = None) -> None:
        self.frame = frame
        self.span: Span | None = None
        self.bindings: list[tuple[Var, Expr]] = []
        self.places: ChainMap[Expr, Place] = outer.places.new_child() if outer else ChainMap()
        self.shapes: ChainMap[Shape, Var] = outer.shapes.new_child() if outer else ChainMap()
        self.ran: ChainMap[tuple, tuple[Var, ...]] = outer.ran.new_child() if outer else ChainMap()

    # ---- building ----------------------------------------------------------------------------------------------

    def bind(self, name: str | Var, value: Expr, ty: Type | None) -> Var:
        """Append ``let name = value``; a text becomes a new variable."""
        var = name if isinstance(name, Var) else Var(name=self.frame.names(name), span=self.span, ty=ty)
        if var.ty is not ty:
            var = replace(var, ty=ty)
        self.bindings.append((var, value if value.ty is ty else replace(value, ty=ty)))
        return var

    def call(self, name: str | Var, op: Op, args: tuple[Expr, ...], attrs: Any, ty: Type | None) -> Var:
        """Append ``let name = op(args, attrs)``."""
        return self.bind(name, Call(op, args, attrs, span=self.span), ty)

    def chain(self, result: Expr) -> Expr:
        """What was built, ending in ``result``."""
        return make_lets(self.bindings, result)

    # ---- places ------------------------------------------------------------------------------------------------

    def place(self, atom: Expr) -> Place:
        """Where ``atom`` is."""
        return self.places.get(self.frame.resolve(atom)) or Place()

    def put(self, atom: Expr, place: Place) -> None:
        """Record where ``atom`` is."""
        self.places[self.frame.resolve(atom)] = place

    def anywhere(self, atom: Expr) -> Var:
        """``atom`` where it is: for its shape, or for a view of it."""
        place = self.place(atom)
        return place.target or place.host or self.on_target(atom, None)

    def unread(self, atom: Expr) -> Var:
        """``atom`` where it is, for a kernel that reads no value of it; a constant, which is nowhere yet, on the host."""
        return self.place(atom).target or self.on_host(atom, None)

    def on(self, device: str, atom: Expr, reason: CopyReason | None) -> Var:
        """``atom`` on ``device``, the host or the target."""
        return self.on_target(atom, reason) if device == self.frame.target else self.on_host(atom, reason)

    def on_host(self, atom: Expr, reason: CopyReason | None, *, wide: bool = False) -> Var:
        """``atom`` on the host; copied if it is not there.  ``reason`` None: there will be nothing to copy.

        ``wide``: who reads it takes int64 where the program says a narrower dtype.
        """
        atom, place = self.frame.resolve(atom), self.place(atom)
        if place.host is not None and (wide or not place.narrow):
            return place.host
        if place.host is not None:
            assert place.narrow is not None
            narrowed = self._narrowed(place.host, place.narrow, HOST)
            self.put(atom, replace(place, host=narrowed, narrow=None))
            return narrowed
        if isinstance(atom, Constant):
            host = self._load(atom, HOST)
        else:
            assert place.target is not None, atom
            host = self._copy(place.target, self.frame.target, HOST, reason)
        self.put(atom, replace(self.place(atom), host=host))
        return host

    def on_target(self, atom: Expr, reason: CopyReason | None) -> Var:
        """``atom`` on the target, built if it is a tuple; copied if it is not there."""
        atom, place = self.frame.resolve(atom), self.place(atom)
        if place.target is not None:
            return place.target
        if place.fields is not None:
            fields = tuple(self.on_target(f, reason) for f in place.fields)
            ty = TupleType(tuple(f.ty for f in fields))  # type: ignore[misc]
            name = atom.name if isinstance(atom, Var) else "tuple"
            target = self.bind(name, Tuple(fields, span=self.span), ty)
        elif place.host is not None:
            target = self._copy(place.host, HOST, self.frame.target, reason)
            if place.narrow:
                target = self._narrowed(target, place.narrow, self.frame.target)
        else:
            assert isinstance(atom, Constant), atom
            target = self._load(atom, self.frame.target)
        self.put(atom, replace(self.place(atom), target=target))
        return target

    def static_shape(self, dims: Shape) -> Var:
        """The host vector of a known shape."""
        if dims not in self.shapes:
            self.shapes[dims] = self.on_host(vector_constant([const(d) or 0 for d in dims]), None)
        return self.shapes[dims]

    def allocate(self, name: str | Var, ty: TensorType, shape: Var | None, device: str) -> Var:
        """A new tensor on ``device``; ``shape`` is its host vector where the type does not say it.

        Raises TypeCheckError for one that is larger than any memory: a workspace may be, of tensors that are not.
        """
        base = name.name if isinstance(name, Var) else name
        if shape is None:
            nbytes = nbytes_of(ty)
            if nbytes > INT64_MAX:
                message = f"this takes {nbytes} bytes of memory, more than can be addressed"
                raise TypeCheckError(message, self.span, code=codes.Type.SIZE)
            storage_type = TensorType.of((nbytes,), "uint8")
            attrs: Any = machine.AllocStorageAttrs(nbytes, device)
            storage = self.call(f"{base}_storage", machine.ALLOC_STORAGE, (), attrs, storage_type)
            attrs = machine.AllocTensorAttrs(tuple(const(d) or 0 for d in ty.shape), ty.dtype)
            return self.call(name, machine.ALLOC_TENSOR, (storage,), attrs, ty)
        attrs = machine.AllocStorageRegAttrs(ty.dtype, device)
        storage_type = TensorType((fresh(),), "uint8")
        storage = self.call(f"{base}_storage", machine.ALLOC_STORAGE_REG, (shape,), attrs, storage_type)
        return self.call(name, machine.ALLOC_TENSOR_REG, (storage, shape), machine.AllocTensorRegAttrs(ty.dtype), ty)

    def invoke(self, function: GlobalVar, ins: tuple[Expr, ...], outs: tuple[Expr, ...], workspace: bool = False) -> None:
        """Append the run of a kernel; ``workspace``: the last of ``outs`` is one."""
        attrs = machine.InvokeOpAttrs(len(outs), workspace)
        self.call("_", machine.INVOKE_OP, (function, *ins, *outs), attrs, TupleType(()))

    def invoke_one_of(
        self,
        guards: tuple[Var, ...],
        functions: list[GlobalVar],
        ins: tuple[Expr, ...],
        outs: tuple[Expr, ...],
        workspace: bool = False,
    ) -> None:
        """Append the run of the first kernel whose guard is not 0; the last has none.  ``workspace`` as for ``invoke``."""
        first, *others = functions
        if not others:
            self.invoke(first, ins, outs, workspace)
            return
        then, other = Scope(self.frame, self), Scope(self.frame, self)
        then.span = other.span = self.span
        then.invoke(first, ins, outs, workspace)
        other.invoke_one_of(guards[1:], others, ins, outs, workspace)
        nothing = TupleType(())
        branches = (s.chain(s.bindings[-1][0]) for s in (then, other))
        self.bind("_", If(guards[0], *branches, span=self.span), nothing)

    def _load(self, atom: Constant, device: str) -> Var:
        if device == self.frame.target:  # where the target is the host: one load for both
            place = self.place(atom)
            if place.target is not None:
                return place.target
        var = self.call("const", machine.LOAD_CONST, (atom,), machine.LoadConstAttrs(device), atom.ty)
        if self.frame.target == HOST:
            self.put(atom, Place(host=var, target=var))
        return var

    def _copy(self, var: Var, src: str, dst: str, reason: CopyReason | None) -> Var:
        if src == dst:
            return var
        hint = f"{var.name}_host" if dst == HOST else f"{var.name}_{dst}"
        assert reason is not None, var
        attrs = machine.DeviceCopyAttrs(src, dst, reason.kind.key, reason.op, reason.input)
        return self.call(hint, machine.DEVICE_COPY, (var,), attrs, var.ty)

    def _narrowed(self, vector: Var, dtype: str, device: str) -> Var:
        assert isinstance(vector.ty, TensorType)
        function = self.frame.cast(vector, dtype, device)
        out = self.allocate(f"{vector.name}_{dtype}", TensorType(vector.ty.shape, dtype), None, device)
        self.invoke(function, (vector,), (out,))
        return out


def nbytes_of(ty: TensorType) -> int:
    """The bytes of a tensor whose shape is known."""
    n = ITEMSIZE[ty.dtype]
    for d in ty.shape:
        known = const(d)
        assert known is not None, ty
        n *= known
    return n
