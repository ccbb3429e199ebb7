"""Rows of a large result: the bits of the rows of a small one, read ahead and written past the caches."""

from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from relayvm.ops.codegen import kernel_source
from relayvm.ops.native.jit import marked_accesses, native_compiler, non_temporal
from relayvm.ops.native.jit.marked_accesses import complete

from ..run_group import SIGNATURE, TWINS, compiled_anew, evaluate, function_of, plain
from ..test_division import part
from .row_groups import CASES, RowCase

MORE = {
    "elements that a later loop reads": RowCase(
        "let %e = exp(%x); subtract(%e, max(%e, axis=[1], keepdims=True))", lambda x: np.exp(x) - np.exp(x).max(1, keepdims=True)
    ),
    "an operand of the last loop alone": RowCase(
        "multiply(%o0, subtract(%x, mean(%x, axis=[1], keepdims=True)))", lambda x, o: o * (x - x.mean(1, keepdims=True)), 0, 1
    ),
    "a result without the row": RowCase(
        "add(multiply(%o0, 2f), mean(%x, axis=[1], keepdims=True))", lambda x, o: 2 * o + x.mean(1, keepdims=True), 0, 1
    ),
    "a sum of tensors": RowCase(
        "let %s = add(%x, %o0); divide(%s, add(sum(abs(%s), axis=[1], keepdims=True), 1f))",
        lambda x, o: (x + o) / (np.abs(x + o).sum(1, keepdims=True) + 1), 0, 1,
    ),
    "a costly function after the sum": RowCase(
        "tanh(subtract(%x, mean(%x, axis=[1], keepdims=True)))", lambda x: np.tanh(x - x.mean(1, keepdims=True))
    ),
}  # fmt: skip
MARKED = """
define void @f(ptr %4, ptr %q, <8 x float> %v, float %s) {
  %wide.load = load <8 x float>, ptr %4, align 4, !mmra !0
  %other = load <8 x float>, ptr %4, align 4, !mmra !2
  %one = load float, ptr %4, align 4, !mmra !0
  store <8 x float> %v, ptr %q, align 32, !mmra !1
  store <8 x float> %v, ptr %q, align 4, !mmra !1
  store <8 x float> %v, ptr %q, align 32, !mmra !0
  store float %s, ptr %q, align 4, !mmra !1
  ret void
}
!0 = !{!"relayvm", !"ahead"}
!1 = !{!"relayvm", !"past"}
!2 = !{!"other", !"ahead"}
"""


def is_streamed(case):
    return case.rank == 2 and "lines_past_caches" in kernel_source(case.group()[0]).text


STREAMED = {name: case for name, case in (CASES | MORE).items() if is_streamed(case)}


def run(case, shape, monkeypatch, threshold, how, portions=None):
    """The result for numbers that are the same each time; results of at least ``threshold`` bytes are large."""
    monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", threshold)
    group, names = case.group()
    arrays = case.arrays(shape)
    status, (ours,) = evaluate(group, [arrays[n] for n in names], how, **({"portions": portions} if portions else {}))
    assert status == 0
    return ours


def test_most_rows_are_streamed():
    assert {"layer norm", "layer norm of gelu", "softmax", "root of the mean square", *MORE} <= set(STREAMED)


@pytest.mark.split(2)
@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("columns", [64, 192, 1088])
def test_the_bits_do_not_depend_on_the_size_of_the_result(name, columns, monkeypatch):
    case = STREAMED[name]
    for rows in (1, 2, 7):
        small = run(case, (rows, columns), monkeypatch, 1 << 60, compiled_anew)
        large = run(case, (rows, columns), monkeypatch, 1, compiled_anew)
        np.testing.assert_array_equal(large, small, strict=True)
        np.testing.assert_allclose(large, case.numpy(case.arrays((rows, columns))), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", STREAMED)
def test_each_part_writes_its_rows_alone(name, monkeypatch):
    case, shape = STREAMED[name], (11, 64)
    whole = run(case, shape, monkeypatch, 1, compiled_anew)
    for parts in (2, 3, 16):
        portions = [part(k, parts) for k in range(parts)]
        np.testing.assert_array_equal(run(case, shape, monkeypatch, 1, compiled_anew, portions), whole)
        first = run(case, shape, monkeypatch, 1, compiled_anew, portions[:1])
        done = (first == whole).all(1)
        assert done.sum() < 11 and (first[~done] == 99).all()


@pytest.mark.parametrize("name", STREAMED)
def test_the_twins_stream_as_well(name, monkeypatch):
    written = []
    store = TWINS["store_past"]
    monkeypatch.setitem(TWINS, "store_past", lambda *args: (written.append(args), store(*args)))
    case = STREAMED[name]
    ours = run(case, (3, 64), monkeypatch, 1, plain.__wrapped__)
    np.testing.assert_allclose(ours, case.numpy(case.arrays((3, 64))), rtol=2e-5, atol=2e-5)
    assert len(written) == (3 + 1) * 64


@pytest.mark.parametrize("columns", [63, 80])
def test_rows_with_elements_left_over_are_not_streamed(columns, monkeypatch):
    monkeypatch.setitem(TWINS, "store_past", None)
    case = STREAMED["layer norm"]
    ours = run(case, (3, columns), monkeypatch, 1, plain.__wrapped__)
    np.testing.assert_allclose(ours, case.numpy(case.arrays((3, columns))), rtol=2e-5, atol=2e-5)


def test_a_result_in_the_place_of_an_operand_is_not_streamed():
    group, _ = STREAMED["root of the mean square"].group()
    apart = kernel_source(group).text
    there, elsewhere = kernel_source(replace(group, in_place=((0, 0),))).text.split("\n    t", 1)[0], apart
    assert "store_past" in elsewhere and "store_past" not in there


@pytest.mark.parametrize(("name", "reads"), [("layer norm of gelu", 2), ("layer norm", 1)])
def test_vectors_are_read_ahead_and_written_past_the_caches(name, reads, monkeypatch):
    """In the machine's own code: a request for each load of a large operand, and no other store to the result."""
    texts = []
    monkeypatch.setattr(marked_accesses, "complete", lambda text: texts.append(complete(text)) or texts[-1])
    native_compiler.compile_object(function_of(kernel_source(STREAMED[name].group()[0]).text), SIGNATURE)
    (text,) = texts
    asked = text.count("call void @llvm.prefetch")
    assert asked > 0 and asked % reads == 0
    assert text.count("!nontemporal") > 0


def test_marks_of_vectors_alone_are_completed():
    """A load of a vector, not of an element; a store of an aligned vector; no access with another mark."""
    text = complete(MARKED)
    lines = text.splitlines()
    assert [line.count("!nontemporal") for line in lines if line.startswith("  store")] == [1, 0, 0, 0]
    at = [k for k, line in enumerate(lines) if "@llvm.prefetch" in line and "call" in line]
    assert [lines[k - 2].split(" = ")[0].strip() for k in at] == ["%wide.load"]
    assert "ptr %4, i64 8192" in lines[at[0] - 1]
    assert "declare void @llvm.prefetch" in text
    llvm.parse_assembly(text).verify()
