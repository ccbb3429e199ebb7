"""Progress of compilations and measurements on standard error: a line that changes on a terminal, else a few lines."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ....ops.native.compiled import kernel_store
from ....ops.native.compiled.compile_reports import reported

if TYPE_CHECKING:
    from rich.status import Status

#: A program that takes longer to read and compile is shown.
LATE_SECONDS = 1.0


@contextlib.contextmanager
def compile_progress(late: bool = True) -> Iterator[None]:
    """Show on a terminal that a program is compiled, after a second, and each compilation of a kernel.

    At the end the number of kernels is printed.  ``late``: whether the line appears without kernels.  A file or a pipe gets a
    line after 2 seconds, and then ever more rarely (see ``compile_reports``).
    """
    if not sys.stderr.isatty():
        with reported(_line) if late else contextlib.nullcontext():
            yield
        return
    shown = _Shown(late)
    kernel_store.on_compile.append(shown.compiling)
    try:
        yield
    finally:
        kernel_store.on_compile.remove(shown.compiling)
        shown.close()


def _line(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the reader has closed the pipe
        print(f"relayvm: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def round_progress() -> Iterator[Callable[[int, int], object] | None]:
    """Yield a callback ``(rounds done, all rounds)`` that shows a bar; None if standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("measuring in rounds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = None

        def on_round(done: int, total: int) -> None:
            nonlocal task
            task = bar.add_task("", total=total) if task is None else task
            bar.update(task, completed=done)

        yield on_round


@contextlib.contextmanager
def trial_progress(total: int) -> Iterator[Callable[[str], object]]:
    """Yield a callback for the name of each of ``total`` trials that shows it, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console

    done = 0
    with Console(stderr=True).status("") as status:

        def on_trial(what: str) -> None:
            nonlocal done
            done += 1
            status.update(f"measuring {done} of at most {total}: {what}", spinner="dots")

        yield on_trial


class _Shown:
    """The status line on the terminal; it appears after a second, or with the first kernel."""

    def __init__(self, late: bool) -> None:
        self.count, self.start = 0, time.perf_counter()
        self.status: Status | None = None
        self.lock, self.closed = threading.Lock(), False
        self.timer = threading.Timer(LATE_SECONDS, self.late)
        self.timer.daemon = True
        if late:
            self.timer.start()

    def late(self) -> None:
        """Called after a second, in a thread of its own."""
        with self.lock:
            if self.status is None and not self.closed:
                self.show("reading and compiling the program")

    def compiling(self, name: str) -> None:
        """Called before the kernel ``name`` is compiled."""
        with self.lock:
            self.start = self.start if self.count else time.perf_counter()
            self.count += 1
            self.show(f"compiling kernels, once on this machine: {self.count}, {name}")

    def show(self, text: str) -> None:
        """Write the line."""
        if self.status is None:
            from rich.console import Console

            self.status = Console(stderr=True).status("")
            self.status.start()
        self.status.update(text, spinner="dots")

    def close(self) -> None:
        """Remove the line."""
        self.timer.cancel()
        with self.lock:
            self.closed = True
            if self.status is None:
                return
            self.status.stop()
            if self.count:
                seconds = time.perf_counter() - self.start
                words = f"{self.count} kernel{'' if self.count == 1 else 's'} in {seconds:.1f} s"
                self.status.console.print(f"compiled {words}; the next run finds them compiled", highlight=False)
