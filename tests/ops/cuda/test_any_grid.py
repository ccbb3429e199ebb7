"""The results of folds and scans are the same bits for any number of blocks, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.core.op import get

from ...emulator import emulator
from ...emulator.session import Session
from ..fused.reductions.row_groups import CASES
from . import groups_on_gpu

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: Calls by name: operator, shape, attributes.
CALLS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "sum, last axis": ("sum", (300, 70), {"axis": (1,)}),
    "sum, first axis": ("sum", (900, 700), {"axis": (0,)}),
    "sum, all axes": ("sum", (90, 1700), {"axis": None}),
    "softmax": ("nn.softmax", (600, 200), {}),
    "softmax, short columns": ("nn.softmax", (6, 40, 70), {"axis": 1}),
    "softmax, long columns": ("nn.softmax", (700, 90), {"axis": 0}),
    "cumsum": ("cumsum", (3, 9000), {"axis": 1}),
    "cumsum, first axis": ("cumsum", (900, 70), {"axis": 0}),
    "transpose": ("transpose", (900, 70), {"axes": (1, 0)}),
    "argwhere": ("argwhere", (190, 170), {}),
}


def evaluated(name: str) -> bytes:
    rng = np.random.default_rng(0)
    if name in CASES:
        group, names = CASES[name].group()
        arrays = CASES[name].arrays((800, 60))
        status, results = groups_on_gpu.evaluate(group, [arrays[k] for k in names])
        assert status == 0
        return b"".join(r.tobytes() for r in results)
    op, shape, attributes = CALLS[name]
    return bytes(groups_on_gpu.call(op, [rng.normal(size=shape).astype(np.float32)], get(op).attrs(**attributes)).tobytes())


@pytest.mark.split(2)
@pytest.mark.parametrize("name", [*CALLS, "layer norm", "layer norm of gelu"])
def test_results_are_the_same_bits_for_any_grid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, launched, used = evaluated(name), Session.launch, list[int]()
    case = {"most": 1, "schedule": 0}

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        emulator.set("schedule", case["schedule"])
        used.append(int(np.prod(grid)))
        launched(self, image, entry, (min(case["most"], grid[0]), *grid[1:]), *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    for most, schedule in ((1, 0), (3, 0), (1 << 30, 1), (1 << 30, 2), (4, 5)):
        case |= {"most": most, "schedule": schedule}
        assert evaluated(name) == wanted, case
    assert max(used) > 4, "the kernel has several blocks"
