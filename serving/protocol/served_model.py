"""A model's tensors as the protocol describes them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import TensorType, Type, dim_text
from ...shape_funcs.symbolic.dim import const
from ...vm.api.executable import Executable
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import InputError
from ...vm.values.output_names import leaf_outputs
from .datatypes import DATATYPE

#: The function that a server calls.
ENTRY = "main"
#: The protocol's name of models compiled by this package.
PLATFORM = "relayvm_relay"


@frozen
class TensorSpec:
    """An input or output of a model."""

    name: str
    type: TensorType

    def metadata(self, is_optional: bool = False) -> dict[str, Any]:
        """The protocol's description: -1 for an unknown size; ``dims`` has the names of sizes."""
        sizes = [const(d) for d in self.type.shape]
        more = {"optional": True} if is_optional else {}
        return {
            "name": self.name,
            "datatype": DATATYPE[self.type.dtype],
            "shape": [-1 if n is None else n for n in sizes],
            "parameters": {"dims": ", ".join(map(dim_text, self.type.shape)), **more},
        }


@frozen(eq=False)
class ServedModel:
    """An executable under a name and a version."""

    name: str
    version: str
    exe: Executable
    function: VMFunction
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @staticmethod
    def of(name: str, version: str, exe: Executable) -> ServedModel:
        """The executable, described.  Raises InputError if its function ``main`` takes or returns more than tensors."""
        exe.inputs  # noqa: B018  raises ConfigError for an executable without the function
        function = exe.functions[exe.function_index(ENTRY)]
        inputs = tuple(TensorSpec(n, _tensor(name, f"takes %{n}", ty)) for n, ty in function.params)
        outputs = tuple(TensorSpec(o.name, _tensor(name, f"returns {o.name}", o.type)) for o in leaf_outputs(function))
        return ServedModel(name, version, exe, function, inputs, outputs)

    @functools.cached_property
    def defaults(self) -> dict[str, np.ndarray]:
        """The values of the inputs that a request may leave out, by name."""
        values = self.function.defaults
        return dict(zip((spec.name for spec in self.inputs[len(self.inputs) - len(values) :]), values, strict=True))

    def metadata(self, versions: list[str]) -> dict[str, Any]:
        """The protocol's description of the model."""
        return {
            "name": self.name,
            "versions": versions,
            "platform": PLATFORM,
            "inputs": [spec.metadata(spec.name in self.defaults) for spec in self.inputs],
            "outputs": [spec.metadata() for spec in self.outputs],
        }


def _tensor(model: str, what: str, ty: Type) -> TensorType:
    if isinstance(ty, TensorType):
        return ty
    message = f"the model {model} {what}, a {ty}: the protocol has tensors only"
    raise InputError(message, help="write a function main of tensors around it", code=codes.Input.TYPE)
