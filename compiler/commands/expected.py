"""``--expected FILE``: comparison of results with a file in the format of ``run -o``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import TensorType, TupleType, Type, is_float, numpy_dtype
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics.source import InputError
from ...vm.values.output_names import leaf_outputs
from ..comparison.result_check import Mismatch, ResultsUnexpected, Tolerance, leaves, mismatches
from ..inputs.array_files import read_arrays
from .summary import name_in_file, numbered


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
    """Expected results of a function, from a file.  Raises as ``read_expected``."""

    def __init__(self, file: Path, function: VMFunction, tolerance: Tolerance) -> None:
        self.file, self.tolerance = file, tolerance.of(function)
        self.tolerance.check([output.path for output in leaf_outputs(function)])
        self.value = read_expected(file, function)

    def verdict(self, value: Any) -> Verdict:
        """The comparison of a run's results with the file."""
        within = self.tolerance.text(leaves(value))
        return Verdict(self.file, within, tuple(mismatches(self.value, value, self.tolerance)))


def read_expected(path: Path, function: VMFunction) -> Any:
    """The expected results of a function: an array, or a (nested) tuple of them.

    Floats of another precision are rounded to the result's.  The arrays have the names of the results, or ``result_0``,
    ``result_1_0``.  Raises FileError, and InputError if the file does not hold exactly the outputs of the function.
    """
    found = read_arrays("--expected", str(path))
    outputs, result = leaf_outputs(function), function.result
    listed = ", ".join(name_in_file(o, function) for o in outputs)
    if isinstance(found, np.ndarray):
        if [o.path for o in outputs] != [""]:
            raise InputError(
                f"--expected: {path} holds one array, but the result is {result}", help=f"numpy.savez: {listed}"
            )  # fmt: skip
        return _rounded(found, result)
    for names in ({name_in_file(o, function): o.path for o in outputs}, {numbered(o.path): o.path for o in outputs}):
        if sorted(found) == sorted(names):
            return _nested(result, "", {names[name]: array for name, array in found.items()})
    raise InputError(f"--expected: {path} holds {', '.join(found) or 'nothing'}", help=f"the outputs are {listed}")


def _nested(ty: Type, path: str, found: dict[str, np.ndarray]) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_nested(f, f"{path}.{i}" if path else str(i), found) for i, f in enumerate(ty.fields))
    return _rounded(found[path], ty)


def _rounded(array: np.ndarray, ty: Type) -> np.ndarray:
    if isinstance(ty, TensorType) and is_float(ty.dtype) and is_float(array.dtype.name):
        with np.errstate(over="ignore"):
            return array.astype(numpy_dtype(ty.dtype), copy=False)
    return array
