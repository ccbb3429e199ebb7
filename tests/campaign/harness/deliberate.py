"""A part that fails on purpose: lists of numbers, of which some end the process, hang, raise or are wrong."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

from ..part import Part

WRONG, CRASH, HANG, ERROR = 1, 2, 3, 4


class Deliberate(Part[list[int]]):
    """Lists of five numbers."""

    name, unit, slice_trials, hang_seconds = "harness.deliberate", "lists", 0, 1.0

    def draw(self, seed: int) -> list[int]:
        """Four numbers that do nothing, and the seed among them."""
        r = random.Random(seed)
        numbers = [r.randrange(100, 200) for _ in range(4)]
        numbers.insert(r.randrange(5), seed)
        return numbers

    def check(self, case: list[int]) -> str | None:
        """Fail as the first small number says."""
        self.seen["numbers"] += len(case)
        if CRASH in case:
            os.kill(os.getpid(), signal.SIGSEGV)
        if HANG in case:
            time.sleep(3600)
        if ERROR in case:
            raise KeyError("on purpose")
        return "on purpose" if WRONG in case else None

    def smaller(self, case: list[int]) -> Iterator[list[int]]:
        """Without one number."""
        for i in range(len(case)):
            yield case[:i] + case[i + 1 :]

    def write(self, case: list[int]) -> str:
        """The list."""
        return f"assert {case} == []"


PART = Deliberate()
