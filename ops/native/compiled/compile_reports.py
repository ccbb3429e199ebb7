"""Reports of long compilations: a line after 2 s, and then ever more rarely.

The command line writes them to standard error where it is no terminal; a program gets them through the logger ``relayvm``, at the
level INFO.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from . import kernel_store

#: The seconds after which a line is written; after the last the times double.
SECONDS = (2.0, 5.0, 10.0, 20.0)
#: The logger of a program's reports.
LOGGER = "relayvm"


class Reports:
    """The lines about one compilation; ``say`` takes each, in a thread of its own."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say, self.count, self.name = say, 0, ""
        self._start, self._ended = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="relayvm reports", daemon=True)
        self._thread.start()

    def compiling(self, name: str) -> None:
        """Called before the kernel ``name`` is compiled."""
        self.count, self.name = self.count + 1, name

    def _run(self) -> None:
        waiting, after = list(SECONDS), SECONDS[-1]
        while True:
            after = waiting.pop(0) if waiting else 2 * after
            if self._ended.wait(max(0.0, self._start + after - time.monotonic())):
                return
            seconds = time.monotonic() - self._start
            doing = f"compiling kernels, number {self.count}: {self.name}" if self.count else "compiling the program"
            self.say(f"{doing}, {seconds:.0f} s")

    def close(self) -> None:
        """No line follows."""
        self._ended.set()
        self._thread.join()


@contextlib.contextmanager
def reported(say: Callable[[str], object]) -> Iterator[None]:
    """Report the compilation within the context."""
    reports = Reports(say)
    kernel_store.on_compile.append(reports.compiling)
    try:
        yield
    finally:
        kernel_store.on_compile.remove(reports.compiling)
        reports.close()


_logging = threading.local()


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Report the compilation within the outermost context to the logger, if it takes INFO."""
    logging = sys.modules.get("logging")  # without it nobody has configured a logger
    logger = logging.getLogger(LOGGER) if logging is not None else None
    if logger is None or not logger.isEnabledFor(logging.INFO) or getattr(_logging, "is_on", False):  # type: ignore[union-attr]
        yield
        return
    _logging.is_on = True
    try:
        with reported(logger.info):
            yield
    finally:
        _logging.is_on = False
