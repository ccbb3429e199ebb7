"""``relayvm compare MODEL --against ... --bisect``: the pass of the compiler after which the results differ first."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from relayvm.compiler.commands.cli import main
from relayvm.compiler.comparison.against.pass_bisection import _Search
from relayvm.compiler.compile import compile
from relayvm.compiler.ir.expr import Call, Expr, IRModule, replace
from relayvm.compiler.lowering import pipeline
from relayvm.compiler.passes.beta_reduction import rewritten_function
from relayvm.ops.core.op import get
from relayvm.vm.diagnostics.source import ConfigError, InputError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a sum, a product and a tanh."""
    weight = numpy_helper.from_array(np.random.default_rng(5).normal(size=(8, 8)).astype("f"), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
        helper.make_node("Add", ["product", "x"], ["sum"], "sum"),
        helper.make_node("Tanh", ["sum"], ["y"], "tanh"),
    ]
    infos = ([helper.make_tensor_value_info(name, 1, ["rows", 8])] for name in "xy")
    path = tmp_path_factory.mktemp("bisect") / "model.onnx"
    graph = helper.make_graph(nodes, "g", *infos, [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def subtracted(mod: IRModule) -> IRModule:
    """A faulty pass: each sum is a difference."""

    def visit(node: Expr) -> Expr:
        return replace(node, op=get("subtract")) if isinstance(node, Call) and node.op is get("add") else node

    return replace(mod, functions={name: rewritten_function(f, visit) for name, f in mod.functions.items()})


def plant(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the faulty pass run after the pass of this name."""
    found = getattr(pipeline, name)
    monkeypatch.setattr(pipeline, name, lambda mod, *args, **named: subtracted(found(mod, *args, **named)))


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main(["compare", *map(str, words), "--dim", "rows=3"])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("name", ["simplify", "fuse_attention"])
def test_a_planted_fault_is_found(
    name: str, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, name)
    code, out, _ = run(capsys, model, "--against", "reference", "--bisect", "--json")
    found = json.loads(out)
    assert code == 3 and not found["agree"] and found["tried"] < 12
    culprit = found["pass"]
    assert (culprit["pass"], culprit["functions"], culprit["setting"]) == (name, ["main"], f"pass.{name}=off")
    assert culprit["suffices"] and culprit["result"]["mismatch"]["count"] > 0 and culprit["before"]["mismatch"] is None
    assert run(capsys, model, "--against", "reference", "--a", culprit["setting"], "--repeat", "1")[0] == 0


def test_the_search_in_words(model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Against other settings, without a fault, with a fault in a required pass; each a few lines."""
    code, out, _ = run(capsys, model, "--against", "opt_level=0", "--bisect")
    assert code == 0 and "\nthe results agree: there is no pass to look for\n1 program compiled\n" in out
    plant(monkeypatch, "early_sizes")
    code, out, _ = run(capsys, model, "--against", "opt_level=0", "--bisect")
    assert code == 3 and out.startswith(f"{model}: relayvm on cpu against relayvm on cpu, opt_level=0, ")
    y, size = r"    y, float32\[3, 8\], ", r"largest difference \S+ of \S+\n"
    after, before = rf"after it: \d+ of 24 elements differ, {size}", f"before it: agrees, {size}"
    assert re.search(f", early_sizes, which changed @main\n{y}{after}{y}{before}", out)
    assert "\nleave it out: --config pass.early_sizes=off (the results then agree)\n" in out
    monkeypatch.undo()
    plant(monkeypatch, "lambda_lift")
    code, out, _ = run(capsys, model, "--against", "reference", "--bisect")
    assert code == 3 and "\nthe results differ without any optional pass, too: " in out
    assert "\nwithout --bisect the command names the node\n2 programs compiled\n" in out


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text with two results."""
    path = tmp_path / "p.relay"
    path.write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?rows, 4), float32]) { (tanh(add(%x, exp(%x))), sum(%x, axis=[1])) }\n'
    )
    return path


def test_a_text(text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(capsys, text, "--against", "opt_level=0", "--repeat", "1")
    assert code == 0 and out.startswith(
        f"{text}: relayvm on cpu against relayvm on cpu, opt_level=0\nresult result.0, float32[3, 4]"
    )
    plant(monkeypatch, "simplify")
    code, out, _ = run(capsys, text, "--against", "opt_level=0", "--bisect", "--json")
    culprit = json.loads(out)["pass"]
    assert (code, culprit["pass"], culprit["result"]["value"], culprit["suffices"]) == (3, "simplify", "result.0", True)
    code, _, err = run(capsys, text, "--against", "reference")
    assert code == 5 and "the reference of the package onnx runs models of ONNX" in err and "give a .onnx file" in err


@given(st.integers(1, 40), st.data())
def test_numbers_that_do_not_compile_are_passed_over(most: int, data: st.DataObject) -> None:
    """The search ends between two numbers with other results, and all numbers between do not compile."""
    first = data.draw(st.integers(1, most))
    broken = data.draw(st.sets(st.integers(1, most - 1))) if most > 1 else set()
    search = _Search.__new__(_Search)
    search.tried, tried = {}, []

    def errors(number: int) -> tuple[Any, ...]:
        tried.append(number)
        if number in broken:
            raise InputError("a pass is missing")
        return (SimpleNamespace(mismatch=None if number < first else "differs"),)

    search._errors = errors
    agree, differ = search._narrowed(0, most)
    assert agree < first <= differ and set(range(agree + 1, differ)) <= broken
    # beside its own trial, a number that does not compile may cost another: the halves around its neighbour are unequal
    assert len(tried) == len(set(tried)) <= 2 * len(broken) + most.bit_length()
    assert {n for n, found in search.tried.items() if found is None} == broken & set(tried)


def test_mistakes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, model, "--bisect", "--a", "fuse=off")
    assert code == 2 and "--bisect looks for a pass by the results of --against: give both" in err


def test_passes_are_left_out() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32]) { exp(%x) + 0f }\n'
    exe = compile(text, **{"pass.fuse_ops": "off", "pass.simplify": False})
    assert exe.primitive_ops == ("exp", "add") and exe.config["pass.simplify"] == "off"
    for key, value, message in (
        ("pass.infer_type", "off", "configuration key 'pass.infer_type': no program can be compiled without it"),
        ("pass.simplfy", "off", "'pass.simplfy': there is no such pass\nhelp: did you mean 'simplify'?"),
        ("pass.simplify", "on", "configuration key 'pass.simplify' cannot be 'on'\nhelp: valid: off"),
    ):
        with pytest.raises(ConfigError) as error:
            compile(text, **{key: value})
        assert message in str(error.value)
