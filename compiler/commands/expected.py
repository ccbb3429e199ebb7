"""``--expected FILE``: comparison of results with a file in the format of ``run -o``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...ops.core.tensor_types import TensorType, TupleType, Type, is_float, numpy_dtype
from ...shape_funcs.frozen_dataclass import frozen
from ...vm.diagnostics.source import InputError
from ..comparison.result_check import Mismatch, ResultsUnexpected, Tolerance, leaves, mismatches
from ..inputs.array_files import read_arrays
from .summary import name_of


@frozen
class Verdict:
    """Comparison of results with ``file``.  ``within``: the tolerances, in words.  ``mismatches``: outputs that differ."""

    file: Path
    within: str
    mismatches: tuple[Mismatch, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data."""
        found = [m.as_data() for m in self.mismatches]
        return {"file": str(self.file), "agree": not found, "within": self.within, "differences": found}

    def error(self, name: str) -> ResultsUnexpected:
        """The differences as an error; ``name`` is the name of the run."""
        what, names = f"the results of {name} are not those of {self.file}", (str(self.file), name)
        return ResultsUnexpected([m.diagnostic(what, names) for m in self.mismatches])

    def demand(self, name: str) -> None:
        """Raises ResultsUnexpected if an output differs."""
        if self.mismatches:
            raise self.error(name)


class Expected:
    """Expected results, from a file, of a function with a result of this type.  Raises as ``read_expected``."""

    def __init__(self, file: Path, result: Type, tolerance: Tolerance) -> None:
        self.file, self.tolerance = file, tolerance
        tolerance.check(_paths(result))
        self.value = read_expected(file, result)

    def verdict(self, value: Any) -> Verdict:
        """The comparison of a run's results with the file."""
        within = self.tolerance.text(leaves(value))
        return Verdict(self.file, within, tuple(mismatches(self.value, value, self.tolerance)))


def read_expected(path: Path, result: Type) -> Any:
    """The expected results of a function with a result of this type: an array, or a (nested) tuple of them.

    Floats of another precision are rounded to the result's.  Raises FileError, and InputError if the file does
    not hold exactly the outputs of the function.
    """
    found = read_arrays("--expected", str(path))
    paths = _paths(result)
    if isinstance(found, np.ndarray):
        if paths != [""]:
            raise InputError(
                f"--expected: {path} holds one array, but the result is {result}", help=f"numpy.savez: {_listed(paths)}"
            )
        return _rounded(found, result)
    wanted = [name_of(p) for p in paths]
    if sorted(found) != sorted(wanted):
        raise InputError(f"--expected: {path} holds {', '.join(found) or 'nothing'}", help=f"the outputs are {_listed(paths)}")
    return _nested(result, "", dict(found))


def _listed(paths: list[str]) -> str:
    return ", ".join(map(name_of, paths))


def _paths(ty: Type, path: str = "") -> list[str]:
    if not isinstance(ty, TupleType):
        return [path]
    return [leaf for i, f in enumerate(ty.fields) for leaf in _paths(f, f"{path}.{i}" if path else str(i))]


def _nested(ty: Type, path: str, found: dict[str, np.ndarray]) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_nested(f, f"{path}.{i}" if path else str(i), found) for i, f in enumerate(ty.fields))
    return _rounded(found[name_of(path)], ty)


def _rounded(array: np.ndarray, ty: Type) -> np.ndarray:
    if isinstance(ty, TensorType) and is_float(ty.dtype) and is_float(array.dtype.name):
        with np.errstate(over="ignore"):
            return array.astype(numpy_dtype(ty.dtype), copy=False)
    return array
