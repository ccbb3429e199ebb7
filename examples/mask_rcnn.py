"""Run torchvision's Mask R-CNN, whole, on images of several sizes, with 0, 1, 30 and 100 detections, beside torch.

    pip install 'relayvm[torch]' torchvision
    python examples/mask_rcnn.py [--device cpu|sim|cuda] [--out FOLDER]

torch's exporter to TorchScript writes the model, from the image to the masks: the loop over the detections, in which each mask
is resized to its box, stays a loop.  (``torch.export`` ends with a guard on a size that is known at run time only, in the choice
of proposals.)  The model is compiled once for all sizes.  The weights are random: the example shows that sizes and numbers are
those of torch.

The threshold of scores is an input, so that an image has as many detections as wanted.  ``--out`` keeps the model, and an input
for the commands.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torchvision
from torch import Tensor, nn

import relayvm as relay

CLASSES, SHORTER, LONGER = 9, 128, 256
#: Height and width of images.
SIZES = ((160, 200), (200, 160), (96, 128), (256, 320))
#: Detections of an image.
COUNTS = (0, 1, 30, 100)
#: The largest differences of boxes (in pixels), of scores and of masks.
NEAR = (2e-2, 1e-4, 1e-2)


class Detector(nn.Module):
    """An image (3, height, width) and a threshold to boxes (n, 4), labels (n,), scores (n,) and masks (n, 1, height, width).

    The random weights are scaled so that scores lie apart, and boxes have different sizes.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = torchvision.models.detection.maskrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=CLASSES, min_size=SHORTER, max_size=LONGER,
            rpn_pre_nms_top_n_test=200, rpn_post_nms_top_n_test=100,
        )  # fmt: skip
        heads = self.network.rpn.head.cls_logits, self.network.roi_heads.box_predictor
        for weight, deviation in ((heads[0].weight, 0.05), (heads[1].cls_score.weight, 0.02), (heads[1].bbox_pred.weight, 0.002)):
            nn.init.normal_(weight, std=deviation)
        for module in self.network.modules():
            if isinstance(module, torchvision.ops.misc.FrozenBatchNorm2d):
                module.weight.fill_(0.5)

    def forward(self, image: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        self.network.roi_heads.score_thresh = threshold
        found = self.network([image])[0]
        return found["boxes"], found["labels"], found["scores"], found["masks"]


def export(detector: Detector, path: Path) -> None:
    """Write the model with open heights and widths."""
    names = ["boxes", "labels", "scores", "masks"]
    axes = {"image": {1: "height", 2: "width"}, **{name: {0: "n"} for name in names[:3]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns that it is the old one, and of sizes, which it follows
        torch.onnx.export(detector, (torch.rand(3, *SIZES[0]), torch.tensor(0.5)), path, dynamo=False, opset_version=18,
                          input_names=["image", "threshold"], output_names=names,
                          dynamic_axes={**axes, "masks": {0: "n", 2: "height", 3: "width"}})  # fmt: skip
    model = onnx.load(path)
    for noted in model.graph.node:  # places in the files of torch
        noted.ClearField("doc_string")
    onnx.save(model, path)


def threshold_of(scores: np.ndarray, count: int) -> np.float32:
    """The threshold above which the best ``count`` scores are; suppression goes from the best on, so no other changes them."""
    bounds = [2.0, *scores.tolist(), 0.0]
    return np.float32((bounds[count] + bounds[count + 1]) / 2)


def difference(have: list[np.ndarray], want: list[np.ndarray]) -> str:
    """The difference of two results, up to the order of detections with equal scores; "" if there is none."""
    if [a.shape for a in have] != [a.shape for a in want]:
        return f"{len(have[0])} detections instead of {len(want[0])}"
    left = list(range(len(want[0])))
    for k, label in enumerate(have[1]):
        same = [j for j in left if want[1][j] == label and abs(want[2][j] - have[2][k]) <= NEAR[1]]
        if not same:
            return f"the detection {k} of class {label}, score {have[2][k]:.4f}, is not torch's"
        best = min(same, key=lambda j: np.abs(want[0][j] - have[0][k]).max())
        left.remove(best)
        apart = [float(np.abs(have[part][k] - want[part][best]).max()) for part in (0, 2, 3)]
        if rounds_apart(have[0][k], want[0][best]):
            apart[2] = 0.0
        if any(a > limit for a, limit in zip(apart, NEAR, strict=True)):
            return f"the detection {k} differs by {apart[0]:.1e} pixels, its mask by {apart[2]:.1e}"
    return ""


def rounds_apart(box: np.ndarray, other: np.ndarray) -> bool:
    """Whether rounding may put the masks of two boxes to other pixels: torch cuts the corners of wider boxes to integers."""
    wider = [(b[[0, 1, 0, 1]] + b[[2, 3, 2, 3]] + (b - b[[2, 3, 0, 1]]) * 30 / 28) / 2 for b in (box, other)]
    near = 2 * np.abs(box - other).max() + 1e-4
    return bool((np.abs(wider[1] - np.rint(wider[1])) <= near).any())


def run_all(detector: Detector, machine: Any, sizes: Sequence[tuple[int, int]] = SIZES, counts: Sequence[int] = COUNTS) -> bool:
    """Print a line for each size and number of detections; whether all are those of torch."""
    fine, generator = True, torch.Generator().manual_seed(1)
    print(f"  {'image':^9}  detections  copies to the host  {'bytes':>5}  as torch has it")
    for height, width in sizes:
        image = torch.rand(3, height, width, generator=generator)
        with torch.no_grad():
            scores = detector(image, torch.tensor(0.0))[2].numpy()
        for count in counts:
            threshold = threshold_of(scores, count)
            with torch.no_grad():
                want = [t.numpy() for t in detector(image, torch.tensor(threshold))]
            before = dict(machine.counters)
            results = machine.run(image.numpy(), threshold)
            copies, copied = (machine.counters[c] - before[c] for c in ("dtoh_copies", "dtoh_bytes"))
            wrong = difference([r.numpy() for r in results], want)
            fine &= not wrong and len(want[0]) == count
            print(f"  {height:>3} x {width:<3}  {len(want[0]):>10}  {copies:>18}  {copied:>5}  {wrong or 'yes'}", flush=True)
    return fine


def save_input(folder: Path) -> None:
    """An input for ``--input image=@...:image --input threshold=@...:threshold``."""
    image = torch.rand(3, *SIZES[0], generator=torch.Generator().manual_seed(1)).numpy()
    np.savez(folder / "mask_rcnn.npz", image=image, threshold=np.float32(0.5))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "sim", "cuda"])
    parser.add_argument("--out", type=Path, help="folder for the model and an input")
    arguments = parser.parse_args()
    detector = Detector().eval()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        export(detector, folder / "mask_rcnn.onnx")
        save_input(folder)
        machine = relay.VirtualMachine(relay.compile(folder / "mask_rcnn.onnx", target=arguments.device))
        print(f"mask_rcnn.onnx on {arguments.device}")
        fine = run_all(detector, machine)
    if not fine:
        print("some results differ from torch's", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
