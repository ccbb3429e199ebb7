"""The emulated cuDNN: what it refuses, and the engines that a machine must not take."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from ...emulator import emulator
from ...emulator.session import Session, made, word

OK, BAD_PARAM, NULL_POINTER, NOT_FINALIZED, ATTRIBUTE_TYPE, NO_MEMORY = 0, 2000, 2002, 2004, 2010, 4003
TENSOR, CONVOLUTION, FORWARD, GRAPH, HEURISTICS, CONFIGURATION, ENGINE, PLAN, PACK = 17, 1, 10, 15, 4, 3, 2, 5, 16
INT64, DATA_TYPE, DESCRIPTOR, FLOAT, MODE, HANDLE, POINTER, NOTES = 3, 1, 15, 4, 7, 0, 6, 11
ELEMENTS = {DATA_TYPE: ctypes.c_int32, MODE: ctypes.c_int32, 8: ctypes.c_int32, FLOAT: ctypes.c_float, NOTES: ctypes.c_int32}


def dnn(function: str, *args: object) -> int:
    return int(getattr(emulator.library(), function)(*args))


def new(kind: int) -> int:
    out = ctypes.c_uint64()
    assert dnn("cudnnBackendCreateDescriptor", kind, ctypes.byref(out)) == OK
    return out.value


def put(thing: int, attribute: int, kind: int, *values: float) -> int:
    array = (ELEMENTS.get(kind, ctypes.c_uint64) * len(values))(*values)
    return dnn("cudnnBackendSetAttribute", word(thing), attribute, kind, ctypes.c_int64(len(values)), array)


def finalize(thing: int) -> int:
    return dnn("cudnnBackendFinalize", word(thing))


def tensor(number: int, dims: list[int], alignment: int = 4) -> int:
    steps = [int(np.prod(dims[k + 1 :])) for k in range(len(dims))]
    t = new(TENSOR)
    for attribute, kind, values in ((906, INT64, [number]), (901, DATA_TYPE, [0]), (900, INT64, [alignment]), (902, INT64, dims)):
        assert put(t, attribute, kind, *values) == OK
    assert put(t, 903, INT64, *steps) == OK
    return t


def convolution(axes: int = 2) -> int:
    c = new(CONVOLUTION)
    given = ((100, DATA_TYPE, [0]), (101, MODE, [1]), (106, INT64, [axes]), *((a, INT64, [1] * 2) for a in (102, 103)))
    for attribute, kind, values in (*given, (104, INT64, [0, 0]), (105, INT64, [0, 0])):
        assert put(c, attribute, kind, *values) == OK
    return c


def forward(out: int = 2) -> int:
    parts = tensor(1, [1, 2, 3, 3]), tensor(2, [3, 2, 2, 2]), tensor(3, [1, 3, out, 2]), convolution()
    assert [finalize(p) for p in parts] == [OK] * 4
    f = new(FORWARD)
    for attribute, part in zip((704, 703, 705, 702), parts, strict=True):
        assert put(f, attribute, DESCRIPTOR, part) == OK
    assert put(f, 700, FLOAT, 1) == put(f, 701, FLOAT, 0) == OK
    return f


@pytest.fixture
def handle(gpu: Session) -> int:
    made_ = made("cudnnCreate")
    assert dnn("cudnnSetStream", word(made_), word(gpu.stream)) == OK
    return made_


def graph(handle: int) -> int:
    f, g = forward(), new(GRAPH)
    assert finalize(f) == put(g, 801, DESCRIPTOR, f) == put(g, 800, HANDLE, handle) == finalize(g) == OK
    return g


def configurations(handle: int, mode: int) -> list[int]:
    h = new(HEURISTICS)
    assert put(h, 201, DESCRIPTOR, graph(handle)) == put(h, 200, 8, mode) == finalize(h) == OK
    n = ctypes.c_int64()
    assert dnn("cudnnBackendGetAttribute", word(h), 202, DESCRIPTOR, ctypes.c_int64(0), ctypes.byref(n), None) == OK
    found = (ctypes.c_uint64 * n.value)(*(new(CONFIGURATION) for _ in range(n.value)))
    assert dnn("cudnnBackendGetAttribute", word(h), 202, DESCRIPTOR, n, ctypes.byref(n), found) == OK
    return list(found)


def test_attributes_have_kinds_types_numbers_and_an_order(gpu: Session) -> None:
    out = ctypes.c_uint64()
    assert dnn("cudnnBackendCreateDescriptor", 99, ctypes.byref(out)) == NO_MEMORY
    t = tensor(1, [2, 3, 4, 4])
    assert put(t, 906, DATA_TYPE, 1) == ATTRIBUTE_TYPE
    assert put(t, 704, DESCRIPTOR, t) == put(t, 999, INT64, 1) == put(t, 906, INT64, 1, 2) == BAD_PARAM
    assert put(0, 906, INT64, 1) == finalize(0) == NULL_POINTER
    assert put(new(FORWARD), 704, DESCRIPTOR, t) == NOT_FINALIZED
    assert finalize(t) == OK
    assert finalize(t) == put(t, 906, INT64, 1) == BAD_PARAM
    assert put(new(FORWARD), 702, DESCRIPTOR, t) == BAD_PARAM  # a tensor is no convolution


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: tensor(1, [2, 3, 4, 4], alignment=2),
        lambda: tensor(1, [2, 0, 4, 4]),
        lambda: new(TENSOR),  # without attributes
        lambda: convolution(axes=3),
        lambda: forward(out=3),
    ],
)
def test_a_descriptor_that_is_wrong_is_not_finalized(gpu: Session, wrong: Callable[[], int]) -> None:
    assert finalize(wrong()) == BAD_PARAM


def test_all_engines_but_two_must_be_rejected(gpu: Session, handle: int) -> None:
    """The results of an engine that must not be taken are wrong, or it has no plan, or its workspace is large."""
    data, weight = np.arange(4096, 4114, dtype="f"), np.arange(24, dtype="f")  # of 13 bits: TF32 has 11
    x, w, y = gpu.put(data), gpu.put(weight), gpu.put(np.zeros(12, "f"))
    windows = np.lib.stride_tricks.sliding_window_view(data.reshape(2, 3, 3), (2, 2), axis=(1, 2))
    want = np.einsum("chwij,ocij->ohw", windows, weight.reshape(3, 2, 2, 2)).ravel()
    pack = new(PACK)
    assert put(pack, 1000, INT64, 1, 2, 3) == put(pack, 1001, POINTER, x, w, y) == OK
    assert put(pack, 1003, POINTER, gpu.allocate(4096)) == finalize(pack) == OK

    def result(configuration: int) -> str:
        plan = new(PLAN)
        assert put(plan, 400, HANDLE, handle) == put(plan, 401, DESCRIPTOR, configuration) == OK
        if finalize(plan):
            return "no plan"
        if dnn("cudnnBackendExecute", word(handle), word(plan), word(pack)):
            return "refused"
        return "exact" if (gpu.get(y, (12,), "f") == want).all() else "wrong"

    assert list(map(result, configurations(handle, 3))) == ["wrong"] * 5 + ["refused", "no plan", "wrong"]
    assert list(map(result, configurations(handle, 2))) == ["exact"]


def test_a_plan_is_not_made_while_its_stream_is_captured(gpu: Session, handle: int) -> None:
    (configuration,) = configurations(handle, 2)
    plan = new(PLAN)
    assert put(plan, 400, HANDLE, handle) == put(plan, 401, DESCRIPTOR, configuration) == OK
    mode = ctypes.c_int32(2)
    dnn("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        assert dnn("cuStreamBeginCapture_v2", word(gpu.stream), 1) == 0
        assert finalize(plan) == 5000
    finally:
        dnn("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
