"""A program of quantised layers, written call by call: constants with scales and zero points of their own."""

from __future__ import annotations

import numpy as np

from ...vm.api.executable import Executable
from ..compile import compile

#: Scales and zero points: no two of a program are equal, and none makes another text.
SCALE, _ZERO_POINT, STEP = 0.0313, 101, 0.00137


class QuantisedProgram:
    """Writes calls, each with a variable of its own; ``weights``: the constants, by the names of their parameters.

    ``stored``, ``parameters``: by variables that are dequantised, the bytes, and their scale and zero point.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.weights: dict[str, np.ndarray] = {}
        self.stored: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.count = 0

    def let(self, call: str) -> str:
        """The variable of a call."""
        self.lines.append(f"  let %v{len(self.lines)} = {call};")
        return f"%v{len(self.lines) - 1}"

    def compiled(self, parameter: str, result: str) -> Executable:
        """The program of a parameter, compiled."""
        parameters = [parameter]
        for name, value in self.weights.items():
            shape = ", ".join(map(str, value.shape)) + "," * (value.ndim == 1)
            parameters.append(f"%{name}: Tensor[({shape}), {value.dtype.name}]")
        body = "\n".join([*self.lines, f"  {result}"])
        text = f'#[version = "0.0.5"]\ndef @main({", ".join(parameters)}) {{\n{body}\n}}'
        return compile(text, params=self.weights, optimize=False)

    def new_parameters(self, zero_point: int | None = None) -> str:
        """A scale and a zero point, by default one that is no other's."""
        self.count += 1
        zero_point = _ZERO_POINT + self.count % 24 if zero_point is None else zero_point
        return f"{SCALE + STEP * self.count:.6f}f, {zero_point}u8"

    def quantised(self, value: str, of: str = "", zero_point: int | None = None, is_scaled: bool = False) -> str:
        """A value, quantised and dequantised; with the parameters of the value ``of`` where it has the same elements.

        ``is_scaled``: whether the value is divided by the scale already.
        """
        parameters = self.parameters[of] if of else self.new_parameters(zero_point)
        given = f"1f, {zero_point_of(parameters)}u8" if is_scaled else parameters
        return self.dequantised(self.let(f'qnn.quantize({value}, {given}, out_dtype="uint8", ties="even")'), parameters)

    def dequantised(self, stored: str, parameters: str = "") -> str:
        """Bytes as real numbers."""
        parameters = parameters or self.new_parameters()
        dequantised = self.let(f"qnn.dequantize({stored}, {parameters})")
        self.stored[dequantised], self.parameters[dequantised] = stored, parameters
        return dequantised

    def given(self, value: np.ndarray) -> str:
        """The parameter of a constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return f"%{name}"

    def bytes_of(self, shape: tuple[int, ...], axis: int) -> str:
        """A weight, with a scale for each index of an axis."""
        name = f"w{len(self.weights)}"
        size = shape[axis]
        self.weights |= {
            name: np.ones(shape, np.int8),
            f"{name}_scales": np.linspace(0.01, 0.02, size, dtype=np.float32),
            f"{name}_zeros": np.zeros(size, np.int8),
        }
        return self.let(f"qnn.dequantize(%{name}, %{name}_scales, %{name}_zeros, axis={axis})")


def zero_point_of(parameters: str) -> int:
    """The zero point of a text of a scale and a zero point."""
    return int(parameters.split("f, ")[1].removesuffix("u8"))
