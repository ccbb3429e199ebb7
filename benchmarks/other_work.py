"""Work beside a measured call: threads of the previous call that still spin, and processes that keep the cores busy."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

#: A wait, and the share of it that the process's threads may use in it and count as idle.
WAIT_S, IDLE = 0.005, 0.1


def wait_for_idle_threads() -> None:
    """Sleep until no thread of this process works.

    Idle threads of onnxruntime spin for some 35 ms before they sleep, and hold a core that the next contestant needs.
    """
    used = WAIT_S
    while used > IDLE * WAIT_S:
        began = time.process_time()
        time.sleep(WAIT_S)
        used = time.process_time() - began


@contextlib.contextmanager
def busy(n: int) -> Iterator[None]:
    """Keep ``n`` processes computing inside the block."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        if running:
            time.sleep(1)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
