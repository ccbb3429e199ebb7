"""The worker threads of a model: each has a virtual machine of its own, and all take requests from one queue.

The native loop runs without the interpreter's lock, so workers compute at the same time.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from ..vm.api.machine import VirtualMachine
from ..vm.diagnostics import codes
from ..vm.thread_count import get_num_threads
from .batches import BatchPlan
from .protocol.limits import Limits
from .protocol.refusals import RequestError
from .protocol.served_model import ServedModel

log = logging.getLogger("relayvm.serving")

#: The times that a request is run when its worker ends: a request that ends every worker is refused.
_TRIES = 2


#: The weight of the newest run in the seconds of runs of its size.
_NEWEST = 0.2


class Job:
    """A request in a pool.  ``encode`` makes the answer of its results, in the worker's thread, and ``answer`` receives it."""

    __slots__ = ("answer", "arguments", "encode", "key", "tries")

    def __init__(self, arguments: Sequence[np.ndarray], encode: Callable[[Sequence[np.ndarray]], Any]) -> None:
        self.arguments, self.encode = arguments, encode
        self.answer: Future[Any] = Future()
        self.key: Any = None
        self.tries = 0


class Closed(Exception):
    """The pool takes no more requests: its model was replaced, or the server stops."""


class Pool:
    """A queue of requests and the threads that run them.

    ``observe_batch`` is called with the number of requests of each run, ``observe_waiting`` with changes of the number that wait.
    """

    def __init__(
        self,
        model: ServedModel,
        plan: BatchPlan | None,
        limits: Limits,
        observe_batch: Callable[[int], None] = lambda n: None,
        observe_waiting: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.model, self._plan, self._limits, self._observe = model, plan, limits, observe_batch
        self._observe_waiting = observe_waiting
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._threads: set[threading.Thread] = set()
        count = limits.workers or get_num_threads()
        machines = [self._machine() for _ in range(count)]  # a model that no machine runs is refused here
        is_alone = count == 1 and plan is None and limits.short_ms > 0
        self._here = self._machine() if is_alone else None
        self._seconds: dict[int, float] = {}
        for machine in machines:
            self._start(machine)

    def _machine(self) -> VirtualMachine:
        return VirtualMachine(self.model.exe, memory_limit_bytes=self._limits.memory_bytes)

    # ---- the side of the transports ----------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Put a job into the queue.  Raises RequestError if the queue is full, Closed if the pool is closed."""
        if self._plan is not None:
            job.key = self._plan.key(job.arguments)
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._queue) >= self._limits.queue:
                message = f"the queue of the model {self.model.name} is full: {self._limits.queue} requests"
                raise RequestError(message, help="try again later", code=codes.Serve.BUSY)
            self._queue.append(job)
            self._observe_waiting(1)
            self._changed.notify()

    def withdraw(self, job: Job) -> None:
        """Take a job whose client has gone out of the queue; a job that runs already is finished, and its answer dropped."""
        job.answer.cancel()
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)
                self._observe_waiting(-1)

    def run_here(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The results of a run in the caller's thread; None if the run is a worker's.

        An answer of another thread costs two changes of threads.  So a request runs here if the pool has one worker, for which no
        job waits, and if runs with as many bytes of arguments, to a power of two, have been short.
        """
        if self._here is None or self._queue:
            return None
        if self._seconds.get(_size_class(arguments), math.inf) > self._limits.short_ms / 1000:
            return None
        return self._timed(self._here, arguments)

    @property
    def waiting(self) -> int:
        """The number of requests in the queue."""
        return len(self._queue)

    def close(self) -> None:
        """Finish the jobs in the queue, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        while threads := list(self._threads):
            for thread in threads:
                thread.join()

    # ---- the side of the workers -------------------------------------------------------------------------------------

    def _start(self, machine: VirtualMachine | None) -> None:
        thread = threading.Thread(target=self._work, args=(machine,), name=f"serve {self.model.name}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self, machine: VirtualMachine | None) -> None:
        jobs: list[Job] = []
        try:
            machine = machine or self._machine()
            while self._next(jobs):
                self._run(machine, jobs)
                jobs.clear()
            machine.close()
        except BaseException as error:  # a worker that ends is replaced, whatever ended it
            log.error("a worker of the model %s ended and is replaced", self.model.name, exc_info=error)
            self._give_back(jobs)
            self._start(None)
        finally:
            self._threads.discard(threading.current_thread())

    def _next(self, jobs: list[Job]) -> bool:
        """Move the jobs of the next run to ``jobs``: the oldest, and those that fit into its batch.  False: there are no more.

        A job is always in ``jobs`` or in the queue, whenever the worker may end.
        """
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            if not self._queue:
                return False
            jobs.append(self._queue[0])
            if self._plan is not None:
                alike = (job for job in self._queue if job.key == jobs[0].key and job is not jobs[0])
                jobs += itertools.islice(alike, self._limits.batch_requests - 1)
            for job in jobs:
                self._queue.remove(job)
            self._observe_waiting(-len(jobs))
            return True

    def _run(self, machine: VirtualMachine, jobs: list[Job]) -> None:
        jobs[:] = [job for job in jobs if job.answer.running() or job.answer.set_running_or_notify_cancel()]
        if not jobs:
            return
        self._observe(len(jobs))
        try:
            if len(jobs) == 1 or self._plan is None:
                results = [self._timed(machine, jobs[0].arguments)]
            else:
                requests = [job.arguments for job in jobs]
                results = self._plan.divide(requests, arrays(machine, self._plan.join(requests)))
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].answer.set_exception(error)
                return
            for job in list(jobs):  # one request's failure is not the others'
                self._run(machine, [job])
            return
        for job, result in zip(jobs, results, strict=True):
            try:
                job.answer.set_result(job.encode(result))
            except Exception as error:
                job.answer.set_exception(error)

    def _timed(self, machine: VirtualMachine, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of a run, whose seconds are noted if runs in the caller's thread are possible."""
        began = time.perf_counter()
        results = arrays(machine, arguments)
        if self._here is not None:
            seconds, size = time.perf_counter() - began, _size_class(arguments)
            before = self._seconds.get(size, seconds)
            self._seconds[size] = before + _NEWEST * (seconds - before)
        return results

    def _give_back(self, jobs: list[Job]) -> None:
        """Return the jobs of a worker that has ended to the front of the queue."""
        with self._changed:
            for job in reversed([job for job in jobs if not job.answer.done() and job not in self._queue]):
                job.tries += 1
                if job.tries < _TRIES:
                    self._queue.appendleft(job)
                    self._observe_waiting(1)
                else:
                    message = "the workers that ran the request ended"
                    job.answer.set_exception(RequestError(message, code=codes.Process.INTERNAL))
            self._changed.notify_all()


def _size_class(arguments: Sequence[np.ndarray]) -> int:
    return sum([a.nbytes for a in arguments]).bit_length()


def arrays(machine: VirtualMachine, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The tensors of a run's result, in order, on the host."""
    return list(_leaves(machine.run(*arguments)))


def _leaves(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value if type(value) is np.ndarray else value.numpy()
