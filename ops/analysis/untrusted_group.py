"""Groups of executables from files, which may be damaged: each is checked as the compiler's own are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...shape_funcs.symbolic.dim import MAX_RANK
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ..core.group import Group, Literal, Node, attrs_from_json, dim_from_json
from ..core.implementation import GPU, HOST
from ..core.op import OpPattern, TypeRelError, get
from ..core.tensor_types import DTYPES, Tensor, int_range, is_float
from ..core.type_relation import Inference
from .aliasing import in_place_pairs


def group_from_json(data: Any) -> Group:
    """The group in ``data`` (see ``Group.to_json``).  Raises ValueError unless ``data`` is a valid group."""
    try:
        inference = Inference(map(_tensor_from_json, data["params"]), map(_literal_from_json, data["literals"]))
        for item in data["nodes"]:
            inference.add(_node_from_json(item, len(inference.values)))
        results = tuple(_ref(r, len(inference.values)) for r in data["results"])
        _need(inference.nodes and results, "it has no operator or no result")
        bounded = [n for n in inference.nodes if n.operator.shape_func.upper_bound]
        _need(bounded in ([], inference.nodes[-1:]), "an operator whose kernel counts its results is the last")
        implementation = _implementation(data["implementation"], inference.nodes)
        group = Group(inference.params, inference.literals, tuple(inference.nodes), results, implementation)
        return replace(group, in_place=_in_place(data["in_place"], group), workspace=_workspace(data["workspace"], group))
    except Exception as error:
        # any exception of a shape function: the file may be damaged
        text = error.message if isinstance(error, TypeRelError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"not a primitive: {text}") from None


def _tensor_from_json(data: Any) -> Tensor:
    dtype, shape = data
    _need(dtype in DTYPES, f"unknown dtype {dtype!r}")
    _need(isinstance(shape, list) and len(shape) <= MAX_RANK, f"a parameter has the shape {shape!r}")
    for d in shape:
        named = isinstance(d, str) and re.fullmatch(r"d[0-9]{1,6}", d)
        _need(named or (type(d) is int and 0 <= d <= INT64_MAX), f"a parameter has the dimension {d!r}")
    return Tensor(dtype, tuple(map(dim_from_json, shape)))


def _literal_from_json(data: Any) -> Literal:
    dtype, value = data
    _need(dtype in DTYPES, f"unknown dtype {dtype!r}")
    kinds = (bool,) if dtype == "bool" else (int, float) if is_float(dtype) else (int,)
    _need(type(value) in kinds, f"a {dtype} literal has the value {value!r}")
    if dtype != "bool" and not is_float(dtype):
        low, high = int_range(dtype)
        _need(low <= value <= high, f"a {dtype} literal has the value {value!r}")
    return Literal(dtype, value)


def _node_from_json(data: Any, n_values: int) -> Node:
    op = get(data["op"])
    _need(op.pattern is not OpPattern.MACHINE, f"{op.name} is an instruction, not an operator with a kernel")
    args = tuple(tuple(_ref(r, n_values) for r in a) if isinstance(a, list) else _ref(a, n_values) for a in data["args"])
    return Node(op.name, attrs_from_json(op.attrs, data["attrs"]), args, ())


def _in_place(data: Any, group: Group) -> tuple[tuple[int, int], ...]:
    pairs = tuple((int(param), int(result)) for param, result in data)
    if not pairs:
        return ()
    allowed = {pair for machine in (HOST, GPU) for pair in in_place_pairs(group, machine)}
    _need(set(pairs) <= allowed, f"its kernel cannot write results over parameters as in {data!r}")
    return pairs


def _workspace(data: Any, group: Group) -> bool:
    _need(type(data) is bool, f"whether it has a workspace is {data!r}")
    # all versions of a call share the workspace, including versions without scratch buffers
    _need(not data or any(k.scratch for k in group.nodes[0].operator.kernels), "its kernel takes no workspace")
    return bool(data)


def _implementation(name: Any, nodes: Sequence[Node]) -> str:
    names = [k.name for k in nodes[0].operator.kernels]
    _need(name == "" or name in names, f"{name!r} is none of its implementations ({', '.join(names) or 'only one'})")
    return str(name)


def _ref(value: Any, n_values: int) -> int:
    _need(type(value) is int and 0 <= value < n_values, f"value {value!r} does not exist here")
    return int(value)


def _need(ok: object, what: str) -> None:
    if not ok:
        raise TypeRelError(what)
