"""The module of an exported program: parameters, weights and results around its graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.tensor_types import TensorType, numpy_dtype
from ....shape_funcs.symbolic.dim import Dim, dim, fresh
from ....vm.diagnostics import codes
from ....vm.diagnostics.printable import printable_name
from ....vm.diagnostics.source import ModelError
from ...ir.anf import Names
from ...ir.expr import Expr, Function, IRModule, Tuple, Var, type_of
from ...ir.signature_attrs import OUTPUT_NAMES
from ...ir.visitor import free_vars
from ...onnx_frontend.scope import Scope, Values, constant
from ...onnx_frontend.value_types import SizeNames
from ...type_inference.function_signature import declare
from .. import operators as operators  # declares the converters
from ..size_checks import SizeChecks
from ..torch_node import TorchNode, dtype_name
from ..torch_package import torch_package
from .control_flow import over_graphs
from .decompositions import decomposed
from .graph import GraphConverter, check_supported
from .listing import Listing

#: The kinds of inputs and results in the signature of a program, by name.
_WEIGHTS = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
_WRITTEN = ("BUFFER_MUTATION", "USER_INPUT_MUTATION")


def imported(program: Any, freeze: bool, has_least: bool = True) -> tuple[IRModule, dict[str, np.ndarray]]:
    """The module of an ExportedProgram, and its parameters if they are not frozen.  Raises as ``from_torch``.

    ``has_least``: whether the program checks the least sizes for which it was exported.
    """
    whole = decomposed(program)
    check_supported(whole, over_graphs())
    return ProgramImport(whole, freeze, has_least).module()


class ProgramImport:
    """One import."""

    def __init__(self, program: Any, freeze: bool, has_least: bool = True) -> None:
        self.program, self.freeze, self.has_least = program, freeze, has_least
        self.scope, self.listing = Scope(Values()), Listing(program.graph)
        self.sizes, self.names = SizeNames(), dict[str, Dim]()
        self.weights: dict[Var, np.ndarray] = {}
        self.inputs: list[Var] = []
        self.graph = GraphConverter(program, self.scope, self.listing, over_graphs())

    def module(self) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module and the values of its parameters."""
        signature = self.program.graph_signature
        placeholders = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            self.graph.values[node] = self._given(node, spec)
        self._check_sizes(placeholders)
        self.graph.convert_nodes(self.program.graph)
        outputs = self._outputs(signature)
        if not outputs:
            raise ModelError("the program has no result", code=codes.Model.GRAPH)
        one_tensor = len(outputs) == 1 and isinstance(type_of(outputs[0][1]), TensorType)
        result = outputs[0][1] if one_tensor else self.scope.bind(Tuple([e for _, e in outputs]), None, "outputs")
        body = self.scope.chain(result)
        used = set(free_vars(body))
        weights = {v: data for v, data in self.weights.items() if v in used}
        names = Names()
        attrs = {OUTPUT_NAMES: tuple(names(printable_name(name)) for name, _ in outputs)}
        main = Function((*self.inputs, *weights), body, attrs=attrs)
        return IRModule({"main": main}, self.listing.source, self.scope.values.types), {
            v.name: data for v, data in weights.items()
        }

    def _check_sizes(self, placeholders: list[Any]) -> None:
        """Check, at run time, what the export knows of the sizes of inputs."""
        given = [(n.name, self.graph.values[n], n.meta["val"].shape) for n in placeholders if self._is_input(n)]
        view = TorchNode("inputs", "inputs", 0, {}, [], None, self.scope, self.graph, lambda a: a)
        SizeChecks(view, self.program.range_constraints, self.has_least).add(given)

    def _is_input(self, node: Any) -> bool:
        return self.graph.values[node] in self.inputs and isinstance(node.meta["val"], torch_package().Tensor)

    def _given(self, node: Any, spec: Any) -> Any:
        """The value of a placeholder."""
        if spec.kind.name in _WEIGHTS:
            return self._weight(node.name, self._stored(spec))
        if spec.kind.name != "USER_INPUT":
            raise ModelError(f"the input {node.name!r} is a {spec.kind.name.lower()}, not a tensor", code=codes.Model.TYPE)
        meta = node.meta.get("val")
        if meta is None or isinstance(meta, (bool, int, float, str)):
            return meta  # an argument that the export has fixed
        if isinstance(meta, torch_package().SymInt):
            annotation = TensorType.of((), "int64")
        elif isinstance(meta, torch_package().Tensor):
            annotation = TensorType(tuple(map(self._size, meta.shape)), dtype_name(meta.dtype))
        else:
            raise ModelError(f"the input {node.name!r} is a {type(meta).__name__}, not a tensor", code=codes.Model.TYPE)
        var = self._param(node.name, annotation)
        self.inputs.append(var)
        return var

    def _size(self, size: Any) -> Dim:
        # an export that fixes a size leaves a symbolic number
        fixed = isinstance(size, int) or size.node.expr.is_number
        return dim(int(size)) if fixed else self.sizes.symbol(str(size.node.expr))

    def _param(self, name: str, annotation: TensorType) -> Var:
        ty = declare(annotation, self.names, (), fresh)
        return Var(self.scope.values.names(printable_name(name)), annotation, ty=ty)

    def _stored(self, spec: Any) -> Any:
        program = self.program
        found = program.state_dict.get(spec.target)
        return program.constants[spec.target] if found is None else found

    def _weight(self, name: str, tensor: Any) -> Expr:
        array = as_array(tensor)
        if self.freeze:
            return constant(array)
        var = self._param(name, TensorType.of(array.shape, array.dtype.name))
        self.weights[var] = array
        self.scope.values.known[var] = array
        return var

    def _outputs(self, signature: Any) -> list[tuple[str, Expr]]:
        """The name and the value of each result: those of the user first."""
        given = list(zip(signature.output_specs, self._returned(), strict=True))
        chosen = [g for g in given if g[0].kind.name == "USER_OUTPUT"] + [g for g in given if g[0].kind.name in _WRITTEN]
        found = []
        for spec, node in chosen:
            value = self.graph.resolved(node)
            if value is None and isinstance(node, torch_package().fx.Node):
                message = f"the result {node.name!r} is a part of a result that no converter computes"
                raise ModelError(message, self.listing.spans.get(node), code=codes.Model.GRAPH)
            if value is None:
                continue  # the module returns None there
            name = spec.target if spec.kind.name in _WRITTEN else getattr(node, "name", "output")
            found.append((name, self.graph.as_expr(value)))
        return found

    def _returned(self) -> Any:
        """The nodes of the results."""
        (last,) = [n for n in self.program.graph.nodes if n.op == "output"]
        return last.args[0]


def as_array(tensor: Any) -> np.ndarray:
    """The elements of a tensor, shared where it is dense on the CPU, not to be written."""
    torch, tensor = torch_package(), tensor.detach().cpu().contiguous()
    halves = tensor.dtype is torch.bfloat16
    array: np.ndarray = (tensor.view(torch.int16) if halves else tensor).numpy().view()
    array.flags.writeable = False
    return array.view(numpy_dtype("bfloat16")) if halves else array
