"""get_valid_counts and non_max_suppression against slow, plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.detection.vision import GetValidCountsAttrs
from relayvm.shape_funcs.symbolic.registry import ShapeError

from ..opaque.opaque_kernels import Ran, run

BOXES = np.array(
    [[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [0, 0.4, 4, 21, 19, 40],
      [2, 0.9, 35, 61, 52, 79], [1, 0.5, 100, 60, 70, 110]]], np.float32,
)  # fmt: skip


def suppress(
    data: np.ndarray, valid_count: Any = None, indices: Any = None, limit: int = -1, threshold: float = 0.5, *,
    jit: bool = False, **attrs: Any,
) -> Ran:  # fmt: skip
    batches, boxes, _ = data.shape
    valid_count = np.full(batches, boxes, np.int32) if valid_count is None else np.asarray(valid_count, np.int32)
    indices = np.tile(np.arange(boxes, dtype=np.int32), (batches, 1)) if indices is None else indices
    inputs = [data, valid_count, indices, np.array(limit, np.int32), np.array(threshold, data.dtype)]
    return run("vision.non_max_suppression", inputs, jit=jit, **attrs)


# ---- the slow reference -------------------------------------------------------------------------------------------


def overlap(a: np.ndarray, b: np.ndarray) -> np.floating:
    """Intersection over union of two boxes given by two opposite corners."""
    low = np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:]))
    high = np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:]))
    shared = np.prod(np.maximum(high - low, 0), dtype=a.dtype)
    union = np.prod(np.abs(a[2:] - a[:2]), dtype=a.dtype) + np.prod(np.abs(b[2:] - b[:2]), dtype=a.dtype) - shared
    return shared / union if union > 0 else a.dtype.type(0)


def kept_boxes(boxes: np.ndarray, limit: int, threshold: float, top_k: int, force: bool, coord: int, score: int, kind: int):
    """For each rank in order of score: the position kept, or -1."""
    ranked = np.argsort(-boxes[:, score], kind="stable").tolist()
    out: list[int] = []
    for rank, i in enumerate(ranked):
        rivals = [j for j in out if j >= 0 and (kind < 0 or boxes[j, kind] >= 0)]
        if not force and kind >= 0:
            rivals = [j for j in rivals if boxes[j, kind] == boxes[i, kind]]
        corners = boxes[:, coord : coord + 4]
        fits = (top_k <= 0 or rank < top_k) and (limit < 0 or sum(j >= 0 for j in out) < limit)
        covered = any(overlap(corners[i], corners[j]) >= boxes.dtype.type(threshold) for j in rivals)
        out.append(i if fits and not covered else -1)
    return out


#: Classes of boxes: few, and those that share a bucket or are no usual class; -1: none.
KINDS = ([-1, 0, 1], [-1, 0, 0.5, 256, 512, 1 << 15, 3e9, np.nan])


@st.composite
def detections(draw: st.DrawFn) -> dict[str, Any]:
    batches, boxes = draw(st.integers(0, 3)), draw(st.integers(0, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    has_id = draw(st.booleans())
    # coarse values: equal scores, equal boxes, empty boxes, corners in any order
    columns = [rng.integers(0, 6, (batches, boxes, 4)) * 2.0, rng.integers(-4, 9, (batches, boxes, 1)) / 8]
    if has_id:
        columns.append(rng.choice(draw(st.sampled_from(KINDS)), (batches, boxes, 1)))
    data = np.concatenate(columns, -1).astype(draw(st.sampled_from(["float32", "float64"])))
    return {
        "data": data,
        "valid_count": rng.integers(0, boxes + 1, batches),
        "indices": rng.permuted(np.tile(np.arange(boxes, dtype=np.int32), (batches, 1)), axis=1),
        "limit": draw(st.integers(-1, 5)),
        "threshold": draw(st.sampled_from([0.1, 0.3, 0.5, 1.0])),
        "attrs": {
            "coord_start": 0,
            "score_index": 4,
            "id_index": 5 if has_id else -1,
            "top_k": draw(st.sampled_from([-1, 0, 1, 3, 10])),
            "force_suppress": draw(st.booleans()),
        },
    }


def expected_of(case: dict[str, Any], b: int) -> list[int]:
    attrs = case["attrs"]
    valid = case["data"][b, : case["valid_count"][b]]
    return kept_boxes(valid, case["limit"], case["threshold"], attrs["top_k"], attrs["force_suppress"], 0, 4, attrs["id_index"])


@settings(max_examples=80)
@given(detections())
def test_suppression_gives_the_indices_of_the_kept_boxes(case: dict[str, Any]) -> None:
    data = case["data"]
    (out, count), status, _ = suppress(
        data, case["valid_count"], case["indices"], case["limit"], case["threshold"], **case["attrs"]
    )
    assert status == 0 and count.shape == (len(data), 1)
    for b in range(len(data)):
        kept = [case["indices"][b, i] for i in expected_of(case, b) if i >= 0]
        assert count[b, 0] == len(kept)
        assert out[b].tolist() == kept + [-1] * (data.shape[1] - len(kept))


@settings(max_examples=60)
@given(detections(), st.booleans())
def test_suppression_gives_the_boxes(case: dict[str, Any], invalid_to_bottom: bool) -> None:
    data = case["data"]
    (out,), status, _ = suppress(
        data, case["valid_count"], case["indices"], case["limit"], case["threshold"],
        return_indices=False, invalid_to_bottom=invalid_to_bottom, **case["attrs"],
    )  # fmt: skip
    assert status == 0
    for b in range(len(data)):
        rows = [data[b, i] if i >= 0 else None for i in expected_of(case, b)]
        if invalid_to_bottom:
            rows = [r for r in rows if r is not None]
        expected = np.full(data.shape[1:], -1, data.dtype)
        for at, row in enumerate(rows):
            if row is not None:
                expected[at] = row
        np.testing.assert_array_equal(out[b], expected)


@settings(max_examples=60)
@given(detections(), st.sampled_from([-1.0, 0.0, 0.25, 2.0]))
def test_valid_counts(case: dict[str, Any], threshold: float) -> None:
    data, kind = case["data"], case["attrs"]["id_index"]
    inputs = [data, np.array(threshold, np.float32)]
    (count, out, indices), status, _ = run("vision.get_valid_counts", inputs, id_index=kind, score_index=4)
    assert status == 0
    for b in range(len(data)):
        good = [i for i, box in enumerate(data[b]) if box[4] > threshold and (kind < 0 or box[kind] >= 0)]
        rest = data.shape[1] - len(good)
        assert count[b] == len(good) and indices[b].tolist() == good + [-1] * rest
        np.testing.assert_array_equal(out[b, : len(good)], data[b, good])
        assert (out[b, len(good) :] == -1).all()


# ---- single cases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jit", [False, True])
def test_the_best_box_of_a_class_stays(jit: bool) -> None:
    (out, count), _, _ = suppress(BOXES, [4], threshold=0.7, force_suppress=True, top_k=2, jit=jit)
    assert out.tolist() == [[3, 0, -1, -1, -1]] and count.tolist() == [[2]]
    (boxes,), _, _ = suppress(BOXES, [4], threshold=0.7, force_suppress=True, top_k=2, return_indices=False, jit=jit)
    np.testing.assert_array_equal(boxes[0, :2], BOXES[0, [3, 0]])
    assert (boxes[0, 2:] == -1).all()


def test_classes_are_kept_apart_unless_forced() -> None:
    twins = np.array([[[0, 0.9, 0, 0, 2, 2], [1, 0.8, 0, 0, 2, 2], [1, 0.7, 0, 0, 2, 2]]], np.float32)
    assert suppress(twins).outputs[0].tolist() == [[0, 1, -1]]
    assert suppress(twins, force_suppress=True).outputs[0].tolist() == [[0, -1, -1]]
    assert suppress(twins, id_index=-1).outputs[0].tolist() == [[0, -1, -1]]


def test_a_threshold_of_zero_keeps_every_valid_box_in_its_place() -> None:
    (out, count), _, _ = suppress(BOXES, [3], threshold=0.0, limit=1)
    assert out.tolist() == [[0, 1, 2, -1, -1]] and count.tolist() == [[3]]


def test_a_valid_count_out_of_range_reads_no_other_memory() -> None:
    for given_count, kept in ((-5, 0), (99, 5)):
        (out, count), status, _ = suppress(BOXES, [given_count])
        assert status == 0 and count[0, 0] == kept and (out[0, kept:] == -1).all()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"score_index": 6}, "score_index is 6, but a box has 6 numbers"),
        ({"coord_start": 3}, "coord_start is 3, but a box has 6 numbers"),
        ({"id_index": 6}, "id_index is 6, but a box has 6 numbers"),
        ({"score_index": -1}, "score_index must be at least 0, not -1"),
        ({"coord_start": -1}, "coord_start must be at least 0, not -1"),
    ],
)
def test_a_field_that_boxes_do_not_have_is_an_error(attrs: dict[str, int], message: str) -> None:
    scalars = [TensorType.of((), "int32"), TensorType.of(())]
    calls = {"vision.non_max_suppression": [TensorType.of((1,), "int32"), TensorType.of((1, 5), "int32"), *scalars]}
    if "coord_start" not in attrs:
        calls["vision.get_valid_counts"] = [TensorType.of(())]
    for name, others in calls.items():
        with pytest.raises(TypeRelError) as refused:
            relate(get(name), [TensorType.of((1, 5, 6)), *others], get(name).attrs(**attrs))
        assert refused.value.message == f"{name}: {message}"


def test_a_field_that_boxes_do_not_have_at_run_time() -> None:
    with pytest.raises(ShapeError, match="score_index is 6, but a box has 6 numbers"):
        suppress(BOXES, score_index=6)


def test_a_threshold_is_one_number() -> None:
    with pytest.raises(TypeRelError, match=r"^vision\.get_valid_counts: score_threshold must have 1 element, not 2$"):
        relate(get("vision.get_valid_counts"), [TensorType.of((1, 5, 6)), TensorType.of((2,))], GetValidCountsAttrs())


def test_many_boxes_as_machine_code() -> None:
    rng = np.random.default_rng(0)
    corner = rng.random((2, 300, 2)) * 40
    data = np.concatenate(
        [
            rng.choice([0, 0.5, 1, 256, 3e9], (2, 300, 1)),
            rng.random((2, 300, 1)),
            corner,
            corner + 2 + rng.random((2, 300, 2)) * 9,
        ],
        -1,
    ).astype(np.float32)
    (count, valid, indices), _, _ = run("vision.get_valid_counts", [data, np.array(0.2, np.float32)], jit=True)
    assert count.tolist() == (data[:, :, 1] > np.float32(0.2)).sum(1).tolist()
    (out, kept), _, _ = suppress(valid, count, indices, 60, 0.4, jit=True)
    for b in range(2):
        wanted = [int(indices[b, i]) for i in kept_boxes(valid[b, : count[b]], 60, 0.4, -1, False, 2, 1, 0) if i >= 0]
        assert out[b, : kept[b, 0]].tolist() == wanted and 20 < len(wanted) <= 60
