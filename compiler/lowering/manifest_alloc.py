"""Make allocation, shape functions and copies explicit.

::

    let %y = @exp(%x); %y                  -- %x: Tensor[(?n,), float32]

becomes::

    let %x_shape = vm.shape_of(%x);
    let %y_storage = memory.alloc_storage_reg(%x_shape, dtype="float32", device="cpu");
    let %y = memory.alloc_tensor_reg(%y_storage, %x_shape, dtype="float32");
    let %_ = vm.invoke_op(@exp, %x, %y);
    %y

A kernel that needs a workspace gets it as its last output (``ops.codegen.cpu.opaque_kernel.workspace``)::

    let %y_workspace_storage = memory.alloc_storage(nbytes=4096, device="cpu");
    let %y_workspace = memory.alloc_tensor(%y_workspace_storage, shape=[4096], dtype="uint8");
    ...
    let %_ = vm.invoke_op(@sort, %x, %y, %y_workspace, n_outputs=2, workspace=True);

Requires: typed A-normal form, closures lifted, every kernel call a call of a primitive.
Ensures: primitives are called through ``vm.invoke_op`` only; constants occur in ``vm.load_const`` only.  The inputs of kernels,
arguments, fields of tuples and results are on the target, or on the device that ``place`` chose.  The data that shape functions
read and the conditions of ``if`` are on the host.  An input of which a kernel reads only the sizes stays on its device.  A value
is copied only before a read, once per scope, and every copy records its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ops.core.adt_types import own_tensors
from ...ops.core.conditions import Choice
from ...ops.core.copy_reason import CopyKind, CopyReason
from ...ops.core.group import Node
from ...ops.core.op import Op, OpPattern, get
from ...ops.core.tensor_types import Tensor, TensorType, TupleType, Type, numpy_dtype, tensors
from ...ops.core.type_relation import build_group
from ...ops.defs.machine import machine_ops
from ...ops.defs.machine.adt_ops import NO_MATCH, RECORD_OPERATORS
from ...ops.defs.movement.transform import ShapeOfAttrs
from ...shape_funcs.symbolic.dim import Shape, const, fresh, is_static
from ..device_placement.place import DEVICE_OF_RESULT, DEVICES_OF_PARAMS
from ..device_placement.record_fields import field_tensors, record_text, stored
from ..ir.anf import Names
from ..ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    replace,
    type_of,
)  # fmt: skip
from ..ir.lowering_context import LoweringContext
from ..ir.multi_version import reasons, version
from ..ir.primitive import function_of
from ..ir.primitive_shape import Primitive, primitive, workspace_type
from ..memory.machine_calls import vector_type
from .value_location import Chain, Frame, ValueLocation


def manifest_alloc(mod: IRModule, context: LoweringContext) -> IRModule:
    """``mod`` with explicit allocation for its target."""
    pass_ = _AllocationInserter(mod, context)
    lowered = {name: f if f.is_primitive else pass_.function(f) for name, f in mod.functions.items()}
    return replace(mod, functions={**lowered, **pass_.made})


class _AllocationInserter:
    """The pass over one module."""

    def __init__(self, mod: IRModule, context: LoweringContext) -> None:
        self.mod, self.context, self.target = mod, context, context.target
        self.made: dict[str, Function] = {}  # new primitives: casts of shapes, and versions

    def function(self, function: Function) -> Function:
        """``function`` with its body rewritten."""
        names = Names({p.name for p in function.params} | _bound_names(function.body))
        scope = Chain(Frame(self.target, names, self.cast))
        for p, device in zip(function.params, self.param_devices(function), strict=True):
            scope.locations[p] = self.at(device, p)
        device = function.attrs.get(DEVICE_OF_RESULT, self.target)
        return replace(function, body=self.chain(function.body, scope, device, CopyReason(CopyKind.RESULT)))

    def param_devices(self, function: Function) -> tuple[str, ...]:
        """The device of each parameter."""
        return tuple(function.attrs.get(DEVICES_OF_PARAMS, (self.target,) * len(function.params)))

    def at(self, device: str, var: Var) -> ValueLocation:
        """The location of a variable on ``device``."""
        return ValueLocation(target=var) if device == self.target else ValueLocation(host=var)

    def chain(self, chain: Expr, scope: Chain, device: str, reason: CopyReason) -> Expr:
        """The chain rewritten in ``scope``; its result is on ``device``."""
        bindings, result = let_chain(chain)
        marks = _marks(bindings)
        for var, value in bindings:
            scope.span = value.span or var.span
            self.binding(scope, var, value, marks.get(var, self.target))
        return scope.chain(scope.on(device, result, reason))

    def binding(self, scope: Chain, var: Var, value: Expr, device: str) -> None:
        """Rewrite ``let var = value``; the value of an ``if`` is on ``device``."""
        match value:
            case Var() | Constant():
                scope.frame.alias[var] = value
            case Tuple():
                scope.put(var, ValueLocation(fields=value.fields))
            case TupleGetItem():
                self.projection(scope, var, value)
            case If():
                self.branches(scope, var, value, device)
            case Call(attrs=ShapeOfAttrs()):
                self.shape_of(scope, var, value)
            case Call(op=Op() as op):
                assert op.pattern is OpPattern.MACHINE, f"{op.name} is in no primitive"
                self.machine_call(scope, var, value)
            case Call(op=GlobalVar(name=name)) if self.mod[name].is_primitive:
                self.primitive_call(scope, var, value)
            case Call():
                self.call(scope, var, value)
            case _:
                raise AssertionError(f"manifest_alloc: no rule for {value}")

    # ---- values without a kernel -------------------------------------------------------------------------------

    def projection(self, scope: Chain, var: Var, value: TupleGetItem) -> None:
        """A field of a tuple that was built in this function is an alias; a field of any other tuple is projected."""
        location = scope.location(value.tuple_value)
        if location.fields is not None:
            scope.frame.alias[var] = location.fields[value.index]
            return
        scope.projection(var, value.tuple_value, value.index)

    def branches(self, scope: Chain, var: Var, value: If, device: str) -> None:
        """An ``if``: the host reads the condition; the results of both branches are on ``device``."""
        if value.constructor:
            cond = scope.on_target(value.cond, None)
        else:
            cond = scope.on_host(value.cond, CopyReason(CopyKind.CONDITION))
        then, other = (
            self.chain(b, Chain(scope.frame, scope), device, CopyReason(CopyKind.BRANCH))
            for b in (value.true_branch, value.false_branch)
        )
        self.result(scope, var, replace(value, cond=cond, true_branch=then, false_branch=other), device)

    def call(self, scope: Chain, var: Var, value: Call) -> None:
        """A call of a function: arguments and result are on the devices that the callee declares; for a closure, on the
        target."""
        callee = value.op
        assert not isinstance(callee, Op)
        devices, device = (self.target,) * len(value.args), self.target
        if isinstance(callee, Var):
            callee, name = scope.on_target(callee, None), f"%{callee.name}"
        else:
            assert isinstance(callee, GlobalVar)
            name = f"@{callee.name}"
            function = self.mod[callee.name]
            devices, device = self.param_devices(function), function.attrs.get(DEVICE_OF_RESULT, self.target)
        reason = CopyReason(CopyKind.ARGUMENT, name)
        args = tuple(scope.on(d, a, reason) for d, a in zip(devices, value.args, strict=True))
        self.result(scope, var, replace(value, op=callee, args=args), device)

    def machine_call(self, scope: Chain, var: Var, value: Call) -> None:
        """A closure captures values on the target; an assertion reads shapes on any device; ``on_device`` and ``device_copy``
        copy."""
        if value.op in RECORD_OPERATORS:
            self.record(scope, var, value)
            return
        if value.op is machine_ops.ALLOC_CLOSURE:
            reason = CopyReason(CopyKind.CLOSURE)
            args = tuple(a if isinstance(a, GlobalVar) else scope.on_target(a, reason) for a in value.args)
            self.result(scope, var, replace(value, args=args), self.target)
            return
        if value.op is machine_ops.ON_DEVICE:
            scope.frame.alias[var] = value.args[0]
            scope.on(value.attrs.device, value.args[0], machine_ops.ASKED_FOR)
            return
        if value.op is machine_ops.DEVICE_COPY:
            there = scope.on(value.attrs.src, value.args[0], machine_ops.ASKED_FOR)
            if value.attrs.src == value.attrs.dst:
                scope.frame.alias[var] = value.args[0]
            else:
                self.result(scope, var, replace(value, args=(there,)), value.attrs.dst)
            return
        args = tuple(scope.anywhere(a) for a in value.args)
        # earlier copies remain valid: the assertion precedes all later bindings
        location = scope.location(value.args[0])
        # a vector that is yet to be cast to its narrow dtype has a known length, and int64 until then
        is_wide = location.narrow is not None and location.target is None
        new = scope.bind(var, replace(value, args=args), args[0].ty if is_wide else var.ty)
        scope.put(
            var,
            replace(location, host=new, fields=None) if location.target is None else replace(location, target=new, fields=None),
        )

    def record(self, scope: Chain, var: Var, value: Call) -> None:
        """An operator on a record, whose fields are on the devices of its attribute."""
        if value.op is NO_MATCH:  # a value that never exists
            new = scope.bind(var, value, var.ty)
            scope.put(var, ValueLocation(host=new if isinstance(var.ty, TensorType) else None, target=new))
            return
        devices = value.attrs.devices or (self.target,) * len(field_tensors(value))
        new_args, at = list(value.args), 0
        first = len(value.args) - len(stored(value))
        reason = CopyReason(CopyKind.RECORD, record_text(value))
        for k, arg in enumerate(value.args):
            if k < first:
                new_args[k] = scope.on_target(arg, None)
                continue
            count = len(own_tensors(arg.ty))
            new_args[k] = scope.in_record(arg, devices[at : at + count], reason)
            at += count
        scope.put_record(scope.bind(var, replace(value, args=tuple(new_args)), var.ty), devices if at == 0 else ())

    def shape_of(self, scope: Chain, var: Var, value: Call) -> None:
        """The shape of a tensor: a host vector, recorded for its dims."""
        ty, wanted = value.args[0].ty, value.ty
        assert isinstance(ty, TensorType) and isinstance(wanted, TensorType), value
        vector = scope.shapes.get(ty.shape)
        if vector is None:
            vector = scope.call(
                var.name,
                machine_ops.SHAPE_OF,
                (scope.anywhere(value.args[0]),),
                machine_ops.SHAPE_OF.attrs(),
                vector_type(ty.rank),
            )
            scope.shapes[ty.shape] = vector
        scope.put(var, ValueLocation(host=vector, narrow=None if wanted.dtype == "int64" else wanted.dtype))

    def result(self, scope: Chain, var: Var, value: Expr, device: str) -> None:
        """Bind ``var`` to a value on ``device``."""
        scope.put(var, self.at(device, scope.bind(var, value, var.ty)))

    # ---- primitives --------------------------------------------------------------------------------------------

    def primitive_call(self, scope: Chain, var: Var, call: Call) -> None:
        """Shape function, storages, tensors and kernel of a call; or a view."""
        assert isinstance(call.op, GlobalVar)
        prim = primitive(self.mod[call.op.name], self.context)
        types = tensors(call.ty or type_of(var))
        device = self.mod[call.op.name].attrs.get("device", self.target)
        if prim.is_view:
            self.view(scope, var, call, prim, types[0], device)
            return
        reason = CopyReason(CopyKind.INPUT, call.op.name)
        ins = tuple(
            scope.on(device, a, reason) if read else scope.unread(a)
            for a, read in zip(_arguments_with_spans(scope, call), prim.reads, strict=True)
        )
        workspaces = () if const(prim.workspace) == 0 else (workspace_type(call, prim),)
        shapes = self.shapes(scope, call, prim, (*types, *workspaces))
        trimmed = dict(prim.shape.counts)
        # before the results, so that nothing is allocated between the end of one workspace and the start of the next
        scratches = [scope.allocate(f"{var.name}_workspace", ty, shapes.pop(), device) for ty in workspaces]
        outs = []
        for k, (ty, shape) in enumerate(zip(types, shapes, strict=True)):
            name = f"{var.name}_{k}" if len(types) > 1 else var.name
            if k in trimmed:
                name, ty = f"{name}_bound", TensorType((fresh(), *ty.shape[1:]), ty.dtype)
            outs.append(scope.allocate(var if name == var.name else name, ty, shape, device))
        counts = []
        if prim.group.counts:
            length = 1 + max(trimmed.values(), default=0)
            counts.append(scope.allocate(f"{var.name}_counts", vector_type(length), None, device))
        self.launch(scope, call, prim, ins, (*outs, *counts, *scratches))
        for c in counts:
            scope.locations[c] = self.at(device, c)
            if trimmed:
                self.trim(scope, var, call, c, outs, types, trimmed)
        self.outputs(scope, var, call, outs, device)

    def launch(self, scope: Chain, call: Call, prim: Primitive, ins: tuple[Expr, ...], outs: tuple[Expr, ...]) -> None:
        """Launch the kernel; of several versions the first whose guard holds."""
        assert isinstance(call.op, GlobalVar)
        workspace = const(prim.workspace) != 0
        if prim.choice is None or len(prim.choice.names) == 1:
            scope.invoke(call.op, ins, outs, workspace)
            return
        guards = self.shape_func(scope, call, prim)[-len(prim.guards) :]
        functions = [self.version(call.op.name, k, prim.choice) for k in range(len(prim.choice.names))]
        scope.invoke_one_of(guards, functions, ins, outs, workspace)

    def version(self, primitive_name: str, number: int, choice: Choice) -> GlobalVar:
        """The primitive of version ``number``; one implementation may occur several times, each with its own conditions."""
        implementation = choice.names[number]
        before = choice.names[:number].count(implementation)
        name = f"{primitive_name}_{implementation}" + f"_{before + 1}" * (before > 0)
        if name not in self.made:
            assert name not in self.mod.functions, name
            self.made[name] = version(self.mod[primitive_name], implementation, reasons(choice)[number])
        return GlobalVar(name)

    def outputs(self, scope: Chain, var: Var, call: Call, outs: list[Var], device: str) -> None:
        """Record the results of a primitive: a tensor, or the fields of a tuple."""
        if not isinstance(call.ty or var.ty, TupleType):
            scope.put(var, self.at(device, outs[0]))
            return
        for out in outs:
            scope.locations[out] = self.at(device, out)
        scope.put(var, ValueLocation(fields=tuple(outs)))

    def trim(
        self,
        scope: Chain,
        var: Var,
        call: Call,
        counts: Var,
        outs: list[Var],
        types: tuple[TensorType, ...],
        trimmed: dict[Any, Any],
    ) -> None:
        """Trim the results to the sizes that the kernel reported."""
        assert isinstance(call.op, GlobalVar)
        nodes = primitive(self.mod[call.op.name], self.context).group.nodes
        on_host = scope.on_host(counts, CopyReason.count(n.op for n in nodes))
        for k, index in trimmed.items():
            name = f"{var.name}_{k}" if len(outs) > 1 else var
            outs[k] = scope.call(name, machine_ops.TRIM, (outs[k], on_host), machine_ops.TrimAttrs(index), types[k])

    def view(self, scope: Chain, var: Var, call: Call, prim: Primitive, ty: TensorType, device: str) -> None:
        """A RESHAPE operator: the same elements under another shape, on their device, or on the host if ``place`` chose the
        host."""
        ref = prim.group.nodes[0].args[0]
        if ref < len(call.args):
            atom = call.args[ref]
        else:
            literal = prim.group.literals[ref - len(call.args)]
            atom = Constant(np.array(literal.value, numpy_dtype(literal.dtype)), ty=TensorType((), literal.dtype), span=call.span)
        location = scope.location(atom)
        on_host = device != self.target or (location.narrow is not None and location.target is None)
        # a vector that is yet to be cast to its narrow dtype has a known length
        reason = CopyReason(CopyKind.INPUT, prim.group.name)
        data = scope.on_host(atom, reason, wide=ty.is_static) if on_host else scope.anywhere(atom)
        shape = self.shapes(scope, call, prim, (ty,))[0]
        if shape is None:
            shape = scope.static_shape(ty.shape)
        location = scope.location(atom)
        on_host = on_host or location.target is None
        new_type: Type = TensorType(ty.shape, data.ty.dtype) if isinstance(data.ty, TensorType) else ty
        new = scope.call(var, machine_ops.RESHAPE_TENSOR, (data, shape), machine_ops.RESHAPE_TENSOR.attrs(), new_type)
        scope.put(var, ValueLocation(host=new, narrow=location.narrow) if on_host else ValueLocation(target=new))

    # ---- shapes ------------------------------------------------------------------------------------------------

    def shapes(self, scope: Chain, call: Call, prim: Primitive, types: tuple[TensorType, ...]) -> list[Var | None]:
        """Per result, and for the workspace if there is one, the host vector of its shape (for a trimmed result, of its bound);
        None for a static type.

        The shape function runs only if it has checks or guards, or computes a size that is not known yet.
        """
        trimmed = dict(prim.shape.counts)
        unknown_size = const(prim.workspace) is None and types[-1].shape not in scope.shapes
        must_run = bool(prim.guards) or unknown_size
        known: list[Var | None] = []
        for k, ty in enumerate(types):
            wanted = k not in trimmed and not ty.is_static
            known.append(self.known_shape(scope, ty.shape, call) if wanted and not must_run else None)
        found = all(v is not None or ty.is_static for v, ty in zip(known, types, strict=True))
        if found and not trimmed and not must_run and not prim.shape.program.checks:
            return known
        vectors = self.shape_func(scope, call, prim)
        for k, ty in enumerate(types):
            if k in trimmed or not ty.is_static:
                known[k] = vectors[k]
                if k not in trimmed:
                    scope.shapes.setdefault(ty.shape, vectors[k])
        return known

    def known_shape(self, scope: Chain, dims: Shape, call: Call) -> Var | None:
        """A host vector of ``dims``, from an earlier binding or from an argument of that shape; None if there is none."""
        if dims not in scope.shapes:
            for a in call.args:
                if isinstance(a.ty, TensorType) and a.ty.shape == dims and not is_static(dims):
                    tensor = scope.anywhere(a)
                    name = f"{tensor.name}_shape"
                    attrs = machine_ops.SHAPE_OF.attrs()
                    scope.shapes[dims] = scope.call(name, machine_ops.SHAPE_OF, (tensor,), attrs, vector_type(len(dims)))
                    break
        return scope.shapes.get(dims)

    def shape_func(self, scope: Chain, call: Call, prim: Primitive) -> tuple[Var, ...]:
        """Run the shape function; its result vectors."""
        assert isinstance(call.op, GlobalVar)
        shape = prim.shape
        needed = tuple(scope.frame.resolve(a) if need else None for a, need in zip(call.args, shape.states, strict=True))
        if (prim.code, needed) in scope.ran:
            return scope.ran[prim.code, needed]
        args = []
        for a, reads in zip(_arguments_with_spans(scope, call), shape.host_reads, strict=True):
            args.append(scope.on_host(a, reads[0], wide=True) if reads else scope.anywhere(a))
        ranks = [len(out) for out in shape.program.outputs]
        types = tuple(vector_type(r) for r in ranks)
        base = call.op.name
        all_ = scope.call(
            f"{base}_shapes", machine_ops.SHAPE_FUNC, (call.op, *args), machine_ops.SHAPE_FUNC.attrs(), TupleType(types)
        )
        vectors = tuple(scope.bind(f"{base}_shape", TupleGetItem(all_, k), t) for k, t in enumerate(types))
        scope.ran[prim.code, needed] = vectors
        return vectors

    def cast(self, vector: Var, dtype: str, device: str) -> GlobalVar:
        """The primitive that casts a shape vector to ``dtype`` on ``device``."""
        assert isinstance(vector.ty, TensorType)
        op = get("cast")
        sizes = "x".join(str(const(d)) for d in vector.ty.shape)
        marked = "" if device == self.target else device
        name = "_".join(filter(None, (op.name, f"shape{sizes}", dtype, marked)))
        if name not in self.made:
            assert name not in self.mod.functions
            node = Node(op.name, op.attrs(dtype=dtype), (0,), ())
            self.made[name] = function_of(build_group([Tensor(vector.ty.dtype, vector.ty.shape)], [], [node], [1]), marked)
        return GlobalVar(name)


def _marks(bindings: list[tuple[Var, Expr]]) -> dict[Expr, str]:
    """The device of each value with an ``on_device`` mark; the first mark holds."""
    out: dict[Expr, str] = {}
    for _, value in bindings:
        if isinstance(value, Call) and value.op is machine_ops.ON_DEVICE:
            out.setdefault(value.args[0], value.attrs.device)
    return out


def _arguments_with_spans(scope: Chain, call: Call) -> Iterator[Expr]:
    """The arguments of a primitive, each while ``scope.span`` is the place of the operator that reads it."""
    whole = scope.span
    for a, read in zip(call.args, call.reads or (None,) * len(call.args), strict=True):
        scope.span = read or whole
        yield a
    scope.span = whole


def _bound_names(chain: Expr) -> set[str]:
    names, pending = set(), [chain]
    while pending:
        bindings, _ = let_chain(pending.pop())
        for var, value in bindings:
            # tuples and shapes are bound at their first use
            if not isinstance(value, Tuple) and not (isinstance(value, Call) and isinstance(value.attrs, ShapeOfAttrs)):
                names.add(var.name)
            if isinstance(value, If):
                pending += [value.true_branch, value.false_branch]
    return names
