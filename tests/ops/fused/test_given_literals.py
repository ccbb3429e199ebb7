"""Kernels that differ in literals only have one machine code, with tables of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu.shared_texts.without_literals import without_literals
from relayvm.ops.native import given_literals
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.given_literals import filled

QUANTISED = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 8), float32]) {
  clip(cast(add(cast(divide(%x, SCALEf), dtype="int32"), ZERO), dtype="float32"), a_min=-128f, a_max=127f)
}"""


def quantised(scale: float, zero: int) -> Callable[[np.ndarray], np.ndarray]:
    text = QUANTISED.replace("SCALE", str(scale)).replace("ZERO", str(zero))
    vm = relay.VirtualMachine(relay.compile(text, target="cpu"))
    return lambda x: vm.run(x).numpy()


def test_layers_of_other_scales_share_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = kernel_store.compile_object
    monkeypatch.setattr(kernel_store, "compile_object", lambda f, *rest: compiled.append(f.__name__) or original(f, *rest))
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32) * 50
    counts = []
    for scale, zero in ((0.372519, 5), (0.123, -9), (0.7701, 64)):
        expected = np.clip(((x / np.float32(scale)).astype(np.int32) + zero).astype(np.float32), -128, 127)
        np.testing.assert_array_equal(quantised(scale, zero)(x), expected, strict=True)
        counts.append(compiled.count("kernel"))
    assert counts[1:] == counts[:1] * 2 and counts[0] <= 1


def test_literals_of_which_llvm_makes_other_code_stay() -> None:
    for text in (
        "v = x * float32(0.25)", "v = x + float32(0.0)", "v = float32(0.5) / x", "v = x - int32(0)", "v = x * int32(1)",
        "v = x // int32(7)",
        "v = x % int32(7)", "v = x >> int32(3)", "v = x if x >= float32(6.1) else y", "v = x + int64(9)",
    ):  # fmt: skip
        assert without_literals(text) == (text, ())


def test_layers_share_a_text_whichever_of_their_literals_are_equal() -> None:
    layer = "v1 = (v0 * float32({}))\nv2 = (v1 + float32({}))\nv3 = int32((v2 * int32({})))"
    shared = {without_literals(layer.format(*each))[0] for each in ((0.3, 0.7, 5), (0.3, 0.3, 8), (1.7, 9.0, -6))}
    assert len(shared) == 1


def test_a_zero_point_is_taken_out_whatever_it_is() -> None:
    of_reals = "v1 = round_float32(v0)\nv2 = (v1 + float32({}.0))"
    of_integers = "store_parts(parts, int32(0) + int32({}), x0, v1)"
    for text in (of_reals, of_integers):
        shared = {without_literals(text.format(zero))[0] for zero in (0, 1, -1, 101)}
        assert len(shared) == 1
    assert without_literals(of_reals.format(0))[1] == (0.0,)


def test_equal_lines_read_a_literal_once() -> None:
    line = "v1 = (v0 * float32({}))"
    shared, numbers = without_literals("\n".join(line.format(x) for x in (0.3, 0.3, 0.7)))
    assert numbers == (0.3, 0.7) and re.findall(r"given_float\((\d)", shared) == ["0", "0", "1"]


def test_a_table_that_is_not_whole_is_not_filled() -> None:
    word = given_literals.MARK
    marks = b"".join((word + k).to_bytes(8, "little") for k in range(3))
    assert filled(b"code" + marks + b"code", [1.5, -3]) is not None
    for code in (b"code", marks[:-1], marks + marks):
        assert filled(code, [1.5, -3]) is None


literals = st.one_of(
    st.tuples(st.sampled_from(["float32", "float64"]), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.sampled_from(["int8", "int16", "int32"]), st.integers(-128, 127)),
)


@given(st.lists(st.tuples(literals, st.sampled_from(["+", "-", "*", "/", ">=", "//"])), max_size=12))
def test_the_literals_put_back_give_the_text(parts: list[Any]) -> None:
    text = "\n".join(f"v{k} = (x {op} {dtype}({value!r}))" for k, ((dtype, value), op) in enumerate(parts))
    shared, numbers = without_literals(text)

    def literal(match: re.Match[str]) -> str:
        assert int(match[2]) == len(numbers)
        return repr(numbers[int(match[1])])

    assert re.sub(r"given_(?:float|integer|size)\((\d+), (\d+)\)", literal, shared) == text


