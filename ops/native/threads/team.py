"""Kernels in several threads: the thread team of this process, as machine code.

A kernel that has enough work asks for threads instead of running.  It is then called once for each part of the work, by the
asking thread and by workers.  Each thread takes the parts of a stretch of its own in order, then parts of the others' stretches.
Parts share no result, and each element is computed as in a single thread, so results do not depend on the number of threads.

All shared data is in one TEAM record under one mutex.  Workers are started when first needed, sleep on a condition variable and
take no signals; they never end.  There is one team: a kernel that finds it busy runs in its own thread only.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from ..c_functions import by_name, call_5
from ..memory import alloc, call_kernel, clock_ns, copy_bytes, fill_bytes, free, native, pause, record, store_i64
from ..object_layout import NO_LIMIT, SHARE
from ..status import OUT_OF_MEMORY
from .work_partition import MOST_STRETCHES, PARTS_PER_THREAD, WAKING, WORTH_A_THREAD, share_at
from .worker_cores import HAS_MASKS, STATE_BYTES, current_core, leave_core

_WORD = np.int64
#: Space for a mutex, a condition variable and a signal set of any C library.
_MUTEX_WORDS, _CONDITION_WORDS, _SIGNALS_BYTES = 8, 8, 128

TEAM = np.dtype(
    [
        # the SHARE of a single thread; its limit is the work that is worth a thread: less while a worker is awake
        ("part", _WORD),
        ("parts", _WORD),
        ("limit", _WORD),
        ("stretches", _WORD),
        ("own", _WORD),
        ("threads", _WORD),  # maximum number of threads, the asking one included
        # addresses of the machine code of ``divide`` and ``worker``; 0: not compiled yet, and no kernel gets threads
        ("divide", _WORD),
        ("worker", _WORD),
        ("workers", _WORD),  # number of workers started, and of those that have begun
        ("started", _WORD),
        ("awake", _WORD),  # number of workers that do not sleep
        ("limit_awake", _WORD),
        ("limit_asleep", _WORD),
        ("busy", _WORD),
        # the current work
        ("function", _WORD),
        ("argv", _WORD),
        ("n", _WORD),
        ("end", _WORD),  # number of parts
        ("taken", _WORD),  # parts taken so far
        ("done", _WORD),
        ("helpers", _WORD),  # workers on the current work, and their maximum
        ("most_helpers", _WORD),
        ("core", _WORD),  # of the thread that published the work
        ("failed", _WORD),  # parts that returned a status
        ("splits", _WORD),  # kernels run in parts so far
        # of each stretch: the first part that is not taken, and the end (exclusive) of those
        ("first", _WORD, (MOST_STRETCHES,)),
        ("last", _WORD, (MOST_STRETCHES,)),
        ("owed_until", _WORD),  # ns: the time at which the waits in vain so far are made up for
        ("patience", _WORD),
        ("mutex", _WORD, (_MUTEX_WORDS,)),
        ("work", _WORD, (_CONDITION_WORDS,)),  # condition: there are parts to take
        ("finished", _WORD, (_CONDITION_WORDS,)),  # condition: the last part is done
    ]
)
assert TEAM.fields is not None and list(TEAM.names or ())[: len(SHARE.names or ())] == list(SHARE.names or ())
_MUTEX, _WORK, _FINISHED = (TEAM.fields[name][1] for name in ("mutex", "work", "finished"))
_SHARE_BYTES = SHARE.itemsize
team_at = record(TEAM)

#: Spinning time in ns of a worker without work, or of a thread that waits for one, before it sleeps: waking a thread takes 5 to
#: 50 us.  No thread yields instead: beside a busy process, a thread that yields gets its core back after milliseconds.
SPIN_NS = 50_000
#: A wait for the last parts is in vain if it is longer than this and than the work before it: another process has the core.
LATE_NS = 200_000
#: Waits in vain may take a twentieth of the time: each one is made up for after so many times its length.
PATIENCE = 20
#: ns of waits in vain that are not yet made up for, beyond which kernels run in one thread, and the most that is made up for of
#: one wait.  So a single wait, in which the system runs something else, changes nothing; a busy process soon makes more of them.
FORGIVEN_NS = 10_000_000
_SET_MASK = int(signal.SIG_SETMASK)

sleep_for_lock, unlock = by_name("pthread_mutex_lock", 1), by_name("pthread_mutex_unlock", 1)
try_lock = by_name("pthread_mutex_trylock", 1)
wait, wake = by_name("pthread_cond_wait", 2), by_name("pthread_cond_signal", 1)
create_thread, set_signal_mask = by_name("pthread_create", 4), by_name("pthread_sigmask", 3)


@native
def lock(mutex: int) -> None:
    """Lock a mutex, which threads hold for less time than a sleep takes: try for SPIN_NS before sleeping."""
    if try_lock(mutex) & 0xFFFFFFFF != 0:
        until = clock_ns() + SPIN_NS
        while try_lock(mutex) & 0xFFFFFFFF != 0:
            if clock_ns() >= until:
                sleep_for_lock(mutex)
                return
            pause()


# ---- requests for threads ----------------------------------------------------------------------------------------------


@native
def run_kernel(team: int, function: int, argv: int, n: int) -> int:
    """Call a kernel with the ``n`` tensors and the library table at ``argv``, in several threads if it asks for them; a status.

    ``argv`` has room for another word.
    """
    store_i64(argv + 8 * (n + 1), team)
    status = call_kernel(function, argv, n) + 0
    if status < 0:
        # called by address, so that the native loop stays small
        status = call_5(team_at(team).divide, team, function, argv, n, -status)
    return status


@native
def divide(team: int, function: int, argv: int, n: int, wanted: int) -> int:
    """Run a kernel in at most ``wanted`` threads; a status.

    After a failure of any part the whole kernel runs again in one thread: so its status does not depend on the number of threads.
    """
    if not publish_work(team, function, argv, n, wanted):
        return run_part(function, argv, n, 0, 1, 1, 1)
    t, start = team_at(team), clock_ns()
    while t.taken < t.end:
        run_next_part(team, 0)
    wait_for_parts(team, start)
    failed = t.failed
    t.busy = 0
    unlock(team + _MUTEX)
    return run_part(function, argv, n, 0, 1, 1, 1) if failed != 0 else 0


@native
def publish_work(team: int, function: int, argv: int, n: int, wanted: int) -> bool:
    """Publish the work and wake workers; then the mutex is held.  False: no worker can help."""
    t = team_at(team)
    lock(team + _MUTEX)
    owed = t.owed_until - clock_ns() if t.owed_until != 0 else 0
    threads = min(wanted, t.threads) if owed <= t.patience * FORGIVEN_NS else 1
    if t.busy == 0 and threads > 1:
        while t.workers < threads - 1 and start_worker(team):
            t.workers += 1
    if t.busy != 0 or threads < 2 or t.workers == 0:
        unlock(team + _MUTEX)
        return False
    t.busy = 1
    t.function, t.argv, t.n = function, argv, n
    t.helpers, t.most_helpers = 0, threads - 1
    # on average a part has as much work as is worth a thread
    stretches = stretches_of(team)
    together = max(min(wanted, PARTS_PER_THREAD * threads) // stretches, 1)
    t.end, t.taken, t.done, t.failed = together * stretches, 0, 0, 0
    for stretch in range(stretches):
        t.first[stretch], t.last[stretch] = stretch * together, (stretch + 1) * together
    t.splits += 1
    if HAS_MASKS:
        t.core = current_core() & 0xFFFFFFFF
    for _ in range(min(threads - 1, t.workers)):
        wake(team + _WORK)
    return True


@native
def wait_for_parts(team: int, start: int) -> None:
    """Wait until all parts are done; the work began at ``start``.  The mutex is held before and after."""
    t = team_at(team)
    if t.done == t.end:
        return
    unlock(team + _MUTEX)
    worked_until = clock_ns()
    while t.done < t.end and clock_ns() < worked_until + SPIN_NS:
        pause()  # a read without the mutex is only a hint; the clock is a call, so memory is read anew each time
    lock(team + _MUTEX)
    while t.done < t.end:
        wait(team + _FINISHED, team + _MUTEX)
    now = clock_ns()
    waited = now - worked_until
    if waited > max(LATE_NS, worked_until - start):
        t.owed_until = max(t.owed_until, now) + min(waited, FORGIVEN_NS) * t.patience


# ---- parts ---------------------------------------------------------------------------------------------------------------


@native
def stretches_of(team: int) -> int:
    """The number of stretches of the current work: one for each thread, with many threads for some of them."""
    threads: int = team_at(team).most_helpers + 1
    return min(threads, MOST_STRETCHES)


@native
def run_next_part(team: int, number: int) -> None:
    """Run a part in the thread of this number, 0: the asking one.  The mutex is held before and after."""
    t = team_at(team)
    stretches = stretches_of(team)
    stretch = number % stretches
    own = 1 if t.first[stretch] < t.last[stretch] else 0
    if own != 0:
        part = t.first[stretch] + 0
        t.first[stretch] = part + 1
    else:
        for other in range(stretches):
            if t.last[other] - t.first[other] > t.last[stretch] - t.first[stretch]:
                stretch = other
        part = t.last[stretch] - 1
        t.last[stretch] = part
    t.taken += 1
    function, argv, n, parts = t.function, t.argv, t.n, t.end
    unlock(team + _MUTEX)
    status = run_part(function, argv, n, part, parts, stretches, own) + 0
    lock(team + _MUTEX)
    t.failed += 1 if status != 0 else 0
    t.done += 1
    if t.done == t.end:
        wake(team + _FINISHED)


@native
def run_part(function: int, argv: int, n: int, part: int, parts: int, stretches: int, own: int) -> int:
    """Run one part of a kernel, of so many ``stretches``, in a thread with its ``own`` stretch or in another; a status."""
    block = alloc(_SHARE_BYTES + 8 * (n + 2))
    if block == 0:
        return OUT_OF_MEMORY
    share = share_at(block)
    share.part, share.parts, share.limit, share.stretches, share.own = part, parts, NO_LIMIT, stretches, own
    own_argv = block + _SHARE_BYTES
    copy_bytes(own_argv, argv, 8 * (n + 1))
    store_i64(own_argv + 8 * (n + 1), block)
    status = call_kernel(function, own_argv, n) + 0
    free(block)
    return status


# ---- workers -------------------------------------------------------------------------------------------------------------


@native
def worker(team: int) -> int:
    """The start routine of a worker thread."""
    t = team_at(team)
    cores = alloc(STATE_BYTES)
    if cores != 0:
        fill_bytes(cores, 0, STATE_BYTES)
    lock(team + _MUTEX)
    t.started += 1
    number = t.started + 0
    t.awake += 1
    while t.worker != 0:  # always
        if not has_free_slot(team):
            unlock(team + _MUTEX)
            until = clock_ns() + SPIN_NS
            while not has_free_slot(team) and clock_ns() < until:
                pause()  # as in ``wait_for_parts``
            lock(team + _MUTEX)
        if has_free_slot(team):
            t.helpers += 1
            while t.taken < t.end:  # parts of the same work: the work is not over while one of them runs
                run_next_part(team, number)
        else:
            sleep_until_woken(team)  # then it polls: who wakes too late for some work is awake for the next
            core = t.core
            if HAS_MASKS and cores != 0 and has_free_slot(team) and current_core() & 0xFFFFFFFF == core:
                unlock(team + _MUTEX)
                leave_core(cores, core)
                lock(team + _MUTEX)
    return 0


@native
def sleep_until_woken(team: int) -> None:
    """Wait for work.  Less work is worth a worker that is awake: the limit is higher while all of them sleep."""
    t = team_at(team)
    t.awake -= 1
    if t.awake == 0:
        t.limit = t.limit_asleep
    wait(team + _WORK, team + _MUTEX)
    t.awake += 1
    t.limit = t.limit_awake


@native
def has_free_slot(team: int) -> bool:
    """Whether there are parts to take, and fewer workers on them than requested.

    More workers may be awake: the first ones take the parts.
    """
    t = team_at(team)
    has_work: bool = t.taken < t.end
    return has_work and bool(t.helpers < t.most_helpers)


@native
def start_worker(team: int) -> bool:
    """Start a worker with all signals blocked.  False if the system has no thread, or the worker's code is not compiled."""
    routine = team_at(team).worker
    block = alloc(2 * _SIGNALS_BYTES + 8) if routine != 0 else 0
    if block == 0:
        return False
    mask, before = block, block + _SIGNALS_BYTES
    fill_bytes(mask, 255, _SIGNALS_BYTES)
    set_signal_mask(_SET_MASK, mask, before)
    failed = create_thread(block + 2 * _SIGNALS_BYTES, 0, routine, team) & 0xFFFFFFFF
    set_signal_mask(_SET_MASK, before, 0)
    free(block)
    return failed == 0


