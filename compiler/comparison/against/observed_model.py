"""A model with the values of all nodes as outputs, computed one from the other, or each from given inputs of its node.

A program of torch's and a text have results only: no other runtime has the values between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....vm.diagnostics.source import FileError, InputError
from ...compile import compile
from ...lowered import as_module
from ...torch_frontend.torch_package import torch_package

#: The most bytes of a serialised model, a limit of protobuf.
_MOST_BYTES = 2**31 - 1
#: The most outputs of a model: a tuple has at most 1,024 fields.
_MOST_OUTPUTS = 512
#: Integers of at most this number of elements are constants of the model apart, since ranks may depend on them.
_MOST_SIZES = 64
#: The end of the names of a node's outputs in the model apart.
_OWN = " alone"
#: Operators with a result that is no tensor.
_NO_TENSORS = frozenset(
    {"SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceMap", "SplitToSequence", "Optional"}
)


@frozen
class NodeValue:
    """A value of a node of a model's graph: its name, the node's operator and name, and the names of the node's inputs."""

    name: str
    op: str
    node: str
    inputs: tuple[str, ...]

    @property
    def label(self) -> str:
        """The operator and the name of the node."""
        return f"{self.op} {self.node!r}" if self.node else self.op


@frozen(eq=False)
class ObservedModel:
    """A model, the values of its nodes in their order, and the names of its outputs."""

    plain: Any
    values: tuple[NodeValue, ...]
    outputs: tuple[str, ...]

    def parts(self) -> Iterator[tuple[NodeValue, ...]]:
        """The values in parts of as many as one model may have as outputs."""
        for begin in range(0, len(self.values), _MOST_OUTPUTS):
            yield self.values[begin : begin + _MOST_OUTPUTS]


#: The suffixes of files of models, of programs that ``torch.export.save`` wrote, and of texts.
ONNX, TORCH, TEXT = ".onnx", ".pt2", ".relay"


def observed_model(path: Path) -> ObservedModel:
    """The model of a file.  Raises RelayError for a file that is no model, and for a model of ONNX of 2 GiB or more."""
    return _onnx_model(path) if path.suffix == ONNX else _program(_torch_program(path) if path.suffix == TORCH else path)


def is_onnx(plain: Any) -> bool:
    """Whether a model is one of ONNX, whose inputs and outputs have names; without an import of the package."""
    return type(plain).__name__ == "ModelProto"


def result_names(count: int) -> tuple[str, ...]:
    """The names of the results of a program that is no model of ONNX."""
    return tuple(f"result.{k}" for k in range(count))


def _program(plain: Any) -> ObservedModel:
    module = as_module(plain)
    names = result_names(len(compile(module, opt_level=0).outputs))
    return ObservedModel(module if isinstance(plain, Path) else plain, (), names)


def _torch_program(path: Path) -> Any:
    """The program in a file.  Raises FileError, and InputError for another file."""
    torch = torch_package()
    try:
        return torch.export.load(path)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise InputError(f"{path} is no program of torch: {error}", help="write it by torch.export.save") from error


def _onnx_model(path: Path) -> ObservedModel:
    import onnx

    try:
        plain = onnx.load(path)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise InputError(f"{path} is no ONNX model: {error}", help="give a file of ONNX's form, such as model.onnx") from error
    if plain.ByteSize() > _MOST_BYTES:
        raise InputError(f"{path} has {plain.ByteSize()} bytes; a comparison by node takes fewer than 2 GiB")
    values = tuple(
        NodeValue(name, node.op_type, node.name, tuple(node.input))
        for node in plain.graph.node
        if node.op_type not in _NO_TENSORS
        for name in node.output
        if name
    )
    return ObservedModel(plain, values, tuple(output.name for output in plain.graph.output))


def with_outputs(model: ObservedModel, values: Sequence[NodeValue]) -> Any:
    """The model with these values as its outputs."""
    import onnx

    observed = onnx.ModelProto()
    observed.CopyFrom(model.plain)
    del observed.graph.output[:]
    observed.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in values)
    return observed


def nodes_apart(
    model: ObservedModel, values: Sequence[NodeValue], given: Mapping[str, np.ndarray]
) -> tuple[Any, dict[str, np.ndarray], dict[str, str]]:
    """A model of the nodes of these values, each computed from ``given`` values; its inputs; its outputs by the values' names.

    ``given``: the inputs of the model and the values of nodes.  A value that is not given, such as a sequence, is computed.
    """
    import onnx
    from onnx import helper, numpy_helper

    known = {v.name for v in model.values if v.name in given and v.op != "Constant"}
    wanted = {v.name: v.name + _OWN for v in values if v.name in known}
    apart = onnx.ModelProto()
    apart.CopyFrom(model.plain)
    graph = apart.graph
    kept = [node for node in graph.node if any(name in wanted or name not in known for name in node.output)]
    used = {name for node in kept for name in _names_read(node)}
    stored = {tensor.name for tensor in graph.initializer}
    inputs: dict[str, np.ndarray] = {}
    declared = [i for i in graph.input if i.name in used or i.name in stored]
    for name in [i.name for i in declared if i.name in given] + sorted(used & known):
        array = given[name]
        if name in known and array.dtype.kind in "iu" and array.size <= _MOST_SIZES and array.ndim < 2:
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            inputs[name] = array
            if name in known:
                number = helper.np_dtype_to_tensor_dtype(array.dtype)
                declared.append(helper.make_tensor_value_info(name, number, array.shape))
    for node in kept:
        for k, name in enumerate(node.output):
            node.output[k] = wanted.get(name, name if name not in known else f"{name}{_OWN} unused")
    outputs = [onnx.ValueInfoProto(name=name) for name in wanted.values()]
    for field, items in ((graph.node, kept), (graph.input, declared), (graph.output, outputs), (graph.value_info, [])):
        _replace(field, items)
    return apart, inputs, wanted


def _replace(field: Any, items: Sequence[Any]) -> None:
    """Replace the items of a repeated field of protobuf."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)


def _names_read(node: Any) -> Iterator[str]:
    """The names that a node and the graphs within it read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from (output.name for output in graph.output)
            for inner in graph.node:
                yield from _names_read(inner)
