"""Suppression class by class against its definition, and ONNX's reference where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.native import memory
from relayvm.ops.native.status import OUT_OF_MEMORY

from ..opaque.opaque_kernels import Ran, run
from ..refusals import INTEGER

ALL, REGULAR = "vision.all_class_non_max_suppression", "vision.regular_non_max_suppression"


def overlap(a: np.ndarray, b: np.ndarray) -> Any:
    low, high = (np.array([f(x[0], x[2]) for x in (a, b)]) for f in (min, max))
    left, right = (np.array([f(x[1], x[3]) for x in (a, b)]) for f in (min, max))
    height, width = high.min() - low.max(), right.min() - left.max()
    shared = height * width if height > 0 and width > 0 else height.dtype.type(0)
    both = ((high - low) * (right - left)).sum(dtype=height.dtype) - shared
    return shared / both if both > 0 else height.dtype.type(0)


def kept_of(boxes: np.ndarray, scores: np.ndarray, limit: int, iou: Any, wanted: np.ndarray) -> list[int]:
    """The boxes of one class that are kept, best first."""
    kept: list[int] = []
    for i in sorted(np.flatnonzero(wanted).tolist(), key=lambda i: -scores[i]):
        if len(kept) == limit:
            break
        if all(not overlap(boxes[i], boxes[k]) > iou for k in kept):
            kept.append(i)
    return kept


def rows_of(boxes: np.ndarray, scores: np.ndarray, limit: int, iou: Any, wanted: np.ndarray) -> list[tuple[int, int, int]]:
    return [
        (b, c, i)
        for b in range(len(boxes))
        for c in range(scores.shape[1])
        for i in kept_of(boxes[b], scores[b, c], limit, iou, wanted[b, c])
    ]


def boxes_of_images(rng: np.random.Generator, batch: int, classes: int, count: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Boxes on a coarse grid, corners in any order; scores of which some are equal, and some no numbers."""
    boxes = rng.integers(0, 9, (batch, count, 4)).astype(numpy_dtype(dtype))
    scores = (rng.integers(-4, 20, (batch, classes, count)) / 16).astype(numpy_dtype(dtype))
    scores[rng.random(scores.shape) < 0.03] = np.nan
    return boxes, scores


def check_all(boxes: np.ndarray, scores: np.ndarray, limit: int, iou: float, least: float, onnx: bool, **how: Any) -> None:
    scalars = [np.array(limit, np.int64), np.array(iou, np.float32), np.array([least], np.float32)]
    made: Ran = run(ALL, [boxes, scores, *scalars], output_format="onnx" if onnx else "tensorflow", **how)
    assert made.status == 0
    wide = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in (boxes, scores)]
    rows = rows_of(*wide, limit, np.float32(iou), wide[1] > np.float32(least))
    if onnx:
        assert made.count == len(rows) == made.outputs[1][0]
        np.testing.assert_array_equal(made.outputs[0][: len(rows)], np.array(rows, np.int64).reshape(-1, 3))
        return
    selected, found, total = made.outputs
    for b in range(len(boxes)):
        own = sorted((r for r in rows if r[0] == b), key=lambda r: -wide[1][r])
        assert total[b] == len(own)
        assert [tuple(r) for r in selected[b, : len(own)].tolist()] == [r[1:] for r in own]
        np.testing.assert_array_equal(found[b, : len(own)], np.array([scores[r] for r in own], scores.dtype))
        assert not selected[b, len(own) :].any() and not found[b, len(own) :].any()


def check_regular(boxes: np.ndarray, scores: np.ndarray, per_class: int, most: int, iou: float, least: float, **how: Any) -> None:
    classes = scores.shape[1]
    # one column of scores more in front, of the background
    given = np.concatenate([np.full_like(scores[:, :1], 9), scores], axis=1).transpose(0, 2, 1)
    attrs = {"max_detections_per_class": per_class, "max_detections": most, "num_classes": classes}
    made: Ran = run(REGULAR, [boxes, given], iou_threshold=iou, score_threshold=least, **attrs, **how)
    out_boxes, kinds, found, total = made.outputs
    rows = rows_of(boxes, scores, per_class, iou, scores >= least)
    assert made.status == 0
    for b in range(len(boxes)):
        own = sorted((r for r in rows if r[0] == b), key=lambda r: -scores[r])[:most]
        n = len(own)
        assert total[b] == n and kinds[b, :n].tolist() == [c for _, c, _ in own]
        np.testing.assert_array_equal(found[b, :n], np.array([scores[r] for r in own], scores.dtype))
        np.testing.assert_array_equal(out_boxes[b, :n], boxes[b][[i for _, _, i in own]])
        assert not kinds[b, n:].any() and not found[b, n:].any() and not out_boxes[b, n:].any()


@settings(max_examples=60)
@given(
    st.integers(0, 2), st.integers(0, 3), st.integers(0, 40), st.integers(0, 10**6), st.sampled_from(["float32", "float64"]),
    st.sampled_from([-1, 0, 1, 3]), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([-1.0, 0.0, 0.5]), st.booleans(),
)  # fmt: skip
def test_all_classes(
    batch: int, classes: int, count: int, seed: int, dtype: str, limit: int, iou: float, least: float, onnx: bool
) -> None:
    boxes, scores = boxes_of_images(np.random.default_rng(seed), batch, classes, count, dtype)
    check_all(boxes, scores, limit, iou, least, onnx)
    check_regular(boxes, scores, limit, 1 + seed % 9, iou, least)


