"""Vectors, static values, lists of registers and named tuples: machine code computes what Python computes over numpy."""

from __future__ import annotations

import ctypes
import mmap
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from llvmlite import ir

from relayvm.ops.core.tensor_types import HALVES, numpy_dtype
from relayvm.ops.native import static_values, vectors
from relayvm.ops.native.compiled.function_fingerprint import fingerprint
from relayvm.ops.native.front_end.compilation import Compilation
from relayvm.ops.native.front_end.llvm import half_conversions, host
from relayvm.ops.native.front_end.values.scalars import Outside
from relayvm.ops.native.front_end.vectors import instructions
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import WildAddress, array_float32, generic, native
from relayvm.ops.native.static_values import at_compile_time, static_range
from relayvm.ops.native.vectors import load, splat, store

from ....arrays import wide
from .machine_code import compiled, python_function

NAMES: dict[str, Any] = {
    **{name: value for module in (static_values, vectors) for name, value in vars(module).items() if callable(value)},
    "np": np,
}
HEAD = "def f(a, b, n):\n    x, y = array_{dtype}(a, n), array_{dtype}(b, n)\n"


def text_of(body: str, dtype: str) -> str:
    return HEAD.format(dtype=dtype) + "".join(f"    {line}\n" for line in [*body.strip("\n").splitlines(), "return 0"])


def both(body: str, x: Any, size: int, **names: Any) -> np.ndarray[Any, Any]:
    """The array of sevens after machine code, and the same one after Python, have written."""
    function = python_function(text_of(body, x.dtype.name), **{**NAMES, **names})
    given = np.full((2, max(size, len(x))), 7, x.dtype)
    read = np.resize(x, given.shape[1])
    for code, out in zip((compiled(function), function), given, strict=True):
        with np.errstate(all="ignore"):
            code(read.ctypes.data, out.ctypes.data, read.size)
    np.testing.assert_array_equal(*(map(wide, given) if x.dtype.name in HALVES else given))
    return given[0]


