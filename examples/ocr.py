"""Text from a picture: lines with their boxes, and the picture with the boxes drawn.

    python examples/ocr.py [PICTURE] [--device cpu|sim|cuda] [--out FOLDER]

Without PICTURE the program draws a page of its own and counts the characters that it reads correctly.

Three models of the package `rapidocr-onnxruntime` (`pip install 'relayvm[ocr]'`) run on the virtual machine: detection for
pictures of any number and size, direction of each line, recognition of lines of any width.  The package's own code prepares
their inputs and reads their outputs.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import relayvm as relay

LEAST_READ = 0.99
PAGE = (
    "The quick brown fox jumps over the lazy dog.",
    "Sizes of tensors are known at run time only.",
    "Invoice 20418: 3 parts at 17.50 each, total 52.50",
    "Detection finds the lines, whatever their number.",
    "Recognition reads a line of any width.",
    "0123456789 ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "One executable serves every picture.",
)
#: The files of the models in the package.
MODELS = {
    "detection": "ch_PP-OCRv4_det_infer",
    "direction": "ch_ppocr_mobile_v2.0_cls_infer",
    "recognition": "ch_PP-OCRv4_rec_infer",
}
Box = list[list[float]]


def model_file(name: str) -> Path:
    """The file of one of ``MODELS`` in the installed package, which is not imported."""
    found = importlib.util.find_spec("rapidocr_onnxruntime")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package rapidocr-onnxruntime is not installed: pip install 'relayvm[ocr]'")
    return Path(found.submodule_search_locations[0]) / "models" / f"{MODELS[name]}.onnx"


@dataclass(frozen=True)
class Line:
    """A line of text; ``box``: its four corners (x, y) in pixels, clockwise from the upper left."""

    box: Box
    text: str
    score: float


def page(lines: tuple[str, ...] = PAGE) -> Image.Image:
    """A white page with these lines in black."""
    font = ImageFont.load_default(size=32)
    image = Image.new("RGB", (900, 60 + 70 * len(lines)), "white")
    draw = ImageDraw.Draw(image)
    for number, text in enumerate(lines):
        draw.text((40, 40 + 70 * number), text, fill="black", font=font)
    return image


class Session:
    """A model on the virtual machine, with the methods of the package's `OrtInferSession`."""

    device = "cpu"

    def __init__(self, config: dict[str, Any]) -> None:
        path = Path(config["model_path"])
        self._metadata = relay.frontend.onnx_metadata(path)
        self._machine = relay.VirtualMachine(relay.compile(path, target=self.device))

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        return [self._machine.run(batch).numpy()]

    def have_key(self, key: str = "character") -> bool:
        """Whether the model stores its characters."""
        return key in self._metadata

    def get_character_list(self, key: str = "character") -> list[str]:
        """The characters that the model can recognise, by class."""
        return self._metadata[key].splitlines()


@contextmanager
def sessions_of(session: type) -> Iterator[None]:
    """Let the package make these sessions for its three models."""
    from rapidocr_onnxruntime.ch_ppocr_cls import text_cls
    from rapidocr_onnxruntime.ch_ppocr_det import text_detect
    from rapidocr_onnxruntime.ch_ppocr_rec import text_recognize

    modules = (text_detect, text_cls, text_recognize)
    before = [module.OrtInferSession for module in modules]
    try:
        for module in modules:
            module.OrtInferSession = session
        yield
    finally:
        for module, own in zip(modules, before, strict=True):
            module.OrtInferSession = own


def reader(device: str = "cpu") -> Callable[[Image.Image], list[Line]]:
    """A function from a picture to its lines, from top to bottom; the models run on ``device``."""
    model_file("detection")  # says which package is missing
    from rapidocr_onnxruntime import RapidOCR

    with sessions_of(type("DeviceSession", (Session,), {"device": device})):
        engine = RapidOCR()

    def read(image: Image.Image) -> list[Line]:
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]  # the models take blue first
        found, _ = engine(np.ascontiguousarray(pixels))
        return [Line(box, text, float(score)) for box, text, score in found or []]

    return read


def with_boxes(image: Image.Image, lines: list[Line]) -> Image.Image:
    """The picture with the box of each line in red."""
    drawn = image.convert("RGB")
    draw = ImageDraw.Draw(drawn)
    for line in lines:
        draw.polygon([(x, y) for x, y in line.box], outline=(220, 0, 0), width=2)
    return drawn


def share_read(lines: list[Line], wanted: tuple[str, ...] = PAGE) -> float:
    """The share of the wanted characters that were read, in their order; spaces and the ends of lines count."""
    got, want = ("\n".join(texts) for texts in ([line.text for line in lines], wanted))
    matches = difflib.SequenceMatcher(None, got, want, autojunk=False).get_matching_blocks()
    return sum(m.size for m in matches) / len(want)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, metavar="PICTURE")
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    parser.add_argument("--out", type=Path, default=Path("build/examples"), help="folder of the picture with boxes")
    args = parser.parse_args()

    image = page() if args.image is None else Image.open(args.image)
    lines = reader(args.device)(image)
    for line in lines:
        corners = " ".join(f"({x:.0f}, {y:.0f})" for x, y in line.box)
        print(f"{line.text}    {line.score:.3f}  {corners}")
    out = args.out / f"{'page' if args.image is None else args.image.stem}_boxes.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    with_boxes(image, lines).save(out)
    print(f"{len(lines)} lines; their boxes are drawn in {out}")
    if args.image is None:
        share = share_read(lines)
        print(f"{share:.1%} of the page's characters were read")
        return 0 if share >= LEAST_READ else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
