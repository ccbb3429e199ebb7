"""Types of a model's inputs: sizes that are numbers, names or unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...ops.core.adt_types import TypeCall
from ...ops.core.tensor_types import MAX_RANK, TensorType, TupleType, Type
from ...shape_funcs.symbolic.dim import ANY, Dim, dim, sym
from ...shape_funcs.symbolic.dim import const as known_size
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError
from ..builder.build import a_dtype, a_shape
from ..ir.anf import Names
from .tensors import DTYPE_OF, NARROW, dtype_name, stored_names

#: The number, outside the standard, that paddle's exporter writes for an unknown size; it writes the name ``?``, too.
_UNKNOWN = -1


#: The operators that follow reductions in the standard's function bodies, and have the rank of their first input.
_OF_EACH_ELEMENT = frozenset(("Identity", "Cast", "CastLike", "Sqrt", "Log"))


#: The condition that chooses a subgraph of an `If`.
_BRANCHES = {"then_branch": True, "else_branch": False}

#: The kinds of types that an input cannot have, each with a help.
_NO_TENSOR = {
    None: ("no type", None),
    "sequence_type": (
        "the type of a sequence, not of a tensor",
        "a model declares no length for a sequence: declare an input for each tensor",
    ),
    "optional_type": (
        "the type of an optional, not of a tensor",
        "a value that may be absent at run time has no type: declare a tensor, or no input",
    ),
}


class SizeNames:
    """The symbol of each named size; the text format has letters, digits and underlines in names."""

    def __init__(self) -> None:
        self._symbols: dict[str, Dim] = {}
        self._names = Names()

    def symbol(self, name: str) -> Dim:
        """The symbol of a ``dim_param``."""
        if name not in self._symbols:
            word = re.sub(r"\W", "_", name, flags=re.ASCII)
            self._symbols[name] = sym(self._names(word if word[0].isalpha() else f"n{word}"))
        return self._symbols[name]


def declared_type(info: Any, names: SizeNames, shape: Any = None, dtype: str | None = None) -> TensorType:
    """The type of a ValueInfoProto; ``shape`` and ``dtype`` replace the declared ones.  Raises ModelError."""
    what = f"the input {info.name!r}"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        described, help = _NO_TENSOR.get(kind, (f"a type {kind}, not of a tensor", None))
        raise ModelError(f"{what} has {described}", help=help, code=codes.Model.TYPE)
    tensor = info.type.tensor_type
    found = a_dtype(dtype) if dtype is not None else dtype_name(tensor.elem_type, what)
    if shape is not None:
        return TensorType(a_shape(shape, f"from_onnx: {what}"), found)
    if not tensor.HasField("shape"):
        help = f"give its shape: from_onnx(model, shape={{{info.name!r}: (1, 3, relay.Any(), relay.Any())}})"
        raise ModelError(f"{what} has no declared rank", help=help, code=codes.Model.TYPE)
    if len(tensor.shape.dim) > MAX_RANK:
        message = f"{what} has {len(tensor.shape.dim)} dimensions; at most {MAX_RANK} are possible"
        raise ModelError(message, code=codes.Model.TYPE)
    return TensorType(tuple(_size(d, names, what) for d in tensor.shape.dim), found)


def declared_ranks(graph: Any) -> dict[str, int]:
    """The ranks of the tensors that a graph, or the body of a function, declares for values, by name.

    The rank of an element-wise function's result is the rank of its operand; a permutation has one number for each axis.
    """
    infos = [*getattr(graph, "value_info", ()), *(o for o in graph.output if not isinstance(o, str))]
    tensors = {i.name: i.type.tensor_type for i in infos if i.type.WhichOneof("value") == "tensor_type"}
    ranks = {name: len(t.shape.dim) for name, t in tensors.items() if t.HasField("shape")}
    spread_ranks(graph.node, ranks, {})
    return ranks


def spread_ranks(nodes: Sequence[Any], ranks: dict[str, int], decided: Mapping[str, bool]) -> None:
    """Add the ranks of operands that follow from the ranks of results; ``decided``: the values of conditions, by name."""
    for node in reversed(nodes):
        if not node.input or not node.output:
            continue
        if node.op_type in _OF_EACH_ELEMENT and node.output[0] in ranks:
            ranks.setdefault(node.input[0], ranks[node.output[0]])
        for a in node.attribute:
            if node.op_type == "Transpose" and a.name == "perm" and len(a.ints):
                ranks.setdefault(node.input[0], len(a.ints))
            elif node.op_type == "If" and a.name in _BRANCHES and decided.get(node.input[0]) is _BRANCHES[a.name]:
                for result, name in zip(a.g.output, node.output, strict=False):
                    if name in ranks:
                        ranks.setdefault(result.name, ranks[name])
                spread_ranks(a.g.node, ranks, decided)


def declared_values(graph: Any) -> dict[str, Any]:
    """The types that a graph, or the body of a function, declares for results and stored tensors, TypeProtos by name."""
    stored = stored_names(graph)
    inputs = (i for i in graph.input if not isinstance(i, str) and i.name in stored)
    outputs = (o for o in graph.output if not isinstance(o, str))
    return {i.name: i.type for i in (*inputs, *getattr(graph, "value_info", ()), *outputs)}


def contradiction(declared: Any, ty: Type) -> str:
    """The difference of a value's kind or dtype from a TypeProto, after the name of the value; "" if there is none."""
    kind = declared.WhichOneof("value")
    if kind == "sequence_type" and isinstance(ty, TensorType):
        return f"is {ty}, but it is declared a sequence"
    if kind != "tensor_type":
        return ""
    tensor = declared.tensor_type
    if isinstance(ty, TupleType):
        return f"is a sequence of {len(ty.fields)} tensors, but it is declared a tensor"
    if isinstance(ty, TypeCall):
        return "is a sequence, but it is declared a tensor"
    if not isinstance(ty, TensorType):
        return ""
    of_few_bits = NARROW.get(tensor.elem_type, ("", 0, f"of the type {tensor.elem_type}"))[2]
    dtype = DTYPE_OF.get(tensor.elem_type, of_few_bits) if tensor.elem_type else ty.dtype
    return "" if dtype == ty.dtype else f"is {ty.dtype}, but it is declared {dtype}"


