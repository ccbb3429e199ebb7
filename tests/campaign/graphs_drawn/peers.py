"""The evaluators of ONNX that a graph is compared with: onnxruntime, and ONNX's reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from .drawing import UNTRUSTED, quietly, session

#: Errors of floats by dtype: roundings of some operators, one after the other.
TOLERANCE = {"float16": 3e-2, "float32": 1e-3, "float64": 1e-5}

#: Operators of which the results of onnxruntime count only beside those of the reference, and the reasons.
NOT_ALONE = {
    "AveragePool": "a window longer than the data has a result: the quotient is rounded towards 0, not down",
    "Clip": "a bound that is missing is the largest finite number; the reference leaves infinities as they are",
    "Compress": "a condition longer than the axis, which the standard forbids, is cut off",
    "LpPool": "as AveragePool",
    "MaxPool": "as AveragePool",
    "ReduceMean": "the mean of nothing is 0; the standard does not define it",
}
#: Operators that onnxruntime is not asked for, and the reasons.
NOT_ASKED = {"ReverseSequence": "data of one axis, which a shape at run time may have, end the process"}


@dataclass(frozen=True)
class Refusal:
    """An evaluator that does not take a model or its inputs."""

    why: str

    @property
    def is_missing(self) -> bool:
        """Whether only an implementation is missing."""
        return "NOT_IMPLEMENTED" in self.why or "the reference is wrong" in self.why


Outcome = list[np.ndarray] | Refusal


class Peers:
    """Both evaluators with one model."""

    def __init__(self, data: bytes) -> None:
        self.model = onnx.load_from_string(data)
        found = operators(self.model.graph)
        unasked = found & set(NOT_ASKED)
        self._session = Refusal(f"not asked for {', '.join(sorted(unasked))}") if unasked else _session(data)
        self._is_untrusted = bool(found & set(UNTRUSTED))
        #: Whether the results of onnxruntime count without those of the reference.
        self.counts_alone = not found & set(NOT_ALONE)

    def reference(self, inputs: dict[str, np.ndarray]) -> Outcome:
        """The results of ONNX's reference, for operators whose reference is right."""
        if self._is_untrusted:
            return Refusal("an operator of which the reference is wrong")
        try:
            return [np.asarray(x) for x in quietly(self.model, inputs)]
        except Exception as error:  # the reference raises whatever numpy raises
            return Refusal(f"{type(error).__name__}: {error}")

    def onnxruntime(self, inputs: dict[str, np.ndarray]) -> Outcome:
        """The results of onnxruntime."""
        if isinstance(self._session, Refusal):
            return self._session
        try:
            return [np.asarray(x) for x in self._session.run(None, inputs)]
        except Exception as error:  # onnxruntime's errors are classes of its extension module
            return Refusal(str(error))


def operators(graph: onnx.GraphProto) -> set[str]:
    """The operators of a graph and of the graphs in it."""
    inner = (a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
    return {node.op_type for node in graph.node}.union(*map(operators, inner))


def _session(data: bytes) -> Any:
    try:
        return session(data)
    except Exception as error:  # see above
        return Refusal(str(error))


def difference(wanted: list[np.ndarray], found: list[np.ndarray]) -> str | None:
    """The first difference of results; floats may differ by rounding."""
    if len(wanted) != len(found):
        return f"{len(found)} results for {len(wanted)}"
    for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: {b.dtype.name}{list(b.shape)} for {a.dtype.name}{list(a.shape)}"
        if not _equal(a, b):
            return f"result {k}: {b.reshape(-1)[:8].tolist()} for {a.reshape(-1)[:8].tolist()} ({a.dtype.name}{list(a.shape)})"
    return None


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    error = TOLERANCE[a.dtype.name]
    x, y = a.astype("float64"), b.astype("float64")
    with np.errstate(all="ignore"):
        size = float(np.abs(x[np.isfinite(x)]).max(initial=1.0))  # of sums that cancel each other
        return bool(np.allclose(y, x, rtol=error, atol=error * min(size, 100.0), equal_nan=True))
