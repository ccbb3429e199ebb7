"""The actors of Ray Data: each has a virtual machine, over an executable that its node fetches once."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..declarations.frozen_dataclass import frozen
from ..serving.batches import batch_plan, check_batches
from ..serving.pool import arrays
from ..serving.protocol.served_model import ServedModel
from ..vm.api.machine import VirtualMachine
from ..vm.thread_count import set_num_threads
from .installed import ray
from .row_runs import Columns, RowRuns, Table
from .shipped_model import compiled, packed, unpacked
from .turns import turn


@frozen(eq=False)
class Work:
    """The work of each actor.  ``contents``: Ray's reference to the bytes of the executable."""

    name: str
    contents: Any
    batch: tuple[str, ...]
    columns: Columns
    threads: int | None


class Predictor:
    """The base of classes that ``predictor`` makes; ``work`` is set by the class."""

    work: ClassVar[Work]

    def __init__(self) -> None:
        set_num_threads(self.work.threads or _cpus())
        model = unpacked(self.work.name, ray().get(self.work.contents))
        with turn():
            self.machine = _opened(model, self.work.batch if model.exe.target != _HOST else ())
        self._runs = RowRuns(model, batch_plan(model, self.work.batch), self.work.columns)
        self._run = functools.partial(arrays, self.machine)

    def __call__(self, batch: Table) -> dict[str, np.ndarray]:
        """The rows of a batch with their results."""
        return self._runs(batch, self._run)


#: The device that the driver has too: it checks batch dims itself, before any actor starts.
_HOST = "cpu"


def actor_class(
    model: Any,
    device: str | None,
    config: Mapping[str, str] | None,
    params: str | os.PathLike[str] | None,
    batch: tuple[str, ...],
    columns: Columns,
    threads: int | None,
) -> type:
    """The class of ``relayvm.ray.predictor``, whose arguments and errors these are."""
    cluster = ray()
    found = compiled(model, device, config, params)
    RowRuns(found, batch_plan(found, batch), columns)  # names are checked before anything runs
    if batch and found.exe.target == _HOST:
        with turn():
            _opened(found, batch).close()
    work = Work(found.name, cluster.put(packed(found)), batch, columns, threads)
    return type(f"Predictor_{found.name}", (Predictor,), {"work": work, "__module__": __name__})


def _opened(model: ServedModel, checked: tuple[str, ...]) -> VirtualMachine:
    """A machine for the model, whose declared batch dims are checked by random requests."""
    machine = VirtualMachine(model.exe)
    plan = batch_plan(model, checked)
    if plan is not None:
        check_batches(plan, lambda arguments: [array.copy() for array in arrays(machine, arguments)])
    return machine


def _cpus() -> int:
    """The CPUs that Ray gave to this actor, at least 1."""
    given = ray().get_runtime_context().get_assigned_resources().get("CPU", 1)
    return max(1, int(given))