def other_shape(declared: Any, ty: Type) -> str:
    """The shape of a value beside that of a TypeProto, after the name of the value; "" if the shapes may be equal."""
    if declared.WhichOneof("value") != "tensor_type" or not isinstance(ty, TensorType):
        return ""
    if not declared.tensor_type.HasField("shape"):
        return ""
    sizes = [d.dim_value if d.HasField("dim_value") and d.dim_value != _UNKNOWN else None for d in declared.tensor_type.shape.dim]
    have = list(map(known_size, ty.shape))
    if len(sizes) == len(have) and all(None in pair or pair[0] == pair[1] for pair in zip(sizes, have, strict=True)):
        return ""
    return f"has the shape {_sizes_text(have)}, but it is declared with the shape {_sizes_text(sizes)}"


def _sizes_text(sizes: Sequence[int | None]) -> str:
    return f"({', '.join('?' if n is None else str(n) for n in sizes)})"


def _size(d: Any, names: SizeNames, what: str) -> Dim:
    if d.HasField("dim_value"):
        if d.dim_value < _UNKNOWN:
            raise ModelError(f"{what} has the negative size {d.dim_value}", code=codes.Model.TYPE)
        return ANY if d.dim_value == _UNKNOWN else dim(d.dim_value)
    return names.symbol(d.dim_param) if re.search(r"\w", d.dim_param) else ANY


def of_input(given: Mapping[str, Any] | None, name: str) -> Any:
    """The entry of an input in a mapping by name."""
    return None if given is None else given.get(name)
