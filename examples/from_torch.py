"""Export three modules of torch with open sizes, by both of torch's exporters, and run them at several sizes as torch does.

    pip install 'relayvm[torch]'
    python examples/from_torch.py [--device cpu|sim|cuda] [--out FOLDER]

A vision transformer takes pictures of any number, height and width; a detection head keeps the boxes that ``nonzero`` and
non-maximum suppression leave, as many as there are; a tagger runs two GRUs over sentences of any number and length.  Each model
is compiled once for all sizes.  The weights are random: the example shows that shapes and numbers are correct.

``--out`` keeps the models (``.onnx``), and the inputs and results of torch (``.npz``, an input or result an array).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxscript
import torch
from torch import Tensor, nn

import relayvm as relay

#: torch's exporters: by ``torch.export`` and by tracing to TorchScript.
EXPORTERS = ("dynamo", "torchscript")
#: Of ai.onnx, for both exporters.
OPSET = 18
#: The largest difference of a result from torch's.
NEAR = 1e-5


# ---- a vision transformer ----------------------------------------------------------------------------------------------


class Layer(nn.Module):
    """A layer of an encoder: attention, then a perceptron, each after a norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return x + self.perceptron(self.norms[1](x))


class VisionTransformer(nn.Module):
    """Pictures (n, 3, height, width), heights and widths multiples of 8, to class scores (n, 10).

    The places of the patches are resized from a grid of 4 × 4 to the picture's.
    """

    def __init__(self, width: int = 16, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=8, stride=8)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, width, 4, 4))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images)
        positions = nn.functional.interpolate(self.positions, size=x.shape[2:], mode="bilinear", align_corners=False)
        x = (x + positions).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0]))


# ---- a detection head --------------------------------------------------------------------------------------------------


