"""`relayvm ops`, `isa` and `env`, and the pages that are made from the same tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.builder.operator_functions import COMPOSED
from relayvm.compiler.docs.pages import FOLDER as PAGES_FOLDER
from relayvm.compiler.docs.pages import PAGES
from relayvm.compiler.docs.python_page import GROUPS, MODULES, WITH_MEMBERS, first_sentence, public_names
from relayvm.compiler.operator_docs.operator_pages import operators
from relayvm.vm.bytecode.isa import INSTRUCTIONS
from relayvm.vm.device_table import DEVICES as ALL_DEVICES

from ...golden_texts import Golden
from .answers import answer, data


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    found = {op["name"]: op for op in data(capsys, "ops")}
    assert {"name", "inputs", "data_dependent", "pattern", "implementations"} <= set(found["add"])
    one = found["dyn.strided_slice"]
    assert (one["inputs"], one["data_dependent"]) == (["data", "begin", "end", "strides"], [False, True, True, True])
    assert found["argwhere"]["upper_bound"] and "shape_of" in found
    assert not [name for name in found if name.startswith(("vm.", "memory."))], "what no program can call is not listed"
    listed = [op for op in found.values() if op["pattern"]]
    assert all(len(op["inputs"]) == len(op["data_dependent"]) and op["implementations"] for op in listed)
    assert data(capsys, "ops", "dyn.tile") == [found["dyn.tile"]]
    assert "dyn.tile(data, reps*)" in answer(capsys, "ops", "dyn.tile")
    assert len(answer(capsys, "ops").splitlines()) == len(found) == len(operators()) + len(COMPOSED)
    assert len(listed) == len(operators())


def test_isa(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "isa")
    assert [i["opcode"] for i in found] == sorted(INSTRUCTIONS)
    assert data(capsys, "isa", "movE") == found[:1]
    assert answer(capsys, "isa", "Move").startswith("  0  Move              dst src\n\n``dst := src``")


def test_env(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path / "nothing"))
    found = data(capsys, "env")
    assert found["versions"]["numpy"] == np.__version__ and found["devices"] == list(ALL_DEVICES)
    assert found["cache"] == {"folder": str(tmp_path / "nothing"), "entries": 0, "bytes": 0}
    assert found["blas"]["package"].partition(" ")[0] in ("numpy", "scipy")
    text = answer(capsys, "env")
    assert f"RELAYVM_CACHE_DIR={tmp_path / 'nothing'}" in text and f"blas       {found['blas']['package']}" in text


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_pages_are_fresh(name: str, golden: Golden) -> None:
    golden.check(PAGES_FOLDER / name, PAGES[name]())


def test_every_public_name_is_described() -> None:
    page = (PAGES_FOLDER / "python.md").read_text(encoding="utf-8")
    for name, group in public_names().items():
        described = first_sentence(getattr(relay, name))
        assert described and group in (*GROUPS, MODULES) and f"| `{name}" in page, name
    for name in WITH_MEMBERS:
        assert f"### Members of `{name}`" in page


def test_ops_knows_the_functions_that_are_no_operators(capsys: pytest.CaptureFixture[str]) -> None:
    """Each public function of ``relay`` and its namespaces that builds calls has a description."""
    found = {op["name"]: op for op in data(capsys, "ops")}
    assert {"segment_sum", "mean_variance", "nn.fifo_buffer", "qnn.op.conv2d", *COMPOSED} <= set(found)
    assert answer(capsys, "ops", "segment_sum").splitlines()[:2] == [
        "segment_sum(data, segment_ids, num_segments=None)",
        "  Row ``s`` of the result is the sum of the rows ``i`` of the data with ``segment_ids[i] == s``.",
    ]
    assert "relay.qnn.op.conv2d: the operator qnn.conv2d under another name" in answer(capsys, "ops", "qnn.op.conv2d")
    for path in COMPOSED:
        assert data(capsys, "ops", path) == [found[path]]
        assert found[path]["doc"] and found[path]["python"].startswith(f"{path}("), path
