"""The child process of a worker: ``python -m tests.campaign.child PART PIPE CURRENT``, the last two numbers of open files."""

from __future__ import annotations

import gc
import mmap
import signal
import sys
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

from .part import Part, Refused, load
from .worker import WORD, Finding


def checked(part: Part[Any], case: Any, seed: int) -> Finding | None:
    """The finding of a case, if there is any."""
    try:
        what = part.check(case)
    except Refused as refused:
        return Finding(seed, "refused", str(refused)[:500])
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})" if at is not None else ""
        return Finding(seed, "error", f"{type(error).__name__}: {str(error)[:500]}{place}")
    return None if what is None else Finding(seed, "wrong", what)


def serve(part: Part[Any], pipe: Connection, current: mmap.mmap) -> None:
    """Check each range of seeds, or one case with its seed: send each finding at once, and at the end what was seen."""
    while True:
        asked = pipe.recv()
        pairs = ((seed, None) for seed in asked) if isinstance(asked, range) else (asked,)
        for seed, case in pairs:
            current[:] = WORD.pack(seed)
            finding = checked(part, part.draw(seed) if isinstance(asked, range) else case, seed)
            if finding is not None:
                pipe.send(finding)
        pipe.send(part.seen)
        part.seen = Counter()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chosen = load(sys.argv[1])
    chosen.prepare()
    # the compiler makes many objects that live as long as a trial: collections at the default threshold take a tenth of the time
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    serve(chosen, Connection(int(sys.argv[2])), mmap.mmap(int(sys.argv[3]), WORD.size))