@torch.library.custom_op("relayvm_example::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Numbers of the boxes (n, 4) that stay, best score first: none shares more than ``threshold`` with a better one."""
    order = scores.argsort(descending=True, stable=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[Tensor] = []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        low, high = torch.maximum(boxes[best, :2], boxes[order, :2]), torch.minimum(boxes[best, 2:], boxes[order, 2:])
        shared = (high - low).clamp(min=0).prod(dim=1)
        order = order[shared / (areas[best] + areas[order] - shared) <= threshold]
    return torch.stack(kept) if kept else order.clone()


@nms.register_fake
def _(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    return boxes.new_empty([torch.library.get_ctx().new_dynamic_size()], dtype=torch.int64)


ops = onnxscript.opset18


def nms_by_dynamo(boxes: Any, scores: Any, threshold: float) -> Any:
    """The operator of ONNX for ``nms``, as the exporter by ``torch.export`` writes it."""
    most = ops.Constant(value_int=2**31 - 1)
    batches = ops.Unsqueeze(boxes, ops.Constant(value_ints=[0]))
    classes = ops.Unsqueeze(scores, ops.Constant(value_ints=[0, 1]))
    kept = ops.NonMaxSuppression(batches, classes, most, ops.Constant(value_float=threshold))
    return ops.Squeeze(ops.Slice(kept, ops.Constant(value_ints=[2]), ops.Constant(value_ints=[3]), ops.Constant(value_ints=[1])),
                       ops.Constant(value_ints=[1]))  # fmt: skip


def nms_by_torchscript(g: Any, boxes: Any, scores: Any, threshold: Any) -> Any:
    """The operator of ONNX for ``nms``, as the exporter to TorchScript writes it."""

    def number(value: Any) -> Any:
        return g.op("Constant", value_t=torch.tensor(value))

    batches, classes = g.op("Unsqueeze", boxes, number([0])), g.op("Unsqueeze", scores, number([0, 1]))
    iou = g.op("Cast", threshold, to_i=1)
    kept = g.op("NonMaxSuppression", batches, classes, number([2**31 - 1]), iou)
    return g.op("Squeeze", g.op("Gather", kept, number([2]), axis_i=1), number([1]))


class DetectionHead(nn.Module):
    """Features (1, 8, height, width) to boxes (k, 4), scores (k,) and classes (k,); k is known only after the run.

    Each place of the features predicts a box around it and scores of three classes.
    """

    def __init__(self, channels: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Conv2d(channels, 24, 3, padding=1), nn.ReLU())
        self.scores, self.sizes = nn.Conv2d(24, classes, 1), nn.Conv2d(24, 4, 1)
        nn.init.normal_(self.scores.weight)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.shared(features)
        scores, sizes = self.scores(x)[0].flatten(1).t().sigmoid(), self.sizes(x)[0].flatten(1).t()
        rows = torch.arange(x.shape[2], dtype=x.dtype).unsqueeze(1).expand(x.shape[2], x.shape[3]).flatten()
        columns = torch.arange(x.shape[3], dtype=x.dtype).unsqueeze(0).expand(x.shape[2], x.shape[3]).flatten()
        centres = torch.stack([columns, rows], dim=1)
        boxes = torch.cat([centres - sizes[:, :2].exp(), centres + sizes[:, 2:].exp()], dim=1)
        best, classes = scores.max(dim=1)
        found = (best > 0.9).nonzero().squeeze(1)
        boxes, best, classes = boxes[found], best[found], classes[found]
        kept = nms(boxes, best, 0.4)
        return boxes[kept], best[kept], classes[kept]


# ---- a tagger ----------------------------------------------------------------------------------------------------------


class Tagger(nn.Module):
    """Words (n, length), int64 below 100, to scores of 7 tags for each word: (n, length, 7)."""

    def __init__(self, words: int = 100, width: int = 8, hidden: int = 12, tags: int = 7) -> None:
        super().__init__()
        self.meanings = nn.Embedding(words, width)
        self.gru = nn.GRU(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, words: Tensor) -> Tensor:
        return self.tags(self.gru(self.meanings(words))[0])


# ---- exporting and running ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A module, its input's name, the names of its open axes, its results, and the sizes to run at.

    ``make``: an input of a size.  The first size is the one that the exporters see.
    """

    module: Callable[[], nn.Module]
    input: str
    axes: dict[int, str]
    outputs: Sequence[str]
    make: Callable[[torch.Generator, Sequence[int]], Tensor]
    sizes: Sequence[tuple[int, ...]]
    #: Of open axes whose sizes are multiples of a number, that number.
    multiples: Mapping[int, int] = field(default_factory=dict)


def floats(channels: int) -> Callable[[torch.Generator, Sequence[int]], Tensor]:
    """The maker of random inputs (n, channels, height, width): multiples of 1/8 from -2 to 2."""
    return lambda generator, size: torch.randint(-16, 17, (size[0], channels, *size[1:]), generator=generator) / 8


def words(generator: torch.Generator, size: Sequence[int]) -> Tensor:
    """Random words of sentences: int64 of shape ``size``."""
    return torch.randint(0, 100, tuple(size), generator=generator)


CASES = {
    "vision_transformer": Case(VisionTransformer, "pictures", {0: "n", 2: "height", 3: "width"}, ["scores"], floats(3),
                               [(2, 32, 48), (1, 32, 32), (1, 8, 8), (3, 64, 24), (4, 16, 72), (0, 32, 32)], {2: 8, 3: 8}),
    "detection_head": Case(DetectionHead, "features", {2: "height", 3: "width"}, ["boxes", "scores", "classes"], floats(8),
                           [(1, 12, 16), (1, 1, 1), (1, 7, 3), (1, 20, 31), (1, 32, 32), (1, 2, 9)]),
    "tagger": Case(Tagger, "words", {0: "n", 1: "length"}, ["tags"], words,
                   [(3, 9), (1, 1), (1, 30), (5, 2), (16, 12), (0, 4)]),
}  # fmt: skip


def export(name: str, exporter: str, path: Path) -> nn.Module:
    """Write a case's module as a model with open sizes, by one of EXPORTERS; returns the module."""
    case = CASES[name]
    torch.manual_seed(0)
    module = case.module().eval()
    example = case.make(torch.Generator().manual_seed(0), case.sizes[0])
    common: dict[str, Any] = {"input_names": [case.input], "output_names": case.outputs, "opset_version": OPSET}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter to TorchScript warns that it is the old one
        if exporter == "dynamo":
            table: dict[Any, Any] = {torch.ops.relayvm_example.nms.default: nms_by_dynamo}
            sizes = {axis: _open(symbol, case.multiples.get(axis, 1)) for axis, symbol in case.axes.items()}
            torch.onnx.export(module, (example,), path, dynamo=True, dynamic_shapes=(sizes,), external_data=False,
                              custom_translation_table=table, verbose=False, **common)  # fmt: skip
        else:
            torch.onnx.register_custom_op_symbolic("relayvm_example::nms", nms_by_torchscript, OPSET)
            torch.onnx.export(module, (example,), path, dynamo=False, dynamic_axes={case.input: case.axes}, **common)
    drop_notes(path)
    return module


def drop_notes(path: Path) -> None:
    """Drop the exporter's notes on nodes: places in the files of torch, which are most of a small model's bytes."""
    model = onnx.load(path)
    for noted in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        noted.ClearField("metadata_props")
        noted.ClearField("doc_string")
    onnx.save(model, path)


def _open(symbol: str, multiple: int) -> Any:
    """The size of an open axis for ``torch.export``."""
    return torch.export.Dim(symbol) if multiple == 1 else multiple * torch.export.Dim(symbol)


def expected(name: str, module: nn.Module) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """An input, and what torch makes of it, at each size of a case."""
    pairs = []
    for number, size in enumerate(CASES[name].sizes):
        given = CASES[name].make(torch.Generator().manual_seed(number), size)
        with torch.no_grad():
            results = module(given)
        pairs.append((given.numpy(), [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]))
    return pairs


# ---- the command -------------------------------------------------------------------------------------------------------


def differences(path: Path, pairs: Sequence[tuple[np.ndarray, list[np.ndarray]]], device: str) -> list[float]:
    """The largest difference from torch's results at each size."""
    machine = relay.VirtualMachine(relay.compile(path, target=device))
    found = []
    for given, want in pairs:
        results = machine.run(given)
        have = [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]
        found.append(max(difference(h, w) for h, w in zip(have, want, strict=True)))
    return found


def difference(have: np.ndarray, want: np.ndarray) -> float:
    """The largest difference of two arrays; infinite for another shape or dtype."""
    if (have.shape, have.dtype) != (want.shape, want.dtype):
        return float("inf")
    return float(np.abs(have - want).max(initial=0))


def run_case(name: str, folder: Path, device: str) -> float:
    """Export a case's module, record torch's results, run the models and print a line for each; the largest difference."""
    worst = 0.0
    for exporter in EXPORTERS:
        path = folder / f"{name}.{exporter}.onnx"
        pairs = expected(name, export(name, exporter, path))
        found = differences(path, pairs, device)
        worst = max(worst, *found)
        sizes = ", ".join(str(given.shape) for given, _ in pairs)
        print(f"{name} by {exporter}, {path.stat().st_size:,} bytes: at most {max(found):.1e} from torch at {sizes}")
    arrays = {f"input_{k}": given for k, (given, _) in enumerate(pairs)}
    arrays |= {f"result_{k}_{n}": array for k, (_, results) in enumerate(pairs) for n, array in enumerate(results)}
    np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **arrays)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "sim", "cuda"])
    parser.add_argument("--out", type=Path, help="folder for the models, and for torch's inputs and results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        worst = max(run_case(name, folder, arguments.device) for name in CASES)
    return int(worst > NEAR)


if __name__ == "__main__":
    sys.exit(main())
