"""Conversion between a primitive function (IR) and its group (plain data).

fn (%p0: Tensor[(?d0, 4), float32], Primitive=1) {     Group(params=[float32 (d0, 4)], literals=[2f],
  let %add = add(%p0, 2f);                         ==        nodes=[add(0, 1), exp(2)],
  let %exp = exp(%add);                                      results=[3])
  %exp
}
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from ...ops.core.conditions import Choice
from ...ops.core.group import Group, Literal, Node
from ...ops.core.op import Op
from ...ops.core.tensor_types import FuncType, Tensor, TensorType, TupleType, Type, dtype_name, numpy_dtype
from ...ops.core.type_relation import build_group
from ...vm import device_table
from .anf import Names, operands
from .expr import Call, Constant, Expr, Function, Tuple, Var, let_chain, make_lets, type_of

#: The attributes of a primitive function with its implementation choice: a ``Choice`` as text, and the reason.
IMPLEMENTATION, BECAUSE = "implementation", "because"
#: The attribute with the pairs of parameters and results that are written over them (see ``Group.in_place``).
IN_PLACE = "in_place"
#: The number of constants whose literals are remembered: a constant is described each time that a group may grow.
_KEPT = 4096


def group_of(function: Function) -> Group:
    """The group of a (typed) primitive function; with several versions, its implementation is left open."""
    assert function.is_primitive, "not a primitive function"
    params = tuple(_tensor(p.annotation or p.ty) for p in function.params)
    bindings, result = let_chain(function.body)
    literals = _literals(bindings)
    refs: dict[Any, Any] = {p: i for i, p in enumerate(function.params)}
    refs |= {key: len(params) + i for i, key in enumerate(literals)}
    n = len(refs)
    nodes: list[Node] = []

    def ref(atom: Expr) -> Any:
        return refs[literal_key(atom) if isinstance(atom, Constant) else atom]

    for var, value in bindings:
        if isinstance(value, Tuple):
            refs[var] = tuple(map(ref, value.fields))
            continue
        assert isinstance(value, Call) and isinstance(value.op, Op), "a primitive calls operators only"
        nodes.append(Node(value.op.name, value.attrs, tuple(map(ref, value.args)), ()))
        count = len(value.ty.fields) if isinstance(value.ty, TupleType) else 1
        refs[var] = tuple(range(n, n + count)) if isinstance(value.ty, TupleType) else n
        n += count
    out = ref(result)
    results, choice = out if isinstance(out, tuple) else (out,), choice_of(function)
    sole = choice.names[0] if choice and len(choice.names) == 1 else ""
    in_place = tuple((param, result) for param, result in function.attrs.get(IN_PLACE, ()))
    group = build_group(params, tuple(literals.values()), nodes, results)
    return replace(group, implementation=sole, in_place=in_place)


def choice_of(function: Function) -> Choice | None:
    """The implementation choice of a primitive function; None if there is no choice, or not yet."""
    text = function.attrs.get(IMPLEMENTATION)
    return None if text is None else Choice.parse(text, function.attrs.get(BECAUSE, ""))


def machine_of(function: Function, target: str) -> str:
    """The machine that runs a primitive function of a program for ``target``, as implementations name it."""
    return device_table.machine_of(function.attrs.get("device", target))


def function_of(group: Group, device: str = "") -> Function:
    """The typed primitive function of a group whose results are the outputs of its last node; ``device``: not the target."""
    names = Names()
    params = tuple(_param(names(f"p{i}"), t) for i, t in enumerate(group.params))
    values: list[Expr] = [*params, *(_constant(c) for c in group.literals)]
    bindings: list[tuple[Var, Expr]] = []

    def bind(hint: str, value: Expr) -> Var:
        bindings.append((Var(names(hint), ty=value.ty), value))
        return bindings[-1][0]

    def argument(arg: Any) -> Expr:
        if not isinstance(arg, tuple):
            value: Expr = values[arg]
            return value
        fields = tuple(values[r] for r in arg)
        return bind("tuple", Tuple(fields, ty=TupleType(tuple(type_of(f) for f in fields))))

    dtypes = [t.dtype for t in group.values()]
    result: Expr = values[0] if values else Tuple(())
    for node in group.nodes:
        types = tuple(TensorType(t.shape, t.dtype) for t in node.outputs)
        ty = TupleType(types) if _gives_tuple(node, dtypes) else types[0]
        args = tuple(map(argument, node.args))
        result = bind(node.op.rpartition(".")[2], Call(node.operator, args, node.attrs, ty=ty))
        values += [result] * len(types)
    assert group.results == tuple(range(len(values)))[-len(group.nodes[-1].outputs) :], "results are those of the last node"
    assert result.ty is not None
    function_type = FuncType(tuple(map(type_of, params)), result.ty)
    attrs = {"Primitive": 1, **({"device": device} if device else {})}
    return Function(params, make_lets(bindings, result), attrs=attrs, ty=function_type)


def _gives_tuple(node: Node, dtypes: list[str]) -> bool:
    """Whether the operator's result is a tuple, perhaps of one tensor."""
    given = tuple(tuple(dtypes[r] for r in a) if isinstance(a, tuple) else dtypes[a] for a in node.args)
    return isinstance(node.operator.dtype(given, node.attrs), tuple)


def _param(name: str, tensor: Tensor) -> Var:
    ty = TensorType(tensor.shape, tensor.dtype)
    return Var(name, ty, ty=ty)


@functools.lru_cache(maxsize=_KEPT)
def literal_of(constant: Constant) -> Literal:
    """A rank-0 constant as a literal of a group."""
    return Literal(dtype_name(constant.data.dtype), constant.data.item())


@functools.lru_cache(maxsize=_KEPT)
def literal_key(constant: Constant) -> str:
    """A key, equal for equal literals; it distinguishes 0.0 from -0.0 and 1 from True."""
    return repr(literal_of(constant))


def _constant(literal: Literal) -> Constant:
    data = np.asarray(literal.value, numpy_dtype(literal.dtype))
    data.flags.writeable = False
    return Constant(data, ty=TensorType((), literal.dtype))


def _literals(bindings: list[tuple[Var, Expr]]) -> dict[str, Literal]:
    """The distinct literals in order of use, by key."""
    atoms = (atom for _, value in bindings for atom in operands(value))
    return {literal_key(a): literal_of(a) for a in atoms if isinstance(a, Constant)}


def _tensor(ty: Type | None) -> Tensor:
    assert isinstance(ty, TensorType), ty
    return Tensor(ty.dtype, ty.shape)
