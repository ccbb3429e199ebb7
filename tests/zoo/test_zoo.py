"""Small networks of torchvision and transformers, with random weights, at four sizes and more beside torch: ``make zoo``."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

from ..campaign.random_programs import kernels_once
from . import detectors, images, texts
from .expectations import NOT_EQUAL, expected
from .exporters import EXPORTERS, end_of, in_order_of

FAMILIES = {**texts.FAMILIES.by_name, **images.FAMILIES.by_name, **detectors.FAMILIES.by_name}


@pytest.mark.extensive(family=("bert", "llama", "resnet18"), exporter=("torch",))
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_torch(family: str, exporter: str) -> None:
    if exporter != "torch":
        pytest.importorskip("onnx")
    with kernels_once.looked_up_once(kernels_once.hand_written_native):
        end = end_of(FAMILIES[family], exporter)
    known = expected(family, exporter)
    if known is None:
        assert end.kind == "equal", end.reason
    else:
        assert known.is_of(family, exporter, end), end


def test_objects_of_near_scores_may_change_places() -> None:
    boxes, labels, scores = np.float32([[0, 1], [2, 3], [4, 5]]), np.int64([1, 1, 1]), np.float32([0.7, 0.5, 0.5])
    objects, changed = [boxes, labels, scores], [boxes[[0, 2, 1]], labels, scores]
    assert np.array_equal(in_order_of(objects, changed, 1e-3)[0], boxes)
    first_last = [x[[1, 0, 2]] for x in objects]
    assert np.array_equal(in_order_of(objects, [first_last[0], labels, scores], 1e-3)[0][0], boxes[1])


def test_reasons_are_of_families() -> None:
    assert {name for known in NOT_EQUAL for name in known.families} <= set(FAMILIES)
    assert all(len(set(family.sizes)) >= 4 for family in FAMILIES.values())