FLOATS = np.array([1.5, -2.25, 0.0, -0.0, np.inf, np.nan, 3e38, -1e-40, 5, 6, 7, 8, 9, 10, 11, 12], np.float32)
WORDS = np.array([0, 1, -1, 2**31 - 1, -(2**31), 5, 6, -7, 100, 1000, 12345, -98765, 3, 4, 17, 33], np.int32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arithmetic_of_floats(dtype: str) -> None:
    body = """
u, v = load(x, 0, 8), load(x, 8, 8)
store(y, 0, (u + v) * 0.5 - -u / v)
store(y, 8, select((u < v) & ~(u == 0) | (v != v), u, v))
store(y, 16, fused_multiply_add(u, v, splat(u.dtype.type(0.25), 8)))
"""
    both(body, FLOATS.astype(dtype), 24)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8", "uint8"])
def test_arithmetic_of_integers(dtype: str) -> None:
    body = """
u, v = load(x, 0, 8), load(x, 8, 8)
store(y, 0, (u + v) * 3 - (u ^ v))
store(y, 8, select(u > v, u >> 2, (v << 1) & 100))
store(y, 16, select(u >= 5, -u, ~v))
"""
    both(body, WORDS.astype(dtype), 24)


def test_conversions_and_parts() -> None:
    body = """
v = load(x, 0, 8)
store(y, 0, (v.view(np.int32) + (1 << 23)).view(np.float32))
store(y, 8, (v.astype(np.float64) * 1.1).astype(np.float32))
store(y, 16, v[::2] + v[1::2])
y[20] = v[1] + v[-1] + len(v[2:])
store(y, 24, shuffle(v, load(x, 8, 8), (0, 9, 2, 11, 4, 13, 6, 15)))
store(y, 32, (v > 1).astype(np.int32).astype(np.float32))
store(y, 40, (lane_numbers(8) * 2).astype(np.float32))
"""
    both(body, np.arange(1, 17, dtype=np.float32), 48)


@pytest.mark.optimized
@pytest.mark.parametrize("features", [None, frozenset()])
def test_masks_read_and_write_nothing_else(features: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if features is not None:
        monkeypatch.setattr(instructions, "host", SimpleNamespace(features=lambda: features))
    body = """
for at in range(3):
    mask = mask_of_bits(5 + 64 * at, 8)
    v = load_some(x, at, mask, splat(np.float32(-1), 8))
    store_some(y, 8 * at, v + gather(x, 1, lane_numbers(8) * 1000, lane_numbers(8) < 1, v), mask)
    if any_lane(mask & (lane_numbers(8) == 4)):
        y[20] = 3.0
    if any_lane(mask & (lane_numbers(8) == 2)):
        y[21] = 4.0
"""
    found = both(body, np.arange(16, dtype=np.float32), 24)
    assert found[1] == 7 and found[0] == 1 and found[20] == 7 and found[21] == 4


@pytest.mark.optimized
@pytest.mark.parametrize("features", [None, frozenset()])
def test_halves_are_float32_in_a_vector(features: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if features is not None:
        monkeypatch.setattr(half_conversions, "host", SimpleNamespace(features=lambda: features))
    body = """
v = load(x, 0, 16)
store(y, 0, v)
store(y, 16, v * 3.0 + load_or_zero(x, 12, lane_numbers(16) < 4))
store_some(y, 32, load(x, 0, 8), lane_numbers(8) < 4)
y[36] = x[3] * 0.3
"""
    for dtype in HALVES:
        given = np.where(FLOATS > 1e9, 3e4, FLOATS).astype(numpy_dtype(dtype))
        np.testing.assert_array_equal(wide(both(body, given, 40)[:16]), wide(given))
    with pytest.raises(Outside, match="this access to elements"):
        compiled(python_function(text_of("store(y, 0, load_some(x, 0, lane_numbers(8) < 4, load(x, 0, 8)))", "float16"), **NAMES))


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", ["int8", "uint16", *HALVES, "float32"])
def test_lanes_that_are_not_set_are_not_read(dtype: str) -> None:
    """Of a page that cannot be read, before or behind: the process would end."""
    page, kind = mmap.PAGESIZE, numpy_dtype(dtype)
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    given = np.frombuffer(memory, kind, page // kind.itemsize, page)
    given[:] = np.arange(len(given)) % 100 + 1
    body = "store(y, 0, load_or_zero(x, b0, (lane_numbers(8) >= first) & (lane_numbers(8) < end)))"
    text = text_of(body, dtype).replace("a, b, n", "a, b, n, b0, first, end").replace("(b, n)", "(b, 8)")
    code, found = compiled(python_function(text, **NAMES)), np.zeros(8, kind)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for other in (start, start + 2 * page):
        assert protect(other, page, 0) == 0
    try:
        for at in (*range(-9, 10), *range(len(given) - 9, len(given) + 10)):
            for first, end in ((0, 8), (0, 5), (3, 8), (2, 4), (8, 8)):
                low, high = max(first, -at), min(end, len(given) - at)
                code(given.ctypes.data, found.ctypes.data, len(given), at, low, high)
                wanted = [wide(given)[at + n] if low <= n < high else 0 for n in range(8)]
                np.testing.assert_array_equal(wide(found), wanted)
    finally:
        for other in (start, start + 2 * page):
            protect(other, page, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.optimized
def test_exact_numbers_are_stored_as_they_are() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(numpy_dtype("bfloat16"))
    body = "for at in range(0, n, 8):\n    store(exact(y), at, load(x, at, 8))"
    code, found = compiled(python_function(text_of(body, "bfloat16"), **NAMES)), np.zeros(2**16, every.dtype)
    code(every.ctypes.data, found.ctypes.data, 2**16)
    np.testing.assert_array_equal(found.view(np.uint16), every.view(np.uint16))


def test_an_array_may_begin_before_its_first_element() -> None:
    body = """
for at in range(-3, 4):
    here = shifted(shifted(x, -5), at + 5) if at != 0 else x
    inside = lane_numbers(4) >= -at
    store(y, 4 * at + 12, load_some(here, 0, inside, splat(here.dtype.type(0), 4)))
    store(y, 4 * at + 40, load(here, 4, 4))
"""
    found = both(body, np.arange(16, dtype=np.float32), 56)
    elements = np.arange(-3, 4)[:, None] + np.arange(8)
    np.testing.assert_array_equal(found.reshape(2, 7, 4), [np.maximum(elements[:, :4], 0), elements[:, 4:]])
    with pytest.raises(WildAddress):
        load(vectors.shifted(np.zeros(4), -1), 0, 4)


def test_an_index_is_one_of_some_elements() -> None:
    body = """
for i in range(n):
    y[i] = 1 if is_element(i - 3, 5) else 0
    if is_element(-(1 << 63) + i, 0) or is_element(i, 0):
        y[i] = 2
"""
    np.testing.assert_array_equal(both(body, np.zeros(12, np.float32), 12), [0] * 3 + [1] * 5 + [0] * 4)


@pytest.mark.parametrize("lacking", [(), ("avx512vnni", "avxvnni"), None])
def test_dots_of_bytes(lacking: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    features = host.features().difference(lacking) if lacking is not None else frozenset()
    monkeypatch.setattr(host, "features", lambda: features)
    body = """
u, v = load(x, 0, 4 * lanes), load(x, 64, 4 * lanes)
store(y, 128, sums_of_limited_bytes(u.view(np.uint8) >> 1, v).view(np.int8))
store(y, 0, add_dot_of_bytes(splat(np.int32(3), lanes), u.view(np.uint8), v).view(np.int8))
store(y, 64, add_dot_of_limited_bytes(splat(np.int32(3), lanes), u.view(np.uint8), v >> 1).view(np.int8))
"""
    data = np.random.default_rng(0).integers(-128, 128, 128).astype(np.int8)
    data[:8] = -1, -1, -1, -1, -128, -128, -128, -128
    for lanes in (2, 4, 8, 16):
        both(body, data, 192, lanes=lanes)


# ---- static values, lists, named tuples --------------------------------------------------------------------------------------


class Tile(NamedTuple):
    data: Any
    at: int
    step: int


@at_compile_time
def squares(count: int) -> tuple[int, ...]:
    return tuple(n * n for n in range(count))


@generic
def sum_rows(tile: Tile, out: Any, rows: int, inner: int) -> None:
    sums = [splat(tile.data.dtype.type(0), 4)] * rows
    for k in range(inner):
        for r in static_range(rows):
            sums[r] = sums[r] + load(tile.data, tile.at + r * tile.step + 4 * k, 4)
    for r in static_range(rows):
        if r % 2 == 0:
            store(out, 4 * r, sums[r])
        else:
            store(out, 4 * r, -sums[r])


def test_a_tile_of_registers() -> None:
    body = """
for rows in static_range(1, 4):
    if rows == n // 16:
        sum_rows(Tile(x, at=0, step=16), y, rows, 3)
"""
    for size in (16, 32, 48, 64):
        found = both(body, np.arange(size, dtype=np.float32), size, sum_rows=sum_rows, Tile=Tile)
        sums = np.arange(size).reshape(-1, 4, 4)[:, :3].sum(1) * np.resize([[1], [-1]], (size // 16, 1))
        assert (found[:4] == 7).all() if size == 64 else (found[: sums.size] == sums.reshape(-1)).all()


def test_static_values() -> None:
    body = """
places = [k + 1 for k in squares(static(4))]
places[2] = 11
for k in static_range(len(places)):
    last = k
    y[k] = places[k] if k > 0 and k != 2 else -places[k]
if n > 3:
    last = static(9)
y[5] = last
y[6] = max(last, squares(3)[2]) + min(static(2), 5) // 2
"""
    assert both(body, np.zeros(8, np.int32), 8, squares=squares).tolist() == [-1, 2, -11, 10, 7, 9, 10, 7]


def test_types_of_each_iteration() -> None:
    body = """
done = 0
lists = [[]] * 2
for width in (static(8), static(4)):
    while done + width <= 12:
        v = load(x, done, width)
        for k in range(2):
            v = v + load(x, done + k, width)
        store(y, done, v)
        done += width
for k in static_range(2):
    lists[k] = [*[load(x, 2 * k + m, 2) for m in static_range(2)], load(x, 6, 2)]
store(y, 12, lists[0][1] * lists[1][0] + lists[1][2])
"""
    x = np.arange(16, dtype=np.float32)
    found = both(body, x, 16)
    np.testing.assert_array_equal(found[:12], 3 * x[:12] + 1)
    np.testing.assert_array_equal(found[12:14], x[1:3] * x[2:4] + x[6:8])


def test_fields_are_part_of_the_key_of_the_code() -> None:
    pairs = [NamedTuple("Pair", [(name, int) for name in names]) for names in ("xy", "yx")]  # type: ignore[misc]
    one, other = (python_function("def f(a):\n    return Pair(1, 2).x\n", Pair=pair) for pair in pairs)
    assert fingerprint(one) != fingerprint(other)
    assert [compiled(f)(0) for f in (one, other)] == [1, 2]
    constants = [python_function("def f(a):\n    return GIVEN.x\n", GIVEN=pair(1, 2)) for pair in pairs]
    assert fingerprint(constants[0]) != fingerprint(constants[1])
    assert [compiled(f)(0) for f in constants] == [1, 2]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("v = [x[0]]\nw = v", "a second name"),
        ("v = (x[0], x[1])\nv[0] = x[1]", "no list"),
        ("v = load(x, 0, n)", "instead of a static value"),
        ("v = load(x, 0, 4) + load(x, 0, 8)", "beside"),
        ("store(y, 0, load(x, 0, 4).astype(np.float64))", "a store of"),
        ("for i in static_range(3):\n    break", "a way out"),
        ("v = load(x, 0, 4)\nv += v", "written in full"),
        ("v = load(x, 0, 4)[4]", "lane 4 of 4"),
        ("v = static(1) // static(0)", "in a static value"),
        ("i = 1\nv = [i for i in static_range(3)]", "the name i"),
        ("v = x.reshape(2, -1)", "the call"),
    ],
)
def test_refusals(body: str, why: str) -> None:
    function = python_function(text_of(body, "float32"), **NAMES)
    with pytest.raises(Outside, match=why):
        Compilation(ir.Module()).entry(function, "int64(int64, int64, int64)", "entry")


def test_accesses_outside_an_array() -> None:
    x = np.zeros(8, np.float32)
    for at in (-1, 5):
        with pytest.raises(WildAddress):
            vectors.load(x, at, 4)
        with pytest.raises(WildAddress):
            vectors.store(x, at, x[:4])
        with pytest.raises(WildAddress):
            vectors.load_some(x, at, np.ones(4, bool), x[:4])


COUNTS = {"lanes": 4}


@at_compile_time
def lanes() -> int:
    return COUNTS["lanes"]


@generic
def doubled(address: int) -> int:
    x = array_float32(address, 8)
    store(x, 0, load(x, 0, lanes()) * 2.0)
    return 0


@native
def counted(address: int) -> int:
    return doubled(address)


def test_a_kept_text_is_that_of_the_values_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def text() -> str:
        compilation = Compilation(ir.Module())
        compilation.entry(counted, "int64(int64)", "entry")
        return str(compilation.module)

    assert "<4 x float>" in text()
    monkeypatch.setitem(COUNTS, "lanes", 8)
    assert "<4 x float>" not in text()


@generic
def add_to_all(sums: list[Any], value: Any) -> None:
    """Add a vector to each item of a list of the caller."""
    for i in static_range(len(sums)):
        sums[i] = sums[i] + value


@generic
def add_twice(sums: list[Any], value: Any) -> None:
    """As ``add_to_all``, by another function, in a loop."""
    for _ in range(2):
        add_to_all(sums, value)


@pytest.mark.optimized
def test_a_function_assigns_the_items_of_a_list_of_its_caller() -> None:
    body = """
sums = [load(x, 0, 4), load(x, 4, 4)]
before = sums[0]
add_twice(sums, before)
sums[1] = sums[1] * 2
add_to_all(sums, before)
store(y, 0, sums[0])
store(y, 4, sums[1])
"""
    found = both(body, np.arange(8, dtype=np.float32), 8, add_twice=add_twice, add_to_all=add_to_all)
    assert found.tolist() == [0, 4, 8, 12, 8, 15, 22, 29]


def test_a_list_of_the_caller_is_not_replaced() -> None:
    text = "def replace(sums, value):\n    sums = [value]\n"
    replace = generic(define("test", text, {})["replace"])
    text = text_of("sums = [load(x, 0, 4)]\nreplace(sums, sums[0])", "float32")
    with pytest.raises(Outside, match="a new value or other types for sums"):
        compiled(python_function(text, **NAMES, replace=replace))


def test_arrays_from_an_element_on() -> None:
    body = """
part = hidden(from_element(x, 3))
keep_order()
store(y, 0, load(part, 1, 4))
y[4] = len(part)
"""
    assert both(body, np.arange(8, dtype=np.int32), 8).tolist() == [4, 5, 6, 7, 5, 7, 7, 7]
