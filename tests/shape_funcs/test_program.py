"""Shape programs: assembly, messages of checks, JSON and native encodings, rejection of damaged programs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.shape_funcs import defs
from relayvm.shape_funcs.symbolic.dim import Dim, dim, result_size, sym
from relayvm.shape_funcs.symbolic.dim_operations import arange_length, eq, le, lt, max_, min_, where
from relayvm.shape_funcs.symbolic.program import OPCODES, OPERATIONS, ShapeProgram, as_word, assemble
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, Check, ShapeError, check, register_shape_func, tracing

N, M = sym("n"), sym("m")
LOADS = {N: (0, 0, 0), M: (1, 0, 0), sym("unused"): (2, 0, 0)}


def size(n: int) -> np.ndarray:
    return np.zeros(n)


def test_opcodes_are_pinned() -> None:
    names = ("const", "add", "mul", "floordiv", "mod", "min", "max", "eq", "lt", "where", "arange_length", "scaled", "division")
    assert names == OPERATIONS
    assert OPCODES["division"] == 12


def test_shared_parts_are_computed_once_and_unused_loads_left_out() -> None:
    program = assemble([(N * M + 1, N * M), (N * M,)], [Check(le(N, M), "{} > {}", (N, M))], LOADS)
    assert program.loads == ((0, 0, 0), (1, 0, 0))
    assert [op for op, *_ in program.rows].count(OPCODES["mul"]) == 1
    assert program.run([size(2), size(3)]) == [(7, 6), (6,)]
    assert str(program).splitlines()[:3] == ["s0 = size(input 0, 0)", "s1 = size(input 1, 0)", "s2 = s1 * s0"]


def test_a_negated_condition_is_one_row() -> None:
    program = assemble([], [Check(le(N, M), "")], LOADS)
    assert [OPERATIONS[op] for op, *_ in program.rows] == ["lt", "const", "eq"]


def test_rows_that_only_messages_need_are_not_encoded() -> None:
    program = assemble([(N,)], [Check(eq(N, M), "{} of {}", (N, N * M * 7))], LOADS)
    assert len(program.rows) == 4
    assert program.words() == [2, 1, 1, 1, 0, 0, 0, 1, 0, 0, OPCODES["eq"], 1, 0, 0, 2, 1, 0]
    assert program.describe_failure([size(2), size(3)]) == "2 of 42"
    assert program.describe_failure([size(3), size(3)]) is None


def test_a_program_of_nothing() -> None:
    assert assemble([()], [], {}).words() == [0, 0, 0, 1, 0]
    assert assemble([], [], {}).run([]) == []


@pytest.mark.lengthy
def test_deep_expressions_do_not_recurse() -> None:
    x = N
    for k in range(5000):
        x = min_(x, M * k) + 1
    program = assemble([(x,)], [], LOADS)
    program.verify(2)
    assert program.run([size(9000), size(1)]) == [(5000,)]


def test_data_is_read_as_int64() -> None:
    for array in (np.array([1, 5], np.uint8), np.array([[0], [5]], np.int32), np.array([9, 5], np.uint64)):
        assert assemble([(sym("v"),)], [], {sym("v"): (0, 1, 1)}).run([array]) == [(5,)]
    assert assemble([(sym("v"),)], [], {sym("v"): (0, 1, 0)}).run([np.array(True)]) == [(1,)]
    a, b, c = (sym(x, is_size=False) for x in "abc")
    loads = {a: (0, 1, 0), b: (1, 1, 0), c: (2, 1, 0)}
    program = assemble([(arange_length(a, b, c),)], [], loads)
    assert program.run([np.float32(0), np.float64(1), np.array([0.25])]) == [(4,)]


def test_a_count_of_the_kernel_is_its_bound() -> None:
    assert assemble([(result_size(N * 2),)], [], LOADS).run([size(4)]) == [(8,)]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (N - 5, "a size is negative: the shape would be (-2,)"),
        (N * 2**62, "a size is too large: 3 * 4611686018427387904"),
        (N * (2**63 - 2) + 4, "a size is too large: 3 * 9223372036854775806"),
    ],
)
def test_sizes_that_are_none(bad: Dim, text: str) -> None:
    assert assemble([(bad,)], [], LOADS).describe_failure([size(3)]) == text


def test_a_constant_that_is_no_int64() -> None:
    with pytest.raises(ShapeError, match="a size is too large: 9223372036854775808"):
        assemble([(N + 2**63,)], [], LOADS)


def test_checks_fail_at_once_where_sizes_are_known() -> None:
    with pytest.raises(ShapeError, match="2 is not 3"):
        check(eq(2, 3), "{} is not {}", 2, 3)
    with tracing() as trace:
        check(eq(N, 3), "{} is not 3", N)
        check(eq(N, 3), "{} is not 3", N)
        check(lt(2, 3), "never")
    assert len(trace.checks) == 1


# ---- damaged programs ------------------------------------------------------------------------------------------------

GOOD = assemble([(where(lt(N, 3), max_(N, M), N // 2), dim(4))], [Check(eq(N, M), "{} is not {}", (N, M))], LOADS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"loads": ((2, 0, 0), (1, 0, 0))}, "load 0 reads input 2 of 2"),
        ({"loads": ((-1, 0, 0), (1, 0, 0))}, "load 0 reads input -1 of 2"),
        ({"loads": ((0, 2, 0), (1, 0, 0))}, "load 0 has kind 2"),
        ({"loads": ((0, 0, 8), (1, 0, 0))}, "load 0 reads index 8"),
        ({"loads": ((0, 1, -1), (1, 0, 0))}, "load 0 reads index -1"),
        ({"rows": ((13, 0, 0, 0),)}, "row 0 has opcode 13"),
        ({"rows": ((1, 0, 2, 0),)}, "row 0 reads a slot that does not come before it"),
        ({"rows": ((9, 0, 0, 2),)}, "row 0 reads a slot that does not come before it"),
        ({"rows": ((0, 2**63, 0, 0),)}, "row 0 does not fit int64"),
        ({"checks": ((99, "", ()),)}, "check 0 reads a slot that does not exist"),
        ({"checks": ((0, "{} {}", (0,)),)}, "check 0 has 1 operands for the message '{} {}'"),
        ({"checks": ((0, "{0.shape}", (0,)),)}, "check 0 has 1 operands for the message '{0.shape}'"),
        ({"checks": ((0, "{", ()),)}, "check 0 has 0 operands for the message '{'"),
        ({"outputs": ((99,),)}, "output 0 reads a slot that does not exist"),
        ({"outputs": ((0,) * 9,)}, "output 0 has 9 dimensions; at most 8 are possible"),
    ],
)
def test_damage_is_refused(change: dict[str, Any], text: str) -> None:
    GOOD.verify(2)
    with pytest.raises(ValueError, match=r"^shape program: ") as error:
        dataclasses.replace(GOOD, **change).verify(2)
    assert str(error.value) == f"shape program: {text}"


def test_json_round_trip() -> None:
    assert ShapeProgram.from_json(GOOD.to_json()) == GOOD


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_of_the_json_is_refused_or_harmless(data: Any) -> None:
    """A random change of the JSON is rejected by from_json or verify, or the program runs to shapes or a message."""
    junk: Any = st.integers(-3, 12) | st.sampled_from([2**63, -(2**70), None, "x", 1.5, True, [], {}, [1], "{}", "{!r}"])
    damaged = GOOD.to_json()
    node, key = damaged, data.draw(st.sampled_from(sorted(damaged)))
    while isinstance(node[key], list) and node[key] and data.draw(st.integers(0, 4)):
        node, key = node[key], data.draw(st.integers(0, len(node[key]) - 1))
    node[key] = data.draw(junk)
    try:
        program = ShapeProgram.from_json(damaged)
        program.verify(2)
    except ValueError:
        return
    assert all(-(2**63) <= w < 2**63 for w in program.words())
    reads_data = any(kind == 1 or index for _, kind, index in program.loads)
    if not reads_data:
        program.describe_failure([size(2), size(3)])
        str(program)


# ---- the registry ----------------------------------------------------------------------------------------------------


def test_every_file_of_the_folder_is_loaded() -> None:
    assert "reshape" in SHAPE_FUNCS, "asked for a name, the registry imports the declarations"
    folder = Path(defs.__file__).parent
    files = [file.relative_to(folder).with_suffix("") for file in folder.glob("*/*.py") if file.stem != "__init__"]
    assert len(files) > 20
    for file in files:
        assert ".".join([defs.__name__, *file.parts]) in sys.modules, file


def test_an_operator_has_one_shape_function() -> None:
    with pytest.raises(ValueError, match="operator 'reshape' has a shape function already"):
        register_shape_func("reshape")(lambda inputs, attrs: ())


def test_words_of_floats() -> None:
    assert as_word(0.0) == 0
    assert as_word(-0.0) == -(2**63)
    assert as_word(2**64 - 1) == -1
