"""``relay.frontend.from_onnx``: the module of an ONNX model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....ops.core.tensor_types import TensorType
from ....shape_funcs.symbolic.dim import Dim, fresh
from ....vm.diagnostics import codes
from ....vm.diagnostics.argument_errors import a_mapping, a_sequence, wrong
from ....vm.diagnostics.printable import printable_name
from ....vm.diagnostics.source import ModelError
from ...ir.anf import Names
from ...ir.expr import Expr, Function, IRModule, Tuple, Var, type_of
from ...ir.signature_attrs import DEFAULTS, OUTPUT_NAMES, encoded
from ...ir.visitor import free_vars
from ...type_inference.function_signature import declare
from .. import operators as operators  # declares the converters
from ..model import Model
from ..scope import Scope, Values, constant
from ..tensors import stored_names
from ..value_types import SizeNames, declared_type, of_input
from .graph import GraphConverter
from .reading import read_model
from .support import check_supported

#: The first version of the format in which a stored tensor need not be an input, so that an input says something.
_FIRST = 4
#: The most elements of all such tensors together: thresholds and the like, not the weights of a network.
MOST_ELEMENTS = 64

#: Relay's options of an import; they choose among forms that the compiler chooses among.
_CONVERT_CONFIG = ("use_nt_batch_matmul",)


def from_onnx(
    model: Any,
    shape: Mapping[str, Any] | None = None,
    dtype: str | Mapping[str, str] | None = None,
    opset: int | None = None,
    freeze_params: bool = True,
    overridable: bool | Sequence[str] | None = None,
    convert_config: Mapping[str, Any] | None = None,
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """The module of an ONNX model, and its parameters by name.

    ``model``: a path, a file's contents, or a ModelProto.  ``shape``: shapes of inputs by name, instead of the declared ones;
    ``dtype``: the dtype of all inputs, or dtypes by name.  ``opset``: the version of the standard's operators, instead of the
    declared one.  ``freeze_params``: the stored tensors become constants; otherwise those that the program uses are parameters
    of ``main``, after its inputs, and their values are returned.

    ``overridable``: the stored tensors that the model lists among its inputs, too, and that a call may replace: they are the last
    parameters of ``main``, with the stored values as defaults.  True: all of them, False: none, or their names.  None: all if the
    model has at least version 4 of the format, they have together at most 64 elements, and the import need not know them;
    exporters that list all weights of a network mean constants.

    ``convert_config``: Relay's ``{"use_nt_batch_matmul": ...}``, which has no effect: the compiler chooses the form of products.

    A ``dim_param`` becomes a size ``?name``: equal names are equal sizes.  Raises FileError for a file that cannot be read,
    ModelError for a model that cannot be imported, ArgumentError for wrong arguments.
    """
    shapes = a_mapping(shape, "from_onnx: shape", "shapes of inputs by name")
    if dtype is not None and not isinstance(dtype, (str, Mapping)):
        raise wrong("from_onnx: dtype", "the name of a dtype, or names by input", dtype)
    if not (overridable is None or isinstance(overridable, bool)):
        a_sequence(overridable, "from_onnx: overridable", "True, False, or names of stored tensors")
    for key in a_mapping(convert_config, "from_onnx: convert_config", "options by name"):
        if key not in _CONVERT_CONFIG:
            raise wrong("from_onnx: a key of convert_config", f"one of {', '.join(_CONVERT_CONFIG)}", key)
    return _imported(read_model(model, opset), shapes, dtype, freeze_params, overridable)


def module_of_file(path: Path) -> tuple[IRModule, dict[str, Path]]:
    """The module of a model's file, and its data files by their paths from its folder.  Raises as ``from_onnx``."""
    read = read_model(path)
    return _imported(read, {}, None, True, None)[0], read.tensors.files()


def step_of_model(model: Any) -> IRModule:
    """The module of a step of a decoder, whose texts end in one column of the caches.  Raises as ``from_onnx``."""
    return _imported(read_model(model), {}, None, True, False, right_aligned=True)[0]


def _imported(
    read: Model, shapes: Mapping[str, Any], dtype: str | Mapping[str, str] | None, freeze: bool,
    overridable: bool | Sequence[str] | None, right_aligned: bool = False,
) -> tuple[IRModule, dict[str, np.ndarray]]:  # fmt: skip
    check_supported(read)
    defaults, left = _default_inputs(read, overridable) if freeze else (), read.nodes_left
    try:
        return _Import(read, shapes, dtype, freeze, defaults, right_aligned).module()
    except ModelError as error:
        if overridable is not None or not defaults:
            raise
        reason = error.diagnostics[0].message
    read.nodes_left = left
    found = _Import(read, shapes, dtype, freeze, ()).module()
    read.warn(f"the stored tensors {', '.join(defaults)} cannot be given as inputs, but are constants: {reason}")
    return found


