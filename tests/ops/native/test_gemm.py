"""MatrixAt products in blocks: the blocks, and the number of threads of the BLAS during and after a product."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from relayvm.ops.native.blas import blas_threads, gemm
from relayvm.ops.native.blas.blas_call import MatrixAt, Product
from relayvm.ops.native.blas.gemm import ALONE_WORK, MOST, SHORTEST, BatchSteps, call_gemms
from relayvm.ops.native.blas.library_calls import blas
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.threads import team as threads

COUNTS = (1, 7, 3, 2)
_BLAS = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)


class Spy:
    """A BLAS of float32 that notes its calls, and a GEMM record for it."""

    def __init__(self) -> None:
        self.threads, self.calls, self.told = 4, list[tuple[int, int, int, int]](), list[int]()
        self.get = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: self.threads)
        self.set = ctypes.CFUNCTYPE(None, ctypes.c_int)(self._set)
        self.blas = _BLAS(self._multiply)
        get, set_, address = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (self.get, self.set, self.blas))
        self.scope = blas_threads.scope_of((get, set_))
        self.record = gemm.gemm_of(address, self.scope)
        self.users = blas_threads._scopes[get, set_]["users"]

    def _set(self, n: int) -> None:
        self.threads = n
        self.told.append(n)

    def _multiply(self, *words: int) -> None:
        m, n, _ = (ctypes.c_int64.from_address(w).value for w in words[2:5])
        self.calls.append((m, n, words[11], threading.get_native_id()))
        assert self.threads == 1 or m * n * ctypes.c_int64.from_address(words[4]).value <= ALONE_WORK
        _BLAS(blas().addresses["sgemm"])(*words)


@pytest.fixture
def spy() -> Iterator[Spy]:
    made = Spy()
    threads.set_patience(0)
    threads.load_workers()
    yield made
    threads.set_patience()
    threads.set_threads(1)


def product(record: int, a: np.ndarray, b: np.ndarray, transpose_b: bool = False) -> np.ndarray:
    """``a[i] @ b[i]``, row-major, for each i."""
    count, m, k = a.shape
    n = b.shape[1 if transpose_b else 2]
    out = np.full((count, m, n), 77, "float32")
    first = MatrixAt(b.ctypes.data, k if transpose_b else n, int(transpose_b))
    matrices = first, MatrixAt(a.ctypes.data, k, 0), MatrixAt(out.ctypes.data, n, 0)
    call_gemms(record, Product(4, n, m, k, *matrices), BatchSteps(count, b[0].nbytes, a[0].nbytes, out[0].nbytes))
    return out


def whole_numbers(*shape: int) -> np.ndarray:
    """Arrays of whole numbers whose sums of products are exact in any order."""
    return np.random.default_rng(shape[-1]).integers(-9, 10, shape).astype("float32")


#: How many products, and their sizes m, n, k.
SIZES = [
    (1, 3, 5, 7), (1, 1, 3000, 2000), (1, 32, 768, 768), (1, 700, 40, 900), (1, 515, 1030, 300),
    (9, 70, 64, 130), (2, 300, 300, 300),
]  # fmt: skip


@pytest.mark.parametrize(("count", "m", "n", "k"), SIZES)
def test_blocks_are_all_of_the_result_and_do_not_depend_on_threads(spy: Spy, count: int, m: int, n: int, k: int) -> None:
    a, b = whole_numbers(count, m, k), whole_numbers(count, n, k)
    blocks = set()
    for number in COUNTS:
        threads.set_threads(number)
        spy.calls.clear()
        np.testing.assert_array_equal(product(spy.record, a, b, transpose_b=True), a @ b.swapaxes(1, 2))
        first = min(at for _, _, at, _ in spy.calls)
        blocks.add(tuple(sorted((m_, n_, at - first) for m_, n_, at, _ in spy.calls)))
        assert number > 1 or {thread for *_, thread in spy.calls} == {threading.get_native_id()}
        assert len({thread for *_, thread in spy.calls}) <= number
    (cut,) = blocks
    assert sum(m_ * n_ for m_, n_, _ in cut) == count * m * n
    assert len(cut) == count or sorted(max(m_, n_) for m_, n_, _ in cut)[count] >= SHORTEST  # the last one of each may be shorter
    assert len(cut) <= count * 2 * MOST and (len(cut) > count) == (m * n * k > 8_000_000)


def test_real_numbers_give_the_same_bits() -> None:
    threads.load_workers()
    rng = np.random.default_rng(0)
    record = gemm.gemm_of(blas().addresses["sgemm"], blas_threads.scope_of(blas().threads))
    for count, m, n, k in [(1, 129, 769, 513), (1, 1030, 77, 600), (5, 100, 90, 80), (3, 333, 257, 190)]:
        a, b = (rng.standard_normal((count, *s)).astype("float32") for s in ((m, k), (k, n)))
        found = set()
        for number in COUNTS:
            threads.set_threads(number)
            found.add(product(record, a, b).tobytes())
        threads.set_threads(1)
        assert len(found) == 1


def test_the_blas_has_one_thread_meanwhile_and_its_own_number_afterwards(spy: Spy) -> None:
    a = whole_numbers(1, 200, 200)
    product(spy.record, a, a)
    assert spy.told == [1, 4] and spy.threads == 4 and not spy.users[0]
    little = whole_numbers(1, 20, 20)
    product(spy.record, little, little)
    assert spy.told == [1, 4]  # it would use one anyway
    spy.threads = 1
    product(spy.record, a, a)
    assert spy.told == [1, 4]


def test_who_sets_the_number_meanwhile_has_the_last_word(spy: Spy) -> None:
    enter, leave = compiled()
    enter(spy.scope)
    spy.threads = 3
    leave(spy.scope)
    assert spy.threads == 3 and spy.told == [1]


def test_kernels_in_several_threads_restore_it_once(spy: Spy) -> None:
    a = whole_numbers(1, 60, 60)

    def work() -> None:
        for _ in range(100):
            product(spy.record, a, a)

    at_once = [threading.Thread(target=work) for _ in range(4)]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()
    assert spy.threads == 4 and not spy.users[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_has_the_number_that_was_before(spy: Spy) -> None:
    enter, leave = compiled()
    enter(spy.scope)
    child = os.fork()
    if child == 0:
        os._exit(0 if spy.threads == 4 and not spy.users[0] else 1)
    leave(spy.scope)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def compiled() -> tuple[Any, Any]:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64)
    return tuple(prototype(kernel_store.address_of(f, "void(int64)")) for f in (blas_threads.enter, blas_threads.leave))  # type: ignore[return-value]


def test_a_blas_whose_threads_nobody_can_set() -> None:
    record = gemm.gemm_of(blas().addresses["sgemm"], blas_threads.scope_of(None))
    a = whole_numbers(1, 200, 200)
    np.testing.assert_array_equal(product(record, a, a), a @ a)


# ---- waits -------------------------------------------------------------------------------------------------------------------


def _block_after_a_wait(seconds: float, owed: int, patience: int) -> np.ndarray:
    """A TEAM record whose caller has waited in vain so long for a worker; ``owed``: ns owed before."""
    block = np.zeros(1, threads.TEAM)
    team = block[0]
    for name, at in (("pthread_mutex_init", threads._MUTEX), ("pthread_cond_init", threads._FINISHED)):
        threads.by_name(name, 2)(block.ctypes.data + at, 0)
    team["threads"], team["workers"], team["patience"], team["end"], team["done"] = 2, 1, patience, 2, 1
    address, late = block.ctypes.data, threading.Event()

    def worker() -> None:
        late.wait()
        threads.lock(address + threads._MUTEX)
        team["done"] = 2
        threads.wake(address + threads._FINISHED)
        threads.unlock(address + threads._MUTEX)

    helper = threading.Thread(target=worker)
    helper.start()
    team["owed_until"] = threads.clock_ns() + owed
    threads.lock(address + threads._MUTEX)
    threading.Timer(seconds, late.set).start()
    threads.wait_for_parts(address, threads.clock_ns() + 10**9)  # as if no work had been before it
    threads.unlock(address + threads._MUTEX)
    helper.join()
    return block


def test_after_waits_in_vain_kernels_run_alone_for_a_while() -> None:
    patience, before = 10**6, threads.clock_ns()
    forgiven = patience * threads.FORGIVEN_NS
    block = _block_after_a_wait(0.01, forgiven, patience)
    team, address = block[0], block.ctypes.data
    assert team["owed_until"] >= before + forgiven + patience * threads.LATE_NS
    assert not threads.publish_work(address, 0, 0, 0, 2) and team["splits"] == 0
    team["owed_until"] = threads.clock_ns() + forgiven // 2
    assert threads.publish_work(address, 0, 0, 0, 2) and team["splits"] == 1
    threads.unlock(address + threads._MUTEX)


def test_a_single_wait_changes_nothing() -> None:
    block = _block_after_a_wait(4 * threads.FORGIVEN_NS / 1e9, 0, threads.PATIENCE)
    team, address = block[0], block.ctypes.data
    assert threads.clock_ns() < team["owed_until"] <= threads.clock_ns() + threads.PATIENCE * threads.FORGIVEN_NS
    assert threads.publish_work(address, 0, 0, 0, 2)
    threads.unlock(address + threads._MUTEX)
