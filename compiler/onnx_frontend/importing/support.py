"""The operators of a model that cannot be converted, all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....declarations.frozen_dataclass import frozen
from ....vm.diagnostics import codes
from ....vm.diagnostics.source import Diagnostic, ModelError
from ..function_bodies import fixed_body, has_body, model_function, newest_version
from ..model import GraphDef, Model, NodeDef, nodes_of
from ..operator_table import STANDARD, converter, declared_versions, domain_of
from ..tensors import TEXTS, TEXTS_HELP


@frozen
class UnsupportedOperator:
    """An operator without a converter: the version of its domain, the first node, the number of nodes."""

    name: str
    domain: str
    version: int | None
    node: str
    count: int

    def __str__(self) -> str:
        version = "without a version" if self.version is None else f"version {self.version}"
        times = "1 node" if self.count == 1 else f"{self.count} nodes"
        return f"{self.name} of {self.domain or 'ai.onnx'} ({version}): {times}, the first is {self.node!r}"


class UnsupportedOperatorError(ModelError):
    """A model with operators that cannot be converted; ``operators`` lists all of them."""

    kind = codes.Model.OPERATOR
    operators: tuple[UnsupportedOperator, ...] = ()


def unsupported(found: Sequence[tuple[NodeDef, NodeDef, int | None]]) -> UnsupportedOperatorError:
    """The error that lists the operators of these nodes, each with the node of the model that needs it, and its version."""
    groups: dict[tuple[str, str, int | None], list[NodeDef]] = {}
    for node, place, version in found:
        groups.setdefault((node.proto.op_type, domain_of(node.proto.domain), version), []).append(place)
    listed = tuple(UnsupportedOperator(*key, nodes[0].name, len(nodes)) for key, nodes in groups.items())
    plural = "operators" if len(listed) > 1 else "operator"
    notes = tuple((str(o), nodes[0].span) for o, nodes in zip(listed, groups.values(), strict=True))
    message = f"the model has {len(listed)} {plural} without a converter: {', '.join(o.name for o in listed)}"
    help = next(filter(None, map(_help, listed)), "docs/onnx.md lists the operators with a converter")
    error = UnsupportedOperatorError(Diagnostic(message, None, notes, help=help))
    error.operators = listed
    return error


#: The standard's operators on texts, which have no converter.
_ON_TEXTS = ("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch")


def _help(operator: UnsupportedOperator) -> str | None:
    if operator.domain == STANDARD and operator.name in _ON_TEXTS:
        return TEXTS_HELP
    versions = declared_versions(operator.domain, operator.name)
    if versions and operator.version is not None:
        return f"{operator.name} is converted from version {versions[0].since} on: convert the model by onnx.version_converter"
    return None


def _check_versions(model: Model) -> None:
    newest = newest_version()
    for versions in (model.versions, *(f.versions for f in model.functions.values())):
        version = versions.get(STANDARD, 0)
        if version > newest:
            message = f"the model uses version {version} of the operators of ai.onnx; the newest that is known is {newest}"
            help = "install a newer version of the package onnx, or export the model in an older version"
            raise ModelError(message, help=help, code=codes.Model.FORMAT)


def _check_texts(model: Model) -> None:
    """Raises ModelError for an input of texts, with the operators that read it."""
    texts = {i.name for i in model.graph.proto.input if i.type.tensor_type.elem_type == TEXTS}
    readers = [node for node in model.graph.nodes if texts & set(node.proto.input)]
    if readers:
        (name, *_) = (n for n in readers[0].proto.input if n in texts)
        others = [n for n in dict.fromkeys(node.proto.op_type for node in readers) if n != readers[0].proto.op_type]
        also = f"; so do {', '.join(others)}" if others else ""
        message = f"{readers[0].label} reads texts, the input {name!r}; tensors here have no texts{also}"
        raise ModelError(message, readers[0].span, help=TEXTS_HELP, code=codes.Model.DTYPE)


def check_supported(model: Model) -> None:
    """Raises UnsupportedOperatorError that lists every operator without a converter and without a body.

    Raises ModelError for a version of the standard's operators that the package onnx does not know, and for an input of texts.
    """
    _check_versions(model)
    _check_texts(model)
    found: list[tuple[NodeDef, NodeDef, int | None]] = []
    seen: set[int] = set()
    todo: list[tuple[GraphDef, Mapping[str, int], NodeDef | None]] = [(model.graph, model.versions, None)]
    while todo:
        graph, versions, caller = todo.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        for node in nodes_of(graph):
            domain, name = domain_of(node.proto.domain), node.proto.op_type
            own = model_function(model, node)
            version = versions.get(domain)
            if own is not None:
                todo.append((own.body, {**model.versions, **own.versions}, None))
            elif version is not None and converter(domain, name, version) is not None:
                continue
            elif version is not None and (body := fixed_body(domain, name, version)) is not None:
                todo.append((body.body, {"": newest_version(), **versions, **body.versions}, caller or node))
            elif version is None or not has_body(domain, name, version):
                found.append((node, caller or node, version))
    if found:
        raise unsupported(found)
