"""Convolutions of known networks, for ``models.py``: one of each shape, with its bias and activation; H and W are open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Convolution:
    """A convolution of ``inputs`` to ``outputs`` channels with a square kernel; its data has ``rows`` rows and columns."""

    network: str
    inputs: int
    outputs: int
    rows: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        kind = "depthwise" if self.groups > 1 else f"{self.inputs}>{self.outputs}"
        return f"{self.network} {kind if self.groups == 1 else f'{self.inputs} {kind}'} {self.rows} k{self.kernel} s{self.stride}"

    @property
    def gflop(self) -> float:
        """Multiplications and additions, in thousand millions."""
        places = (self.rows // self.stride) ** 2
        return 2e-9 * places * self.outputs * (self.inputs // self.groups) * self.kernel**2


def _depthwise(channels: int, rows: int, kernel: int = 3, stride: int = 1) -> Convolution:
    network = "ocr" if kernel == 5 else "mobilenet"
    return Convolution(network, channels, channels, rows, kernel, stride, channels)


CONVOLUTIONS = (
    Convolution("resnet", 3, 64, 224, 7, 2),
    Convolution("resnet", 64, 64, 56),
    Convolution("resnet", 64, 64, 56, 3),
    Convolution("resnet", 64, 256, 56),
    Convolution("resnet", 256, 64, 56),
    Convolution("resnet", 256, 128, 56),
    Convolution("resnet", 128, 128, 56, 3, 2),
    Convolution("resnet", 256, 512, 56, 1, 2),
    Convolution("resnet", 128, 512, 28),
    Convolution("resnet", 512, 128, 28),
    Convolution("resnet", 128, 128, 28, 3),
    Convolution("resnet", 256, 256, 14, 3),
    Convolution("resnet", 256, 1024, 14),
    Convolution("resnet", 1024, 256, 14),
    Convolution("resnet", 512, 512, 7, 3),
    Convolution("resnet", 512, 2048, 7),
    Convolution("resnet", 2048, 512, 7),
    Convolution("mobilenet", 3, 32, 224, 3, 2),
    Convolution("mobilenet", 16, 96, 112),
    Convolution("mobilenet", 24, 144, 56),
    Convolution("mobilenet", 144, 32, 28),
    Convolution("mobilenet", 64, 384, 14),
    Convolution("mobilenet", 384, 64, 14),
    Convolution("mobilenet", 960, 160, 7),
    Convolution("mobilenet", 320, 1280, 7),
    _depthwise(32, 112),
    _depthwise(96, 112, 3, 2),
    _depthwise(144, 56),
    _depthwise(192, 28),
    _depthwise(384, 14),
    _depthwise(960, 7),
    Convolution("ocr", 3, 16, 320, 3, 2),
    Convolution("ocr", 96, 24, 80, 3),
    Convolution("ocr", 24, 24, 160, 3),
    Convolution("ocr", 96, 96, 80),
    _depthwise(120, 40, 5),
)