NEST = """def kernel(argv, n):
    c0 = s0 * ROWS * COLUMNS
    x0 = array_float32(tensor(load_i64(argv + 8)).data, c0)
    for i0 in range(max(low0, 0), high0):
        before1 = i0 * ROWS
        for i1 in range(max(low1 - before1, 0), min(high1 - before1, ROWS)):
            v1 = (i1 * COLUMNS)
            for i2 in range(COLUMNS):
                v2 = (v1 + i2)
                x0[uint64(v2)] = v2 if v2 < ROWS else COLUMNS
    return 0
"""


def nest(rows: int, columns: int) -> str:
    return NEST.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))


def test_nests_that_differ_in_sizes_have_one_text() -> None:
    shared, numbers = without_literals(nest(7, 96))
    assert without_literals(nest(56, 384))[0] == shared
    assert numbers == (7, 96, 7, 7, 96, 96, 7, 96)
    assert "argv + 8" in shared and "max(low0, 0)" in shared and "i1 * given_size(4, 8)" in shared


def test_parts_of_results_share_the_divisors_of_their_position() -> None:
    lines = "lead = at // 96", "i1 = lead % {0}", "for _ in range(rows):", "    at = i1 % {0}"
    text = "\n    ".join(("def finish(argv, at, rows, count):", *lines))
    shared, numbers = without_literals(text.format(56))
    assert without_literals(text.format(7))[0].replace("i1 % 7", "i1 % 56") == shared
    assert numbers == (96, 56) and "at = i1 % 56" in shared


def test_flat_loops_of_threads_share_their_text() -> None:
    text = "def kernel(argv, n):\n    pieces = {0}\n    low0 = first_of(share, pieces, 64)\n"
    shared, numbers = without_literals(text.format(150528))
    assert numbers == (150528,) and without_literals(text.format(7840)) == (shared, (7840,))


def test_short_innermost_loops_keep_their_bounds() -> None:
    """LLVM unrolls them; strides of innermost loops and divisors stay, too."""
    shared, _ = without_literals(nest(7, 9))
    assert "range(9)" in shared
    for line in ("v2 = (i2 * 147)", "v2 = (i2 // 147)", "v2 = (i2 % 147)"):
        assert line in without_literals(nest(7, 96).replace("v2 = (v1 + i2)", line))[0]


def test_rows_of_functions_keep_their_bounds() -> None:
    """80 sigmoids a row take a tenth longer where their constants are loaded in each row."""
    text = nest(7, 80).replace("= v2 if v2 < 7 else 80", "= sigmoid_float32(v2)")
    assert "range(80)" in without_literals(text)[0]
    for other in (
        text.replace("sigmoid_float32", "float32_bits"),
        nest(7, 800).replace("= v2 if v2 < 7 else 800", "= exp_float32(v2)"),
    ):
        assert "range(given_size(" in without_literals(other)[0]


def test_rows_of_a_short_run_keep_their_size() -> None:
    """The largest of 80 numbers takes twice the time where LLVM does not know that they are one run of so many."""
    runs = """for i1_run in range((COLUMNS + 255) // 256):
                for i1_at in FUNCTION(min(256, COLUMNS - i1_run * 256)):
                    v2 = (v1 + i1_run * 256 + i1_at)"""
    text = nest(7, 80).replace("for i2 in range(80):\n                v2 = (v1 + i2)", runs.replace("COLUMNS", "80"))
    assert "range((80 + 255) // 256)" in text
    for own in ("", "filled_"):
        short, _ = without_literals(text.replace("FUNCTION", f"{own}short_range"))
        assert "range((80 + 255) // 256)" in short and "80 - i1_run * 256" in short
        assert "80 - i1_run * 256" not in without_literals(text.replace("FUNCTION", f"{own}sum_range"))[0]


def test_sums_in_any_order_keep_their_number_of_terms() -> None:
    """The order of a sum follows its number of terms, so its bits would depend on the table."""
    text = nest(7, 96).replace("v2 = (v1 + i2)", "v3 = (96 - i2); f0 = add_in_any_order(f0, v3)")
    shared, numbers = without_literals(text)
    assert "range(96)" in shared and "96 - i2" in shared and numbers.count(96) == 3


