"""Instruction rules of the operators on values of algebraic data types and on references."""

from __future__ import annotations

from ...ops.core.implementation import HOST
from ...ops.defs.machine import adt_ops
from ...vm.bytecode import isa
from ..device_placement.record_fields import fields_key
from ..ir.expr import Call, Var
from .code_builder import CodeBuilder
from .instruction_rules import rule


@rule(adt_ops.MAKE_ADT)
def _make_adt(e: CodeBuilder, var: Var, call: Call) -> None:
    _note_devices(e, call)
    fields = e.regs(call.args)
    e.add(isa.AllocADT(e.dst(var), e.tables.tag(call.ty, call.attrs.constructor), fields))


@rule(adt_ops.ADT_FIELDS)
def _adt_fields(e: CodeBuilder, var: Var, call: Call) -> None:
    _note_devices(e, call)
    whole = e.reg(call.args[0])
    e.move(var, whole)


def _note_devices(e: CodeBuilder, call: Call) -> None:
    on_host = tuple(k for k, device in enumerate(call.attrs.devices) if device == HOST)
    if on_host:
        e.tables.host_fields[fields_key(call)] = on_host


@rule(adt_ops.NO_MATCH)
def _no_match(e: CodeBuilder, var: Var, call: Call) -> None:
    e.add(isa.Fatal())
    e.dst(var)


@rule(adt_ops.MAKE_REF)
def _make_ref(e: CodeBuilder, var: Var, call: Call) -> None:
    _note_devices(e, call)
    value = e.regs(call.args)
    e.add(isa.AllocADT(e.dst(var), 0, value))


@rule(adt_ops.READ_REF)
def _read_ref(e: CodeBuilder, var: Var, call: Call) -> None:
    reference = e.reg(call.args[0])
    e.add(isa.GetField(e.dst(var), reference, 0))


@rule(adt_ops.WRITE_REF)
def _write_ref(e: CodeBuilder, var: Var, call: Call) -> None:
    reference, value = e.regs(call.args)
    e.add(isa.SetField(reference, 0, value))
    e.add(isa.AllocADT(e.dst(var), 0, ()))
