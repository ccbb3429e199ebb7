"""Results of a run, as text, as plain data, and as a ``.npy`` or ``.npz`` file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...ops.core.tensor_types import TensorType, Type
from ...shape_funcs.frozen_dataclass import frozen
from ...vm.bytecode.atomic_file import whole_file
from ...vm.diagnostics.source import ConfigError

#: Results of at most this many elements are shown whole.
SMALL = 64
#: Suffixes of a file of one array, and of several by name.
ONE, SEVERAL = ".npy", ".npz"


@frozen
class Result:
    """One tensor of a result; ``path``: its position (empty: the result itself; ``0``, ``1.0`` in tuples)."""

    path: str
    device: str
    array: np.ndarray

    def as_data(self) -> dict[str, Any]:
        """Plain data; ``values`` is None for a large tensor.  NaN and infinities are strings: JSON has no numbers for them."""
        values = _finite(self.array.tolist()) if self.array.size <= SMALL else None
        return {
            "path": self.path,
            "shape": list(self.array.shape),
            "dtype": self.array.dtype.name,
            "device": self.device,
            "values": values,
        }

    def __str__(self) -> str:
        shown = np.array2string(self.array, threshold=SMALL, edgeitems=2, precision=6, separator=", ", max_line_width=120)
        name = f"result.{self.path}" if self.path else "result"
        return f"{name}: {self.array.dtype.name}{list(self.array.shape)} on {self.device}\n{shown}"


def results(value: Any, path: str = "") -> Iterator[Result]:
    """The tensors of a (nested) result, read on the host."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from results(item, f"{path}.{i}" if path else str(i))
    else:
        yield Result(path, value.device, np.asarray(value))


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
    """Write the results: a ``.npy`` file of a single result, or a ``.npz`` file of ``result``, or of ``result_0``,
    ``result_1_0`` of a tuple.  Raises FileError."""
    with whole_file(path) as file:
        if path.suffix == ONE:
            np.save(_Chunks(file), found[0].array)
        else:
            np.savez(file, **{name_of(r.path): r.array for r in found})  # type: ignore[arg-type]


def name_of(path: str) -> str:
    """The name of a result in a ``.npz`` file: ``result``, or ``result_0``, ``result_1_0`` in tuples."""
    return f"result_{path.replace('.', '_')}" if path else "result"


class _Chunks:
    """A file object with ``write`` only: numpy would write to the descriptor of a real file and lose the error's reason."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
