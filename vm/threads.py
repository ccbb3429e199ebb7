"""How many threads the kernels of this process may use."""

from __future__ import annotations

import os

from ..ops.native import threads
from .source import ConfigError

#: The environment variable that says how many threads.
VARIABLE = "RELAYVM_NUM_THREADS"
#: More threads than this are a mistake.
MOST = 1024

_HELP = f"a whole number from 1 to {MOST}"
_chosen: int | None = None


def num_threads() -> int:
    """How many threads a kernel on the processor may use: what ``set_num_threads`` said, else the environment variable
    RELAYVM_NUM_THREADS, else as many as there are cores that this process may use.

    Raises ConfigError where the variable is no number of threads.
    """
    if _chosen is not None:
        return _chosen
    said = os.environ.get(VARIABLE)
    if said is None:
        return _cores()
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= MOST):
        raise ConfigError(f"{VARIABLE} is {said!r}, which is no number of threads", help=_HELP)
    return int(said)


def set_num_threads(n: int | None) -> None:
    """Let each kernel on the processor, of whatever machine, use ``n`` threads; 1: none but the caller's; None: the default.

    Results are the same bit for bit, and nothing is compiled again.  Raises ConfigError where ``n`` is no number of threads.
    """
    global _chosen
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST):
        raise ConfigError(f"{n!r} is no number of threads", help=_HELP)
    _chosen = n
    prepare()


def prepare() -> None:
    """Tell the team how many there are, and see that its workers' machine code is there if anybody may need it."""
    n = num_threads()
    if n > 1:
        threads.have_workers()
    threads.set_threads(n)


def team() -> int:
    """The address of the record of the threads of this process, which the native loop needs."""
    return threads.address()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST)
    return min(os.cpu_count() or 1, MOST)