# ---- the team of this process ----------------------------------------------------------------------------------------------

#: The functions of this file that processes with threads load, with their signatures.
WORKER_SIGNATURE, DIVIDE_SIGNATURE = "int64(int64)", "int64(int64, int64, int64, int64, int64)"
FUNCTIONS: tuple[tuple[Callable[..., Any], str], ...] = (worker, WORKER_SIGNATURE), (divide, DIVIDE_SIGNATURE)

_worth = WORTH_A_THREAD
_block = np.zeros(1, TEAM)
_team = _block[0]


def _reset() -> None:
    """Reset the team: no work, no workers, free mutex.  Also runs in a forked child, which has none of its parent's workers."""
    for name in ("workers", "started", "awake", "busy", "end", "taken", "done", "owed_until", "mutex", "work", "finished"):
        _team[name] = 0
    for name, n in (("pthread_mutex_init", _MUTEX), ("pthread_cond_init", _WORK), ("pthread_cond_init", _FINISHED)):
        by_name(name, 2)(address() + n, 0)
    set_threads(int(_team["threads"]))


def address() -> int:
    """The TEAM record of this process, which is also the SHARE of a single thread."""
    return _block.ctypes.data


def set_threads(n: int) -> None:
    """Set the number of threads."""
    _team["threads"] = n
    _team["limit_awake"], _team["limit_asleep"] = (_worth, _worth * WAKING) if n > 1 else (NO_LIMIT, NO_LIMIT)
    _team["limit"] = _team["limit_awake" if _team["awake"] else "limit_asleep"]


def set_worth(work: int = WORTH_A_THREAD) -> None:
    """Set the amount of work that is worth a thread that is awake."""
    global _worth
    _worth = work
    set_threads(int(_team["threads"]))


def set_patience(times: int = PATIENCE) -> None:
    """Set the number of lengths of a wait in vain after which the wait is made up for.  0: kernels never run in one thread."""
    _team["patience"], _team["owed_until"] = times, 0


def splits() -> int:
    """The number of kernels run in parts so far."""
    return int(_team["splits"])


def workers() -> int:
    """The number of workers this process has started."""
    return int(_team["workers"])


@functools.cache
def load_workers() -> None:
    """Get the machine code of workers from the store: without it all kernels run in one thread."""
    from ..compiled import kernel_store

    _team["worker"] = kernel_store.address_of(worker, WORKER_SIGNATURE)
    _team["divide"] = kernel_store.address_of(divide, DIVIDE_SIGNATURE)


_team["parts"] = _team["stretches"] = _team["own"] = 1
set_patience()
set_threads(1)
_reset()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
#: The SHARE of a kernel that runs in this thread only: all of the work, and no request for threads.
ALONE = np.array([(0, 1, NO_LIMIT, 1, 1)], SHARE)
