"""The number of threads for the kernels of this process."""

from __future__ import annotations

import os

from ..ops.native.threads import team as threads
from .diagnostics.source import ConfigError
from .options import OPENMP_VARIABLE, THREADS_VARIABLE, Environment

#: Largest number of threads; larger numbers are refused as mistakes.
MOST = 1024

_HELP = f"a whole number from 1 to {MOST}"
_chosen: int | None = None


def get_num_threads() -> int:
    """The largest number of threads of a kernel on the CPU.

    The sources, in this order: ``set_num_threads``, the environment variable RELAYVM_NUM_THREADS, the first number of
    OMP_NUM_THREADS, the number of cores available to this process.  Raises ConfigError if RELAYVM_NUM_THREADS is no number of
    threads; such an OMP_NUM_THREADS is passed over, since it is written for other libraries.
    """
    return number_and_source()[0]


def number_and_source() -> tuple[int, str]:
    """``get_num_threads()``, and the source of the number."""
    if _chosen is not None:
        return _chosen, "set_num_threads"
    environment = Environment.read()
    if environment.num_threads is not None:
        own = _number(environment.num_threads)
        if own is None:
            message = f"{THREADS_VARIABLE} is {environment.num_threads!r}, which is no number of threads"
            raise ConfigError(message, help=_HELP)
        return own, THREADS_VARIABLE
    shared = _number((environment.openmp_threads or "").partition(",")[0].strip(" \t"))  # a list: one number for each level
    if shared is not None:
        return shared, OPENMP_VARIABLE
    return _cores(), "cores"


def _number(text: str) -> int | None:
    """The number of threads in a text, None for another text."""
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if is_number and 1 <= int(text) <= MOST else None


def set_num_threads(n: int | None) -> None:
    """Set the number of threads of kernels on the CPU, for all machines; 1: only the caller's thread; None: the default.

    Results are bit-identical for every ``n``, and nothing is recompiled.  Raises ConfigError if ``n`` is no number of threads.
    """
    global _chosen
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST):
        raise ConfigError(f"{n!r} is no number of threads", help=_HELP)
    _chosen = n
    prepare()


def prepare() -> None:
    """Set the size of the thread team, and compile or load the code of its workers if there is more than one thread."""
    n = get_num_threads()
    if n > 1:
        threads.load_workers()
    threads.set_threads(n)


def team() -> int:
    """The address of this process's thread team record, for the native interpreter loop."""
    return threads.address()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST)
    return min(os.cpu_count() or 1, MOST)
