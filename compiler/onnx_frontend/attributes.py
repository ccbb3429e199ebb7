"""Attributes of nodes: their values in Python, and the check of their types by the standard's schema."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ...declarations.frozen_dataclass import frozen
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
#: The number of operators whose declarations are kept.
_KEPT = 1024


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
    declared = _declared(domain_of(node.proto.domain), node.proto.op_type, version)
    if declared is None:
        return
    for name, given in attributes.items():
        number, kind = declared.attributes.get(name, (None, ""))
        if number is None:
            raise ModelError(f"{label}: there is no attribute {name}", span, code=codes.Model.NODE)
        if number != given.type:
            kinds = f"{kind}, not {_kind(given.type)}"
            raise ModelError(f"{label}: the attribute {name} is of the kind {kinds}", span, code=codes.Model.NODE)
    count = len(node.proto.input)
    if not declared.least <= count <= declared.most:
        most = f"{declared.least} to {declared.most}"
        raise ModelError(f"{label}: it has {count} inputs; {most} are possible", span, code=codes.Model.NODE)
    missing = [i for (i, is_single), n in zip(declared.inputs, node.proto.input, strict=False) if not n and is_single]
    if missing:
        raise ModelError(f"{label}: the input {missing[0]} is missing", span, code=codes.Model.NODE)


@frozen
class _Declared:
    """An operator of the standard: number and name of each attribute's kind, the inputs and whether each is needed, their number.

    A schema makes these objects anew each time that it is asked.
    """

    attributes: Mapping[str, tuple[int, str]]
    inputs: tuple[tuple[str, bool], ...]
    least: int
    most: int


@functools.lru_cache(_KEPT)
def _declared(domain: str, name: str, version: int) -> _Declared | None:
    schema = schema_of(domain, name, version)
    if schema is None:
        return None
    attributes = {key: (value.type.value, value.type.name) for key, value in schema.attributes.items()}
    inputs = tuple((i.name, i.option.name == "Single") for i in schema.inputs)
    return _Declared(attributes, inputs, schema.min_input, schema.max_input)


def _kind(number: int) -> str:
    from onnx import AttributeProto

    return AttributeProto.AttributeType.Name(number) if number in AttributeProto.AttributeType.values() else str(number)
