"""Alterations of ONNX models: their bytes, and their graphs."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

#: Sizes that no tensor should have, and those at the borders.
SIZES = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
NAMES = ("", "x", "../../etc/passwd", "a" * 5000, "é\u202e\x1b[31m", "%x", "main", "0", "x;y", "\n")

#: Files beside each model: weights, an empty file, a folder, a link out of the folder, a pipe.
BESIDE = ("weights.bin", "empty.bin", "folder", "link.bin", "pipe.bin")


def altered_bytes(r: random.Random, data: bytes, other: bytes) -> bytes:
    """The bytes with some flipped, cut, doubled or taken from another model."""
    changed = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 4, 16))):
        at = r.randrange(len(changed) + 1)
        match r.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << r.randrange(8)
            case 1 if at < len(changed):
                changed[at] = r.randrange(256)
            case 2:
                del changed[at : at + r.choice((1, 2, 8, 64))]
            case 3:
                begin = r.randrange(len(other))
                changed[at:at] = other[begin : begin + r.choice((1, 2, 8, 64))]
            case 4 if r.randrange(8) == 0:
                del changed[at:]
    return bytes(changed)


def altered_graph(r: random.Random, data: bytes, other: bytes) -> bytes:
    """The model with one to four things of its graph, or of a subgraph, altered."""
    model, donor = ModelProto(), ModelProto()
    model.ParseFromString(data)
    donor.ParseFromString(other)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        r.choice(ALTERATIONS)(r, model, r.choice(_graphs(model.graph)), donor.graph)
    return model.SerializeToString()


def _graphs(graph: GraphProto) -> list[GraphProto]:
    """The graph and its subgraphs."""
    found, begin = [graph], 0
    while begin < len(found):
        found += [a.g for n in found[begin].node for a in n.attribute if a.type == AttributeProto.GRAPH]
        begin += 1
    return found


def _values(graph: GraphProto) -> list[str]:
    return [*(v.name for v in graph.input), *(t.name for t in graph.initializer), *(o for n in graph.node for o in n.output)]


def _operator(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """Another operator on the same inputs."""
    if graph.node and donor.node:
        node, other = r.choice(graph.node), r.choice(donor.node)
        node.op_type, node.domain = other.op_type, other.domain
        if r.randrange(2):
            del node.attribute[:]
            node.attribute.extend(other.attribute)


def _wire(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """An input of a node from elsewhere: a cycle, an absent value, a name that does not exist."""
    nodes = [n for n in graph.node if n.input]
    if nodes:
        node = r.choice(nodes)
        node.input[r.randrange(len(node.input))] = r.choice([*_values(graph), *NAMES])


def _rename_result(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A result with a name that is taken, or that does not exist."""
    nodes = [n for n in graph.node if n.output]
    if nodes:
        node = r.choice(nodes)
        node.output[r.randrange(len(node.output))] = r.choice([*_values(graph), *NAMES])


def _arity(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A node with fewer or more inputs or outputs."""
    if graph.node:
        node = r.choice(graph.node)
        names = node.input if r.randrange(2) else node.output
        if names and r.randrange(2):
            names.pop()
        else:
            names.append(r.choice([*_values(graph), *NAMES]))


def _attribute(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """An attribute gone, of another type, or with an absurd value."""
    nodes = [n for n in graph.node if n.attribute]
    if not nodes:
        return
    node = r.choice(nodes)
    attribute = r.choice(node.attribute)
    match r.randrange(6):
        case 0:
            node.attribute.remove(attribute)
        case 1:
            attribute.type = r.choice(list(AttributeProto.AttributeType.values()))
        case 2:
            attribute.name = r.choice(NAMES)
        case 3:
            attribute.i, attribute.f = r.choice(SIZES), r.choice((float("nan"), float("inf"), -1.0, 1e38))
        case 4:
            attribute.ints[:] = [r.choice(SIZES) for _ in range(r.randrange(6))]
        case 5:
            attribute.s = r.choice((b"", b"\xff\xfe", b"VALID", b"linear", b"x" * 3000))


def _dims(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """Another size, symbol, rank or dtype of a declared value."""
    declared = [*graph.input, *graph.output, *graph.value_info]
    if not declared:
        return
    value = r.choice(declared)
    kind = value.type.tensor_type
    match r.randrange(5):
        case 0 if kind.shape.dim:
            r.choice(kind.shape.dim).dim_value = r.choice(SIZES)
        case 1 if kind.shape.dim:
            r.choice(kind.shape.dim).dim_param = r.choice(NAMES)
        case 2:
            kind.elem_type = r.choice((*TensorProto.DataType.values(), 99, -1))
        case 3:
            kind.shape.dim.add().dim_value = r.choice(SIZES)
        case 4:
            value.ClearField("type") if r.randrange(2) else kind.ClearField("shape")


def _initializer(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A tensor whose data is shorter than its shape, of another dtype, or in another file."""
    tensors = [*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.type == AttributeProto.TENSOR)]
    if not tensors and graph.input:
        value = r.choice(graph.input)
        graph.initializer.add(name=value.name, data_type=value.type.tensor_type.elem_type, dims=[2, 3], raw_data=bytes(24))
        return
    if not tensors:
        return
    tensor = r.choice(tensors)
    match r.randrange(5):
        case 0:
            tensor.dims[:] = [r.choice(SIZES) for _ in range(r.randrange(5))]
        case 1:
            tensor.raw_data = tensor.raw_data[: r.randrange(9)]
        case 2:
            tensor.data_type = r.choice((*TensorProto.DataType.values(), 77))
        case 3:
            tensor.data_location = TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key, entry.value = "location", r.choice((*NAMES, "/etc/passwd", "weights.bin"))
            entry = tensor.external_data.add()
            entry.key, entry.value = r.choice(("offset", "length")), r.choice(("-1", "99999999999999", "x", ""))
        case 4:
            tensor.name = r.choice([*_values(graph), *NAMES])


