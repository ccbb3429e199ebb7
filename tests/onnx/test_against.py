"""``relayvm compare MODEL --against RUNTIME``: each value of a model on two runtimes, the first node that differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from relayvm.compiler.commands.cli import main
from relayvm.compiler.onnx_frontend.importing import graph as importing
from relayvm.compiler.onnx_frontend.node import Node
from relayvm.compiler.onnx_frontend.operator_table import Converter

WIDTH, NODES = 8, 300
#: The operators of the model's nodes, and whether each has a second operand, a stored tensor.
OPERATORS = (("Add", True), ("Mul", True), ("Tanh", False), ("MatMul", True), ("Reshape", True), ("Sigmoid", False))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a chain of NODES nodes, and two values more that are not used."""
    rng = np.random.default_rng(5)
    stored = {
        "Add": rng.standard_normal(WIDTH).astype("f"),
        "Mul": rng.uniform(0.5, 1.5, WIDTH).astype("f"),
        "MatMul": (np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0] * 1.5).astype("f"),
        "Reshape": np.array([0, WIDTH]),
    }
    nodes = []
    for k in range(NODES):
        op, has_second = OPERATORS[int(rng.integers(len(OPERATORS)))]
        nodes.append(helper.make_node(op, [f"v{k}", *([op] if has_second else [])], [f"v{k + 1}"], f"n{k}"))
    nodes[137] = helper.make_node("Tanh", ["v137"], ["v138"], "n137")
    nodes.append(helper.make_node("Split", [f"v{NODES}"], ["left", "right"], "split", axis=1, num_outputs=2))
    infos = [helper.make_tensor_value_info("v0", 1, ["rows", WIDTH])], [onnx.ValueInfoProto(name=f"v{NODES}")]
    graph = helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(a, n) for n, a in stored.items()])
    path = tmp_path_factory.mktemp("against") / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node n137, a hyperbolic tangent, is converted to a sigmoid."""
    find: Callable[..., Converter | None] = importing.converter

    def wrong(domain: str, name: str, version: int) -> Converter | None:
        found = find(domain, name, version)
        if name != "Tanh" or found is None:
            return found
        other = find(domain, "Sigmoid", version)
        assert other is not None

        def convert(node: Node, x: Any) -> Any:
            return (other if "'n137'" in node.label else found).convert(node, x)

        return Converter(found.name, found.domain, found.since, convert, found.inputs, found.needed)

    monkeypatch.setattr(importing, "converter", wrong)


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main(["compare", *map(str, words), "--dim", "rows=3", "--repeat", "2"])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_model_that_agrees(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, model, "--against", "reference")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith(f"{model}: relayvm on cpu against the reference of onnx {onnx.__version__}, 302 values of nodes")
    assert lines[1].startswith(f"result v{NODES}, float32[3, {WIDTH}]: agrees, largest difference ")
    assert lines[2].startswith("time of a run: ")
    assert lines[3] == "each node agrees, from the same inputs"


@pytest.mark.usefixtures("fault")
def test_a_fault_in_one_node_is_found(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The node is named, and no other: each node is computed from the inputs that the reference has."""
    code, out, _ = run(capsys, model, "--against", "reference", "--device", "sim", "--json")
    found = json.loads(out)
    assert code == 3 and not found["agree"] and found["apart"]
    assert found["first"] == "v138"
    assert [n["node"] for n in found["nodes"] if n["mismatch"]] == ["n137"]


@pytest.mark.usefixtures("fault")
def test_the_fault_in_words(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, model, "--against", "reference")
    assert code == 3
    assert "\nthe first node that differs: Tanh 'n137', its value v138, float32[3, 8]: 24 of 24 elements differ, largest" in out
    assert "\n    its input v137, float32[3, 8]: the same\n" in out
    assert "\nthe largest differences:\nof largest  Difference  Largest  Type" in out


@pytest.mark.extensive
def test_other_settings(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values that follow from each other, on this runtime with other settings."""
    code, out, _ = run(capsys, model, "--against", "opt_level=0", "--a", "fuse=off")
    assert code == 0
    assert out.startswith(f"{model}: relayvm on cpu, fuse=off against relayvm on cpu, opt_level=0, 302 values of nodes\n")
    assert "\neach value of a node agrees\n" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--against", "onnxrutime"], 2, "there is no runtime 'onnxrutime'; did you mean onnxruntime?"),
        (["--against", "opt_lvel=0"], 2, "there is no configuration key 'opt_lvel'"),
        (["--against", "device=tpu"], 2, "'tpu'"),
        (["--against", "reference", "--b", "fuse=off"], 2, "--against has two sides"),
        (["--against", "reference", "--input", "v1=2"], 5, "v1"),
    ],
)  # fmt: skip
def test_wrong_options(model: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, _, err = run(capsys, model, *words)
    assert (found, message in err) == (code, True), err


def test_files_that_are_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give one .onnx, .pt2 or .relay file" in run(capsys, tmp_path / "a.rvm", "--against", "reference")[2]
    code, _, err = run(capsys, tmp_path / "a.onnx", "--against", "reference")
    assert code == 6 and "cannot read" in err
    (tmp_path / "a.onnx").write_bytes(b"no model")
    code, _, err = run(capsys, tmp_path / "a.onnx", "--against", "reference")
    assert code == 5 and "is no ONNX model" in err
