"""Progress of compilations and measurements on standard error, if standard error is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...ops.native.cache import kernel_store

if TYPE_CHECKING:
    from rich.status import Status


@contextlib.contextmanager
def compile_progress() -> Iterator[None]:
    """Show compilations on standard error, if it is a terminal; at the end their number."""
    if not sys.stderr.isatty():
        yield
        return
    shown = _Shown()
    kernel_store.on_compile.append(shown.compiling)
    try:
        yield
    finally:
        kernel_store.on_compile.remove(shown.compiling)
        shown.close()


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
    """The status line on the terminal; it appears with the first compilation."""

    def __init__(self) -> None:
        self.count, self.start = 0, 0.0
        self.status: Status | None = None

    def compiling(self, name: str) -> None:
        """Called before ``name`` is compiled."""
        self.count += 1
        if self.status is None:
            from rich.console import Console

            self.start = time.perf_counter()
            self.status = Console(stderr=True).status("")
            self.status.start()
        self.status.update(f"compiling kernels, once on this machine: {self.count}, {name}", spinner="dots")

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
            seconds = time.perf_counter() - self.start
            words = f"{self.count} kernel{'' if self.count == 1 else 's'} in {seconds:.1f} s"
            self.status.console.print(f"compiled {words}; the next run finds them compiled", highlight=False)
