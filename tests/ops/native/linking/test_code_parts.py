"""Parts of object code: shared by kernels, compiled once, linked with each kernel to the same results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.front_end import compilation
from relayvm.ops.native.front_end.values.scalars import Outside
from relayvm.ops.native.inlining import apart, shared
from relayvm.ops.native.jit import native_compiler
from relayvm.ops.native.jit.convolution.winograd_axis import MOST_STRIDE
from relayvm.ops.native.jit.convolution.winograd_tiles import Elements, Pairs, transform_sums
from relayvm.ops.native.jit.native_compiler import (
    OPTIMIZED,
    UNOPTIMIZED,
    ObjectCode,
    compile_object,
    has_near_constants,
)
from relayvm.ops.native.jit.products.operands import Ahead, Panels, Rows
from relayvm.ops.native.jit.products.panel_products import multiply_panels
from relayvm.ops.native.jit.products.register_tile import TILE_ROWS
from relayvm.ops.native.linking import linker
from relayvm.ops.native.linking.object_file import LinkError, objects_in
from relayvm.ops.native.memory import Array, generic
from relayvm.ops.native.static_values import static
from relayvm.ops.native.vectors import splat, store

from ..fresh import fresh_cache, fresh_process
from ..front_end.machine_code import python_function

pytestmark = pytest.mark.skipif(not has_near_constants(), reason="each object is whole on this platform")

PRODUCT = """
def f(a, b, out, rows, inner, columns):
    x, y, z = array_float32(a, rows * inner), array_float32(b, inner * columns), array_float32(out, rows * columns)
    ahead = Ahead(0, 0, 0, Rows(x, 0, 0))
    multiply_panels(Rows(x, 0, inner), Panels(y, 0, 16, columns), Rows(z, 0, columns), rows, inner, columns, 0, ahead)
    return {answer}
"""
SIGNATURE = f"int64({', '.join(['int64'] * 6)})"


def product(answer: int = 0) -> Callable[..., Any]:
    """A function with the tiles of a product; functions with different answers differ in nothing else."""
    return python_function(PRODUCT.format(answer=answer), multiply_panels=multiply_panels, Rows=Rows, Panels=Panels, Ahead=Ahead)


def results(address: int) -> list[bytes]:
    """The products of all numbers of rows, and of columns that take every width of tile."""
    rng, call = np.random.default_rng(0), ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(address)
    found = []
    for rows in range(1, TILE_ROWS + 1):
        for columns in (3, 8, 16, 41, 64):
            a, b = rng.standard_normal((rows, 9), "float32"), rng.standard_normal((9, columns), "float32")
            out = np.full((rows, columns), np.nan, "float32")
            call(a.ctypes.data, b.ctypes.data, out.ctypes.data, rows, 9, columns)
            np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)
            found.append(out.tobytes())
    return found


def whole(monkeypatch: pytest.MonkeyPatch) -> ObjectCode:
    """The function as one object, with the tiles in it."""
    with monkeypatch.context() as patch:
        patch.setattr(compilation, "is_shared", lambda function: False)
        return compile_object(product(), SIGNATURE, UNOPTIMIZED)


def test_code_with_parts_computes_the_same_bytes_as_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    made, one = compile_object(product(), SIGNATURE, UNOPTIMIZED), whole(monkeypatch)
    assert len(objects_in(made.code)) == 1 + TILE_ROWS and len(objects_in(one.code)) == 1
    wanted = results(linker.load(one))
    assert results(linker.load(made)) == wanted
    assert results(linker.load_by_llvm(made)) == wanted


TRANSFORMATION = {"transform_sums": transform_sums, "Elements": Elements, "Pairs": Pairs}
CALLS = """
def f(a, b):
    x, y = array_float32(a, 1024), array_float32(b, 1024)
    if {condition}:
        transform_sums(Elements(x, 0, 16, 16), Pairs(y, 0, 0, 32), 1, 1, 1)
    return {answer}
