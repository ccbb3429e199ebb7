"""explain: the list has exactly the copies of a run; the texts give place, reason and help."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.compile import compile
from relayvm.compiler.emit.emitter import emit
from relayvm.compiler.inputs.given_inputs import make_inputs
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.load_program import function_of
from relayvm.compiler.lowering.pipeline import lower
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.ops.core.conditions import condition
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS
from relayvm.vm.api.executable import Executable, from_bytes
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.diagnostics.source import InputError, VMError
from relayvm.vm.inspection.explain import Explanation
from relayvm.vm.inspection.transfers import ARGUMENT, CONSTANT, COPY, RESULT, Transfer
from relayvm.vm.runtime.tracing.trace_events import ALLOC, DTOH, HTOD

from ...devices import DEVICES
from ...example_programs import PROGRAMS, inputs_of
from ...programs import HEADER
from .transfer_programs import MAT, VEC, drawn_programs, flat, modes, sizes

ROOT = Path(__file__).resolve().parents[3]
SLICE = (
    "def @main(%x: Tensor[(?n, ?), float32], %b: Tensor[(2), int64]) {\n"
    "  let %y = exp(%x);\n"
    "  dyn.strided_slice(%y, %b, shape_of(%x, dtype=\"int64\"), %b)\n"
    "}\n"
)  # fmt: skip


def program(text: str, **config: Any) -> Executable:
    """Compiled; without placement, which would remove what the texts are about, unless asked for."""
    return compile(HEADER + text, "sim", **{"place": "off", **config})


# ---- the list and the events -------------------------------------------------------------------------------------------


def crossings(exe: Executable, args: list[Any]) -> tuple[list[Any], bool]:
    """The copies of a first run whose results are all read; and whether it came to its end."""
    machine = VirtualMachine(exe)
    machine.start_trace()
    ended = True
    try:
        for tensor in flat(machine.run(*args)):
            tensor.numpy()
    except VMError:
        ended = False
    return [e for e in machine.stop_trace() if e.kind in (DTOH, HTOD)], ended


def starts(exe: Executable) -> dict[str, int]:
    """The position at which the code of each function begins in the executable."""
    out, at = {}, 0
    for f in exe.functions:
        out[f.name] = at
        at += len(f.code)
    return out


def check_crossings(exe: Executable, args: list[Any], straight: bool) -> None:
    """Every copy of a run is listed, with its bytes where they are known; all that is listed happens in a ``straight`` one."""
    shapes = {name: np.shape(a) for (name, _), a in zip(exe.inputs, args, strict=True)}
    explained, first = exe.explain(shapes), starts(exe)
    events, ended = crossings(exe, args)
    listed: dict[Any, Transfer] = {}
    for transfer in explained.transfers:
        if transfer.pc >= 0:
            listed[transfer.direction, first[transfer.function] + transfer.pc, transfer.number] = transfer
    for e in events:
        if e.pc >= 0:
            assert (e.kind, e.pc, e.subject) in listed, e
            exact = explained.nbytes(listed[e.kind, e.pc, e.subject])
            assert exact in (None, e.nbytes), e
    assert arguments_and_results(explained, events, ended)
    if straight and ended:
        # a constant crosses at its first load, wherever else it is loaded
        missing = set(listed) - {(e.kind, e.pc, e.subject) for e in events if e.pc >= 0}
        loaded = {listed[e.kind, e.pc, e.subject].name for e in events if e.pc >= 0}
        assert all(listed[key].what == CONSTANT and listed[key].name in loaded for key in missing)


def arguments_and_results(explained: Explanation, events: list[Any], ended: bool) -> bool:
    """Whether the copies without an instruction are the arguments, and the results of a run that ended."""
    wanted = [e for e in explained.transfers if e.pc < 0 and (ended or e.what == ARGUMENT)]
    found = Counter(e.kind for e in events if e.pc < 0)
    known = Counter(e.nbytes for e in events if e.pc < 0)
    exact = Counter(n for e in wanted if (n := explained.nbytes(e)) is not None)
    return found == Counter(e.direction for e in wanted) and exact <= known


@settings(max_examples=60)
@given(drawn_programs(), st.tuples(sizes, sizes), st.tuples(sizes, sizes), modes)
def test_what_is_listed_is_what_happens(
    drawn: tuple[str, bool], size: tuple[int, int], tile: tuple[int, int], mode: dict[str, str]
) -> None:
    text, straight = drawn
    exe = program(text, fuse="off", **mode)
    vectors = [np.array(tile, np.int64), np.array([1, -1], np.int64)]
    check_crossings(exe, [np.ones(size, np.float32), np.zeros(size, np.float32), *vectors], straight)


@pytest.mark.thinned(2)
@pytest.mark.split(3)
@pytest.mark.parametrize("place", ["on", "off"])
@pytest.mark.parametrize("mode", ["input", "op"])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
@pytest.mark.extensive(mode=["input"], place=["on"])
@pytest.mark.spread("mode", "place")
def test_the_copies_of_every_example_are_listed(path: Path, mode: str, place: str) -> None:
    exe = compile(path, "sim", data_dependence=mode, place=place)
    args = make_inputs(function_of(exe, "main"), inputs_of(path))
    text = path.read_text(encoding="utf-8")
    check_crossings(exe, args, straight="if (" not in text and "match" not in text)


def test_an_executable_from_a_file_is_explained_alike() -> None:
    exe = program(SLICE)
    again = from_bytes(to_bytes(exe))
    assert again.explain({"x": (3, 4)}).as_data() == exe.explain({"x": (3, 4)}).as_data()


# ---- texts -------------------------------------------------------------------------------------------------------------


def transfer_of(explained: Explanation, **wanted: Any) -> Transfer:
    """The one transfer with these fields."""
    (found,) = [e for e in explained.transfers if all(getattr(e, k) == v for k, v in wanted.items())]
    return found


def test_fields_of_a_transfer() -> None:
    explained = program(SLICE).explain(dims={"n": 3})
    transfer = transfer_of(explained, what=COPY, direction=DTOH)
    row = next(r for r in explained.as_data()["copies"] if r["what"] == COPY and r["direction"] == DTOH)
    line = SHAPE_FUNCS["dyn.strided_slice"].body.__code__.co_firstlineno
    assert row == {
        "what": "copy",
        "direction": "dtoh",
        "function": "main",
        "pc": transfer.pc,
        "reason": transfer.number,
        "name": "",
        "dtype": "int64",
        "shape": ["2"],
        "bytes": "16",
        "exact_bytes": 16,
        "host_waits": True,
        "first_run_only": False,
        "because": "dyn.strided_slice: input 'begin' is data-dependent",
        "kind": "flagged",
        "op": "dyn.strided_slice",
        "input": "begin",
        "registered": f"relayvm/shape_funcs/defs/movement/slicing.py:{line}",
        "data_dependent": ["begin", "end", "strides"],
        "doc": row["doc"],
        "source": {
            "file": "<string>",
            "line": 4,
            "column": 3,
            "text": '  dyn.strided_slice(%y, %b, shape_of(%x, dtype="int64"), %b)',
        },
        "removed_by": "compute it on the host (place=on), or make it a constant",
    }
    registered = (ROOT / row["registered"].partition("/")[2].rpartition(":")[0]).read_text().splitlines()
    assert "register_shape_func" in registered[line - 1]
    text = str(explained)
    for part in (row["because"], row["registered"], row["removed_by"], row["doc"], "  dyn.strided_slice(%y", "^^^", "16 bytes"):
        assert part in text


def test_bytes_are_expressions_until_sizes_are_given() -> None:
    exe = program(SLICE)
    x = transfer_of(exe.explain(), what=ARGUMENT, name="%x")
    assert "%x, float32[?n, x.shape[1]]; 4·?n·x.shape[1] bytes" in str(exe.explain())
    assert exe.explain().nbytes(x) is None
    assert exe.explain(dims={"n": 3}).nbytes(x) is None
    assert exe.explain({"x": (3, 5)}).nbytes(x) == exe.explain({"x": (3, 5)}, {"n": 3}).nbytes(x) == 60
    assert "4·?n·x.shape[1] = 60 bytes" in str(exe.explain({"x": (3, 5)}))
    assert "the size is known at run time" in str(exe.explain())  # the result's


@pytest.mark.parametrize(
    ("shapes", "dims", "text"),
    [
        ({"y": (1,)}, {}, "@main has no parameter %y"),
        ({"x": (1,)}, {}, "a shape of 1 sizes does not fit"),
        ({"b": (3,)}, {}, "%b cannot have the size 3 on axis 0\nhelp: axis 0 of %b is declared 2"),
        ({}, {"m": 3}, "no parameter of @main has a dimension ?m\nhelp: its named dimensions: n"),
        ({"x": (4, 1)}, {"n": 3}, "%x cannot have the size 4 on axis 0\nhelp: ?n is given as 3"),
    ],
)
def test_sizes_that_do_not_fit(shapes: dict[str, Any], dims: dict[str, int], text: str) -> None:
    with pytest.raises(InputError) as caught:
        program(SLICE).explain(shapes, dims)
    assert text in str(caught.value)


def test_a_function_that_there_is_not() -> None:
    with pytest.raises(InputError, match="no function @other"):
        program(SLICE).explain(entry="other")


def test_sizes_of_a_function_that_calls_itself_are_not_those_of_the_first_call() -> None:
    text = (
        "def @main(%x: Tensor[(?n), float32], %go: bool) -> Tensor[(?), float32] "
        "{ if (%go) { @main(concatenate((%x, %x), axis=0), False) } else { %x } }\n"
    )
    exe = program(text)
    condition = transfer_of(exe.explain({"x": (3,)}), what=COPY, direction=DTOH)
    assert condition.text == "if: the condition is read by the host"
    assert exe.explain({"x": (3,)}).sizes == {}
    check_crossings(exe, [np.ones(3, np.float32), np.array(True)], straight=False)


@pytest.mark.parametrize("place", ["off", "on"])
def test_the_copy_of_a_condition_is_removed_by_where(place: str) -> None:
    text = "def @main(%x: Tensor[(?n), float32]) { let %m = max(%x); if (greater(%m, 9f)) { %x / %m } else { %x } }"
    explained = compile(HEADER + text, "sim", place=place).explain()
    remedy = explained.remedy(transfer_of(explained, what=COPY))
    by_where = "where(condition, a, b) instead of an if, if both are cheap and neither fails"
    by_size = "compute the condition from shapes and small values"
    assert remedy == ("compute it on the host (place=on)" if place == "off" else f"{by_where}; or {by_size}")
    assert "where(condition, a, b)" in (ROOT.joinpath("docs", "fix-copies.md")).read_text()


def test_only_what_the_entry_may_enter_is_explained() -> None:
    text = f"def @main(%x: {MAT}) {{ exp(%x) }}\ndef @other(%x: {MAT}, %r: {VEC}) {{ dyn.tile(%x, %r) }}\n"
    exe = program(text)
    assert {e.what for e in exe.explain().transfers} == {ARGUMENT, RESULT}
    assert transfer_of(exe.explain(entry="other"), what=COPY).text == "dyn.tile: input 'reps' is data-dependent"
    assert [c.kernel for c in exe.explain().calls] == ["exp"]


def test_where_device_and_host_are_one_nothing_is_listed() -> None:
    explained = compile(HEADER + SLICE, "cpu").explain()
    assert explained.transfers == () and "no copies: the host is the device" in str(explained)
    assert {c.device for c in explained.calls} == {"cpu"} and explained.on_host == ()


def test_a_kernel_says_its_formats() -> None:
    results = '(add(cast(%x, dtype="float32"), 1f), where(%x, %y, negative(%y)))'
    text = f"def @main(%x: Tensor[(3), uint8], %y: Tensor[(3), int8]) {{ {results} }}"
    explained = compile(HEADER + text, "cpu").explain()
    assert {c.formats for c in explained.calls} == {"uint8 -> float32", "int8, uint8 -> int8"}
    assert "int8, uint8 -> int8" in str(explained)
    assert {row["formats"] for row in explained.as_data()["calls"]} == {c.formats for c in explained.calls}


def test_each_version_says_its_own_condition() -> None:
    # measurements may name an implementation that is a version of its own, too
    def preferred(call: Any) -> Any:
        rows = call.inputs[0].shape[0]
        return (("rows", (condition(rows, ">=", 64), condition(rows, "<=", 96))),)

    module = parse(HEADER + "def @main(%x: Tensor[(?n, 6), float32], %w: Tensor[(5, 6), float32]) { nn.dense(%x, %w) }")
    settings_ = Config.of()
    exe = emit(lower(module, settings_, "cpu", preferred), LoweringContext("cpu"), settings_.texts())
    assert [(c.implementation, c.because) for c in exe.explain().calls] == [
        ("rows", "d0 >= 64 and d0 <= 96"),
        ("rows", "d0 <= 8"),
        ("blas", "otherwise"),
    ]


# ---- memory --------------------------------------------------------------------------------------------------------------

PLANNED = """def @main(%x: Tensor[(?n, 4), float32], %c: bool) {
  let %a = exp(%x);
  let %b = reverse(%a, axis=0);
  let %d = negative(%b);
  let %e = reverse(%d, axis=0);
  let %k = if (%c) { reverse(%e, axis=1) } else { abs(%e) };
  (%k, argwhere(%k), reverse(%x, axis=1))
}
def @fixed(%x: Tensor[(64, 4), float32]) { sum(abs(reverse(reverse(reverse(%x, axis=0), axis=1), axis=0))) }
def @last(%x: Tensor[(?, 4), float32]) { exp(%x) }
def @parts(%x: Tensor[(?n, 16), float32], %y: Tensor[(?m, 16), float32]) {
  let %c = concatenate((nn.softmax(%x), nn.softmax(%y)), axis=0);
  let %p = strided_slice(%c, begin=[0], end=[2], axes=[0]);
  (%c, sum(nn.softmax(%p)))
}
"""
MAIN = """
memory of @main: 9 values in 5 storages, 2 in place; bytes: 80·?n + 8 = 808
 At  On   Bytes        Holds                                                 Why it is a storage of its own
  3  cpu  16·?n = 160  %a, then %e, then %abs                                %x is not this function's own
 20  cpu  16·?n = 160  %b, then %d, then %reverse                            @reverse1 does not write over %a
