"""The page of custom operators: its blocks run, and its operator computes on each device what its definition says."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.docs.page_links import blocks
from relayvm.ops.core.op import REGISTRY

from ...devices import DEVICES, TARGETS
from ...ops.cuda import on_gpu

PAGE = Path(__file__).resolve().parents[3] / "docs" / "custom-operators.md"
NAME = "my.suppress"
PRINTED = ["[0 2]", "(2, 4)", "(1, 4)", "(0, 4)", "1 8"]
LIMIT = np.float32(0.5)


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, Any]]:
    """The names that the blocks of the page define, and the lines that they print; the operator exists while these tests run."""
    names: dict[str, Any] = {"__name__": "page"}
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for language, text in blocks(PAGE.read_text(encoding="utf-8")):
                if language == "python":
                    exec(compile(text, str(PAGE), "exec"), names)
        names["printed"] = printed.getvalue().splitlines()
        yield names
    finally:  # also where `make check` skips at the first kernel: no executable is cached beside operators of users
        if NAME in REGISTRY:
            relay.unregister_op(NAME)
    assert NAME not in REGISTRY


def some_boxes(n: int) -> np.ndarray:
    """Boxes on a grid, whose areas are exact; many overlap."""
    corners = np.random.default_rng(n).integers(0, 12, (n, 2))
    return np.concatenate([corners, corners + np.random.default_rng(n + 1).integers(1, 9, (n, 2))], axis=1).astype("float32")


def kept_rows(boxes: np.ndarray) -> list[int]:
    """The rows that overlap no kept row before them by more than LIMIT."""
    kept: list[int] = []
    for i, box in enumerate(boxes):
        low, high = np.maximum(boxes[kept, :2], box[:2]), np.minimum(boxes[kept, 2:], box[2:])
        both = np.prod(boxes[kept, 2:] - boxes[kept, :2], axis=1) + np.prod(box[2:] - box[:2])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        if not (shared > LIMIT * (both - shared)).any():
            kept.append(i)
    return kept


def test_the_page_prints(page: dict[str, Any]) -> None:
    assert page["printed"] == PRINTED


@pytest.mark.parametrize("device", DEVICES)
def test_each_device_keeps_the_same_rows(page: dict[str, Any], device: str) -> None:
    vm = relay.VirtualMachine(relay.compile(page["text"], target=device))
    for n in (0, 1, 2, 40, 300):
        boxes, scores = some_boxes(n), np.random.default_rng(n).permutation(n).astype("float32")
        ordered = boxes[np.argsort(-scores)]
        result = vm.run(boxes, scores, LIMIT)
        np.testing.assert_array_equal(result.numpy(), ordered[kept_rows(ordered)])
    boxes[:] = some_boxes(1)  # all equal: the bound is freed but for one row
    assert vm.run(boxes, scores, LIMIT).shape == (1, 4)


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_size_is_copied(page: dict[str, Any], target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(page["text"], target=target))
    vm.run(some_boxes(40), np.ones(40, "float32"), LIMIT)
    assert (vm.counters["dtoh_copies"], vm.counters["dtoh_bytes"]) == (1, 8)


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_threads_of_the_block_may_run_in_any_order(page: dict[str, Any], schedule: int) -> None:
    boxes = some_boxes(70)
    (rows,), status, count = on_gpu.run(NAME, [boxes, LIMIT], schedule=schedule)
    assert status == 0 and rows[:count].tolist() == kept_rows(boxes)
