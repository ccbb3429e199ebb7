"""Values of sessions: tensors with onnxruntime's interface, and the binding of inputs and outputs to memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.core.tensor_types import numpy_dtype
from ....vm.diagnostics.argument_errors import wrong
from ....vm.diagnostics.source import InputError
from ....vm.values.tensor import Tensor
from ...onnx_frontend.tensors import DTYPE_OF

#: onnxruntime's names of element types, by the names here; the others are the same in both.
_ELEMENTS = {"float32": "float", "float64": "double", "bool": "bool"}
#: The names of devices.
_DEVICES = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda"}


def type_text(dtype: str) -> str:
    """``tensor(float)`` for ``float32``."""
    return f"tensor({_ELEMENTS.get(dtype, dtype)})"


class OrtValue:
    """A tensor: a numpy array, or a tensor of the machine, which stays on its device until it is read."""

    def __init__(self, value: np.ndarray | Tensor) -> None:
        self.value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """The value of an array, without a copy.  A run on a GPU copies it there."""
        _device(device_type)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray, onnx_element_type: int) -> OrtValue:
        """The value of an array whose bytes are numbers of an element type of ONNX, such as bfloat16 in uint16."""
        if onnx_element_type not in DTYPE_OF:
            raise wrong("onnx_element_type", "the number of an element type", onnx_element_type)
        return OrtValue(np.asarray(data).view(numpy_dtype(DTYPE_OF[onnx_element_type])))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value of zeros."""
        _device(device_type)
        return OrtValue(np.zeros(tuple(shape), element_type))

    def numpy(self) -> np.ndarray:
        """The elements; of a tensor on a device, copied to the host."""
        return self.value.numpy() if isinstance(self.value, Tensor) else self.value

    def shape(self) -> list[int]:
        """The sizes."""
        return list(self.value.shape)

    def data_type(self) -> str:
        """``tensor(float)``, ..."""
        return type_text(str(np.dtype(self.value.dtype).name))

    def element_type(self) -> int:
        """The number of the element type in ``onnx.TensorProto``."""
        name = str(np.dtype(self.value.dtype).name)
        return next(number for number, dtype in DTYPE_OF.items() if dtype == name)

    def is_sparse_tensor(self) -> bool:
        """False."""
        return False

    def is_tensor_sequence(self) -> bool:
        """False, as ``is_tensor``."""
        return False

    def device_name(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.value.device if isinstance(self.value, Tensor) else "cpu"

    def is_tensor(self) -> bool:
        """True: sequences are lists of values here."""
        return True

    def has_value(self) -> bool:
        """Whether there is a value: there always is one."""
        return True

    def data_ptr(self) -> int:
        """The address of the elements on the host."""
        return int(self.numpy().ctypes.data)

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Write the elements of an array of the same shape and dtype.  Raises InputError."""
        mine = self.numpy()
        if (mine.shape, mine.dtype) != (np_arr.shape, np_arr.dtype):
            raise InputError(f"an array {np_arr.dtype}{np_arr.shape} does not fit a value {mine.dtype}{mine.shape}")
        mine[...] = np_arr

    def __dlpack__(self, **options: Any) -> Any:
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self.value.__dlpack_device__()
        return found


class IOBinding:
    """Inputs and outputs of a session, bound to memory: ``session.io_binding()``."""

    def __init__(self, output_names: Sequence[str]) -> None:
        self._names = list(output_names)
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, np.ndarray | None] = {}
        self.results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Bind an input to an array."""
        self.inputs[name] = np.asarray(arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to dense memory of the host; ``bind_ortvalue_input`` binds an array of a GPU, by DLPack."""
        self.inputs[name] = _at(device_type, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self.inputs[name] = ortvalue.value

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Ask for an output; with an address, a run copies it there.  Raises InputError for memory that is not of the host."""
        bound = None if buffer_ptr is None else _at(device_type, element_type, shape or (), buffer_ptr)
        self.outputs[name] = bound

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to a value, into which a run copies it."""
        self.outputs[name] = ortvalue.numpy()

    def store(self, results: Sequence[Any]) -> None:
        """Store the results of a run, those of ``wanted`` in order.  Raises InputError for memory that does not fit."""
        self.results = []
        for name, result in zip(self.wanted, results, strict=True):
            bound = self.outputs.get(name)
            if bound is None:
                self.results.append(OrtValue(result))
                continue
            value = OrtValue(bound)
            value.update_inplace(OrtValue(result).numpy())
            self.results.append(value)

    @property
    def wanted(self) -> list[str]:
        """The names of the bound outputs, or of all."""
        return list(self.outputs) or self._names

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run."""
        return self.results

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The results of the last run as arrays."""
        return [value.numpy() for value in self.results]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """The results of the last run."""
        return self.results

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self.outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing: a run waits for what it reads."""

    def synchronize_outputs(self) -> None:
        """Nothing: a value waits when it is read."""


def _device(name: str) -> str:
    if name.lower() not in _DEVICES:
        raise wrong("device_type", "cpu or cuda", name)
    return _DEVICES[name.lower()]


def _at(device_type: str, element_type: Any, shape: Sequence[int], address: int) -> np.ndarray:
    """The dense array at an address of the host.  Raises InputError for an address of a GPU."""
    if _device(device_type) != "cpu":
        raise InputError("an address of a GPU cannot be bound", help="bind_ortvalue_input(name, OrtValue(array)), by DLPack")
    dtype: np.dtype[Any] = np.dtype(numpy_dtype(element_type) if isinstance(element_type, str) else element_type)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    buffer = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(memoryview(buffer), dtype).reshape(tuple(shape))
