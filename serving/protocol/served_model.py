"""A model's tensors as the protocol describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ops.core.tensor_types import TensorType, TupleType, Type, dim_text
from ...shape_funcs.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import const
from ...vm.api.executable import Executable
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import InputError
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

    def metadata(self) -> dict[str, Any]:
        """The protocol's description: -1 for an unknown size; ``dims`` has the names of sizes."""
        sizes = [const(d) for d in self.type.shape]
        return {
            "name": self.name,
            "datatype": DATATYPE[self.type.dtype],
            "shape": [-1 if n is None else n for n in sizes],
            "parameters": {"dims": ", ".join(map(dim_text, self.type.shape))},
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
        return ServedModel(name, version, exe, function, inputs, tuple(_outputs(name, "result", function.result)))

    def metadata(self, versions: list[str]) -> dict[str, Any]:
        """The protocol's description of the model."""
        return {
            "name": self.name,
            "versions": versions,
            "platform": PLATFORM,
            "inputs": [spec.metadata() for spec in self.inputs],
            "outputs": [spec.metadata() for spec in self.outputs],
        }


def _tensor(model: str, what: str, ty: Type) -> TensorType:
    if isinstance(ty, TensorType):
        return ty
    message = f"the model {model} {what}, a {ty}: the protocol has tensors only"
    raise InputError(message, help="write a function main of tensors around it", code=codes.Input.TYPE)


def _outputs(model: str, name: str, ty: Type) -> Iterator[TensorSpec]:
    """The tensors of a result; tuples are flattened."""
    if isinstance(ty, TupleType):
        for i, field in enumerate(ty.fields):
            yield from _outputs(model, f"{name}.{i}", field)
    else:
        yield TensorSpec(name, _tensor(model, f"returns {name}", ty))