@pytest.mark.parametrize("geometry", ["{}", "windows=Windows({})"])
def test_convolutions_keep_strides_of_one_and_share_others(geometry: str) -> None:
    strides = geometry.format("stride=(1, 4, 4), before=(0, 3, 3), dilation=(1, 1, 1)")
    text = f"def kernel(argv, n):\n    return tiles(v0, tensor(t0).shape[3] * 4, {strides}, layouts=(0, 2))\n"
    shared, numbers = without_literals(text)
    given = [f"given_size({k}, 4)" for k in range(4)]
    assert f"stride=(1, {given[0]}, {given[1]}), before=(0, {given[2]}, {given[3]}), dilation=(1, 1, 1)" in shared
    assert numbers == (4, 4, 3, 3) and "shape[3] * 4" in shared


def test_convolutions_share_the_steps_of_a_window() -> None:
    text = """def kernel(argv, n):
    return tiles(
        Shaped(v0, array_int64(t0 + 40, 4)), Limits(addend, lowest=0.0, highest=6.0),
        window=Window(stride=(1, 4, 4), before=(0, 3, 3), dilation=(1, 1, 1)), layouts=(0, 2),
    )
"""
    shared, numbers = without_literals(text)
    given = [f"given_size({k}, 4)" for k in range(4)]
    assert numbers == (4, 4, 3, 3)
    steps = f"stride=(1, {given[0]}, {given[1]}), before=(0, {given[2]}, {given[3]}), dilation=(1, 1, 1)"
    assert f"window=Window({steps}), layouts=(0, 2)" in shared
    assert "Shaped(v0, array_int64(t0 + 40, 4)), Limits(addend, lowest=0.0, highest=6.0)" in shared


def test_layers_of_other_sizes_share_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = kernel_store.compile_object
    monkeypatch.setattr(kernel_store, "compile_object", lambda f, *rest: compiled.append(f.__name__) or original(f, *rest))
    counts = []
    for rows, columns in ((40, 48), (56, 80), (64, 100)):
        text = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(?n, {rows}, {columns}), float32], %y: Tensor[({columns}), float32]) {{ add(%x, %y) }}"""
        x, y = np.ones((3, rows, columns), "float32"), np.arange(columns, dtype="float32")
        found = relay.VirtualMachine(relay.compile(text, target="cpu")).run(x, y).numpy()
        np.testing.assert_array_equal(found, x + y)
        counts.append(compiled.count("kernel"))
    assert counts[1:] == counts[:1] * 2 and counts[0] <= 1


#: A quantised convolution with an activation, of which the next one is added to the data.
BLOCK = """#[version = "0.0.5"]
def @main(
  %x: Tensor[({sizes}), uint8], %w: Tensor[(16, 16, 3, 3), int8], %b: Tensor[(16), int32], %f: Tensor[(16, 1, 1), float32]
) {{
  let %p = multiply(cast(nn.bias_add(qnn.conv2d(%x, %w, 7u8, 0, 1f, 1f, padding=[1, 1]), %b), dtype="float32"), %f);
  let %q = qnn.quantize(%p, 1f, 3u8, out_dtype="uint8", ties="even");
  let %r = multiply(cast(nn.bias_add(qnn.conv2d(%q, %w, 3u8, 0, 1f, 1f, padding=[1, 1]), %b), dtype="float32"), %f);
  qnn.quantize(add(%r, qnn.dequantize(%x, 0.1f, 7u8)), 0.3f, 9u8, out_dtype="uint8", ties="even")
}}"""


def test_layers_of_known_and_of_open_sizes_have_one_text() -> None:
    weights = {"w": np.ones((16, 16, 3, 3), "int8"), "b": np.arange(16, dtype="int32"), "f": np.ones((16, 1, 1), "float32")}
    texts = []
    for sizes in ("1, 16, 24, 24", "4, 16, 24, 20", "?n, 16, 24, 24", "?n, 16, ?h, ?w"):
        packed = relay.compile(BLOCK.format(sizes=sizes), target="cpu", params=weights, optimize=False).packed
        layers = [kernel_source(p.group) for p in packed if "byte_conv2d" in p.name]
        texts.append([without_literals(layer.text, layer.bodies)[0] for layer in layers])
    assert len(texts[0]) == 2 and texts[1:] == texts[:1] * 3