126  cpu  32·?n = 320  %argwhere_bound, whose rows move out if they are few
137  cpu  8            %argwhere_counts
166  cpu  16·?n = 160  %reverse1                                             %x is not this function's own
    %d is written over %b by negative at 46
    %abs is written over %e by abs at 111
"""
FIXED = """
memory of @fixed: 5 values in 2 storages, 1 in place; bytes: 2052
At  On   Bytes  Holds                 Why it is a storage of its own
 0  cpu  2048   an arena of 4 values
60  cpu  4      %sum
    %abs is written over %reverse2 by abs at 54
"""
LAST = """
memory of @last: 1 value in 1 storage, 1 in place; bytes: 16·x.shape[0]
At  On   Bytes          Holds  Why it is a storage of its own
 3  cpu  16·x.shape[0]  %exp   %x's own, if nothing else refers to it
    %exp is written over %x by exp at 13
"""
PARTS = """
memory of @parts: 6 values in 3 storages, 0 in place; bytes: 64·?m + 64·min(?m + ?n, 2) + 64·?n + 4
At  On   Bytes               Holds                                   Why it is a storage of its own
15  cpu  64·?m + 64·?n       %c, with %softmax, %softmax1, %p in it
74  cpu  64·min(?m + ?n, 2)  %softmax2                               %p is part of another tensor
96  cpu  4                   %sum
"""
BARE = """
memory of @main: 9 values in 5 storages, 2 in place; bytes: 8 and 4 of a size known at run time
 At  On   Bytes  Holds                                    Why it is a storage of its own
  3  cpu  ?      $4, then $6, then $4
 20  cpu  ?      $6, then $4, then $4
