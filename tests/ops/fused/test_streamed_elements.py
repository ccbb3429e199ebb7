"""Elements of a large result: the bits of a small one, read ahead and written past the caches."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.native.jit import marked_accesses, native_compiler, non_temporal
from relayvm.ops.native.jit.marked_accesses import complete

from .reductions.row_groups import kernels
from .run_group import SIGNATURE, TWINS, compiled_anew, evaluate, function_of, plain
from .test_division import part

#: Programs over tensors x, y of one shape, and a vector v as long as their last axis.
STREAMED = {
    "sum": "add(%x, %y)",
    "bias, relu": "nn.relu(add(%x, %v))",
    "costly": "tanh(multiply(%x, sigmoid(%y)))",
    "halves": 'cast(add(%x, %y), dtype="float16")',
    "doubles": 'cast(add(%x, %v), dtype="float64")',
    "truths": "less(%x, %y)",
    "bytes": 'cast(round(%x), dtype="int8")',
    "choice": "where(less(%x, %y), exp(%x), %y)",
}
#: The same, of three axes.
MOVED = {
    "axes": "transpose(%x, axes=[1, 0, 2])",
    "axes of a sum": "transpose(add(%x, %y), axes=[1, 0, 2])",
    "a column": "add(%x, sum(%y, axis=[2], keepdims=True))",
    "a plane": "multiply(%x, sum(%y, axis=[0], keepdims=True))",
}
CASES = [(name, body, 2) for name, body in STREAMED.items()] + [(name, body, 3) for name, body in MOVED.items()]


def program(body, rank, sizes=None):
    letters = [f"?{c}" for c in "abc"[:rank]] if sizes is None else [str(s) for s in sizes]
    shape = f"({', '.join(letters)})"
    parameters = {"x": shape, "y": shape, "v": f"({letters[-1]})"}
    used = ", ".join(f"%{name}: Tensor[{dims}, float32]" for name, dims in parameters.items() if f"%{name}" in body)
    return f"def @main({used}) {{ {body} }}"


def arrays(body, shape):
    rng = np.random.default_rng(0)
    every = {"x": rng.standard_normal(shape), "y": rng.standard_normal(shape), "v": rng.standard_normal(shape[-1:])}
    return [np.float32(a) for name, a in every.items() if f"%{name}" in body]


def result(monkeypatch, threshold, body, shape, static=False):
    """The program's result, where results of ``threshold`` bytes are large."""
    monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", threshold)
    text = '#[version = "0.0.5"]\n' + program(body, len(shape), shape if static else None)
    return relay.VirtualMachine(relay.compile(text, target="cpu")).run(*arrays(body, shape)).numpy()


@pytest.mark.parametrize(("name", "body", "rank"), CASES)
def test_the_bits_do_not_depend_on_the_size_of_the_result(name, body, rank, monkeypatch):
    for shape in [(1, 1, 64), (3, 2, 192), (2, 5, 17), (4, 0, 64), (1, 3, 1)]:
        shape = shape if rank == 3 else (shape[0] * shape[1], shape[2])
        small, large = (result(monkeypatch, threshold, body, shape) for threshold in (1 << 60, 1))
        assert small.dtype == large.dtype and small.tobytes() == large.tobytes()


@pytest.mark.parametrize("body", ["add(%x, %y)", "nn.relu(add(%x, %v))"])
def test_each_part_writes_its_elements_alone(body, monkeypatch):
    monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", 1)
    ((group, _),) = kernels(program(body, 2))
    given = arrays(body, (13, 64))
    status, (whole,) = evaluate(group, given, compiled_anew)
    assert status == 0 and "lines_past_caches" in kernel_source(group).text
    for parts in (2, 5, 16):
        _, (ours,) = evaluate(group, given, compiled_anew, [part(k, parts) for k in range(parts)])
        np.testing.assert_array_equal(ours, whole)
        _, (first,) = evaluate(group, given, compiled_anew, [part(0, parts)])
        mine = first == whole
        assert mine.sum() < mine.size and (first[~mine] == 99).all()


def test_an_empty_part_begins_no_line(monkeypatch):
    monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", 1)
    ((group, _),) = kernels(program("add(%x, %y)", 2))
    x, y = arrays("%x %y", (3, 17))
    for run in (plain.__wrapped__, compiled_anew):
        status, (ours,) = evaluate(group, [x, y], run, [part(k, 5) for k in range(5)])
        assert status == 0
        np.testing.assert_array_equal(ours, x + y)


@pytest.mark.parametrize(("body", "reads"), [("add(%x, %y)", 2), ("nn.relu(add(%x, %v))", 1)])
def test_the_twins_ask_for_what_differs_by_row(body, reads, monkeypatch):
    """A vector that every row reads is in a cache."""
    asked, written = [], []
    load, store = TWINS["load_ahead"], TWINS["store_past"]
    monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", 1)
    monkeypatch.setitem(TWINS, "load_ahead", lambda *args: (asked.append(args[1]), load(*args))[1])
    monkeypatch.setitem(TWINS, "store_past", lambda *args: (written.append(args[1]), store(*args)))
    ((group, _),) = kernels(program(body, 2))
    given = arrays(body, (3, 16))
    status, (ours,) = evaluate(group, given, plain.__wrapped__)
    assert status == 0 and len(written) == 48 and len(asked) == 48 * reads
    expected = given[0] + given[1] if reads == 2 else np.maximum(given[0] + given[1], 0)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("body", ["exp(transpose(%x, axes=[1, 0, 2]))", "exp(reverse(%x, axis=0))"])
def test_nothing_is_asked_for_behind_elements_that_others_follow(body):
    """Rows in another order: the lines behind a row are not those of the next one."""
    rank = 3 if "1, 0, 2" in body else 2
    text = kernel_source(kernels(program(body, rank))[-1][0]).text
    assert "store_past(" in text and "load_ahead(" not in text


def test_rows_that_are_no_whole_lines_are_written_as_small_results(monkeypatch):
    monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", 1)
    monkeypatch.setitem(TWINS, "store_past", None)
    ((group, _),) = kernels(program("nn.relu(add(%x, %v))", 2))
    given = arrays("%x %v", (3, 17))
    np.testing.assert_array_equal(evaluate(group, given, plain.__wrapped__)[1][0], np.maximum(given[0] + given[1], 0))


def test_a_result_known_to_be_small_has_one_nest():
    texts = [kernel_source(kernels(program("add(%x, %y)", 2, sizes))[0][0]).text for sizes in ((64, 64), (4096, 4096))]
    assert ["store_past" in text for text in texts] == [False, True]


def test_vectors_are_read_ahead_and_written_past_the_caches(monkeypatch):
    """In the machine's own code: two requests for each store."""
    texts = []
    monkeypatch.setattr(marked_accesses, "complete", lambda text: texts.append(complete(text)) or texts[-1])
    group = kernels(program("add(%x, %y)", 2))[0][0]
    native_compiler.compile_object(function_of(kernel_source(group).text), SIGNATURE)
    (text,) = texts
    assert text.count("call void @llvm.prefetch") == 2 * text.count("!nontemporal") > 0
