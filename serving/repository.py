"""The models of a server by name and version, and the replacement of models whose files change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import numpy as np

from ..vm.api.machine import VirtualMachine
from ..vm.diagnostics import codes
from ..vm.diagnostics.source import FileError, RelayError
from .batches import BatchPlan, batch_plan, check_batches
from .buffers import Buffers
from .metrics import Metrics
from .pool import Closed, Job, Pool, arrays
from .protocol.limits import Limits
from .protocol.refusals import RequestError
from .protocol.served_model import ServedModel
from .sources import Source

log = logging.getLogger("relayvm.serving")


class Repository:
    """The served models.  Lookups and submissions are safe in any thread."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.metrics = limits.checked(), Metrics()
        self.pending, self.buffers = Pending(limits.pending_bytes), Buffers()
        self.stopping = False
        self._pools: dict[str, dict[str, Pool]] = {}
        self._sources: dict[Source, object] = {}
        self._retired: list[threading.Thread] = []

    @staticmethod
    def load(sources: Sequence[Source], limits: Limits) -> Repository:
        """A repository of these models.  Raises RelayError for a model that cannot be loaded or served."""
        found = Repository(limits)
        for source in sources:
            stamp = source.stamp()
            found._put(found._pool(source))
            found._sources[source] = stamp
        return found

    def _pool(self, source: Source) -> Pool:
        model = source.load()
        plan = _checked_plan(model, source, self.limits)
        labels = model.name, model.version
        waiting = self.metrics.waiting.labels(*labels).inc
        if plan is None:
            return Pool(model, plan, self.limits, observe_waiting=waiting)
        return Pool(model, plan, self.limits, self.metrics.batches.labels(*labels).observe, waiting)

    def _put(self, pool: Pool) -> None:
        versions = dict(self._pools.get(pool.model.name, {}))
        old, versions[pool.model.version] = versions.get(pool.model.version), pool
        self._pools[pool.model.name] = dict(sorted(versions.items(), key=lambda item: int(item[0])))
        if old is not None:
            thread = threading.Thread(target=old.close, name=f"close {pool.model.name}", daemon=True)
            self._retired = [t for t in self._retired if t.is_alive()] + [thread]
            thread.start()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def versions(self, name: str) -> list[str]:
        """The versions of a model, in order.  Raises RequestError for an unknown name."""
        if name not in self._pools:
            raise RequestError(f"there is no model {name[:200]!r}", code=codes.Serve.MODEL)
        return list(self._pools[name])

    def pool(self, name: str, version: str = "") -> Pool:
        """The pool of a model; without a version that of the latest.  Raises RequestError if there is none."""
        versions = self.versions(name)
        if version and version not in versions:
            message = f"the model {name} has no version {version[:200]!r}"
            raise RequestError(message, help=f"its versions: {', '.join(versions)}", code=codes.Serve.MODEL)
        return self._pools[name][version or versions[-1]]

    def run_here(self, model: ServedModel, arguments: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The results of a run in this thread; None unless the model says that the run is short."""
        pool = self._pools[model.name].get(model.version)
        if pool is None or pool.model is not model or self.stopping:
            return None
        return pool.run_here(arguments)

    def submit(self, model: ServedModel, job: Job) -> Pool:
        """Queue a job for the model that decoded it, or for the model that has replaced it; the pool that has the job."""
        while not self.stopping:
            pool = self.pool(model.name, model.version)
            if pool.model is not model and pool.model.inputs != model.inputs:
                message = f"the model {model.name} was replaced by one with other inputs while the request was read"
                raise RequestError(message, help="send the request again", code=codes.Serve.STOPPING)
            try:
                pool.submit(job)
            except Closed:
                continue  # replaced in between
            return pool
        raise RequestError("the server stops", code=codes.Serve.STOPPING)

    # ---- the models' files -------------------------------------------------------------------------------------------

    def reload_changed(self) -> None:
        """Load the models whose files have changed.  A file that cannot be loaded leaves its model as it is."""
        for source, before in list(self._sources.items()):
            try:
                stamp = source.stamp()
            except FileError:
                continue  # between the removal of the old file and the arrival of the new
            if stamp == before:
                continue
            self._sources[source] = stamp
            try:
                self._put(self._pool(source))
            except RelayError as error:
                result = "refused"
                log.error("%s was replaced and cannot be loaded; the model %s stays\n%s", source.path, source.name, error)
            else:
                result = "loaded"
                log.info("%s was replaced; the model %s is loaded anew", source.path, source.name)
            self.metrics.reloads.labels(source.name, source.version, result).inc()

    def close(self) -> None:
        """Finish all queued requests, then end all workers."""
        self.stopping = True
        for versions in self._pools.values():
            for pool in versions.values():
                pool.close()
        for thread in self._retired:
            thread.join()


def _checked_plan(model: ServedModel, source: Source, limits: Limits) -> BatchPlan | None:
    plan = batch_plan(model, source.batch)
    if plan is not None:
        with VirtualMachine(model.exe, memory_limit_bytes=limits.memory_bytes) as machine:
            check_batches(plan, lambda arguments: [array.copy() for array in arrays(machine, arguments)])
    return plan


class Pending:
    """The bytes of all requests between their first byte and their answer."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes, self._lock = most, 0, threading.Lock()

    def take(self, nbytes: int) -> None:
        """Count a request's bytes.  Raises RequestError beyond the limit."""
        with self._lock:
            if self._bytes + nbytes > self._most:
                message = f"the requests that are read, queued or run have {self._bytes} of at most {self._most} bytes"
                raise RequestError(message, help="try again later", code=codes.Serve.BUSY)
            self._bytes += nbytes

    def give(self, nbytes: int) -> None:
        """Uncount a request's bytes."""
        with self._lock:
            self._bytes -= nbytes
