"""The cores of a worker: without the core of the thread that it works for, as others allow."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from relayvm.ops.native.threads.worker_cores import HAS_MASKS, STATE_BYTES, leave_core

pytestmark = pytest.mark.skipif(not HAS_MASKS, reason="threads have no masks of cores on this system")


def in_a_thread(run: Callable[[int, list[int]], object]) -> None:
    """Run a function in a thread of its own, with the address of a new state and the cores of this process."""
    failures: list[BaseException] = []

    def body() -> None:
        state = np.zeros(STATE_BYTES, np.uint8)
        try:
            run(state.ctypes.data, sorted(os.sched_getaffinity(0)))
        except BaseException as failure:  # a thread loses what it raises
            failures.append(failure)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_a_worker_leaves_the_last_core_only() -> None:
    def run(state: int, cores: list[int]) -> None:
        for core in (cores[0], cores[-1], cores[0]):
            leave_core(state, core)
            assert os.sched_getaffinity(0) == set(cores) - ({core} if len(cores) > 1 else set())

    in_a_thread(run)


def test_a_worker_keeps_its_only_core() -> None:
    def run(state: int, cores: list[int]) -> None:
        os.sched_setaffinity(0, {cores[0]})
        for core in (cores[0], cores[-1], 8 * STATE_BYTES):
            leave_core(state, core)
            assert os.sched_getaffinity(0) == {cores[0]}

    in_a_thread(run)


def test_a_mask_from_outside_stays() -> None:
    def run(state: int, cores: list[int]) -> None:
        leave_core(state, cores[0])
        os.sched_setaffinity(0, {cores[0]})
        leave_core(state, cores[0])
        leave_core(state, cores[-1])
        assert os.sched_getaffinity(0) == {cores[0]}

    in_a_thread(run)
