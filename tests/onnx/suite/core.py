"""The core of ONNX's suite: operators of the standard itself on plain tensors of common dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import TensorProto

from .cases import Case

_DTYPES = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16,
    TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip
#: Of no kind that the core has: random numbers, images.
_OTHER = {"Bernoulli", "RandomUniformLike", "ImageDecoder"}


def is_core(case: Case) -> bool:
    """Whether the inputs and outputs are tensors of common dtypes, and the operators the standard's, not of training,
    random numbers, images, sequences or optionals."""
    graph = case.model.graph
    nodes = list(_nodes(graph))
    return (
        all(_is_plain(v.type) for v in (*graph.input, *graph.output))
        and all(n.domain in ("", "ai.onnx") and not _is_other(n.op_type) for n in nodes)
        and "training" not in case.name
    )


def _is_plain(ty: Any) -> bool:
    return ty.HasField("tensor_type") and ty.tensor_type.elem_type in _DTYPES


def _is_other(operator: str) -> bool:
    return operator in _OTHER or "Sequence" in operator.replace("ReverseSequence", "") or "Optional" in operator


def _nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for a in node.attribute:
            for inner in (a.g, *a.graphs):
                yield from _nodes(inner)
