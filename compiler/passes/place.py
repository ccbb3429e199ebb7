"""Say what runs on the host: small work whose values the host needs.

    let %shape = shape_of(%x);                     let %shape = shape_of(%x);
    let %n = take(%shape, 0);                      let %n1 = take(%shape, 0);
    let %s = stack((%n, 4i64), axis=0);      ->    let %n = on_device(%n1, device="cpu");
    let %y = dyn.reshape(%x, %s); %y               let %s1 = stack((%n, 4i64), axis=0);
                                                   let %s = on_device(%s1, device="cpu");
                                                   let %y = dyn.reshape(%x, %s); %y

What to move is a minimum cut of the whole module's dataflow (``dataflow``, ``crossings``): as few bytes as possible cross
between host and target.  A function that takes or gives something on the host says so in its attributes ``devices`` (one per
parameter) and ``result_device``.  A value that an ``if`` and what follows it need on the other side is brought there before.

What the program says is obeyed: ``on_device(x, device=...)`` (the operator or ``if`` that gives ``x`` runs there; anything else
is brought there) and ``device_copy(x, src=..., dst=...)``.

Requires: typed A-normal form, closures lifted.
Ensures: the same.  Raises TypeCheckError for a device that is neither the host nor the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.machine import DEVICE_COPY, ON_DEVICE, OnDeviceAttrs
from ...vm import codes
from ...vm.executable import DEVICES
from ...vm.source import Diagnostic, TypeCheckError
from ..anf import rebuild, rebuild_lets, values
from ..ir import Call, Expr, Function, IRModule, Var, let_chain, replace
from ..sides.dataflow import HOST, Dataflow, is_placed

#: The attributes of a function that say where its parameters and its result are; without them all are on the target.
DEVICES_OF_PARAMS, DEVICE_OF_RESULT = "devices", "result_device"


def place(
    mod: IRModule, target: str, entries: Sequence[str] = ("main",), data_dependence: str = "input", enabled: bool = True
) -> IRModule:
    """``mod`` with what is to run on the host marked; with ``enabled=False`` that is what the program says, and no more.

    ``entries``: the functions that a user may call.  Raises TypeCheckError.
    """
    _check_devices(mod, target)
    if target == HOST:
        return mod
    flow = Dataflow(mod, entries, data_dependence, free=enabled)
    functions = {name: f if f.is_primitive else _function(name, f, flow, target) for name, f in mod.functions.items()}
    return replace(mod, functions=functions)


def _function(name: str, function: Function, flow: Dataflow, target: str) -> Function:
    attrs = {k: v for k, v in function.attrs.items() if k not in (DEVICES_OF_PARAMS, DEVICE_OF_RESULT)}
    params = flow.params_on_host(name)
    if any(params):
        attrs[DEVICES_OF_PARAMS] = tuple(HOST if on_host else target for on_host in params)
    if flow.result_on_host(name):
        attrs[DEVICE_OF_RESULT] = HOST
    return replace(function, body=_chain(function.body, flow, target, flow.copied_before), attrs=attrs)


def _chain(chain: Expr, flow: Dataflow, target: str, copied: set[Var]) -> Expr:
    bindings, result = let_chain(chain)
    out: list[tuple[Var, Expr]] = []
    for var, value in bindings:
        for early, to_host in flow.before.get(var, ()):
            out.append((Var(early.name, span=early.span, ty=early.ty), _mark(early, HOST if to_host else target)))
        value = rebuild(value, lambda atom: atom, lambda inner: _chain(inner, flow, target, copied))
        moved = flow.is_moved(var)
        # what is copied by a mark has one of its own, which comes first: it says where the value is made
        if moved or (var in copied and is_placed(value)):
            raw = Var(var.name, span=var.span, ty=value.ty)
            out.append((raw, value))
            value = _mark(raw, HOST if moved else target)
        out.append((var, value))
    return rebuild_lets(chain, out, result)


def _mark(var: Var, device: str) -> Call:
    return Call(ON_DEVICE, (var,), OnDeviceAttrs(device), span=var.span, ty=var.ty)


def _check_devices(mod: IRModule, target: str) -> None:
    """Raises TypeCheckError that names every device of the program which there is not."""
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
    message = f"{call.op.name} names the device {device!r}, but the program is compiled for {target!r}{known}"  # type: ignore[union-attr]
    return Diagnostic(message, call.span, help=where, code=codes.Type.PLACE)