def _model(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """Versions: no operator set, an unknown one, another."""
    match r.randrange(4):
        case 0:
            del model.opset_import[:]
        case 1:
            model.opset_import.add(domain=r.choice(("", "com.microsoft", "nobody")), version=r.choice((0, 1, 6, 13, 99, -1)))
        case 2 if model.opset_import:
            model.opset_import[0].version = r.choice((-1, 0, 1, 6, 7, 11, 13, 18, 30, 2**40))
        case 3:
            model.ir_version = r.choice((-1, 0, 1, 3, 99))


def _remove(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A node, an input or an output gone, or twice."""
    field = r.choice((graph.node, graph.input, graph.output))
    if field:
        k = r.randrange(len(field))
        if r.randrange(2):
            del field[k]
        else:
            field.append(field[k])


def _order(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """Nodes in another order."""
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in graph.node]
    r.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)


def _graft(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """The nodes of another model, on values of this one."""
    for node in donor.node:
        added = graph.node.add()
        added.CopyFrom(node)
        for k in range(len(added.input)):
            if r.randrange(2) and (values := _values(graph)):
                added.input[k] = r.choice(values)


def _nest(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """The graph inside a branch of itself, some levels deep."""
    inner = GraphProto.FromString(graph.SerializeToString())
    for _ in range(r.choice((1, 3, 40))):
        outer = GraphProto()
        outer.output.extend(inner.output)
        condition = r.choice([*_values(graph), "x"])
        branch = onnx.helper.make_node("If", [condition], [o.name for o in inner.output], then_branch=inner)
        branch.attribute.append(onnx.helper.make_attribute("else_branch", inner if r.randrange(2) else outer))
        outer.node.append(branch)
        inner = outer
        if inner.ByteSize() > 1 << 16:
            break
    graph.CopyFrom(inner)


def _function(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """The nodes as a function of the model; some call themselves, lack an output, or have no versions."""
    name = r.choice(("F", "Relu", "Add", r.choice(NAMES)))
    function = model.functions.add(name=name, domain=r.choice(("own", "", "com.microsoft")))
    function.input.extend(v.name for v in graph.input)
    function.output.extend(r.choice(([v.name for v in graph.output], [r.choice(NAMES)], [])))
    function.node.extend(graph.node)
    call = onnx.helper.make_node(name, list(function.input), [v.name for v in graph.output], domain=function.domain)
    if r.randrange(3) == 0:
        function.node.append(call)
    if r.randrange(4):
        function.opset_import.extend(model.opset_import)
        function.opset_import.add(domain=function.domain, version=1)
    if r.randrange(4):
        del graph.node[:]
        graph.node.append(call)
        model.opset_import.add(domain=function.domain, version=1)


def _type(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A value that is declared as a sequence, an optional, a map or a sparse tensor, or against its computation."""
    declared = [*graph.input, *graph.output, *graph.value_info]
    match r.randrange(5):
        case 0 if declared:
            kind = r.choice(declared).type
            element = onnx.TypeProto.FromString(kind.SerializeToString())
            part = r.choice((kind.sequence_type, kind.optional_type))
            part.elem_type.CopyFrom(element)
        case 1 if declared:
            r.choice(declared).type.map_type.key_type = r.choice((1, 7, 8, 99))
        case 2 if declared:
            r.choice(declared).type.sparse_tensor_type.elem_type = 1
        case 3 if declared:
            graph.value_info.append(r.choice(declared))
            graph.value_info[-1].type.tensor_type.elem_type = r.choice((1, 7, 9, 16))
        case 4 if names := _values(graph):
            info = onnx.helper.make_tensor_value_info(r.choice(names), r.choice((1, 7, 9)), [r.choice(SIZES)])
            r.choice((graph.value_info, graph.output, graph.input)).append(info)


def _sparse(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A stored sparse tensor, or one in segments."""
    name = r.choice([*_values(graph), *NAMES])
    if r.randrange(2):
        tensor = graph.sparse_initializer.add(dims=[r.choice(SIZES)])
        tensor.values.name, tensor.values.data_type = name, 1
    else:
        graph.initializer.add(name=name, data_type=1, dims=[4], float_data=[1, 2]).segment.begin = r.choice(SIZES)


def _beside(r: random.Random, model: ModelProto, graph: GraphProto, donor: GraphProto) -> None:
    """A tensor in a file beside the model, in a folder or a link there, or outside."""
    tensor = r.choice(graph.initializer) if graph.initializer else graph.initializer.add(name="w", data_type=1, dims=[2])
    for field in ("raw_data", "float_data", "int64_data", "int32_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    positions = (*BESIDE, *(f"./{b}" for b in BESIDE), "../weights.bin", "/dev/zero", "a/../weights.bin", "a\0b", "")
    for key, values in (
        ("location", positions),
        ("offset", ("0", "3", "-1", "9" * 30, "0x8")),
        ("length", ("8", "-8", "1" * 9, "")),
    ):
        if key == "location" or r.randrange(2):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, r.choice(values)


Alteration = Callable[[random.Random, ModelProto, GraphProto, GraphProto], None]
ALTERATIONS: tuple[Alteration, ...] = (
    _operator,
    _wire,
    _wire,
    _rename_result,
    _arity,
    _attribute,
    _attribute,
    _dims,
    _dims,
    _initializer,
    _model,
    _remove,
    _order,
    _graft,
    _nest,
    _function,
    _type,
    _sparse,
    _beside,
)
