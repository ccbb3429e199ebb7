"""The location of each value while allocation is made explicit, and its transfers.

A :class:`Chain` is a chain of lets under construction.  An inner chain sees the locations of the outer chains; an outer chain
does not see the copies of an inner one.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import own_tensors
from ...ops.core.copy_reason import CopyReason
from ...ops.core.implementation import HOST
from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType, TupleType, Type, array_bytes
from ...ops.defs.machine import machine_ops
from ...shape_funcs.symbolic.dim import Shape, const, fresh
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Span, TypeCheckError
from ..ir.anf import Names
from ..ir.expr import Call, Constant, Expr, GlobalVar, If, Tuple, TupleGetItem, Var, make_lets, replace, type_of
from ..memory.machine_calls import load_call, storage_call, vector_constant


@frozen
class ValueLocation:
    """The location of a value: a variable on the host, a variable on the target, or both.

    ``fields``: the fields of a tuple that was built here, so that a projection needs no instruction.  ``narrow``: the dtype of
    the program, where the host variable holds int64 (the vector of a ``shape_of``).  ``mixed``: a tuple whose tensors are on
    ``devices`` (see ``own_tensors``), not all of them the target.
    """

    host: Var | None = None
    target: Var | None = None
    fields: tuple[Expr, ...] | None = None
    narrow: str | None = None
    mixed: Var | None = None
    devices: tuple[str, ...] = ()


@dataclass
class Frame:
    """The state shared by all scopes of a function.  ``cast(vector, dtype, device)`` is the primitive that casts a shape
    vector."""

    target: str
    names: Names
    cast: Callable[[Var, str, str], GlobalVar]
    alias: dict[Var, Expr] = field(default_factory=dict)

    def resolve(self, atom: Expr) -> Expr:
        """The atom that ``atom`` stands for, through ``let %a = %b``."""
        while isinstance(atom, Var) and atom in self.alias:
            atom = self.alias[atom]
        return atom


class Chain:
    """The chain under construction, and the values available in it.

    ``shapes`` maps the dims of a shape to its host vector; ``ran`` maps runs of shape functions to their results.
    """

    def __init__(self, frame: Frame, outer: Chain | None = None) -> None:
        self.frame = frame
        self.span: Span | None = None
        self.bindings: list[tuple[Var, Expr]] = []
        self.locations: ChainMap[Expr, ValueLocation] = outer.locations.new_child() if outer else ChainMap()
        self.shapes: ChainMap[Shape, Var] = outer.shapes.new_child() if outer else ChainMap()
        self.ran: ChainMap[tuple[Any, ...], tuple[Var, ...]] = outer.ran.new_child() if outer else ChainMap()

    # ---- building ----------------------------------------------------------------------------------------------

    def bind(self, name: str | Var, value: Expr, ty: Type | None) -> Var:
        """Append ``let name = value``; a str becomes a new variable."""
        var = name if isinstance(name, Var) else Var(self.frame.names(name), span=self.span, ty=ty)
        if var.ty is not ty:
            var = replace(var, ty=ty)
        self.bindings.append((var, value if value.ty is ty else replace(value, ty=ty)))
        return var

    def call(self, name: str | Var, op: Op, args: tuple[Expr, ...], attrs: Any, ty: Type | None) -> Var:
        """Append ``let name = op(args, attrs)``."""
        return self.bind(name, Call(op, args, attrs, span=self.span), ty)

    def chain(self, result: Expr) -> Expr:
        """The chain built so far, ending in ``result``."""
        return make_lets(self.bindings, result)

    # ---- locations ---------------------------------------------------------------------------------------------

    def location(self, atom: Expr) -> ValueLocation:
        """The location of ``atom``."""
        return self.locations.get(self.frame.resolve(atom)) or ValueLocation()

    def put(self, atom: Expr, location: ValueLocation) -> None:
        """Record the location of ``atom``."""
        self.locations[self.frame.resolve(atom)] = location

    def anywhere(self, atom: Expr) -> Var:
        """``atom`` on its device: for its shape, or for a view of it."""
        location = self.location(atom)
        known = location.host if location.target is None else location.target
        return self.on_target(atom, None) if known is None else known

    def unread(self, atom: Expr) -> Var:
        """``atom`` on its device, for a kernel that reads no element of it; a constant, which is not loaded yet, on the host."""
        known = self.location(atom).target
        return self.on_host(atom, None) if known is None else known

    def on(self, device: str, atom: Expr, reason: CopyReason | None) -> Var:
        """``atom`` on ``device``, the host or the target."""
        return self.on_target(atom, reason) if device == self.frame.target else self.on_host(atom, reason)

    def on_host(self, atom: Expr, reason: CopyReason | None, *, wide: bool = False) -> Var:
        """``atom`` on the host; copied if it is not there.  ``reason`` None: no copy can be needed.

        ``wide``: the reader takes int64 where the program has a narrower dtype.
        """
        atom, location = self.frame.resolve(atom), self.location(atom)
        if location.host is not None and (wide or not location.narrow):
            return location.host
        if location.host is not None:
            assert location.narrow is not None
            narrowed = self._narrowed(location.host, location.narrow, HOST)
            self.put(atom, replace(location, host=narrowed, narrow=None))
            return narrowed
        if isinstance(atom, Constant):
            host = self._load(atom, HOST)
        else:
            assert location.target is not None, atom
            host = self._copy(location.target, self.frame.target, HOST, reason)
        self.put(atom, replace(self.location(atom), host=host))
        return host

    def on_target(self, atom: Expr, reason: CopyReason | None) -> Var:
        """``atom`` on the target: built if it is a tuple, copied if it is not there."""
        atom, location = self.frame.resolve(atom), self.location(atom)
        if location.target is not None:
            return location.target
        if location.fields is not None or location.mixed is not None:
            fields = tuple(self.on_target(f, reason) for f in self.fields(atom))
            ty = TupleType(tuple(map(type_of, fields)))
            name = atom.name if isinstance(atom, Var) else "tuple"
            target = self.bind(name, Tuple(fields, span=self.span), ty)
        elif location.host is not None:
            target = self._copy(location.host, HOST, self.frame.target, reason)
            if location.narrow:
                target = self._narrowed(target, location.narrow, self.frame.target)
        else:
            assert isinstance(atom, Constant), atom
            target = self._load(atom, self.frame.target)
        self.put(atom, replace(self.location(atom), target=target))
        return target

    def in_record(self, atom: Expr, devices: Sequence[str], reason: CopyReason | None) -> Var:
        """``atom`` with its tensors on ``devices`` (see ``own_tensors``), as a record holds it."""
        atom, ty, target = self.frame.resolve(atom), type_of(atom), self.frame.target
        if isinstance(ty, TensorType):
            return self.on(devices[0], atom, reason)
        location = self.location(atom)
        if location.mixed is not None and location.devices == tuple(devices):
            return location.mixed
        if not isinstance(ty, TupleType) or all(device == target for device in devices):
            return self.on_target(atom, reason)
        fields, at = [], 0
        for part in self.fields(atom):
            count = len(own_tensors(part.ty))
            fields.append(self.in_record(part, devices[at : at + count], reason))
            at += count
        name = atom.name if isinstance(atom, Var) else "tuple"
        return self.bind(name, Tuple(tuple(fields), span=self.span), TupleType(tuple(map(type_of, fields))))

    def fields(self, atom: Expr) -> tuple[Expr, ...]:
        """The fields of a tuple, projected unless it was built here."""
        atom, location = self.frame.resolve(atom), self.location(atom)
        if location.fields is not None:
            return location.fields
        ty = type_of(atom)
        assert isinstance(ty, TupleType), atom
        fields = tuple(self.projection("field", atom, k) for k in range(len(ty.fields)))
        self.put(atom, replace(location, fields=fields))
        return fields

    def projection(self, name: str | Var, atom: Expr, index: int) -> Var:
        """Append ``let name = atom.index`` for a tuple that was not built here."""
        location, ty = self.location(atom), type_of(atom)
        assert isinstance(ty, TupleType), atom
        whole = self.on_target(atom, None) if location.mixed is None else location.mixed
        # a variable keeps its object, which may have a declared type
        var = self.bind(name, TupleGetItem(whole, index, span=self.span), name.ty if isinstance(name, Var) else ty.fields[index])
        counts = [len(own_tensors(f)) for f in ty.fields[: index + 1]]
        self.put_record(var, location.devices[sum(counts[:-1]) : sum(counts)])
        return var

    def put_record(self, var: Var, devices: Sequence[str]) -> None:
        """Record the location of a value that a record holds with its tensors on ``devices``; () if all are on the target."""
        if all(device == self.frame.target for device in devices):
            self.put(var, ValueLocation(target=var))
        elif isinstance(var.ty, TensorType):
            self.put(var, ValueLocation(host=var))
        else:
            self.put(var, ValueLocation(mixed=var, devices=tuple(devices)))

    def static_shape(self, dims: Shape) -> Var:
        """The host vector of a known shape."""
        if dims not in self.shapes:
            self.shapes[dims] = self.on_host(vector_constant([const(d) or 0 for d in dims]), None)
        return self.shapes[dims]

    def allocate(self, name: str | Var, ty: TensorType, shape: Var | None, device: str) -> Var:
        """A new tensor on ``device``; ``shape`` is its host vector where its type is not static.

        Raises TypeCheckError for a tensor larger than the address space, which a workspace of smaller tensors can be.
        """
        base = name.name if isinstance(name, Var) else name
        if shape is None:
            nbytes = _static_bytes(ty)
            if nbytes > INT64_MAX:
                message = f"this takes {nbytes} bytes of memory, more than can be addressed"
                raise TypeCheckError(message, self.span, code=codes.Type.SIZE)
            call = storage_call(nbytes, device, self.span)
            storage = self.bind(f"{base}_storage", call, call.ty)
            attrs: Any = machine_ops.AllocTensorAttrs(tuple(const(d) or 0 for d in ty.shape), ty.dtype)
            return self.call(name, machine_ops.ALLOC_TENSOR, (storage,), attrs, ty)
        attrs = machine_ops.AllocStorageRegAttrs(ty.dtype, device)
        storage_type = TensorType((fresh(),), "uint8")
        storage = self.call(f"{base}_storage", machine_ops.ALLOC_STORAGE_REG, (shape,), attrs, storage_type)
        return self.call(name, machine_ops.ALLOC_TENSOR_REG, (storage, shape), machine_ops.AllocTensorRegAttrs(ty.dtype), ty)

    def invoke(self, function: GlobalVar, ins: tuple[Expr, ...], outs: tuple[Expr, ...], workspace: bool = False) -> None:
        """Append the launch of a kernel; ``workspace``: the last of ``outs`` is one."""
        attrs = machine_ops.InvokeOpAttrs(len(outs), workspace)
        self.call("_", machine_ops.INVOKE_OP, (function, *ins, *outs), attrs, TupleType(()))

    def invoke_one_of(
        self,
        guards: tuple[Var, ...],
        functions: list[GlobalVar],
        ins: tuple[Expr, ...],
        outs: tuple[Expr, ...],
        workspace: bool = False,
    ) -> None:
        """Append the launch of the first kernel whose guard is not 0; the last has no guard.  ``workspace`` as for ``invoke``."""
        first, *others = functions
        if not others:
            self.invoke(first, ins, outs, workspace)
            return
        then, other = Chain(self.frame, self), Chain(self.frame, self)
        then.span = other.span = self.span
        then.invoke(first, ins, outs, workspace)
        other.invoke_one_of(guards[1:], others, ins, outs, workspace)
        nothing = TupleType(())
        first_chain, other_chain = (s.chain(s.bindings[-1][0]) for s in (then, other))
        self.bind("_", If(guards[0], first_chain, other_chain, span=self.span), nothing)

    def _load(self, atom: Constant, device: str) -> Var:
        if device == self.frame.target:  # if the target is the host: one load for both
            location = self.location(atom)
            if location.target is not None:
                return location.target
        var = self.bind("const", load_call(atom, device, self.span), atom.ty)
        if self.frame.target == HOST:
            self.put(atom, ValueLocation(host=var, target=var))
        return var

    def _copy(self, var: Var, src: str, dst: str, reason: CopyReason | None) -> Var:
        if src == dst:
            return var
        hint = f"{var.name}_host" if dst == HOST else f"{var.name}_{dst}"
        assert reason is not None, var
        attrs = machine_ops.DeviceCopyAttrs(src, dst, reason)
        return self.call(hint, machine_ops.DEVICE_COPY, (var,), attrs, var.ty)

    def _narrowed(self, vector: Var, dtype: str, device: str) -> Var:
        assert isinstance(vector.ty, TensorType)
        function = self.frame.cast(vector, dtype, device)
        out = self.allocate(f"{vector.name}_{dtype}", TensorType(vector.ty.shape, dtype), None, device)
        self.invoke(function, (vector,), (out,))
        return out


def _static_bytes(ty: TensorType) -> int:
    """The size in bytes of a tensor of static shape."""
    sizes = [n for n in map(const, ty.shape) if n is not None]
    assert len(sizes) == len(ty.shape), ty
    return array_bytes(sizes, ty.dtype)
