"""``relay.op``: the operators as functions (``relay.op.nn.dense``), and operators by name (``relay.op.get("nn.dense")``)."""

from __future__ import annotations

import sys
from typing import Any

from . import annotation, dyn, image, nn, random, vision
from .compiler.builder.import_paths import importable
from .compiler.builder.operator_functions import COMPOSED, operators
from .compiler.ir.op_attributes import (
    register_alter_op_layout,
    register_legalize,
    register_op_attr,
    reset_op_attr,
)
from .ops.core.op import REGISTRY, Op, OpPattern
from .ops.core.similar_names import did_you_mean
from .vm.diagnostics.argument_errors import UnknownName, a_text
from .vm.diagnostics.python_source import here

__all__ = ["Op", "OpPattern", "get", "register_alter_op_layout", "register_legalize", "register_op_attr", "reset_op_attr"]
#: Relay's module of ``get`` and of what is registered for operators.
op = sys.modules[__name__]
importable(__name__, {
    "annotation": annotation, "dyn": dyn, "image": image, "nn": nn, "op": op, "random": random, "vision": vision,
})  # fmt: skip
_STRATEGY = "an operator's implementations are its kernels: relay.register_op(kernel=..., cuda=...)"
#: The reasons why names of Relay's are not here.
_ABSENT = {
    "OpStrategy": _STRATEGY,
    "register_compute": "a new operator is a function with kernels: relay.register_op",
    "register_broadcast_schedule": _STRATEGY,
    "register_external_compiler": "there are no external code generators",
    "register_fake_quantization_to_integer": "the rules of relay.transform.FakeQuantizationToInteger are those of relay.qnn.op",
    "register_gradient": "there are no gradients",
    "register_injective_schedule": _STRATEGY,
    "register_mixed_precision_conversion": 'relay.transform.ToMixedPrecision converts; precision="float16" stores halves',
    "register_pattern": "the pattern of an operator is declared with it: relay.register_op",
    "register_reduce_schedule": _STRATEGY,
    "register_schedule": _STRATEGY,
    "register_shape_func": "use relay.register_shape_func",
    "register_strategy": _STRATEGY,
    "memory": "allocations are instructions of the machine, not operators of programs",
    "op_attrs": "the attributes of a call are call.attrs, of an operator relay.op.get(name).attrs",
    "strategy": _STRATEGY,
    "vm": "instructions of the machine are no operators of programs; relay.shape_of is an operator",
}


def get(op_name: str) -> Op:
    """The operator of this name.  Raises UnknownName, a KeyError, that suggests near names."""
    names = [name for name, op in REGISTRY.items() if op.in_language or name in COMPOSED]
    if a_text(op_name, "op.get: the name") not in names:
        raise UnknownName(f"there is no operator {op_name}{did_you_mean(op_name, names)}", here())
    return REGISTRY[op_name]


def __getattr__(name: str) -> Any:
    """The operator, or group of operators, called ``name``.  Raises AttributeError with the reason, or near names."""
    if name in _ABSENT:
        raise AttributeError(f"there is no relay.op.{name}: {_ABSENT[name]}")
    return getattr(operators, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(operators)})
