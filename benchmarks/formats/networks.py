"""Networks that onnxruntime's tools quantise, in both of their forms."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from convolutions import mobilenet_v2, resnet50
from encoder import Size, encoder
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from vision_networks import resnet18, yolo

from .case import Case

#: The encoder, and the words of its texts.
ENCODER, WORDS = Size(layers=6, features=384, heads=6, inner=1536, vocabulary=1000), (16, 100, 384)
#: Networks for images, and the rows and columns of an image.
IMAGES: dict[str, tuple[Callable[[], bytes], int]] = {
    "ResNet-18": (resnet18, 224),
    "ResNet-50": (resnet50, 224),
    "MobileNetV2": (mobilenet_v2, 224),
    "YOLOv5n": (yolo, 320),
}
#: The forms of onnxruntime's static quantisation, and the most that results differ, in parts of the largest.
FORMS = {"QDQ": QuantFormat.QDQ, "QOperator": QuantFormat.QOperator}
ERROR = 0.15

Feeds = list[dict[str, np.ndarray]]


class _Calibration(CalibrationDataReader):
    """Inputs for the calibration of a network."""

    def __init__(self, feeds: Feeds) -> None:
        self.feeds = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next inputs."""
        return next(self.feeds, None)


def statically(real: bytes, form: str, feeds: Feeds) -> bytes:
    """A network with bytes: data without a sign, for which onnxruntime is fastest, and weights with a scale for each channel."""
    with tempfile.TemporaryDirectory() as folder:
        source, prepared, target = (Path(folder, f"{name}.onnx") for name in ("real", "prepared", "bytes"))
        source.write_bytes(real)
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(prepared, target, _Calibration(feeds), quant_format=FORMS[form], per_channel=True, **types)
        return target.read_bytes()


def dynamically(real: bytes) -> bytes:
    """A network with weights of bytes, whose data are quantised at run time."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "real.onnx"), Path(folder, "bytes.onnx")
        source.write_bytes(real)
        quantize_dynamic(source, target, weight_type=QuantType.QInt8)
        return target.read_bytes()


def _texts(counts: Sequence[int]) -> Feeds:
    return [{"x": np.random.default_rng(n).integers(0, ENCODER.vocabulary, (ENCODER.batch, n))} for n in counts]


def dynamic(words: Sequence[int]) -> Iterator[Case]:
    """The encoder, quantised at run time."""
    real = encoder(ENCODER)
    narrow = dynamically(real)
    for feed in _texts(words):
        yield Case(f"encoder, dynamic, words {feed['x'].shape[1]}", narrow, real, feed, feed, ERROR)


def static(words: Sequence[int]) -> Iterator[Case]:
    """The encoder and networks for images, quantised before."""
    real = encoder(ENCODER)
    for form in FORMS:
        narrow = statically(real, form, _texts((16, 100)))
        for feed in _texts(words):
            yield Case(f"encoder, {form}, words {feed['x'].shape[1]}", narrow, real, feed, feed, ERROR)
    rng = np.random.default_rng(0)
    for name, (build, size) in IMAGES.items():
        real, feeds = build(), [{"x": rng.standard_normal((1, 3, size, size)).astype(np.float32)} for _ in range(2)]
        for form in FORMS:
            yield Case(f"{name}, {form}", statically(real, form, feeds), real, feeds[0], feeds[0], ERROR)
