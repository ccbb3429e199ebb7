"""Long lives: machines that run again and again, at any size and also in vain, hold no more memory than they did."""

from __future__ import annotations

import functools
import gc
import random
from pathlib import Path

import numpy as np

import relayvm as relay

from .part import Part

#: Runs of a trial; trials of a process before its memory is measured; most growth, and what the system's own pages may move by.
RUNS, WARM_UP, BYTES_PER_1000_RUNS, SLACK = 1000, 25, 1024, 256 << 10
_MOST = 64
_TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %i: Tensor[(?), int32]) {
  let %rows = take(exp(%x), %i, axis=0, mode="fast");
  let %where = argwhere(greater(sum(%rows, axis=[1]), 4.5f));
  (%rows + 1f, %where, shape_of(%x, dtype="int64"))
}
"""


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


@functools.cache
def _machine(target: str) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(_TEXT, target=target))


class Lasting(Part[int]):
    """A trial is 1,000 runs of the machines of its process."""

    name, unit, slice_trials, hang_seconds = "lasting", "thousands of runs", 2, 120.0

    def __init__(self) -> None:
        super().__init__()
        self.trials, self.first, self.most = 0, 0, 0

    def draw(self, seed: int) -> int:
        """The seed of sizes and mistakes."""
        return seed

    def check(self, case: int) -> str | None:
        """Right results, no object left, and no growth of the process."""
        r = random.Random(case)
        for _ in range(RUNS):
            if found := self._run(r, _machine(r.choice(["cpu", "sim"]))):
                return found
        for target in ("cpu", "sim"):
            vm = _machine(target)
            gc.collect()
            vm.trim()
            held = vm.memory["live_objects"]
            if held > (0 if target == "cpu" else 8):  # on sim constants stay
                return f"{held} objects are held on {target}"
        self.seen["runs"] += RUNS
        return self._growth()

    def _run(self, r: random.Random, vm: relay.VirtualMachine) -> str | None:
        n = r.randrange(1, _MOST)
        x = np.full((n, 4), r.random(), np.float32)
        indices = np.array([r.randrange(n) for _ in range(r.randrange(8))] + [n] * (r.random() < 0.05), np.int32)
        try:
            rows, where, shape = vm.run(x.tolist() if r.random() < 0.1 else x, indices)
            got = rows.numpy()
        except relay.VMError:
            self.seen["failed, as they must"] += 1
            return None if n in indices else "a run failed"
        if n in indices:
            return "a run did not fail"
        right = np.exp(x)[indices]
        fits = np.allclose(got, right + 1, rtol=1e-5) and where.shape[0] == (right.sum(1) > 4.5).sum()
        return None if fits and shape.tolist() == [n, 4] else "a wrong result"

    def _growth(self) -> str | None:
        self.trials += 1
        if self.trials <= WARM_UP:
            self.first = _resident_bytes()
            return None
        grown, runs = _resident_bytes() - self.first, (self.trials - WARM_UP) * RUNS
        if grown > self.most:
            self.seen["bytes that processes grew by at most, after the warm-up"] += grown - self.most
            self.most = grown
        if grown > SLACK + BYTES_PER_1000_RUNS * runs // 1000:
            return f"{grown} bytes more after {runs} runs"
        return None

    def write(self, case: int) -> str:
        """The runs again."""
        return f"from tests.campaign.lasting import PART\n\nassert PART.check({case}) is None"


PART = Lasting()