"""


@pytest.mark.parametrize(("condition", "objects"), [("a != b", 2), ("1 == 2", 1)])
def test_a_part_that_no_code_calls_any_more_is_not_linked(condition: str, objects: int) -> None:
    function = python_function(CALLS.format(condition=condition, answer=0), **TRANSFORMATION)
    assert len(objects_in(compile_object(function, "int64(int64, int64)", OPTIMIZED).code)) == objects


def test_kernels_share_the_transformation_of_sums(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    names = count_parts(monkeypatch)
    sums, zeros = np.ones(1024, "float32"), np.zeros(1024, "float32")
    wanted = zeros.copy()
    transform_sums(Elements(sums, 0, 16, 16), Pairs(wanted, 0, 0, 32), 1, 1, 1)
    for answer in (1, 2):
        function = python_function(CALLS.format(condition="a != b", answer=answer), **TRANSFORMATION)
        address = kernel_store.address_of(function, "int64(int64, int64)", levels=UNOPTIMIZED)
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
        out = zeros.copy()
        assert call(sums.ctypes.data, out.ctypes.data) == answer
        np.testing.assert_array_equal(out[[0, 1, 32, 33]], wanted[[0, 1, 32, 33]])
    assert len(names) == MOST_STRIDE


def count_parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the parts that are compiled from now on."""
    names, compile_part = [], native_compiler.compile_part

    def counted(part: Any, *others: Any) -> bytes:
        names.append(part.symbol)
        return compile_part(part, *others)

    monkeypatch.setattr(kernel_store, "compile_part", counted)
    return names


def test_parts_are_compiled_once_for_all_kernels_and_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    names = count_parts(monkeypatch)
    wanted = results(kernel_store.address_of(product(1), SIGNATURE, levels=UNOPTIMIZED))
    assert len(names) == len(set(names)) == TILE_ROWS
    assert results(kernel_store.address_of(product(2), SIGNATURE, levels=UNOPTIMIZED)) == wanted
    fresh_process(monkeypatch)
    assert results(kernel_store.address_of(product(3), SIGNATURE, levels=UNOPTIMIZED)) == wanted
    assert len(names) == TILE_ROWS and kernel_store.counters["compiles"] == 1


def test_a_kernel_in_the_cache_needs_no_part_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    wanted = results(kernel_store.address_of(product(), SIGNATURE, levels=UNOPTIMIZED))
    for file in list(disk_cache.entry_files()):
        if disk_cache.check(file.path).name.startswith("part "):
            file.path.unlink()
    fresh_process(monkeypatch)
    names = count_parts(monkeypatch)
    assert results(kernel_store.address_of(product(), SIGNATURE, levels=UNOPTIMIZED)) == wanted
    assert not names and kernel_store.counters["compiles"] == 0


def test_a_part_is_compiled_for_the_registers_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    names = count_parts(monkeypatch)
    for answer, registers in ((1, (16, 16)), (2, (32, 16))):
        with monkeypatch.context() as patch:
            patch.setattr("relayvm.ops.native.vector_registers.registers", lambda registers=registers: registers)
            results(kernel_store.address_of(product(answer), SIGNATURE, levels=UNOPTIMIZED))
    assert len(set(names)) == 2 * TILE_ROWS


@pytest.mark.split(2)
@pytest.mark.parametrize("kept", [1, 63, 64, 100, -1])
def test_a_part_that_is_cut_off_is_refused(kept: int) -> None:
    code = compile_object(product(), SIGNATURE, UNOPTIMIZED).code
    first, second, *_ = objects_in(code)
    with pytest.raises(LinkError):
        linker.load(ObjectCode("relayvm_entry", first + second[:kept]))
    with pytest.raises(LinkError):
        linker.load(ObjectCode("relayvm_entry", first))  # the symbols of the parts are unknown


@shared
@generic
def fill(out: Array, value: float, count: int, lanes: int) -> None:
    """Fill an array with a number."""
    for k in range(0, count, lanes):
        store(out, k, splat(out.dtype.type(value), lanes))


@shared
@generic
def answer() -> int:
    """Return a number, which functions of parts do not."""
    return 3


FILL = """
def f(out, n):
    x = array_float32(out, n)
    fill(x, 2.5, n, static(4))
    fill(x, 1.5, n // 2, static(8))
    return 7
"""


def test_a_shared_function_is_a_part_for_each_of_its_static_arguments() -> None:
    function = python_function(FILL, fill=fill, static=static)
    made = compile_object(function, "int64(int64, int64)", UNOPTIMIZED)
    assert len(objects_in(made.code)) == 3
    found, plain = np.zeros((2, 16), np.float32)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(linker.load(made))
    assert call(found.ctypes.data, 16) == function(plain.ctypes.data, 16) == 7
    np.testing.assert_array_equal(found, plain)
    assert found.tolist() == [1.5] * 8 + [2.5] * 8