def _default_inputs(model: Model, wanted: bool | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the stored tensors that become defaults; ``wanted`` as of ``from_onnx``.  Raises ArgumentError."""
    graph = model.proto.graph
    sizes = {t.name: math.prod(t.dims) for t in graph.initializer}
    sizes |= {s.values.name: math.prod(s.dims) for s in graph.sparse_initializer}
    listed = tuple(info.name for info in graph.input if info.name in sizes)
    if isinstance(wanted, bool):
        return listed if wanted else ()
    if wanted is None:
        small = sum(sizes[name] for name in listed) <= MOST_ELEMENTS
        return listed if small and model.proto.ir_version >= _FIRST else ()
    unknown: list[Any] = [name for name in wanted if name not in listed]
    if unknown:
        help = f"the model lists these among its inputs: {', '.join(listed) or 'none'}"
        raise wrong("from_onnx: overridable", "names of stored tensors that are inputs, too", unknown[0], help)
    return tuple(name for name in listed if name in wanted)


class _Import:
    """One import: the parameters of ``main`` and the values of the stored tensors.

    ``overridable``: the names of the stored tensors that are defaults of parameters.
    """

    def __init__(
        self, model: Model, shapes: Mapping[str, Any], dtypes: str | Mapping[str, str] | None, freeze: bool,
        overridable: Sequence[str], right_aligned: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.shapes, self.dtypes, self.freeze = model, shapes, dtypes, freeze
        self.scope, self.overridable = Scope(Values(right_aligned)), frozenset(overridable)
        self.weights: dict[Var, np.ndarray] = {}
        self.defaults: dict[Var, np.ndarray] = {}
        self.graph = GraphConverter(model, self.scope, model.versions)

    def module(self) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module and the values of parameters that are stored tensors."""
        proto = self.model.graph.proto
        stored = stored_names(proto)
        infos = [info for info in proto.input if info.name not in stored]
        self._check_names([info.name for info in infos])
        self.model.retyped = bool(self.shapes) or self.dtypes is not None
        self.graph.expect(self.model.graph)
        params = self._inputs(infos)
        self.graph.add_tensors(self.model.graph, self._stored)
        outputs = self.graph.convert(self.model.graph, [o.name for o in proto.output])
        if not outputs:
            raise ModelError("the model has no output", code=codes.Model.GRAPH)
        one_tensor = len(outputs) == 1 and isinstance(type_of(outputs[0]), TensorType)
        result: Expr = outputs[0] if one_tensor else self.scope.bind(Tuple(outputs), None, "outputs")
        body = self.scope.chain(result)
        used = set(free_vars(body))
        weights = {v: data for v, data in self.weights.items() if v in used}
        main = Function((*params, *weights, *self.defaults), body, attrs=self._signature([o.name for o in proto.output]))
        return IRModule({"main": main}, self.model.source, self.scope.values.types), {v.name: data for v, data in weights.items()}

    def _check_names(self, names: list[str]) -> None:
        for what, given in (("shape", self.shapes), ("dtype", self.dtypes)):
            unknown = [n for n in given if n not in names] if isinstance(given, Mapping) else []
            if unknown:
                help = f"its inputs: {', '.join(names)}"
                raise wrong(f"from_onnx: {what}", "for inputs of the model", unknown[0], help)

    def _inputs(self, infos: list[Any]) -> list[Var]:
        params, sizes, names = [], SizeNames(), dict[str, Dim]()
        for number, info in enumerate(infos, 1):
            if not info.name:
                raise ModelError(f"input {number} of the model has no name", code=codes.Model.GRAPH)
            dtype = self.dtypes if isinstance(self.dtypes, str) else of_input(self.dtypes, info.name)
            annotation = declared_type(info, sizes, of_input(self.shapes, info.name), dtype)
            params.append(self._param(info.name, annotation, names))
            self.graph.define(info.name, params[-1], None)
        return params

    def _param(self, name: str, annotation: TensorType, names: dict[str, Dim]) -> Var:
        ty = declare(annotation, names, (), fresh)
        return Var(self.scope.values.names(printable_name(name)), annotation, ty=ty)

    def _signature(self, outputs: list[str]) -> dict[str, Any]:
        """The attributes of ``main``: the names of the outputs, each once."""
        names = Names()
        attrs: dict[str, Any] = {OUTPUT_NAMES: tuple(names(printable_name(name)) for name in outputs)}
        return attrs | ({DEFAULTS: tuple(map(encoded, self.defaults.values()))} if self.defaults else {})

    def _stored(self, name: str, array: np.ndarray) -> Expr:
        """The expression of a stored tensor: a constant, or a parameter."""
        if self.freeze and name not in self.overridable:
            return constant(array)
        var = self._param(name, TensorType.of(array.shape, array.dtype.name), {})
        if self.freeze:
            self.defaults[var] = array
            return var
        self.weights[var] = array
        self.scope.values.known[var] = array
        return var
