"""Batches without padding: the rows of several requests concatenated, and the rows of the results divided again.

The user declares the batch dims of a model.  Each input and each output has a batch dim as its first axis.  No type shows that a
row of the result depends on its own row alone, so a declaration is checked at load: random requests must have the same results
together and apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiler.comparison.result_check import Tolerance, mismatches
from ..compiler.inputs.random_inputs import draw
from ..declarations.frozen_dataclass import frozen
from ..ops.core.tensor_types import TensorType
from ..shape_funcs.symbolic.dim import SYM, Dim, const, name_of
from ..vm.diagnostics import codes
from ..vm.diagnostics.source import RelayError
from .protocol.served_model import ServedModel

#: Rows of the random requests of a check, in turn; the sizes 0 and 1 are among these.
_ROWS = ((1, 2), (3, 0, 1), (5, 1, 4, 2))
#: Sizes of the dims that are no batch dims.
_SIZES = (1, 3, 8)

Run = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


class BatchError(RelayError):
    """A batch dim that the model does not have, or by which its requests cannot be batched."""

    kind = codes.Serve.BATCH


@frozen(eq=False)
class BatchPlan:
    """The batch dim of each input and output of a model, by name; "" for an input with a default that has none.

    Requests of one batch share the values of inputs without a batch dim.
    """

    model: ServedModel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def key(self, arguments: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """The sizes and values that requests of one batch share."""
        return tuple(a.shape[1:] if d else (a.shape, a.tobytes()) for d, a in zip(self.inputs, arguments, strict=True))

    def join(self, requests: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        """The arguments of all requests, concatenated."""
        columns = zip(self.inputs, zip(*requests, strict=True), strict=True)
        return [np.concatenate(values) if d else values[0] for d, values in columns]

    def divide(self, requests: Sequence[Sequence[np.ndarray]], results: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """The results of each request: views of the results of all."""
        rows = [{d: len(a) for d, a in zip(self.inputs, request, strict=True) if d} for request in requests]
        parts: list[list[np.ndarray]] = [[] for _ in requests]
        for d, result in zip(self.outputs, results, strict=True):
            ends = list(itertools.accumulate((each[d] for each in rows), initial=0))
            for part, (begin, end) in zip(parts, itertools.pairwise(ends), strict=True):
                part.append(result[begin:end])
        return parts


def batch_plan(model: ServedModel, dims: Sequence[str]) -> BatchPlan | None:
    """The plan for the declared batch dims; None without any.  Raises BatchError if a tensor has none of them first."""
    if not dims:
        return None

    def first(what: str, name: str, ty: TensorType) -> str:
        found = _name(ty.shape[0]) if ty.rank else None
        if found in dims:
            return str(found)
        if what == "input" and name in model.defaults:
            return ""
        listed = ", ".join(f"?{d}" for d in dims)
        raise BatchError(
            f"the model {model.name} cannot be batched by {listed}: the {what} {name} is {ty}",
            help="the first size of each input and output must be a batch dim",
        )

    return BatchPlan(
        model,
        tuple(first("input", spec.name, spec.type) for spec in model.inputs),
        tuple(first("output", spec.name, spec.type) for spec in model.outputs),
    )


def _name(d: Dim) -> str | None:
    return name_of(d) if d.op == SYM else None


def check_batches(plan: BatchPlan, run: Run) -> None:
    """Run random requests together and apart.  Raises BatchError if the results differ by more than rounding."""
    for seed, (rows, size) in enumerate(zip(_ROWS, _SIZES, strict=True)):
        requests = [_random(plan, n, size, seed * 10 + i) for i, n in enumerate(rows)]
        try:
            apart = [run(request) for request in requests]
            together = plan.divide(requests, run(plan.join(requests)))
        except RelayError as error:
            message = f"the model {plan.model.name} failed on random requests: {error.diagnostics[0].message}"
            raise BatchError(message, help="leave --batch out: a batch dim is checked by such requests") from error
        for n, one, many in zip(rows, apart, together, strict=True):
            _compare(plan, n, one, many)


def _compare(plan: BatchPlan, rows: int, one: Sequence[np.ndarray], many: Sequence[np.ndarray]) -> None:
    for spec, a, b in zip(plan.model.outputs, one, many, strict=True):
        if next(iter(mismatches(a, b, Tolerance())), None) is not None:
            listed = ", ".join(dict.fromkeys(f"?{d}" for d in plan.inputs if d))
            raise BatchError(
                f"the model {plan.model.name} cannot be batched by {listed}: {spec.name} of a request of {rows} rows differs "
                "alone and in a batch",
                help="leave --batch out: a row of its results depends on other rows",
            )


def _random(plan: BatchPlan, rows: int, size: int, seed: int) -> list[np.ndarray]:
    """Random arguments; a dim has one size in all of them."""

    def extent(d: Dim) -> int:
        known = const(d)
        return known if known is not None else rows if _name(d) in plan.inputs else size

    return [
        draw(spec.name, spec.type.dtype, tuple(map(extent, spec.type.shape)), seed) if d else plan.model.defaults[spec.name]
        for d, spec in zip(plan.inputs, plan.model.inputs, strict=True)
    ]
