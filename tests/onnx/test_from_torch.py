"""Models of torch's two exporters: at every size their results are torch's.

``python examples/from_torch.py --out tests/onnx/from_torch`` writes the models, and torch's inputs and results.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay

from ..devices import DEVICES, HOST

HERE = Path(__file__).parent / "from_torch"
ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(HERE.glob("*.onnx"))
#: The largest difference from torch's results.
NEAR = 1e-5


def recorded(name: str) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """An input and torch's results at each size."""
    with np.load(HERE / f"{name}.npz") as arrays:
        count = sum(key.startswith("input_") for key in arrays)
        return [(arrays[f"input_{k}"], [arrays[key] for key in arrays if key.startswith(f"result_{k}_")]) for k in range(count)]


def test_both_exporters_wrote_each_model_for_five_sizes_or_more() -> None:
    names = {p.name.partition(".")[0] for p in MODELS}
    assert [p.name for p in MODELS] == sorted(f"{n}.{e}.onnx" for n in names for e in ("dynamo", "torchscript"))
    assert {n: len({x.shape for x, _ in recorded(n)}) >= 5 for n in names} == dict.fromkeys(
        ("detection_head", "tagger", "vision_transformer"), True
    )


@pytest.mark.thinned(2)
@pytest.mark.extensive(device=[HOST], path=["tagger.dynamo.onnx"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_a_model_gives_the_results_of_torch_at_every_size(path: Path, device: str) -> None:
    machine = relay.VirtualMachine(relay.compile(path, target=device))
    for given, want in recorded(path.name.partition(".")[0]):
        results = machine.run(given)
        have = [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]
        assert [(h.shape, h.dtype) for h in have] == [(w.shape, w.dtype) for w in want]
        for h, w in zip(have, want, strict=True):
            np.testing.assert_allclose(h, w, rtol=NEAR, atol=NEAR)


@pytest.mark.extensive
def test_the_example_exports_the_models_anew(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install 'relayvm[torch]'")
    pytest.importorskip("onnxscript", reason="pip install 'relayvm[torch]'")
    command = [sys.executable, str(ROOT / "examples" / "from_torch.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" from torch at ") == len(MODELS) == len(list(tmp_path.glob("*.onnx")))
