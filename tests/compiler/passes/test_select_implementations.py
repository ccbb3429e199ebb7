"""The choice of implementations in the IR: its form, choices stated by a program, and rejected choices with source spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.primitive import BECAUSE, IMPLEMENTATION
from relayvm.compiler.lowering.pipeline import lower, stages
from relayvm.compiler.lowering.select_implementations import select_implementations
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.vm.api.machine import VirtualMachine

from ...golden_texts import Golden, read_case
from ...programs import HEADER

DENSE = HEADER + "def @main(%x: Tensor[(?n, 6), float32], %w: Tensor[(5, 6), float32]) {\n  nn.dense(%x, %w)\n}\n"


def fused(text: str, target: str = "cpu", **config: Any) -> IRModule:
    return stages(parse(text), Config.of(**config), target)["fused"]


def chosen(mod: IRModule) -> dict[str, tuple[str, str]]:
    """Per primitive with a choice: its implementation and the reason."""
    attrs = {name: f.attrs for name, f in mod.functions.items() if f.is_primitive}
    return {name: (a[IMPLEMENTATION], a[BECAUSE]) for name, a in attrs.items() if IMPLEMENTATION in a}


CASES = sorted(Path(__file__).with_name("select_implementations").glob("*.relay"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_before_and_after(path: Path, golden: Golden) -> None:
    """The versions of a call with their guards, after allocation."""
    case = read_case(path)
    mod = stages(parse(HEADER + case.program), Config.of(), case.options["target"])["alloc"]
    golden.check_case(path, str(mod).removeprefix(HEADER))


@pytest.mark.parametrize(
    ("rows", "implementation", "because"),
    [
        ("?n", "rows if d0 <= 8 else blas", "sizes at run time decide"),
        ("8", "rows", "pays: 8 <= 8"),
        ("9", "blas", "the first that fits"),
    ],
)
def test_the_choice_is_in_the_program(rows: str, implementation: str, because: str) -> None:
    mod = fused(DENSE.replace("?n", rows))
    assert chosen(mod) == {"nn_dense": (implementation, because)}
    assert f'implementation="{implementation}", because="{because}"' in str(mod)


def test_what_has_one_implementation_says_nothing() -> None:
    text = HEADER + "def @main(%x: Tensor[(?n), float32]) { cumsum(exp(%x)) }"
    assert chosen(fused(text)) == {}


def test_the_versions_are_in_what_is_allocated() -> None:
    mod = stages(parse(DENSE), Config.of(), "cpu")["alloc"]
    assert chosen(mod) == {
        "nn_dense": ("rows if d0 <= 8 else blas", "sizes at run time decide"),
        "nn_dense_rows": ("rows", "d0 <= 8"),
        "nn_dense_blas": ("blas", "otherwise"),
    }


def test_three_versions_nest() -> None:
    text = HEADER + "def @main(%x: Tensor[(?b, ?m, ?k), float32], %y: Tensor[(?b, ?n, ?k), float32]) { nn.batch_matmul(%x, %y) }"
    mod = stages(parse(text), Config.of(), "cpu")["alloc"]
    assert [name for name, _ in chosen(mod).values()][1:] == ["rows", "tiles", "blas"]
    assert str(mod).count("= if (") == 2


@pytest.mark.parametrize("name", ["rows", "blas", "loops"])
def test_printed_programs_parse_back_with_their_choice(name: str) -> None:
    """A choice that a program states is kept: here a choice that the compiler would not make."""
    first = fused(DENSE, **{"impl.nn.dense": name})
    again = fused(str(first))
    assert chosen(again) == chosen(first) == {"nn_dense": (name, "forced")}
    guarded = fused(DENSE.replace("}", "}\n"))
    edited = str(guarded).replace("d0 <= 8", "d0 <= 3")
    assert chosen(fused(edited))["nn_dense"][0] == "rows if d0 <= 3 else blas"
    exe = relay.compile(edited)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((5, 6)).astype(np.float32)
    for n in (3, 4):
        x = rng.standard_normal((n, 6)).astype(np.float32)
        np.testing.assert_allclose(VirtualMachine(exe).run(x, w).numpy(), x @ w.T, rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows if d0 <= 8 else blas", "raws", "nn.dense: its implementation 'raws' cannot compute a call with"),
        ("rows if d0 <= 8 else blas", "blocks", "it does not take these types and attributes"),
        ("rows if d0 <= 8 else blas", "gemm", "it does not run on cpu"),
        ("rows if d0 <= 8 else blas", "rows if d0 else blas", "'rows if d0 else blas' is no choice of an implementation"),
        ("rows if d0 <= 8 else blas", "7", "'7' is no choice of an implementation: 7 is no name"),
    ],
)
def test_a_program_that_says_what_cannot_be_is_refused(old: str, new: str, message: str) -> None:
    text = str(fused(DENSE))
    assert old in text
    with pytest.raises(relay.TypeCheckError) as refused:
        relay.compile(text.replace(old, new))
    assert message in str(refused.value) and "let %dense = @nn_dense(" in str(refused.value)


def test_a_primitive_with_nothing_to_choose_is_refused_one() -> None:
    text = str(fused(HEADER + "def @main(%x: Tensor[(3), float32]) { exp(%x) }")).replace(
        "Primitive=1", 'Primitive=1, implementation="fast"'
    )
    with pytest.raises(relay.TypeCheckError, match="exp has one implementation only, not 'fast'"):
        relay.compile(text)


def test_a_forced_implementation_that_cannot_be_is_refused_at_its_call() -> None:
    text = HEADER + "def @main(%x: Tensor[(3, 4), float32]) {\n  nn.softmax(%x, axis=0)\n}\n"
    with pytest.raises(relay.TypeCheckError) as refused:
        relay.compile(text, **{"impl.nn.softmax": "rows"})
    assert str(refused.value) == (
        "error: nn.softmax: its implementation 'rows' cannot compute a call with Tensor[(3, 4), float32]: it needs 4 == 1\n"
        " --> <string>:3:3\n"
        "  |\n"
        "3 |   nn.softmax(%x, axis=0)\n"
        "  |   ^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: valid here: columns"
    )


def test_what_sizes_decide_is_refused_when_it_runs() -> None:
    text = HEADER + "def @main(%x: Tensor[(3, ?n), float32]) {\n  nn.softmax(%x, axis=0)\n}\n"
    machine = VirtualMachine(relay.compile(text, **{"impl.nn.softmax": "rows"}))
    np.testing.assert_allclose(machine.run(np.zeros((3, 1), np.float32)).numpy(), 1 / 3)
    with pytest.raises(relay.VMError) as refused:
        machine.run(np.zeros((3, 4), np.float32))
    assert "nn.softmax: its implementation 'rows', which is forced, needs d0 == 1: 4 == 1 is not so" in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "message", "help"),
    [
        ("impl.nn.dens", "rows", "configuration key 'impl.nn.dens': there is no operator 'nn.dens'", "did you mean 'nn.dense'?"),
        ("impl.nn.dense", "row", "configuration key 'impl.nn.dense' cannot be 'row'", "did you mean 'rows'? valid: rows, tiles,"),
        ("impl.exp", "fast", "configuration key 'impl.exp' cannot be 'fast'", "valid: generated"),
    ],
)
def test_a_key_that_names_nothing_is_refused(key: str, value: str, message: str, help: str) -> None:
    with pytest.raises(relay.ConfigError) as refused:
        relay.compile(DENSE, **{key: value})
    assert message in str(refused.value) and help in str(refused.value)


def test_a_forced_choice_is_part_of_the_configuration() -> None:
    exe = relay.compile(DENSE, **{"impl.nn.dense": "loops"})
    assert exe.config["impl.nn.dense"] == "loops" and Config.of(**exe.config).forced == (("nn.dense", "loops"),)
    assert (
        "packed[0] nn_dense(float32[d0, 6], float32[5, 6]) -> (float32[d0, 5]), 2 in, 1 out, on cpu, loops: forced"
        in exe.disassembly
    )


def test_measurements_decide_where_there_are_any() -> None:
    asked = []

    def preferred(call: Any) -> Any:
        asked.append((call.op.name, call.device))
        return (("loops", ()),)

    lowered = lower(parse(DENSE), Config.of(), "cpu", preferred)
    assert chosen(lowered) == {"nn_dense": ("loops", "tuned")} and asked == [("nn.dense", "cpu")]


def test_a_module_that_has_its_choices_stays_as_it_is() -> None:
    mod = fused(DENSE)
    assert str(select_implementations(mod)) == str(mod)