@pytest.mark.parametrize(
    ("call", "message"), [("answer()", "the result of answer"), ("fill(x, 2.5, 4, fill)", "an argument of fill")]
)
def test_shared_functions_are_called_by_values(call: str, message: str) -> None:
    text = f"def f(out, n):\n    x = array_float32(out, n)\n    {call}\n    return 0\n"
    with pytest.raises(Outside, match=message):
        compile_object(python_function(text, fill=fill, answer=answer), "int64(int64, int64)", UNOPTIMIZED)


@apart("step")
@generic
def body(out: Array, step: int, way: int, finish: Callable[..., None], argv: int) -> int:
    for i in range(out.size):
        out[i] = i * step + way
    multiply_panels(Rows(out, 0, 1), Panels(out, 0, 16, 1), Rows(out, 0, 1), 1, 1, 1, 0, Ahead(0, 0, 0, Rows(out, 0, 0)))
    finish(argv, 1, out, 3)
    return int(out.size)


BODY = """
@generic
def finish(argv, at, sums, more):
    store_i64(argv, at + {answer})
    for i in range(sums.size):
        sums[i] = sums[i] + more
def f(out, argv, size):
    return body(array_float32(out, size), {step}, {way}, finish, argv)
"""


def run(answer: int, step: int, way: int) -> tuple[int, int, list[float]]:
    """The result of a kernel with ``body``, the word that its epilogue stores, and the elements that both write."""
    text = BODY.format(answer=answer, step=step, way=way)
    function = python_function(text, body=body, generic=generic)
    address = kernel_store.address_of(function, "int64(int64, int64, int64)", levels=UNOPTIMIZED)
    out, word = np.zeros(3, "float32"), np.zeros(1, "int64")
    given = out.ctypes.data, word.ctypes.data, out.size
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address)(*given), int(word[0]), out.tolist()


def test_kernels_share_a_body_that_calls_their_own_epilogues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    names = count_parts(monkeypatch)
    # element 0 is the product of itself with itself
    assert run(10, 2, 0) == (3, 11, [3, 5, 7])
    first = len(names)
    assert run(20, 5, 0) == (3, 21, [3, 8, 13])  # another epilogue and another step, which is passed
    assert len(names) == first and sum("body" in name for name in names) == 1
    assert run(20, 5, 2) == (3, 21, [7, 10, 15])  # another constant: a body of its own, with the same tiles
    assert len(names) == first + 1
    fresh_process(monkeypatch)
    assert run(30, 7, 2) == (3, 31, [7, 12, 19])
    assert len(names) == first + 1


class Ways(NamedTuple):
    step: int
    way: int


@apart("step")
@generic
def body_of_record(out: Array, ways: Ways) -> int:
    for i in range(out.size):
        out[i] = i * ways.step + ways.way
    return int(out.size)


def test_a_field_of_a_record_is_passed_where_its_name_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    names = count_parts(monkeypatch)
    counts = []
    for step, way in ((2, 0), (5, 0), (5, 1)):
        text = f"def f(out, size):\n    return body_of_record(array_float32(out, size), Ways(step={step}, way={way}))\n"
        function = python_function(text, body_of_record=body_of_record, Ways=Ways)
        address = kernel_store.address_of(function, "int64(int64, int64)", levels=UNOPTIMIZED)
        out = np.zeros(3, "float32")
        assert ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(address)(out.ctypes.data, out.size) == 3
        assert out.tolist() == [way, way + step, way + 2 * step]
        counts.append(len(names))
    assert counts == [1, 1, 2]


def test_a_body_apart_computes_the_same_by_the_linker_of_llvm() -> None:
    function = python_function(BODY.format(answer=1, step=2, way=3), body=body, generic=generic)
    made = compile_object(function, "int64(int64, int64, int64)", UNOPTIMIZED)
    assert len(objects_in(made.code)) > 2
    found = []
    for load in (linker.load, linker.load_by_llvm):
        out, word = np.zeros(3, "float32"), np.zeros(1, "int64")
        ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(load(made))(out.ctypes.data, word.ctypes.data, 3)
        found.append((int(word[0]), out.tolist()))
    assert found[0] == found[1] == (2, [12, 8, 10])
