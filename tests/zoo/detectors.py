"""Detectors of torchvision, for one image: boxes, labels and scores of its objects, and masks or points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torchvision.models import detection

from .family import Families, Family, Sizes

#: Batch, height and width.
IMAGES = ((1, 96, 128), (1, 128, 96), (1, 75, 101), (1, 64, 64))
TIMED = ((1, 128, 128), (1, 96, 160))

FAMILIES = Families()


def _images(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return (torch.rand(sizes[0], 3, *sizes[1:]),)


class Detector(torch.nn.Module):
    """``results`` of a network for each of several images of one size."""

    def __init__(self, network: torch.nn.Module, results: Sequence[str]) -> None:
        super().__init__()
        self.network, self.results = spread(network), results

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        return [found[name] for found in self.network(list(images)) for name in self.results]


@torch.no_grad()
def spread(network: torch.nn.Module) -> torch.nn.Module:
    """The network with random weights scaled so that the results of each layer have a deviation of 1 for an image.

    Objects are found, and their scores lie apart: rounding seldom chooses others.
    """

    def scale(layer: torch.nn.Module, given: Any, result: torch.Tensor) -> torch.Tensor:
        hooks.pop(layer).remove()
        layer.weight /= result.std()
        return result / result.std()

    hooks = {}
    for layer in network.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.ConvTranspose2d | torch.nn.Linear):
            if layer.bias is not None:
                layer.bias.zero_()
            hooks[layer] = layer.register_forward_hook(scale)
    network.eval()(list(_images(IMAGES[0])[0]))
    assert not hooks, "a layer was not run"
    return network


def _add(name: str, *more: str, **options: Any) -> None:
    def make() -> torch.nn.Module:
        network = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **options)
        return Detector(network, ("boxes", "labels", "scores", *more))

    FAMILIES.add(Family(name, make, _images, IMAGES, ((2, 3),), TIMED, 1e-3, finds_objects=True))


_SIZES = {"min_size": 64, "max_size": 128}
_PROPOSALS = {"rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 30, "box_detections_per_img": 20, **_SIZES}
_BEST = {"topk_candidates": 60, "detections_per_img": 20}
for _name in ("fasterrcnn_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_fpn"):
    _add(_name, **_PROPOSALS)
_add("maskrcnn_resnet50_fpn", "masks", **_PROPOSALS)
_add("keypointrcnn_resnet50_fpn", "keypoints", "keypoints_scores", num_keypoints=3, **_PROPOSALS)
for _name in ("retinanet_resnet50_fpn", "fcos_resnet50_fpn"):
    _add(_name, **_BEST, **_SIZES)
for _name in ("ssd300_vgg16", "ssdlite320_mobilenet_v3_large"):
    _add(_name, **_BEST)
