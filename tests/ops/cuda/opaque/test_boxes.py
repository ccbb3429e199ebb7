"""get_valid_counts and non_max_suppression on the emulated GPU, against the slow reference of the CPU's tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.kernels.vision import masks_cuda

from ....emulator import emulator
from ...images.test_vision import kept_boxes
from ..on_gpu import Ran, run

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)


def boxes_of(rng: np.random.Generator, shape: tuple[int, int], is_coarse: bool) -> np.ndarray:
    """Corners, score, class.  Coarse ones: equal scores, equal and empty boxes, corners in any order."""
    corner = rng.random((*shape, 2)) * 30
    columns = [corner, corner + 2 + rng.random((*shape, 2)) * 9, rng.random((*shape, 1))]
    if is_coarse:
        columns = [rng.integers(0, 6, (*shape, 4)) * 2.0, rng.integers(-4, 9, (*shape, 1)) / 8]
    return np.concatenate([*columns, rng.integers(-1, 2, (*shape, 1))], -1)


@st.composite
def detections(draw: st.DrawFn) -> dict[str, Any]:
    batches, boxes = draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, 2, 25, 63, 64, 65, 130, 200]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return {
        "data": boxes_of(rng, (batches, boxes), draw(st.booleans())).astype(draw(st.sampled_from(["float32", "float64"]))),
        "valid_count": rng.integers(-1, boxes + 2, batches).astype(np.int32),
        "indices": rng.permuted(np.tile(np.arange(boxes, dtype=np.int32), (batches, 1)), axis=1),
        "limit": draw(st.sampled_from([-1, -1, 0, 1, 5, 64])),
        "threshold": draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])),
        "top_k": draw(st.sampled_from([-1, 0, 1, 3, 70])),
        "schedule": draw(st.integers(0, 3)),
        "masks": draw(st.sampled_from(["all", "strips", "none"])),
    }


def choose_by(patch: pytest.MonkeyPatch, masks: str) -> None:
    """Masks of all boxes, of strips of 64 boxes, or none."""
    patch.setattr(masks_cuda, "MASK_BYTES", -1 if masks == "none" else masks_cuda.MASK_BYTES)
    patch.setattr(masks_cuda, "MASKED_BOXES", 0 if masks == "strips" else masks_cuda.MASKED_BOXES)
    patch.setattr(masks_cuda, "STRIPS", (64,))


def suppress(case: dict[str, Any], **attrs: Any) -> Ran:
    data = case["data"]
    inputs = [data, case["valid_count"], case["indices"], np.array(case["limit"]), np.array(case["threshold"], data.dtype)]
    with pytest.MonkeyPatch.context() as patch:
        choose_by(patch, case["masks"])
        attrs |= {"coord_start": 0, "score_index": 4, "top_k": case["top_k"]}
        return run("vision.non_max_suppression", inputs, schedule=case["schedule"], **attrs)


def expected_of(case: dict[str, Any], b: int, force: bool, kind: int) -> list[int]:
    """For each rank the position kept, or -1."""
    boxes = case["data"].shape[1]
    valid = case["data"][b, : min(max(case["valid_count"][b], 0), boxes)]
    if case["threshold"] <= 0:
        return list(range(len(valid)))
    return kept_boxes(valid, case["limit"], case["threshold"], case["top_k"], force, 0, 4, kind)


@pytest.mark.extensive
@settings(max_examples=40)
@given(detections(), st.sampled_from([(False, 5), (True, 5), (False, -1)]))
def test_suppression_gives_the_indices_of_the_kept_boxes(case: dict[str, Any], kinds: tuple[bool, int]) -> None:
    force, kind = kinds
    (out, count), status, _ = suppress(case, force_suppress=force, id_index=kind)
    assert status == 0
    for b in range(len(case["data"])):
        kept = [case["indices"][b, i] for i in expected_of(case, b, force, kind) if i >= 0]
        assert count[b, 0] == len(kept)
        assert out[b].tolist() == kept + [-1] * (case["data"].shape[1] - len(kept))


@pytest.mark.extensive
@settings(max_examples=30)
@given(detections(), st.booleans())
def test_suppression_gives_the_boxes(case: dict[str, Any], invalid_to_bottom: bool) -> None:
    data = case["data"]
    (out,), status, _ = suppress(case, return_indices=False, id_index=5, invalid_to_bottom=invalid_to_bottom)
    assert status == 0
    for b in range(len(data)):
        ranks = expected_of(case, b, False, 5)
        expected = np.full(data.shape[1:], -1, data.dtype)
        for at, i in enumerate([i for i in ranks if i >= 0] if invalid_to_bottom else ranks):
            if i >= 0:
                expected[at] = data[b, i]
        np.testing.assert_array_equal(out[b], expected)


@settings(max_examples=25)
@given(detections(), st.sampled_from([-1.0, 0.0, 0.25, 2.0]), st.sampled_from([-1, 5]))
def test_valid_counts(case: dict[str, Any], threshold: float, kind: int) -> None:
    data = case["data"]
    inputs = [data, np.array(threshold, np.float32)]
    attrs = {"id_index": kind, "score_index": 4, "schedule": case["schedule"]}
    (count, out, indices), status, _ = run("vision.get_valid_counts", inputs, **attrs)
    assert status == 0
    for b in range(len(data)):
        good = [i for i, box in enumerate(data[b]) if box[4] > threshold and (kind < 0 or box[kind] >= 0)]
        rest = data.shape[1] - len(good)
        assert count[b] == len(good) and indices[b].tolist() == good + [-1] * rest
        np.testing.assert_array_equal(out[b, : len(good)], data[b, good])
        assert (out[b, len(good) :] == -1).all()


def test_many_boxes_with_constant_thresholds() -> None:
    data = boxes_of(np.random.default_rng(0), (2, 2500), is_coarse=False).astype(np.float32)
    attrs: dict[str, Any] = {"id_index": 5, "score_index": 4, "literals": (1,)}
    (count, valid, indices), _, _ = run("vision.get_valid_counts", [data, np.array(0.7, np.float32)], **attrs)
    assert count.tolist() == ((data[:, :, 4] > np.float32(0.7)) & (data[:, :, 5] >= 0)).sum(1).tolist()
    for limit in (60, -1):
        inputs = [valid, count, indices, np.array(limit, np.int32), np.array(0.4, np.float32)]
        attrs = {"coord_start": 0, "score_index": 4, "id_index": 5, "literals": (3, 4)}
        (out, kept), _, _ = run("vision.non_max_suppression", inputs, **attrs)
        for b in range(2):
            wanted = kept_boxes(valid[b, : count[b]], limit, 0.4, -1, False, 0, 4, 5)
            assert out[b, : kept[b, 0]].tolist() == [int(indices[b, i]) for i in wanted if i >= 0]


def greedy(boxes: np.ndarray, scores: np.ndarray, threshold: np.float32) -> list[int]:
    """The positions of the boxes that are kept, best first."""
    low, high = boxes[:, :2], boxes[:, 2:]
    area = (high - low).prod(1)
    waiting, kept = np.argsort(-scores, kind="stable"), list[int]()
    while waiting.size:
        first, rest = waiting[0], waiting[1:]
        kept.append(int(first))
        sides = np.minimum(high[rest], high[first]) - np.maximum(low[rest], low[first])
        shared = np.where((sides > 0).all(1), sides.prod(1), np.float32(0))
        waiting = rest[~(shared / (area[rest] + area[first] - shared) >= threshold)]
    return kept


@pytest.mark.split(2)
@pytest.mark.parametrize(("side", "few"), [(30, True), (900, False)])
def test_more_boxes_than_words_are_loaded_ahead_for(side: float, few: bool) -> None:
    """Boxes of 79 tiles: the words of the last tiles are looked through in turns."""
    n, rng = 5000, np.random.default_rng(3)
    corner = rng.random((1, n, 2)) * side
    data = np.concatenate([corner, corner + 2 + rng.random((1, n, 2)) * 9, rng.random((1, n, 1))], -1).astype(np.float32)
    inputs = [
        data,
        np.array([n], np.int32),
        np.arange(n, dtype=np.int32)[None],
        np.array(-1, np.int32),
        np.array(0.3, np.float32),
    ]
    (out, count), _, _ = run("vision.non_max_suppression", inputs, schedule=2, coord_start=0, score_index=4, id_index=-1)
    wanted = greedy(data[0, :, :4], data[0, :, 4], np.float32(0.3))
    assert out[0, : count[0, 0]].tolist() == wanted and (len(wanted) < n / 10) == few
