"""``python -m relayvm``, and the command ``relayvm``."""

# ruff: noqa: E402
from __future__ import annotations

import gc

gc.disable()  # imports make many objects and no garbage: the search for some takes a tenth of their time

import atexit
import contextlib
import os
import sys
import threading

from .compiler.commands.cli import main

gc.freeze()
gc.enable()


def run() -> None:
    """Run the command line of this process, and end the process with its exit code.

    Python would free all objects one by one: that takes 0.03 s, and 0.15 s after a compilation.  The system frees memory at once.
    """
    code = int(main())
    if not any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):  # streams that fail: Python reports them
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    raise SystemExit(code)


if __name__ == "__main__":
    run()
