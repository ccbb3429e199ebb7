"""Families of torchvision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torchvision import models

from .family import Families, Family, Sizes

#: Batch, height and width.
IMAGES = ((2, 64, 64), (1, 64, 64), (3, 64, 96), (1, 96, 64))
#: Batch, for networks whose images have one size.
BATCHES = ((2, 64, 64), (1, 64, 64), (3, 64, 64), (5, 64, 64))
#: Sizes that are timed, where they are open.
TIMED = ((1, 128, 128), (2, 160, 128))

FAMILIES = Families()


def _images(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return (torch.randn(sizes[0], 3, *sizes[1:]),)


def _network(name: str, **options: Any) -> Callable[[], torch.nn.Module]:
    return lambda: getattr(models, name)(weights=None, **options)


def _add(
    name: str,
    make: Callable[..., torch.nn.Module],
    sizes: Sequence[Sizes] = IMAGES,
    tolerance: float = 1e-3,
    wider: Callable[[int], torch.nn.Module] | None = None,
) -> None:
    axes = [k for k, axis in enumerate((0, 2, 3)) if len({s[k] for s in sizes}) > 1]
    timed = [tuple(size if k in axes else fixed for k, (size, fixed) in enumerate(zip(t, sizes[0], strict=True))) for t in TIMED]
    FAMILIES.add(Family(name, make, _images, sizes, ([(0, 2, 3)[k] for k in axes],), timed, tolerance, wider))


for _name in (
    "resnet18", "squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121", "shufflenet_v2_x0_5",
    "convnext_tiny", "regnet_y_400mf", "mnasnet0_5", "vgg11", "alexnet",
):  # fmt: skip
    _add(_name, _network(_name))
_add("googlenet", _network("googlenet", init_weights=False, aux_logits=False))
_add("inception_v3", _network("inception_v3", init_weights=False, aux_logits=False),
     ((2, 96, 96), (1, 96, 96), (3, 96, 128), (1, 128, 96)))  # fmt: skip


def _vit(factor: int = 1) -> torch.nn.Module:
    return models.VisionTransformer(64, 16, 2, 4, 32 * factor, 64 * factor)


def _swin(factor: int = 1) -> torch.nn.Module:
    return models.SwinTransformer([4, 4], 24 * factor, [2, 2], [2, 4], [4, 4])


_add("vit", _vit, BATCHES, wider=_vit)
_add("swin", _swin, BATCHES, wider=_swin)


def _segmentation(name: str) -> Callable[[], torch.nn.Module]:
    make = partial(getattr(models.segmentation, name), weights=None, weights_backbone=None, num_classes=5)
    return lambda: _Out(make())


class _Out(torch.nn.Module):
    """The scores of a segmentation."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> Any:
        return self.network(x)["out"]


_add("deeplabv3", _segmentation("deeplabv3_mobilenet_v3_large"))
_add("lraspp", _segmentation("lraspp_mobilenet_v3_large"))


class _Flow(torch.nn.Module):
    """The last flow between two images, after two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.network = models.optical_flow.raft_small(weights=None)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> Any:
        return self.network(first, second, num_flow_updates=2)[-1]


#: Multiples of 8, from 128 on.
_LARGE = ((2, 128, 136), (1, 128, 128), (3, 136, 128), (1, 144, 152))
_AXES = ((0, 2, 3), (0, 2, 3))
FAMILIES.add(Family("raft_small", _Flow, lambda sizes: (*_images(sizes), *_images(sizes)), _LARGE, _AXES, TIMED, 1e-3))

#: Batch, frames, height and width.
_CLIPS = ((2, 8, 32, 32), (1, 8, 32, 32), (3, 16, 32, 32), (1, 8, 48, 32))


def _clips(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return (torch.randn(sizes[0], 3, *sizes[1:]),)


for _name in ("r3d_18", "mc3_18"):
    _make = partial(getattr(models.video, _name), weights=None, num_classes=7)
    FAMILIES.add(Family(_name, _make, _clips, _CLIPS, ((0, 2, 3, 4),), ((1, 8, 64, 64), (2, 8, 48, 64)), 1e-3))
