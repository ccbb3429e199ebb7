"""Results of a run, as text, as plain data, and as a ``.npy`` or ``.npz`` file."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import TensorType, Type
from ...vm.bytecode.atomic_file import whole_file
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics.source import ConfigError
from ...vm.values.output_names import RESULT, Output, leaf_outputs

#: Results of at most this many elements are shown whole.
SMALL = 64
#: Suffixes of a file of one array, and of several by name.
ONE, SEVERAL = ".npy", ".npz"


@frozen
class Result:
    """One tensor of a result, with its name, and its name in a file.

    ``path``: its position (empty: the result itself; ``0``, ``1.0`` in tuples).
    """

    path: str
    name: str
    key: str
    device: str
    array: np.ndarray

    def as_data(self) -> dict[str, Any]:
        """Plain data; ``values`` is None for a large tensor.  NaN and infinities are strings: JSON has no numbers for them."""
        values = _finite(self.array.tolist()) if self.array.size <= SMALL else None
        return {
            "path": self.path,
            "name": self.name,
            "shape": list(self.array.shape),
            "dtype": self.array.dtype.name,
            "device": self.device,
            "values": values,
        }

    def __str__(self) -> str:
        shown = np.array2string(self.array, threshold=SMALL, edgeitems=2, precision=6, separator=", ", max_line_width=120)
        return f"{self.name}: {self.array.dtype.name}{list(self.array.shape)} on {self.device}\n{shown}"


def results(value: Any, function: VMFunction) -> Iterator[Result]:
    """The tensors of a (nested) result of a function, read on the host."""
    for output, tensor in zip(leaf_outputs(function), _leaves(value), strict=True):
        yield Result(output.path, output.name, name_in_file(output, function), tensor.device, np.asarray(tensor))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def check_output(path: Path, result: Type) -> None:
    """Raises ConfigError if a result of this type cannot be written to a file of this name."""
    if path.suffix not in (ONE, SEVERAL):
        raise ConfigError(f"-o {path}: a file of results ends in {ONE} or {SEVERAL}", help=f"write -o {path}{SEVERAL}")
    if path.suffix == ONE and not isinstance(result, TensorType):
        raise ConfigError(
            f"-o {path}: a {ONE} file holds one array, but the result is {result}",
            help=f"write -o {path.with_suffix(SEVERAL)}",
        )


def save(found: list[Result], path: Path) -> None:
    """Write the results: a ``.npy`` file of a single result, or a ``.npz`` file of the results by name.  Raises FileError."""
    with whole_file(path) as file:
        if path.suffix == ONE:
            np.save(_Chunks(file), found[0].array)
        else:
            with zipfile.ZipFile(file, "w") as archive:  # numpy.savez takes no array that is called "file"
                for result in found:
                    with archive.open(f"{result.key}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, result.array, allow_pickle=False)


def name_in_file(output: Output, function: VMFunction) -> str:
    """The name of a result in a ``.npz`` file: its own, or ``numbered`` if the program gives none."""
    return output.name if function.output_names else numbered(output.path)


def numbered(path: str) -> str:
    """The name of a result without a name in a ``.npz`` file: ``result``, or ``result_0``, ``result_1_0`` in tuples."""
    return f"{RESULT}_{path.replace('.', '_')}" if path else RESULT


class _Chunks:
    """A file object with ``write`` only: numpy would write to the descriptor of a real file and lose the error's reason."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
