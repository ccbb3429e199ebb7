"""Tunable calls of a program: calls that several implementations can compute, and their instances at given sizes.

fn (%x: Tensor[(?n, 64), float32], ...) {          n = 16
  let %y = @nn_dense(%x, %w);                 ->   nn.dense((16, 64) float32, (32, 64) float32)
}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...declarations.frozen_dataclass import frozen
from ...ops.core.implementation import OpCall
from ...ops.core.op import OpPattern
from ...ops.core.tensor_types import Tensor, TensorType, TupleType, Type
from ...shape_funcs.symbolic.dim import SYM, Dim, const, dim, name_of, symbols
from ...shape_funcs.symbolic.dim_operations import substitute
from ...vm.bytecode.size_expressions import known_value, parameter_sizes
from ...vm.device_table import machine_of
from ..ir.expr import Call, Expr, Function, GlobalVar, If, IRModule, let_chain
from ..ir.primitive import group_of
from ..lowering.pipeline import lowering
from ..settings.config import Config


@frozen
class Tunable:
    """A call of an operator in a program.

    Its dims are over the named dims of the enclosing function, and ``x.shape[0]`` for unnamed sizes.
    """

    call: OpCall

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the sizes that the call depends on; "" if it depends on other sizes, too."""
        names: dict[str, None] = {}
        for t in self.call.inputs:
            for d in t.shape:
                if const(d) is None:
                    names |= dict.fromkeys(_names(d))
        return tuple(names)

    def at(self, sizes: Mapping[str, int]) -> OpCall | None:
        """The call at these sizes; None if it depends on others."""
        inputs, outputs = (_sized(tensors, sizes) for tensors in (self.call.inputs, self.call.outputs))
        return None if inputs is None or outputs is None else replace(self.call, inputs=inputs, outputs=outputs)


def tunable(mod: IRModule, config: Config, target: str) -> list[Tunable]:
    """The calls of ``mod`` for ``target`` that more than one implementation can compute, each once.  Raises TypeCheckError."""
    fused = next(step for name, step in lowering(mod, config, target) if name == "fuse_ops")
    found: dict[OpCall, None] = {}
    for function in fused.functions.values():
        if not function.is_primitive:
            names = parameter_sizes([(p.name, p.ty or p.annotation) for p in function.params])  # type: ignore[misc]
            found |= dict.fromkeys(_calls(fused, function.body, names, target))
    return [Tunable(call) for call in found]


def _calls(mod: IRModule, chain: Expr, names: Mapping[Dim, Dim], target: str) -> Iterator[OpCall]:
    for _, value in let_chain(chain)[0]:
        if isinstance(value, If):
            yield from _calls(mod, value.true_branch, names, target)
            yield from _calls(mod, value.false_branch, names, target)
        elif isinstance(value, Function):
            yield from _calls(mod, value.body, names, target)
        elif isinstance(value, Call) and isinstance(value.op, GlobalVar) and mod[value.op.name].is_primitive:
            call = _call(mod[value.op.name], value, names, target)
            if call is not None:
                yield call


def _call(function: Function, site: Call, names: Mapping[Dim, Dim], target: str) -> OpCall | None:
    """The call of the single operator of a primitive, over the dims of the call site; None if there is no choice."""
    group = group_of(function)
    operator = group.nodes[0].operator
    if operator.pattern is not OpPattern.OPAQUE or any(operator.data_dependent):
        return None
    call = group.call_on(machine_of(str(function.attrs.get("device", target))))
    if sum(k.takes(call) for k in operator.kernels_on(call.device)) < 2:
        return None
    outer = [d for arg in site.args for t in _tensors(arg.ty) for d in t.shape]
    inner = [d for t in group.params for d in t.shape]
    dims = {i: substitute(o, names) for i, o in zip(inner, outer, strict=True) if i.op == SYM}

    def moved(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(Tensor(t.dtype, tuple(substitute(d, dims) for d in t.shape)) for t in tensors)

    return replace(call, inputs=moved(call.inputs), outputs=moved(call.outputs))


def _tensors(ty: Type | None) -> Iterator[TensorType]:
    if isinstance(ty, TupleType):
        for field in ty.fields:
            yield from _tensors(field)
    else:
        assert isinstance(ty, TensorType), ty
        yield ty


def _names(d: Dim) -> Iterator[str]:
    for symbol in symbols(d).values():
        yield name_of(symbol) or ""


def _sized(tensors: tuple[Tensor, ...], sizes: Mapping[str, int]) -> tuple[Tensor, ...] | None:
    found = [(t.dtype, [known_value(d, sizes) for d in t.shape]) for t in tensors]
    if any(n is None for _, shape in found for n in shape):
        return None
    return tuple(Tensor(dtype, tuple(dim(n) for n in shape if n is not None)) for dtype, shape in found)
