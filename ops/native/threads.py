"""Kernels in several threads: the team of threads of this process, as machine code.

A kernel that has enough work asks for threads instead of doing it.  It is then called once for each part of the work, by
the thread that asked and by workers, and each takes the next part when it is done with one.  Parts share no result, and an
element is computed as it would be alone, so that results do not depend on the number of threads.

All that threads share is in one TEAM record under one mutex.  Workers are made when first needed, sleep on a condition and
take no signals; they are never ended.  There is one team: who finds it busy runs alone.
"""

from __future__ import annotations

import functools
import os
import signal

import numpy as np

from .by_address import by_name, call_5
from .layout import NO_LIMIT, SHARE
from .memory import alloc, call_kernel, clock_ns, copy_bytes, fill_bytes, free, native, record, store_i64
from .shares import PARTS_PER_THREAD, WORTH_A_THREAD, share_at
from .status import OUT_OF_MEMORY

_WORD = np.int64
#: Room for a mutex, a condition, a set of signals, whatever the C library.
_MUTEX_WORDS, _CONDITION_WORDS, _SIGNALS_BYTES = 8, 8, 128

TEAM = np.dtype(
    [
        # the share of who runs alone; its limit is the work that is worth a thread
        ("part", _WORD),
        ("parts", _WORD),
        ("limit", _WORD),
        ("threads", _WORD),  # how many may work, the one that asks among them
        # addresses of the machine code of ``divide`` and ``worker``; 0: not there yet, and nobody is asked for threads
        ("divide", _WORD),
        ("worker", _WORD),
        ("workers", _WORD),  # that were made
        ("busy", _WORD),
        # what is being run
        ("function", _WORD),
        ("argv", _WORD),
        ("n", _WORD),
        ("end", _WORD),  # number of parts
        ("next", _WORD),  # the first part that nobody has taken
        ("done", _WORD),
        ("helpers", _WORD),  # workers that take parts of it, and how many may
        ("most_helpers", _WORD),
        ("failed", _WORD),  # parts that gave a status
        ("splits", _WORD),  # kernels that were run in parts, ever
        ("alone_until", _WORD),  # ns: after a wait in vain
        ("patience", _WORD),
        ("mutex", _WORD, (_MUTEX_WORDS,)),
        ("work", _WORD, (_CONDITION_WORDS,)),  # there are parts to take
        ("finished", _WORD, (_CONDITION_WORDS,)),  # the last part is done
    ]
)
assert TEAM.fields is not None and list(TEAM.names or ())[:3] == list(SHARE.names or ())
_MUTEX, _WORK, _FINISHED = (TEAM.fields[name][1] for name in ("mutex", "work", "finished"))
_SHARE_BYTES = SHARE.itemsize
team_at = record(TEAM)

#: How long a worker without work, or who waits for one, looks for it before it sleeps, in ns: to wake a thread takes from 5 to
#: 50 us.  Nobody yields instead: beside a process that computes, a thread that yields gets its processor back after milliseconds.
LOOKING_NS = 20_000
#: A wait for the last parts is in vain if it is longer than this and than the work before it: another process has the processor.
LATE_NS = 200_000
#: After a wait in vain, kernels run alone for so many times its length: so these waits cost a twentieth of the time at most.
PATIENCE = 20
_SET_MASK = int(signal.SIG_SETMASK)

lock, unlock = by_name("pthread_mutex_lock", 1), by_name("pthread_mutex_unlock", 1)
wait, wake = by_name("pthread_cond_wait", 2), by_name("pthread_cond_signal", 1)
create_thread, set_signal_mask = by_name("pthread_create", 4), by_name("pthread_sigmask", 3)


# ---- who asks ----------------------------------------------------------------------------------------------------------


@native
def run_kernel(team, function, argv, n):
    """Call a kernel with the ``n`` tensors and the library table at ``argv``, in several threads if it asks for them; a status.

    ``argv`` has room for another word.
    """
    store_i64(argv + 8 * (n + 1), team)
    status = call_kernel(function, argv, n) + 0
    if status < 0:
        # by its address, so that the native loop stays small
        status = call_5(team_at(team).divide, team, function, argv, n, -status)
    return status


@native
def divide(team, function, argv, n, wanted):
    """Run a kernel in ``wanted`` threads, or as many as there are; a status.

    What fails in one of them is run again, alone: so it ends as it would in one thread, whatever their number.
    """
    if not begin(team, function, argv, n, wanted):
        return run_part(function, argv, n, 0, 1)
    t, start = team_at(team), clock_ns()
    while t.next < t.end:
        take_part(team)
    await_parts(team, start)
    failed = t.failed
    t.busy = 0
    unlock(team + _MUTEX)
    return run_part(function, argv, n, 0, 1) if failed != 0 else 0


@native
def begin(team, function, argv, n, wanted):
    """Put the work where workers find it, and wake as many as it takes: then the mutex is held.  False: nobody can help."""
    t = team_at(team)
    lock(team + _MUTEX)
    threads = min(wanted, t.threads) if t.alone_until == 0 or clock_ns() >= t.alone_until else 1
    if t.busy == 0 and threads > 1:
        while t.workers < threads - 1 and start_worker(team):
            t.workers += 1
    if t.busy != 0 or threads < 2 or t.workers == 0:
        unlock(team + _MUTEX)
        return False
    t.busy = 1
    t.function, t.argv, t.n = function, argv, n
    t.end, t.next, t.done, t.failed = PARTS_PER_THREAD * threads, 0, 0, 0
    t.helpers, t.most_helpers = 0, threads - 1
    t.splits += 1
    for _ in range(min(threads - 1, t.workers)):
        wake(team + _WORK)
    return True


