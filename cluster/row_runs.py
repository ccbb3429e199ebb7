"""Runs of a model on the rows of a table: a run for each row, or one for all rows of equal sizes, without padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..declarations.frozen_dataclass import frozen
from ..ops.core.similar_names import did_you_mean
from ..ops.core.tensor_types import TensorType, numpy_dtype
from ..serving.batches import BatchPlan
from ..serving.protocol.served_model import ServedModel, TensorSpec
from ..shape_funcs.symbolic.dim import const
from ..vm.diagnostics import codes
from ..vm.diagnostics.source import ConfigError, InputError, RelayError

Table = Mapping[str, np.ndarray]
Run = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


@frozen
class Columns:
    """The columns of inputs and results that have other names than these, and the columns that stay; None: all but inputs."""

    inputs: Mapping[str, str]
    results: Mapping[str, str]
    keep: tuple[str, ...] | None


class RowRuns:
    """Runs of one model.  A column of tensors whose sizes differ is an array of arrays, as Ray Data has it."""

    def __init__(self, model: ServedModel, plan: BatchPlan | None, columns: Columns) -> None:
        """Raises ConfigError for names that the model does not have, and for two values of one column."""
        self._model, self._plan, self._keep = model, plan, columns.keep
        self._inputs = _columns_of("columns", "input", model.inputs, columns.inputs)
        values = [model.defaults.get(spec.name) for spec in model.inputs]
        #: The values of inputs that rows may lack, by column.
        self._defaults = {column: v for column, v in zip(self._inputs, values, strict=True) if v is not None}
        self._results = _columns_of("results", "result", model.outputs, columns.results)
        repeated = [n for i, n in enumerate(self._results) if n in (*self._results[:i], *(columns.keep or ()))]
        if repeated:
            message = f"predictor: the column {repeated[0]!r} would have two values"
            raise ConfigError(message, help="name the columns of results: results={...}", code=codes.Config.VALUE)

    def __call__(self, table: Table, run: Run) -> dict[str, np.ndarray]:
        """The kept columns and the results.  Raises InputError for missing columns, and for a row that the model refuses."""
        kept = self._kept(table)
        given = [table[column] for column in self._inputs if column in table]
        count = len(next(iter(given or table.values()), ()))
        columns = [table[column] if column in table else [self._defaults[column]] * count for column in self._inputs]
        requests = [[np.asarray(column[i]) for column in columns] for i in range(count)]
        if self._plan is None:  # copies: the machine uses its memory again
            results = [[np.array(result) for result in _run_of_row(i, request, run)] for i, request in enumerate(requests)]
        else:
            results = self._joined(self._plan, requests, run)
        made = {
            column: _column(spec.type, [row[k] for row in results], self._plan is not None)
            for k, (column, spec) in enumerate(zip(self._results, self._model.outputs, strict=True))
        }
        return kept | made

    def _kept(self, table: Table) -> dict[str, np.ndarray]:
        for column in (*self._inputs, *(self._keep or ())):
            if column not in table and column not in self._defaults:
                raise InputError(
                    f"the rows have no column {column!r}{did_you_mean(column, list(table))}",
                    help=f"their columns: {', '.join(table)}; name the columns of inputs: columns={{...}}",
                    code=codes.Input.ARGUMENTS,
                )
        keep = [name for name in table if name not in self._inputs] if self._keep is None else self._keep
        for column in keep:
            if column in self._results:
                raise InputError(
                    f"the rows have a column {column!r}, which is also the column of a result",
                    help="name the columns of results: results={...}, or leave the column out: keep=[...]",
                )
        return {name: table[name] for name in keep}

    # ---- runs ---------------------------------------------------------------------------------------------------------

    def _joined(self, plan: BatchPlan, rows: Sequence[Sequence[np.ndarray]], run: Run) -> list[list[np.ndarray]]:
        """The results of one run for all rows whose dtypes and sizes other than batch dims are equal."""
        single = [self._is_single(plan, row) for row in rows]
        requests = [
            [a[None] if d else a for d, a in zip(plan.inputs, row, strict=True)] if alone else row
            for row, alone in zip(rows, single, strict=True)
        ]
        groups: dict[Any, list[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault((plan.key(request), *(a.dtype for a in request)), []).append(i)
        results: list[list[np.ndarray]] = [[] for _ in rows]
        for members in groups.values():
            together = [requests[i] for i in members]
            try:
                parts = plan.divide(together, run(plan.join(together)))
            except (RelayError, ValueError):  # ValueError: numbers and tensors of several ranks, which numpy cannot join
                parts = [_run_of_row(i, requests[i], run) for i in members]
            for i, part in zip(members, parts, strict=True):
                results[i] = [np.array(a[0] if single[i] else a) for a in part]
        return results

    def _is_single(self, plan: BatchPlan, row: Sequence[np.ndarray]) -> bool:
        """Whether the tensors of a row lack the batch axis."""
        tensors = zip(plan.inputs, row, self._model.inputs, strict=True)
        return bool(row) and all(a.ndim == spec.type.rank - 1 for d, a, spec in tensors if d)


def _run_of_row(row: int, request: Sequence[np.ndarray], run: Run) -> list[np.ndarray]:
    try:
        return run(request)
    except RelayError as error:
        first = error.diagnostics[0]
        raise InputError(f"row {row} of the batch: {first.message}", help=first.help, code=first.code) from error


def _columns_of(option: str, what: str, specs: Sequence[TensorSpec], named: Mapping[str, str]) -> list[str]:
    names = [spec.name for spec in specs]
    for name in named:
        if name not in names:
            raise ConfigError(
                f"predictor: {option} names {name!r}, no {what} of the model{did_you_mean(name, names)}",
                help=f"its {what}s: {', '.join(names)}",
                code=codes.Config.VALUE,
            )
    return [named.get(name, name) for name in names]


def _column(ty: TensorType, values: Sequence[np.ndarray], has_batch_axis: bool) -> np.ndarray:
    """The column of a result.  Its form depends on the type alone, so that all parts of a table have the same: an array of arrays
    if a size is unknown, apart from the batch dim of rows that lack it.
    """
    ranks = {value.ndim for value in values}
    of_rows = has_batch_axis and ranks == {ty.rank - 1}
    sizes = ty.shape[1:] if of_rows else ty.shape
    if all(const(d) is not None for d in sizes):
        shape = tuple(const(d) or 0 for d in sizes)
        return np.stack(values) if values else np.empty((0, *shape), numpy_dtype(ty.dtype))
    column = np.empty(len(values), object)
    column[:] = [None] * len(values)
    for i, value in enumerate(values):
        column[i] = value
    return column
