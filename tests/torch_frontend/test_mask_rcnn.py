"""The whole Mask R-CNN of torchvision: one size of the example, on a device that counts copies."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("onnx")

import relayvm as relay

from ..example_programs import example_modules  # noqa: F401  a fixture


@pytest.mark.extensive
def test_copies_do_not_grow_with_detections(tmp_path: Path) -> None:
    import mask_rcnn

    detector = mask_rcnn.Detector().eval()
    mask_rcnn.export(detector, tmp_path / "model.onnx")
    machine = relay.VirtualMachine(relay.compile(tmp_path / "model.onnx", target="sim"))
    runs = []
    for count in (0, 1, 30):
        before = machine.counters["dtoh_copies"]
        assert mask_rcnn.run_all(detector, machine, [(96, 128)], [count])
        runs.append(machine.counters["dtoh_copies"] - before - 4)  # the results
    assert runs[1] == runs[2] <= 30 and runs[0] <= runs[1]