126  cpu  ?      $3, whose rows move out if they are few
137  cpu  8      $5
166  cpu  ?      $1
    $4 is written over $6 by negative at 46
    $4 is written over $6 by abs at 111
"""


def memory_text(explained: Explanation, function: str) -> str:
    """The explanation of one function's memory."""
    (section,) = [s for s in str(explained).split("\n\n") if s.startswith(f"memory of @{function}:")]
    return f"\n{section}\n"


def test_the_memory_of_a_function_is_what_its_plan_says() -> None:
    exe = compile(HEADER + PLANNED, "cpu", fuse="off")
    assert memory_text(exe.explain(dims={"n": 10}), "main") == MAIN
    assert memory_text(exe.explain(entry="fixed"), "fixed") == FIXED
    assert memory_text(exe.explain(entry="last"), "last") == LAST
    assert memory_text(exe.explain(entry="parts"), "parts") == PARTS


def test_what_the_code_says_of_memory_needs_no_notes() -> None:
    exe = compile(HEADER + PLANNED, "cpu", fuse="off")
    bare = replace(exe, functions=tuple(replace(f, notes=()) for f in exe.functions))
    assert memory_text(bare.explain(), "main") == BARE


def test_memory_as_data() -> None:
    exe = compile(HEADER + PLANNED, "cpu", fuse="off")
    (memory,) = exe.explain(dims={"n": 10}).as_data()["memory"]
    assert {k: v for k, v in memory.items() if k not in ("storages", "in_place")} == {
        "function": "main",
        "values": 9,
        "bytes": "80·?n + 8",
        "exact_bytes": 808,
        "storages_of_unknown_size": 0,
    }
    assert memory["in_place"][0] == {"pc": 46, "kernel": "negative", "value": "d", "over": "b"}
    assert memory["storages"][1] == {
        "pc": 20,
        "device": "cpu",
        "bytes": "16·?n",
        "exact_bytes": 160,
        "values": ["b", "d", "reverse"],
        "parts": [],
        "arena": False,
        "over": None,
        "why": "@reverse1 does not write over %a",
        "released": False,
        "source": {"file": "<string>", "line": 4, "column": 12, "text": "  let %b = reverse(%a, axis=0);"},
    }
    assert [s["released"] for s in memory["storages"]] == [False, False, True, False, False]
    (last,) = exe.explain(entry="last").as_data()["memory"]
    assert (last["storages"][0]["over"], last["storages"][0]["why"], last["exact_bytes"]) == ("x", None, None)
    (fixed,) = exe.explain(entry="fixed").as_data()["memory"]
    assert (fixed["storages"][0]["arena"], len(fixed["storages"][0]["values"])) == (True, 4)


