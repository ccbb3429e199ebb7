"""``relay.frontend.OnnxBackend``: the backend that ONNX's own tests and tools run models on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ...vm.api.machine import VirtualMachine
from ...vm.device_table import DEVICES
from ..compile import compile
from ..onnx_frontend.importing.from_onnx import from_onnx
from .result_arrays import array_of


class PreparedModel(BackendRep):
    """A compiled model.  ``run`` takes its inputs in the order of the model.

    The arrays of its result have the names of the model's outputs, too: ``result["boxes"]``.
    """

    def __init__(self, machine: VirtualMachine) -> None:
        self.machine = machine

    def run(self, inputs: Sequence[Any] | Any, **named: Any) -> tuple[Any, ...]:
        """The outputs for a list of arrays, or for one array.  Raises InputError, VMError."""
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        result = self.machine.run(*map(_argument, given), **named)
        names = [name for name, _ in self.machine.exe.outputs]
        arrays = map(array_of, result) if isinstance(result, tuple) else (array_of(result),)
        found: tuple[Any, ...] = namedtupledict("Outputs", names)(*arrays)
        return found


def _argument(value: Any) -> Any:
    """An input for the machine: arrays, numbers and TensorProtos are arrays."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


class OnnxBackend(Backend):
    """The backend of ``onnx.backend.base``.  Devices: ``CPU``, ``SIM`` and ``CUDA``."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **config: Any) -> PreparedModel:
        """The compiled model.  ``config``: as of ``relay.compile``.  Raises ModelError for a model that cannot be imported."""
        module, _ = from_onnx(model)
        return PreparedModel(VirtualMachine(compile(module, target=_target(device), **config)))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **config: Any) -> tuple[Any, ...]:
        """The outputs of a model.  Raises as ``prepare``, and for inputs that do not fit."""
        return cls.prepare(model, device, **config).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, *, opset_version: int | None = None,
        **config: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The outputs of one node of the standard's operators, in the newest version or ``opset_version``."""
        arrays = [np.asarray(a) for a in inputs]
        names = [n for n in node.input if n]
        infos = [
            onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        version = onnx.defs.onnx_opset_version() if opset_version is None else opset_version
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, arrays, device, **config)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a device: one named in ``DEVICES``, with or without the number 0."""
        return device.partition(":")[0].lower() in DEVICES and device.partition(":")[2] in ("", "0")


def _target(device: str) -> str:
    return device.partition(":")[0].lower()
