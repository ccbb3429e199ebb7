"""Attributes of nodes: their values in Python, and the check of their types by the standard's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError, Span
from .function_bodies import schema_of
from .model import NodeDef
from .operator_table import domain_of
from .tensors import TensorReader

#: The values of the attributes by ONNX's number of their type, those without a graph.
_VALUES: dict[int, Callable[[Any, TensorReader], Any]] = {
    1: lambda a, _: float(a.f),
    2: lambda a, _: int(a.i),
    3: lambda a, _: a.s.decode("utf-8", "replace"),
    4: lambda a, tensors: tensors.array(a.t),
    6: lambda a, _: [float(v) for v in a.floats],
    7: lambda a, _: [int(v) for v in a.ints],
    8: lambda a, _: [s.decode("utf-8", "replace") for s in a.strings],
    9: lambda a, tensors: [tensors.array(t) for t in a.tensors],
    11: lambda a, tensors: tensors.dense(a.sparse_tensor),
    13: lambda a, _: a.tp,
}
_GRAPH, _GRAPHS = 5, 10


def attribute_value(attribute: Any, node: NodeDef, tensors: TensorReader) -> Any:
    """The value of an AttributeProto: a number, text, array, GraphDef, or a list.  Raises ModelError."""
    if attribute.type == _GRAPH:
        return node.graphs[attribute.name][0]
    if attribute.type == _GRAPHS:
        return node.graphs[attribute.name]
    read = _VALUES.get(attribute.type)
    if read is None:
        raise ModelError(f"{node.label}: the attribute {attribute.name} has an unknown type", node.span, code=codes.Model.NODE)
    return read(attribute, tensors)


def check_attributes(node: NodeDef, label: str, attributes: Mapping[str, Any], version: int, span: Span | None) -> None:
    """Raises ModelError if a node's attributes or number of inputs are not those of its operator in the standard."""
    schema = schema_of(domain_of(node.proto.domain), node.proto.op_type, version)
    if schema is None:
        return
    for name, given in attributes.items():
        declared = schema.attributes.get(name)
        if declared is None:
            raise ModelError(f"{label}: there is no attribute {name}", span, code=codes.Model.NODE)
        if declared.type.value != given.type:
            kinds = f"{declared.type.name}, not {_kind(given.type)}"
            raise ModelError(f"{label}: the attribute {name} is of the kind {kinds}", span, code=codes.Model.NODE)
    count = len(node.proto.input)
    if not schema.min_input <= count <= schema.max_input:
        most = f"{schema.min_input} to {schema.max_input}"
        raise ModelError(f"{label}: it has {count} inputs; {most} are possible", span, code=codes.Model.NODE)
    missing = [i.name for i, n in zip(schema.inputs, node.proto.input, strict=False) if not n and i.option.name == "Single"]
    if missing:
        raise ModelError(f"{label}: the input {missing[0]} is missing", span, code=codes.Model.NODE)


def _kind(number: int) -> str:
    from onnx import AttributeProto

    return AttributeProto.AttributeType.Name(number) if number in AttributeProto.AttributeType.values() else str(number)