@pytest.mark.thinned(2)
@pytest.mark.split(3)
@pytest.mark.extensive(target=("sim",))
@pytest.mark.spread("target")
@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_every_storage_that_a_run_takes_is_listed_with_its_bytes(path: Path, target: str) -> None:
    exe = compile(path, target)
    args = make_inputs(function_of(exe, "main"), inputs_of(path))
    explained, first = exe.explain({name: np.shape(a) for (name, _), a in zip(exe.inputs, args, strict=True)}), starts(exe)
    listed = {first[m.function] + s.pc: (m.function, s) for m in explained.memory for s in m.storages}
    code = {first[f.name] + pc: i for f in exe.functions for pc, i in isa.disassemble(f.code)}
    machine = VirtualMachine(exe)
    machine.start_trace()
    machine.run(*args)
    events = [e for e in machine.stop_trace() if e.kind == ALLOC]
    assert events
    for e in events:
        if not isinstance(code[e.pc], isa.TrimTensor):
            function, storage = listed[e.pc]
            assert storage.device in ("cpu", target)
            assert explained.value_of(storage.nbytes, function) in (None, e.nbytes)


def test_the_json_is_versioned_and_whole() -> None:
    explained = program(SLICE).explain()
    data = json.loads(explained.to_json())
    assert data == explained.as_data()
    assert data["schema"] == 1 and data["device"] == "sim" and len(data["copies"]) == len(explained.transfers)
    assert {op for c in data["calls"] for op in c["ops"]} == {"exp", "dyn.strided_slice"}


def test_large_constants_with_their_kernels() -> None:
    """Each once, with its bytes; small ones are in the sum only."""
    text = "def @main(%x: Tensor[(?n, 64), float32], %w: Tensor[(96, 64), float32], %c: Tensor[(96), float32]) {{ {} }}\n"
    mod = parse(HEADER + text.format("(nn.dense(tanh(%x), %w) + %c, nn.dense(exp(%x), %w))"))
    main = mod["main"]
    weights = {p: relay.const(np.ones([int(str(d)) for d in p.annotation.shape], "float32")) for p in main.params[1:]}
    for target in [d for d in DEVICES if d != "cuda"]:
        exe = compile(relay.IRModule.from_expr(relay.bind(relay.Function(main.params[:1], main.body), weights)), target)
        explained = exe.explain()
        assert str(explained).endswith(
            "constants: 2; bytes: 24960; of at least 4096 bytes:\n"
            "Bytes  Constant  Type                          Read by\n"
            "24576  const[0]  Tensor[(6, 64, 16), float32]  nn_dense_panels"
        )
        assert [(c["bytes"], c["kernels"]) for c in explained.as_data()["constants"]] == [
            (24576, ["nn_dense_panels"]),
            (384, ["add"]),
        ]
