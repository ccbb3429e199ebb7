"""Networks that torch exports to ONNX, with random weights and open sizes, for ``models.py``.

    python benchmarks/exported_networks.py FOLDER

writes the files of the networks whose packages are installed; ``models.py --models FOLDER`` reads them where they are not.
Packages: torch and onnx; torchvision for the detector, transformers for the language model.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Exported:
    """A network: its package, the function that writes its file, and inputs by case, without their names."""

    package: str
    write: Callable[[Path], None]
    cases: dict[str, Callable[[np.random.Generator], np.ndarray]]
    file: str


def _export(module: Any, given: Any, path: Path, names: list[str], sizes: dict[int, str]) -> None:
    """Write ``module`` with open ``sizes`` of its one input, whose name is the first."""
    import torch

    with torch.no_grad():
        torch.onnx.export(
            module.eval(), (given,), str(path), input_names=names[:1], output_names=names[1:], dynamic_axes={names[0]: sizes},
            opset_version=17, dynamo=False,
        )  # fmt: skip


def _write_detector(path: Path) -> None:
    """Faster R-CNN over MobileNetV3-large, at 320 rows (torchvision), for one picture of any size."""
    import torch
    import torchvision

    torch.manual_seed(0)
    detector = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None)
    detector.roi_heads.box_predictor.cls_score.weight.data *= 20  # scores apart from each other, some above the threshold

    class OfOneImage(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.detector = detector.eval()

        def forward(self, image: Any) -> Any:
            found = self.detector([image])[0]
            return found["boxes"], found["labels"], found["scores"]

    names = ["picture", "boxes", "labels", "scores"]
    _export(OfOneImage(), torch.rand(3, 240, 320), path, names, {1: "height", 2: "width"})


def _write_gpt2(path: Path) -> None:
    """GPT-2 of 4 layers and 256 features (transformers), without past keys, for texts of any number and length."""
    here = str(Path(__file__).parent)
    sys.path = [folder for folder in sys.path if folder != here]  # transformers would import kernels.py for a package
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=1000, n_positions=512, n_embd=256, n_layer=4, n_head=4, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    config._attn_implementation = "eager"
    model = transformers.GPT2LMHeadModel(config)

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model.eval()

        def forward(self, tokens: Any) -> Any:
            return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits

    _export(Logits(), torch.ones((2, 8), dtype=torch.int64), path, ["tokens", "logits"], {0: "batch", 1: "length"})


def _image(rows: int, columns: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.random((3, rows, columns), np.float32)


def _tokens(batch: int, length: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.integers(0, 1000, (batch, length))


EXPORTED = {
    "Faster R-CNN MobileNetV3-320": Exported(
        "torchvision", _write_detector, {"240x320": _image(240, 320), "480x640": _image(480, 640)}, "faster_rcnn_320.onnx"
    ),
    "GPT-2 4x256": Exported(
        "transformers", _write_gpt2, {"1x16": _tokens(1, 16), "1x100": _tokens(1, 100), "4x64": _tokens(4, 64)}, "gpt2_4x256.onnx"
    ),
}


def model_of(network: Exported, folder: Path | None) -> bytes | None:
    """The model, from its file in ``folder`` or exported; None if neither the file nor the package is there."""
    if folder is not None and (folder / network.file).is_file():
        return (folder / network.file).read_bytes()
    if not all(importlib.util.find_spec(package) for package in ("torch", network.package)):
        return None
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, network.file)
        network.write(path)
        return path.read_bytes()


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for network in EXPORTED.values():
        model = model_of(network, None)
        if model is None:
            print(f"{network.file}: the package {network.package} is not installed", file=sys.stderr)
            continue
        unfinished = folder / f"{network.file}.{os.getpid()}"
        unfinished.write_bytes(model)
        unfinished.rename(folder / network.file)
        print(f"{network.file}: {len(model):,} bytes")


if __name__ == "__main__":
    main()
