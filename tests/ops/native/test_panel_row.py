"""Rows of panels: machine code and Python store what single elements do, and nothing outside the operands is read."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.panel_row import store_alternate, store_gathered, store_halves, store_run
from relayvm.ops.native.jit.products.register_tile import panel_width

from .front_end.machine_code import compiled, python_function

NAMES = {f.__name__: f for f in (store_run, store_gathered, store_alternate, store_halves)}
CALL = """
def f(panel, n_panel, to, data, n_data, at, places, n_places, first, inside):
    x, y, z = array_{dtype}(panel, n_panel), array_{dtype}(data, n_data), array_int64(places, n_places)
    {call}
    return 0
"""
CALLS = {
    "store_run": "store_run(x, to, y, at, inside)",
    "store_gathered": "store_gathered(x, to, 0b1101, y, at, z, first, inside)",
    "store_alternate": "store_alternate(x, to, y, at, inside)",
    "store_halves": "store_halves(x, to, to + 18, 0b1011, y, at, inside)",
}


@pytest.fixture
def page() -> Iterator[Any]:
    """A page of memory between two that must not be read."""
    size = mmap.PAGESIZE
    pages = mmap.mmap(-1, 3 * size)
    whole = np.frombuffer(pages, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    around = [whole.ctypes.data, whole.ctypes.data + 2 * size]
    assert all(protect(at, size, 0) == 0 for at in around)
    yield whole[size : 2 * size]
    assert all(protect(at, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0 for at in around)


def store_elements(name: str, out: Any, data: Any, at: int, offsets: Any, inside: int) -> None:
    """Store by single elements, from element 2 on."""

    def operand(k: int, place: int) -> Any:
        return data[at + place] if inside >> k & 1 else 0

    for j in range(panel_width(data.itemsize)):
        if name == "store_run":
            out[2 + j] = operand(j, j)
        elif name == "store_gathered" and 0b1101 >> j & 1:
            out[2 + j] = operand(j, offsets[1 + j])
        elif name == "store_alternate":
            out[2 + j] = operand(2 * j, 2 * j)
        elif name == "store_halves" and 0b1011 >> j & 1:
            out[2 + j], out[20 + j] = operand(2 * j, 2 * j), operand(2 * j + 1, 2 * j + 1)


@pytest.mark.parametrize("nbytes", [32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_operands_are_stored_and_no_others_read(
    name: str, dtype: str, nbytes: int, page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (16, nbytes))
    code = compiled(python_function(CALL.format(dtype=dtype, call=CALLS[name]), **NAMES))
    data, width = page.view(dtype), panel_width(np.dtype(dtype).itemsize)
    data[:] = np.arange(1, data.size + 1)
    bits = {"store_alternate": 2 * width - 1, "store_halves": 2 * width}.get(name, width)
    everything = (1 << bits) - 1
    end = 0 if name == "store_gathered" else data.size - bits
    offsets = np.array([3, *range(data.size - width, data.size)[::-1], 4], np.int64)
    for at, inside in [(0, everything), (end, everything), (0, 0), (0, 0b1001)]:
        found, plain, expected = np.full((3, width + 22), 7, dtype)
        code(found.ctypes.data, found.size, 2, data.ctypes.data, data.size, at, offsets.ctypes.data, offsets.size, 1, inside)
        space = {"x": plain, "y": data, "z": offsets, "to": 2, "at": at, "first": 1, "inside": inside, **NAMES}
        exec(CALLS[name], space)
        store_elements(name, expected, data, at, offsets, inside)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(plain, expected)
        assert (found[[0, 1, -2, -1]] == 7).all() and found[2] != 7
    if name == "store_run":  # half of the row is before the data, then behind
        half = width // 2
        for at, inside, wanted in [
            (-half, everything >> half << half, data[:half]),
            (data.size - half, everything >> half, data[-half:]),
        ]:
            found = np.full(width, 7, dtype)
            code(found.ctypes.data, width, 0, data.ctypes.data, data.size, at, offsets.ctypes.data, offsets.size, 1, inside)
            assert sorted(found) == sorted([*wanted, *[0] * half])
    if name == "store_gathered":  # places outside whose bits are not set
        offsets[1] = 10**9
        found = np.full(width, 7, dtype)
        code(found.ctypes.data, width, 0, data.ctypes.data, data.size, 0, offsets.ctypes.data, offsets.size, 1, everything - 1)
        assert found[0] == 0 and (found[1:] > 0).all()
