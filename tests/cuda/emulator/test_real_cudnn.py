"""Plans of the machine by the real cuDNN, where it is installed, for the description of a GPU: in a process of its own."""

from __future__ import annotations

import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

SINGLE, DOUBLES, HALF, BFLOAT = 0, 1, 2, 9
#: What an engine's notes may be: tensor cores but for float32, Winograd's algorithm with tiles of 4 x 4, NaN stays NaN.
ALLOWED = {SINGLE: {5, 6, 9}, DOUBLES: {0, 5, 6, 9}, HALF: {0, 5, 6, 9}, BFLOAT: {0, 5, 6, 9}}


def is_installed() -> bool:
    spec = importlib.util.find_spec("nvidia")
    return spec is not None and any(Path(f, "cudnn/lib").is_dir() for f in spec.submodule_search_locations or ())


def convolve(folder: Path) -> list[list[object]]:
    """The plans of some convolutions: each as words, the numbers of dtypes, the plan; then the failures and live descriptors."""
    from tests.emulator.real_cudnn import RealCudnn, step

    real = RealCudnn(folder)
    # batch, channels, outputs, groups, axes, size, window, stride, dilation, before, after
    cases = {
        "3x3": (8, 64, 64, 1, 2, 56, 3, 1, 1, 1, 1),
        "7x7": (8, 3, 64, 1, 2, 224, 7, 2, 1, 3, 3),
        "pointwise": (8, 256, 1024, 1, 2, 14, 1, 1, 1, 0, 0),
        "depthwise": (8, 64, 64, 64, 2, 56, 3, 1, 1, 1, 1),
        "groups": (8, 64, 64, 4, 2, 56, 3, 1, 1, 1, 1),
        "dilated": (8, 64, 64, 1, 2, 56, 3, 1, 2, 2, 2),
        "padded at one end": (8, 64, 64, 1, 2, 56, 3, 2, 1, 0, 1),
        "one axis": (8, 64, 64, 1, 1, 56, 3, 1, 1, 1, 1),
        "three axes": (2, 16, 32, 1, 3, 14, 3, 1, 1, 1, 1),
        "one of all": (1, 1, 1, 1, 2, 1, 1, 1, 1, 0, 0),
    }
    found: list[list[object]] = []
    ways = itertools.product(cases.items(), (SINGLE, DOUBLES, HALF, BFLOAT), ((False, False), (True, False), (False, True)))
    for (name, case), dtype, (last, transposed) in ways:
        batch, channels, outputs, groups, axes, size, window, stride, dilation, before, after = case
        out = (size + before + after - (window - 1) * dilation - 1) // stride + 1
        spatial = [[1] * (3 - axes) + [n] * axes for n in (size, out, window)]
        sizes = [batch, channels, outputs, channels // groups, *itertools.chain(*spatial)]
        for alignment in (16, 8):
            plan = real.plan(sizes, step(axes, dtype, stride, dilation, before, last, transposed), alignment)
            found.append([f"{name}, last {last}, transposed {transposed}, aligned to {alignment}", dtype, plan])
    real.pack()
    return [*found, [real.failures, len(real.live)]]


@pytest.mark.skipif(not is_installed(), reason="cuDNN is not installed")
def test_the_library_has_plans_and_accepts_every_call(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from tests.cuda.emulator.test_real_cudnn import *; "
    code += f"print(json.dumps(convolve(Path({str(tmp_path)!r}))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *found, (failures, live) = json.loads(done.stdout.splitlines()[-1])
    assert live == 0
    assert failures == []
    for name, dtype, plan in found:
        assert plan is not None, name
        assert set(plan["numerical"]) <= ALLOWED[dtype] and not {0, 1, 2} & set(plan["behavior"]), name
        assert 0 <= plan["workspace"] <= 32 << 20, name
