"""Every ``dyn.*`` operator with a constant shape operand becomes a static operator with equal results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.builder.build import as_expr, make_call
from relayvm.compiler.ir.expr import Call, Function, IRModule, Var, let_chain
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.sizes.dynamic_to_static import dynamic_to_static
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.core.op import REGISTRY, Op
from relayvm.ops.core.tensor_types import TensorType
from relayvm.vm.runtime.evaluate import evaluate

from ....arrays import floats, ints

DYNAMIC = [op for op in REGISTRY.values() if op.name.startswith("dyn.")]


ONE = np.float32(1)
#: Arguments of each operator by its name.
ARGUMENTS: dict[str, list[Any]] = {
    "dyn.reshape": [floats(2, 3, 4), ints(0, -1)],
    "dyn.squeeze": [floats(1, 3, 1), ints(0)],
    "dyn.expand_dims": [floats(2, 3), np.array(-1)],
    "dyn.strided_slice": [floats(5, 6), ints(1, -1), ints(4, -7), ints(2, -2)],
    "dyn.tile": [floats(2, 3), ints(2, 1, 2)],
    "dyn.broadcast_to": [floats(3, 1), ints(2, 3, 4)],
    "dyn.full": [ONE, ints(2, 3)],
    "dyn.zeros": [ints(2, 3)],
    "dyn.ones": [ints(2, 3)],
    "dyn.one_hot": [ints(0, 2), ONE, np.float32(0), np.array(3)],
    "dyn.topk": [floats(2, 5), np.array(3)],
    "dyn.nn.pad": [floats(2, 3), np.array([[1, 0], [0, 2]]), ONE],
    "dyn.image.resize2d": [floats(1, 1, 3, 3), ints(5, 4), np.zeros(4, np.float32)],
    "dyn.nn.upsampling": [floats(1, 1, 3, 3), np.float32(2), np.float32(3)],
    "dyn.nn.upsampling3d": [floats(1, 1, 2, 2, 2), np.float32(2), np.float32(1), np.float32(3)],
    "dyn.sparse_to_dense": [ints(1, 3), floats(2), ONE, ints(5)],
}


def test_every_dynamic_operator_is_tried() -> None:
    assert {op.name for op in DYNAMIC} == set(ARGUMENTS), "give ARGUMENTS of the new operator"
    assert all(op.static is not None for op in DYNAMIC)


def _one_call(op: Op, arguments: list[Any], constant: tuple[bool, ...]) -> Call:
    """The call that the pass returns for a call of ``op`` with constants as its flagged arguments."""
    params, args = [], []
    for k, (value, known) in enumerate(zip(arguments, constant, strict=True)):
        if known:
            args.append(as_expr(np.asarray(value)))
            continue
        params.append(Var(f"x{k}", TensorType.of(np.shape(value), np.asarray(value).dtype.name)))
        args.append(params[-1])
    body = make_call(op, tuple(args), op.attrs())
    mod = infer_type(to_a_normal_form(IRModule({"main": Function(tuple(params), body)})))
    ((_, call),) = let_chain(dynamic_to_static(mod)["main"].body)[0]
    assert isinstance(call, Call)
    return call


@pytest.mark.parametrize("op", DYNAMIC, ids=lambda op: op.name)
def test_constants_make_it_static(op: Op) -> None:
    arguments = ARGUMENTS[op.name]
    call = _one_call(op, arguments, op.data_dependent)
    static = call.op
    assert isinstance(static, Op) and static.name == op.name.removeprefix("dyn.")
    taken = dict(zip(op.inputs, map(np.asarray, arguments), strict=True))
    got = evaluate(static, [taken[name] for name in static.inputs], call.attrs)
    want = evaluate(op, list(map(np.asarray, arguments)), op.attrs())
    for g, w in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("op", DYNAMIC, ids=lambda op: op.name)
def test_without_constants_it_stays(op: Op) -> None:
    assert _one_call(op, ARGUMENTS[op.name], (False,) * len(op.inputs)).op is op
