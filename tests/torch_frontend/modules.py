"""Twelve modules for the backend of ``torch.compile``, with the shape of an input at a size: for tests and benchmarks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .beside_torch import Of


class Attention(nn.Module):
    """Self-attention of one head, with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        q, k, v = self.parts(x).chunk(3, -1)
        return self.norm(x + nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0])


class Counting(nn.Module):
    """A module that writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return {"rows": x.shape[0], "sum": x.sum(0) + self.count, "none": None}


class Words(nn.Module):
    """The mean of the rows of a table, chosen by numbers that follow from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)

    def forward(self, x: Any) -> Any:
        return self.table(x.abs().mul(10).long() % 11).mean(1)


def _bottleneck() -> Any:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(2))


#: Modules, and the shape of an input at the size ``n``.
MODULES: dict[str, tuple[Any, Any]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2)), lambda n: (n, 8)),
    "convolutions": (_bottleneck, lambda n: (2, 3, 8, n + 4)),
    "attention": (Attention, lambda n: (2, n, 8)),
    "words": (Words, lambda n: (n, 6)),
    "buffer": (Counting, lambda n: (n, 4)),
    "norm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()), lambda n: (2, 4, n)),
    "upsampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), lambda n: (1, 2, n, 4)),
    "transposed": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), lambda n: (1, 2, n)),
    "softmax of halves": (lambda: Of(lambda x: x.to(torch.bfloat16).softmax(-1)), lambda n: (n, 7)),
    "scores": (lambda: Of(lambda x: x.topk(3, -1)), lambda n: (n, 9)),
    "padding": (lambda: Of(lambda x: nn.functional.pad(x, (1, 2)).cumsum(1)), lambda n: (n, 3)),
    "joined": (lambda: Of(lambda x: torch.cat([x, x.flip(0)], 0).transpose(0, 1).softmax(-1)), lambda n: (n, 7)),
}
