"""Place small work whose results the host needs on the host.

    let %shape = shape_of(%x);                     let %shape = shape_of(%x);
    let %n = take(%shape, 0);                      let %n1 = take(%shape, 0);
    let %s = stack((%n, 4i64), axis=0);      ->    let %n = on_device(%n1, device="cpu");
    let %y = dyn.reshape(%x, %s); %y               let %s1 = stack((%n, 4i64), axis=0);
                                                   let %s = on_device(%s1, device="cpu");
                                                   let %y = dyn.reshape(%x, %s); %y

The placement is a minimum cut of the whole module's dataflow (``placement_graph``, ``cut``): it minimises the copies to the host,
then the bytes transferred between host and target.  A function with a parameter or result on the host has the attributes
``devices`` (one per parameter) and ``result_device``; the operators on a record with a field on the host have the attribute
``devices`` (one per tensor in the fields).  A value that is used on the other device both in and after an ``if`` is
copied before the ``if``.

Marks of the program hold: ``on_device(x, device=...)`` (the operator or ``if`` that computes ``x`` runs there; any other value is
copied there) and ``device_copy(x, src=..., dst=...)``.

Requires: typed A-normal form, closures lifted.
Ensures: the same.  Raises TypeCheckError for a device that is neither the host nor the target.
"""

from __future__ import annotations

from ...ops.core.implementation import HOST
from ...ops.core.op import Op
from ...ops.defs.machine.adt_ops import NO_MATCH, RECORD_OPERATORS
from ...ops.defs.machine.machine_ops import DEVICE_COPY, ON_DEVICE, OnDeviceAttrs
from ...vm.device_table import DEVICES
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, TypeCheckError
from ..ir.anf import rebuild, rebuild_lets, values
from ..ir.expr import Call, Expr, Function, IRModule, Var, let_chain, replace
from ..ir.lowering_context import LoweringContext
from ..ir.pass_declaration import declare_pass
from .placement_graph import PlacementGraph, is_placed

#: The attributes of a function with the devices of its parameters and of its result; without them all are on the target.
DEVICES_OF_PARAMS, DEVICE_OF_RESULT = "devices", "result_device"


@declare_pass("PlanDevices", "lambda_lift")
def place(mod: IRModule, context: LoweringContext, enabled: bool = True) -> IRModule:
    """``mod`` with marks for the work on the host; with ``enabled=False``, only the marks of the program.

    Raises TypeCheckError.
    """
    target = context.target
    _check_devices(mod, target)
    if target == HOST:
        return mod
    graph = PlacementGraph(mod, context, free=enabled)
    functions = {name: f if f.is_primitive else _function(name, f, graph, target) for name, f in mod.functions.items()}
    return replace(mod, functions=functions)


def _function(name: str, function: Function, graph: PlacementGraph, target: str) -> Function:
    attrs = {k: v for k, v in function.attrs.items() if k not in (DEVICES_OF_PARAMS, DEVICE_OF_RESULT)}
    params = graph.params_on_host(name)
    if any(params):
        attrs[DEVICES_OF_PARAMS] = tuple(HOST if on_host else target for on_host in params)
    if graph.result_on_host(name):
        attrs[DEVICE_OF_RESULT] = HOST
    return replace(function, body=_chain(function.body, graph, target, graph.copied_before), attrs=attrs)


def _chain(chain: Expr, graph: PlacementGraph, target: str, copied: set[Var]) -> Expr:
    bindings, result = let_chain(chain)
    out: list[tuple[Var, Expr]] = []
    for var, value in bindings:
        for early, to_host in graph.before.get(var, ()):
            out.append((Var(early.name, span=early.span, ty=early.ty), _mark(early, HOST if to_host else target)))
        value = rebuild(value, lambda atom: atom, lambda inner: _chain(inner, graph, target, copied))
        if isinstance(value, Call) and value.op in RECORD_OPERATORS and value.op is not NO_MATCH:
            on_host = graph.fields_on_host(value)
            devices = tuple(HOST if here else target for here in on_host) if any(on_host) else ()
            value = replace(value, attrs=replace(value.attrs, devices=devices))
        moved = graph.is_moved(var)
        # a value that a mark copies gets its own mark first, with the device of its producer
        if moved or (var in copied and is_placed(value)):
            raw = Var(var.name, span=var.span, ty=value.ty)
            out.append((raw, value))
            value = _mark(raw, HOST if moved else target)
        out.append((var, value))
    return rebuild_lets(chain, out, result)


def _mark(var: Var, device: str) -> Call:
    return Call(ON_DEVICE, (var,), OnDeviceAttrs(device), span=var.span, ty=var.ty)


def _check_devices(mod: IRModule, target: str) -> None:
    """Raises TypeCheckError that names every unknown device of the program."""
    found = []
    for function in mod.functions.values():
        for value in values(function.body):
            if isinstance(value, Call) and value.op in (ON_DEVICE, DEVICE_COPY):
                attrs = value.attrs
                named = (attrs.device,) if value.op is ON_DEVICE else (attrs.src, attrs.dst)
                found += [_unknown(value, device, target) for device in named if device not in (HOST, target)]
    if found:
        raise TypeCheckError(found)


def _unknown(call: Call, device: str, target: str) -> Diagnostic:
    valid = dict.fromkeys((HOST, target))
    where = f"here are {' and '.join(repr(d) for d in valid)}" if len(valid) > 1 else f"here is only {HOST!r}"
    known = "" if device in DEVICES else f" (there is no such device; devices: {', '.join(DEVICES)})"
    assert isinstance(call.op, Op)
    message = f"{call.op.name} names the device {device!r}, but the program is compiled for {target!r}{known}"
    return Diagnostic(message, call.span, help=where, code=codes.Type.PLACE)
