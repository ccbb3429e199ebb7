"""Launches and module loads of the emulated driver, and calls that it rejects."""

from __future__ import annotations

import ctypes

import pytest

from ...emulator import emulator
from ...emulator.session import CudaError, Session, call, made, refused, word
from .kernels import KERNELS


@pytest.mark.parametrize(
    ("grid", "block", "shared", "n_args"),
    [
        ((0,), (32,), 0, 1),
        ((1, 65536), (32,), 0, 1),
        ((1,), (1056,), 0, 1),
        ((1,), (32,), (48 << 10) + 1, 1),
        ((1,), (32,), 0, 2),
    ],
)
def test_a_launch_that_cannot_be_is_refused(
    gpu: Session, image: bytes, grid: tuple[int, ...], block: tuple[int, ...], shared: int, n_args: int
) -> None:
    with pytest.raises(CudaError) as caught:
        gpu.launch(image, "lanes", grid, block, [gpu.allocate(8)] * n_args, shared)
    assert caught.value.code == 1


def test_more_shared_memory_must_be_asked_for(gpu: Session, image: bytes) -> None:
    function = word(gpu.function(image, "lanes"))
    refused(1, "cuFuncSetAttribute", function, 8, (227 << 10) + 1)
    call("cuFuncSetAttribute", function, 8, 227 << 10)
    gpu.launch(image, "lanes", (1,), (32,), [gpu.allocate(8 * 8 * 32)], 227 << 10)
    gpu.wait()


def test_images_must_be_for_this_gpu(gpu: Session, image: bytes) -> None:
    assert "sm_90" in refused(209, "cuModuleLoadData", ctypes.byref(ctypes.c_void_p()), emulator.compile(KERNELS, "sm_100"))
    refused(200, "cuModuleLoadData", ctypes.byref(ctypes.c_void_p()), b"no image" * 100)
    module = made("cuModuleLoadData", image)
    refused(500, "cuModuleGetFunction", ctypes.byref(ctypes.c_void_p()), word(module), b"unknown")
    call("cuModuleUnload", word(module))
    refused(400, "cuModuleUnload", word(module))
