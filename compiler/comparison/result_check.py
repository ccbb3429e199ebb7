"""Equality of two results of a program up to rounding: configurations may sum in different orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import is_float
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, InputError, RelayError
from ...vm.values.output_names import RESULT, leaf_outputs

#: Floats agree within this part of their value, plus this part of the largest value in the tensor: another order of
#: summation moves a small sum of large terms by that much.
RTOL, SCALE_TOL = 1e-5, 1e-6
#: Both tolerances for halves: a few roundings, some of which fusion omits.
HALF_TOL = {"float16": 2.0**-8, "bfloat16": 2.0**-5}
#: Both tolerances for floats of programs that are compiled with a ``precision`` narrower than float32.
PRECISION_TOL = {"tf32": 2.0**-8, **HALF_TOL}
#: Both tolerances for the values of single nodes of a model: orders of sums move those of deep networks.
NODES_TOL = 1e-3
#: The most differing elements of a tensor that a message lists.
SHOWN = 5


class ResultsDiffer(RelayError):
    """Two configurations of one program gave different results."""

    kind = codes.Results.DIFFER


class ResultsUnexpected(ResultsDiffer):
    """The results differ from the expected results."""

    kind = codes.Results.UNEXPECTED


# ---- tolerances ------------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """Tolerance ``atol + rtol * |first element|``; ``scaled``: ``atol`` is a part of the largest value."""

    rtol: float
    atol: float
    scaled: bool

    def __str__(self) -> str:
        return f"rtol {self.rtol:g}, atol {self.atol:g}" + (" of the largest value" if self.scaled else "")


@frozen
class Tolerance:
    """Tolerances as given on the command line, by output: its name, or its place (``0``, ``1.0`` in tuples); empty: all outputs.

    They apply to floats; integers and bools must be equal.  ``names``: the names of the outputs by place.  ``least``: the least
    tolerance that is not given, of the precision of the programs.
    """

    rtol: Mapping[str, float] = field(default_factory=dict)
    atol: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    least: float = 0.0

    def of(self, function: VMFunction, precisions: Iterable[str] = ()) -> Tolerance:
        """The tolerances of the results of a function, by place, of programs with these precisions."""
        names = {output.path: output.name for output in leaf_outputs(function)} if function.output_names else {}
        paths = {name: path for path, name in names.items()}
        rtol, atol = ({paths.get(key, key): value for key, value in given.items()} for given in (self.rtol, self.atol))
        return Tolerance(rtol, atol, names, max((PRECISION_TOL.get(p, 0.0) for p in precisions), default=0.0))

    def name(self, path: str) -> str:
        """The name of the output at a place."""
        return self.names.get(path, f"{RESULT}.{path}" if path else RESULT)

    def limits(self, path: str, dtype: str) -> Limits | None:
        """The tolerance of one output; None: its elements must be equal."""
        if not is_float(dtype):
            return None
        half = max(HALF_TOL.get(dtype, 0.0), self.least)
        rtol = self.rtol.get(path, self.rtol.get("", half or RTOL))
        atol = self.atol.get(path, self.atol.get(""))
        return Limits(rtol, half or SCALE_TOL, True) if atol is None else Limits(rtol, atol, False)

    def check(self, paths: Sequence[str]) -> None:
        """Raises InputError for an output that does not exist."""
        for name, given in (("rtol", self.rtol), ("atol", self.atol)):
            for path in given:
                if path and path not in paths:
                    listed = ", ".join(self.names.get(p, p) for p in paths) if all(paths) else "one, without a number"
                    raise InputError(f"{name} for the output {path}, which there is not", help=f"the outputs: {listed}")

    def text(self, leaves: Sequence[tuple[str, np.ndarray]]) -> str:
        """The tolerances of these outputs, in words; equal tolerances once."""
        found = {path: self.limits(path, array.dtype.name) for path, array in leaves}
        words = {path: "equal" if limits is None else str(limits) for path, limits in found.items()}
        floats = {word for path, word in words.items() if found[path] is not None}
        if len(floats) < 2:
            return "".join(floats) or "equal"
        return "; ".join(f"{self.names.get(path, path)}: {word}" for path, word in words.items())


# ---- two results ---------------------------------------------------------------------------------------------------------


class Element(NamedTuple):
    """A differing element and both of its values."""

    index: tuple[int, ...]  # type: ignore[assignment]  # tuples have a method of this name
    first: Any
    second: Any


@frozen
class Mismatch:
    """A differing output of two results: its place and its name.  ``kinds``: dtype and shape, or "a tuple of n"; equal if
    elements differ.

    ``count`` of ``size`` elements differ; ``elements``: the first of these.  ``largest``: the largest difference.
    """

    path: str
    name: str
    kinds: tuple[str, str]
    count: int = 0
    size: int = 0
    elements: tuple[Element, ...] = ()
    largest: float = 0.0
    limits: Limits | None = None

    def diagnostic(self, what: str, names: tuple[str, str]) -> Diagnostic:
        """The mismatch in words; ``what``: the beginning of the message, ``names``: the names of the two results."""
        if not self.elements:
            return Diagnostic(f"{what}: {self.name} is {self.kinds[0]} in {names[0]} and {self.kinds[1]} in {names[1]}")
        first, *others = (f"at {list(e.index)}: {e.first} in {names[0]}, {e.second} in {names[1]}" for e in self.elements)
        notes = [f"also {text}" for text in others]
        if self.limits is not None:
            notes.append(f"the largest difference is {self.largest:.6g}; allowed: {self.limits}")
        message = f"{what}: {self.name}, {self.kinds[0]}: {self.count} of {self.size} elements, the first {first}"
        # formats with fewer bits differ by roundings, which a mistake may look like
        help = None if self.limits is None else "--rtol and --atol allow more, as a quantised model or halves beside floats need"
        return Diagnostic(message, notes=tuple((note, None) for note in notes), help=help)

    def as_data(self) -> dict[str, Any]:
        """Plain data.  Values are text: JSON has no numbers that are not finite."""
        elements = [{"index": list(e.index), "expected": str(e.first), "got": str(e.second)} for e in self.elements]
        limits = None if self.limits is None else self.limits._asdict()
        counts = {"count": self.count, "size": self.size, "elements": elements, "largest": str(self.largest)}
        return {"path": self.path, "name": self.name, "expected": self.kinds[0], "got": self.kinds[1], **counts, "limits": limits}


def check_agreement(a: Any, b: Any, names: tuple[str, str] = ("A", "B"), tolerance: Tolerance | None = None) -> str:
    """Compare two results and return the tolerances in words.

    Raises ResultsDiffer, which lists every differing output; ``names``: the names of the two sides.
    """
    tolerance = tolerance or Tolerance()
    outputs = leaves(a)
    tolerance.check([path for path, _ in outputs])
    found = list(mismatches(a, b, tolerance))
    if found:
        raise ResultsDiffer([m.diagnostic(f"the results of {names[0]} and {names[1]} differ", names) for m in found])
    return tolerance.text(outputs)


def leaves(value: Any, path: str = "") -> list[tuple[str, np.ndarray]]:
    """The tensors of a (nested) result by their paths, on the host."""
    if not isinstance(value, tuple):
        return [(path, np.asarray(value))]
    return [leaf for i, item in enumerate(value) for leaf in leaves(item, f"{path}.{i}" if path else str(i))]


def mismatches(a: Any, b: Any, tolerance: Tolerance, path: str = "") -> Iterator[Mismatch]:
    """Every differing output of two results."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
            yield Mismatch(path, tolerance.name(path), (_kind(a), _kind(b)))
            return
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from mismatches(x, y, tolerance, f"{path}.{i}" if path else str(i))
        return
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        yield Mismatch(path, tolerance.name(path), (_kind(x), _kind(y)))
        return
    limits = tolerance.limits(path, x.dtype.name)
    unequal = ~_agree(x, y, limits)
    if unequal.any():
        at = [tuple(int(i) for i in index) for index in np.argwhere(unequal)[:SHOWN]]
        elements = tuple(Element(index, x[index], y[index]) for index in at)
        kinds, count = (_kind(x), _kind(y)), int(unequal.sum())
        largest = _largest(x[unequal], y[unequal])
        yield Mismatch(path, tolerance.name(path), kinds, count, x.size, elements, largest, limits)


def _agree(x: np.ndarray, y: np.ndarray, limits: Limits | None) -> np.ndarray:
    """Whether elements agree within the tolerance, element by element."""
    if limits is None:
        return np.asarray(x == y)
    if x.dtype.name in HALF_TOL:
        x, y = x.astype("float32"), y.astype("float32")
    finite = np.abs(x[np.isfinite(x)])
    scale = (float(finite.max()) if finite.size else 0.0) if limits.scaled else 1.0
    return np.asarray(np.isclose(y, x, rtol=limits.rtol, atol=limits.atol * scale, equal_nan=True))


def _largest(x: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.abs(x.astype("float64") - y.astype("float64")).max())


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    array = np.asarray(value)
    return f"{array.dtype.name}{list(array.shape)}"