@native
def await_parts(team, start):
    """Wait until all parts are done; the work began at ``start``.  The mutex is held before and after."""
    t = team_at(team)
    if t.done == t.end:
        return
    unlock(team + _MUTEX)
    worked_until = clock_ns()
    while t.done < t.end and clock_ns() < worked_until + LOOKING_NS:
        pass  # what is read without the mutex is only a hint; the clock is a call, so it is read anew each time
    lock(team + _MUTEX)
    while t.done < t.end:
        wait(team + _FINISHED, team + _MUTEX)
    now = clock_ns()
    waited = now - worked_until
    t.alone_until = now + waited * t.patience if waited > max(LATE_NS, worked_until - start) else 0


# ---- parts ---------------------------------------------------------------------------------------------------------------


@native
def take_part(team):
    """Run the next part.  The mutex is held before and after."""
    t = team_at(team)
    part, function, argv, n, parts = t.next, t.function, t.argv, t.n, t.end
    t.next = part + 1
    unlock(team + _MUTEX)
    status = run_part(function, argv, n, part, parts) + 0
    lock(team + _MUTEX)
    t.failed += 1 if status != 0 else 0
    t.done += 1
    if t.done == t.end:
        wake(team + _FINISHED)


@native
def run_part(function, argv, n, part, parts):
    """Call a kernel for one of its parts; a status."""
    block = alloc(_SHARE_BYTES + 8 * (n + 2))
    if block == 0:
        return OUT_OF_MEMORY
    share = share_at(block)
    share.part, share.parts, share.limit = part, parts, NO_LIMIT
    own = block + _SHARE_BYTES
    copy_bytes(own, argv, 8 * (n + 1))
    store_i64(own + 8 * (n + 1), block)
    status = call_kernel(function, own, n) + 0
    free(block)
    return status


# ---- workers -------------------------------------------------------------------------------------------------------------


@native
def worker(team):
    """The life of a worker: the start routine of a thread."""
    t = team_at(team)
    lock(team + _MUTEX)
    while t.worker != 0:  # always
        if not has_place(team):
            unlock(team + _MUTEX)
            until = clock_ns() + LOOKING_NS
            while not has_place(team) and clock_ns() < until:
                pass  # as in ``await_parts``
            lock(team + _MUTEX)
        while not has_place(team):
            wait(team + _WORK, team + _MUTEX)
        t.helpers += 1
        while t.next < t.end:  # parts of the same work: it is not over while one of them runs
            take_part(team)
    return 0


@native
def has_place(team):
    """Are there parts to take, and fewer workers at it than were asked for?  More may be awake: who was faster has the place."""
    t = team_at(team)
    return t.next < t.end and t.helpers < t.most_helpers


@native
def start_worker(team):
    """Make a worker, which signals pass by.  False where the system has no thread to give, or the team no code to run."""
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

_worth = WORTH_A_THREAD
_block = np.zeros(1, TEAM)
_team = _block[0]


def _set_up() -> None:
    """Nobody works, there are no workers, and the mutex is free: at first, and in a child, which has none of its parent's."""
    for name in ("workers", "busy", "end", "next", "done", "alone_until", "mutex", "work", "finished"):
        _team[name] = 0
    for name, n in (("pthread_mutex_init", _MUTEX), ("pthread_cond_init", _WORK), ("pthread_cond_init", _FINISHED)):
        by_name(name, 2)(address() + n, 0)


def address() -> int:
    """The TEAM record of this process, which is also the SHARE of who runs alone."""
    return _block.ctypes.data


def set_threads(n: int) -> None:
    """Let ``n`` threads work."""
    _team["threads"], _team["limit"] = n, _worth if n > 1 else NO_LIMIT


def set_worth(work: int = WORTH_A_THREAD) -> None:
    """Say how much work is worth a thread."""
    global _worth
    _worth = work
    set_threads(int(_team["threads"]))


def set_patience(times: int = PATIENCE) -> None:
    """Say for how many times the length of a wait in vain kernels run alone.  0: never."""
    _team["patience"], _team["alone_until"] = times, 0


def splits() -> int:
    """How many kernels have been run in parts so far."""
    return int(_team["splits"])


def workers() -> int:
    """How many workers this process has made."""
    return int(_team["workers"])


@functools.cache
def have_workers() -> None:
    """Have the machine code of workers at hand, from the store: without it everybody runs alone."""
    from . import store

    _team["worker"] = store.address_of(worker, "int64(int64)", "worker")
    _team["divide"] = store.address_of(divide, "int64(int64, int64, int64, int64, int64)", "divide")


_team["parts"] = 1
set_patience()
set_threads(1)
_set_up()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_set_up)
#: A share for calls of kernels in this thread only: all of the work, and no questions.
ALONE = np.array([(0, 1, NO_LIMIT)], SHARE)
