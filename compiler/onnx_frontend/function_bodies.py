"""Function bodies: of the model's own functions, and those that the standard gives for operators."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ...ops.core.tensor_types import TensorType, Type
from ...shape_funcs.symbolic.dim import const as known_size
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError
from .model import FunctionDef, Model, NodeDef, function_of, printable
from .operator_table import domain_of
from .tensors import DTYPE_OF

#: The most characters of a message of the package.
MESSAGE = 200


@functools.cache
def schema_of(domain: str, name: str, version: int) -> Any:
    """The standard's schema of an operator in a version of its domain; None if there is none."""
    import onnx.defs

    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def model_function(model: Model, node: NodeDef) -> FunctionDef | None:
    """The model's own function that a node calls."""
    p = node.proto
    return model.functions.get((domain_of(p.domain), p.op_type, getattr(p, "overload", "")))


def has_body(domain: str, name: str, version: int) -> bool:
    """Whether the standard gives a body for an operator, which may depend on the types of a call."""
    schema = schema_of(domain, name, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


@functools.cache
def fixed_body(domain: str, name: str, version: int) -> FunctionDef | None:
    """The body that the standard gives for an operator, if it is the same for all types."""
    schema = schema_of(domain, name, version)
    if schema is None or not schema.has_function:
        return None
    return _parsed(schema.get_function_with_opset_version(_best(schema.function_opset_versions, version)))


def body_for(node: NodeDef, version: int, types: Sequence[Type | None], attributes: Mapping[str, Any]) -> FunctionDef | None:
    """The body that the standard gives for a call with inputs of these types and these attributes; None if there is none.

    Raises ModelError for types that the standard's own code refuses.
    """
    domain = domain_of(node.proto.domain)
    fixed = fixed_body(domain, node.proto.op_type, version)
    schema = schema_of(domain, node.proto.op_type, version)
    if fixed is not None or schema is None or not schema.has_context_dependent_function:
        return fixed
    best = _best(schema.context_dependent_function_opset_versions, version)
    described = [_type_proto(t).SerializeToString() for t in types]
    try:
        data = schema.get_context_dependent_function_with_opset_version(best, _resolved(node, attributes), described)
    except Exception as error:  # the package raises classes of C++, which differ by operator
        message = f"{node.label}: the standard gives no body for these inputs: {_first_line(error)}"
        raise ModelError(message, node.span, code=codes.Model.NODE) from None
    return _parsed(data)


def _first_line(error: Exception) -> str:
    """The first line of an error's text, which the package makes of the model's names."""
    text = str(error).strip().partition("\n")[0]
    return printable(text)[:MESSAGE]


def _resolved(node: NodeDef, attributes: Mapping[str, Any]) -> bytes:
    """The node with the values of attributes that refer to those of the function around."""
    proto = type(node.proto)()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    for name, attribute in attributes.items():
        made = proto.attribute.add()
        made.CopyFrom(attribute)
        made.name = name
    return bytes(proto.SerializeToString())


def newest_version() -> int:
    """The newest version of the standard's operators."""
    import onnx.defs

    return int(onnx.defs.onnx_opset_version())


def default_attributes(domain: str, name: str, version: int) -> dict[str, Any]:
    """The AttributeProtos of an operator's attributes that have a default in the standard."""
    schema = schema_of(domain, name, version)
    declared = {} if schema is None else schema.attributes
    return {n: a.default_value for n, a in declared.items() if a.default_value is not None and a.default_value.type}


def _best(versions: Sequence[int], version: int) -> int:
    """The newest of the versions that is not after ``version``, or the oldest."""
    return max((v for v in versions if v <= version), default=min(versions))


def _parsed(data: bytes) -> FunctionDef | None:
    from onnx import FunctionProto

    return function_of(FunctionProto.FromString(data)) if data else None


def _type_proto(ty: Type | None) -> Any:
    """A tensor type for ``onnx``; an unknown size has no value."""
    from onnx import TypeProto

    proto = TypeProto()
    if isinstance(ty, TensorType):
        numbers = {name: number for number, name in DTYPE_OF.items()}
        proto.tensor_type.elem_type = numbers[ty.dtype]
        proto.tensor_type.shape.SetInParent()
        for d in ty.shape:
            size, made = known_size(d), proto.tensor_type.shape.dim.add()
            if size is not None:
                made.dim_value = size
    return proto
