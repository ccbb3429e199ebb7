"""Results of a run, as text, as plain data, and as a ``.npz`` file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...vm.source import InputError

#: Results of at most this many elements are shown whole.
SMALL = 64


@dataclass(frozen=True)
class Result:
    """One tensor of a result: ``path`` says which (empty: the result itself; ``0``, ``1.0`` in tuples)."""

    path: str
    device: str
    array: np.ndarray

    def as_data(self) -> dict[str, Any]:
        """Plain data; ``values`` is None for a large tensor.  What is not finite is a string, as JSON has no number for it."""
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


def save(found: list[Result], path: Path) -> None:
    """Write the results: ``result``, or ``result_0``, ``result_1_0`` of a tuple.  Raises InputError where that fails."""
    arrays = {f"result_{r.path.replace('.', '_')}" if r.path else "result": r.array for r in found}
    try:
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