@pytest.mark.extensive(dtype=("float32", "bfloat16"))
@pytest.mark.parametrize(("onnx", "dtype"), [(True, "float32"), (False, "float64"), (True, "bfloat16")])
def test_suppression_as_machine_code(onnx: bool, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for batch, classes, count in [(2, 3, 400), (1, 1, 1), (1, 2, 0), (0, 2, 5)]:
        boxes, scores = boxes_of_images(rng, batch, classes, count, dtype)
        check_all(boxes, scores, 20, 0.4, 0.1, onnx, jit=True)
        if not onnx:
            check_regular(boxes, scores, 20, 30, 0.4, 0.125, jit=True)


def kept_one_by_one(boxes: np.ndarray, scores: np.ndarray, iou: Any) -> list[int]:
    """The kept boxes by the definition, each comparison as written: a comparison with NaN is false."""
    kept: list[tuple[Any, ...]] = []
    zero = boxes.dtype.type(0)
    for i in np.argsort(-scores, kind="stable").tolist():
        (a, b, c, d) = boxes[i]
        x0, x1, y0, y1 = min(a, c), max(a, c), min(b, d), max(b, d)
        size, covered = (x1 - x0) * (y1 - y0), False
        for _, left, right, top, bottom, area in kept:
            width, height = min(x1, right) - max(x0, left), min(y1, bottom) - max(y0, top)
            shared = width * height if width > zero and height > zero else zero
            union = size + area - shared
            covered |= bool((shared / union if union > zero else zero) > iou)
        if not covered:
            kept.append((i, x0, x1, y0, y1, size))
    return [k[0] for k in kept]


@pytest.mark.lengthy
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("iou", [0.0, 0.4, -0.5, np.nan, np.inf])
@pytest.mark.extensive(iou=[0.4])
def test_many_kept_boxes_some_of_them_infinite_or_no_numbers(iou: float, jit: bool) -> None:
    for seed, spread in enumerate((3, 40, 4000)):
        rng = np.random.default_rng(seed)
        corner = rng.uniform(0, spread, (300, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(-1, 3, (300, 2))], axis=1).astype(np.float32)
        odd = rng.random(boxes.shape) < 0.03
        boxes = np.where(odd, rng.choice([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0], boxes.shape), boxes)
        boxes, scores = boxes.astype(np.float32), rng.uniform(0, 1, 300).astype(np.float32)
        scalars = [np.array(1000), np.array(iou, np.float32), np.array([-1], np.float32)]
        with np.errstate(all="ignore"):
            made = run(ALL, [boxes[None], scores[None, None], *scalars], jit=jit)
            expected = kept_one_by_one(boxes, scores, np.float32(iou))
        assert made.outputs[0][: made.count, 2].tolist() == expected
        assert iou != 0.4 or spread < 4000 or len(expected) > 200


def test_as_onnx() -> None:
    from onnx.reference.ops.op_non_max_suppression import NonMaxSuppression

    rng = np.random.default_rng(9)
    corners = rng.uniform(0, 1, (2, 60, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.uniform(0.05, 0.4, (2, 60, 2)).astype(np.float32)], axis=2)
    scores = rng.uniform(0, 1, (2, 3, 60)).astype(np.float32)
    scalars = [np.array([7], np.int64), np.array([0.35], np.float32), np.array([0.2], np.float32)]
    wanted = NonMaxSuppression.eval(boxes, scores, *scalars, center_point_box=0)
    made = run(ALL, [boxes, scores, *scalars])
    np.testing.assert_array_equal(made.outputs[0][: made.count], np.asarray(wanted))


def test_no_memory_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "alloc", lambda nbytes: 0)
    boxes, scores = np.ones((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32)
    scalars = [np.array(1), np.array(0.5), np.array(0.5)]
    assert run(ALL, [boxes, scores, *scalars], output_format="tensorflow").status == OUT_OF_MEMORY


BOXES, SCORES = ((2, 9, 4), "float32"), ((2, 3, 9), "float32")
LIMIT, LEAST = ((), "int64"), ((), "float32")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([((9, 4), "float32"), SCORES, LIMIT, LEAST, LEAST], "the boxes must have 3 dimensions, not 2"),
        ([((2, 9, 5), "float32"), SCORES, LIMIT, LEAST, LEAST], "a box must have 4 numbers, not 5"),
        ([BOXES, ((3, 3, 9), "float32"), LIMIT, LEAST, LEAST], "the boxes have 2 batches, the scores 3"),
        ([BOXES, ((2, 3, 8), "float32"), LIMIT, LEAST, LEAST], "there are 9 boxes, but scores of 8"),
        ([BOXES, SCORES, ((2,), "int64"), LEAST, LEAST], "max_output_boxes_per_class must have 1 element, not 2"),
        ([BOXES, SCORES, LIMIT, ((1, 1), "float32"), LEAST], "iou_threshold must be a scalar, it has 2 dimensions"),
        ([BOXES, ((2, 3, 9), "float64"), LIMIT, LEAST, LEAST], "boxes is float32 but scores is float64"),
        (
            [BOXES, SCORES, LEAST, LEAST, LEAST],
            f"max_output_boxes_per_class is float32; {INTEGER}",
        ),
    ],
)
def test_what_is_refused(types: list[Any], message: str) -> None:
    op = get(ALL)
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(*t) for t in types], op.attrs())
    assert refused.value.message.startswith(f"{ALL}: {message}")


def test_more_classes_than_scores_are_refused() -> None:
    op = get(REGULAR)
    attrs = op.attrs(max_detections_per_class=1, max_detections=2, num_classes=4, iou_threshold=0.5, score_threshold=0.0)
    with pytest.raises(TypeRelError, match="there are 4 classes, but 3 scores of a box"):
        relate(op, [TensorType.of((2, 9, 4)), TensorType.of((2, 9, 3))], attrs)
