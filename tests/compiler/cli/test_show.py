"""`relayvm show`: the graph of a program as data, text and a page; its scopes, its layout, times of nodes."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.vm.diagnostics.source import SourceText, Span
from relayvm.vm.inspection.graph.nodes import ARGUMENT, CALL, COPY, KERNEL, RESULT, Edge, Node, ProgramGraph
from relayvm.vm.inspection.graph.scopes import MOST_ITEMS, GraphScope, scopes_of
from relayvm.vm.report.graph.layout import layered
from relayvm.vm.report.graph.page import graph_page

from .answers import answer, data

FUNCTIONS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %flag: bool) {
  let %y = @loop(exp(%x), sum(%x));
  let %z = if (%flag) { %y } else { tanh(%y) };
  nn.softmax(concatenate((%z, %x)))
}
def @loop(%x: Tensor[(?n, 4), float32], %s: float32) -> Tensor[(?n, 4), float32] {
  if (%s > 100f) { %x } else { @loop(%x + 1f, sum(%x)) }
}
"""


def test_nodes_and_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "show", "rows.relay", "--device", "sim")
    nodes, edges = found["nodes"], found["edges"]
    kinds = [n["kind"] for n in nodes]
    assert kinds.count(ARGUMENT) == 2 and kinds.count(RESULT) == 1 and COPY in kinds
    copy = kinds.index(COPY)
    assert nodes[copy]["facts"]["because"] == "argwhere: the kernel reports the size of its result"
    assert (nodes[copy]["facts"]["from"], nodes[copy]["device"]) == ("sim", "cpu")
    (read,) = [e for e in edges if e["target"] == copy]
    assert "argwhere" in nodes[read["source"]]["operators"] and not read["sizes_only"]
    assert any(e["source"] == copy and e["sizes_only"] for e in edges), "the size of the rows"
    x = next(e for e in edges if e["source"] == 0)
    assert (x["name"], x["type"], x["bytes"]) == ("x", "float32[?n, 4]", None)
    (take,) = [i for i, n in enumerate(nodes) if "take" in n["operators"]]
    assert {"argument", "kernel"} <= {nodes[e["source"]]["kind"] for e in edges if e["target"] == take and not e["sizes_only"]}
    text = answer(capsys, "show", "rows.relay", "--device", "sim")
    assert "copy to cpu: argwhere: the kernel reports the size of its result" in text


def test_functions_are_scopes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls, branches, and the results of both branches."""
    (folder / "calls.relay").write_text(FUNCTIONS)
    found = data(capsys, "show", "calls.relay", "--config", "fuse=off")
    nodes, edges = found["nodes"], found["edges"]
    assert {n["scope"][0] for n in nodes} == {"@main", "@loop"}
    calls = [n for n in nodes if n["kind"] == CALL]
    assert {(n["name"], n["function"]) for n in calls} == {("@loop", "main"), ("@loop", "loop")}
    by_operator = {n["operators"][0]: i for i, n in enumerate(nodes) if n["function"] == "main" and n["operators"]}
    sources = {e["source"] for e in edges if e["target"] == by_operator["concatenate"]}
    call = nodes.index(next(n for n in calls if n["function"] == "main"))
    assert {by_operator["tanh"], call} <= sources, "the value of an if comes from both branches"


def test_a_program_without_kernels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "nothing.relay").write_text('#[version = "0.0.5"]\ndef @main() { () }\n')
    (result,) = data(capsys, "show", "nothing.relay")["nodes"]
    assert (result["kind"], result["facts"]) == (RESULT, {"type": "()"})
    pytest.importorskip("fast_sugiyama")
    answer(capsys, "show", "nothing.relay", "--html", "nothing.html")
    assert len(page_data(Path("nothing.html").read_text())["nodes"]) == 1


def test_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "2")
    ran = data(capsys, "show", *options, "--run")
    timed = {n["name"] for n in ran["nodes"] if n["ns"] is not None}
    assert timed == {n["name"] for n in ran["nodes"] if n["kind"] in (KERNEL, COPY)}
    answer(capsys, "profile", *options, "--json-out", "p.json")
    saved = data(capsys, "show", "rows.relay", "--device", "sim", "--profile", "p.json")
    assert {n["name"] for n in saved["nodes"] if n["ns"] is not None} == timed
    assert re.search(r"^@main +\d+ +\d+ +sim +\S+s \(100.0 %\)$", answer(capsys, "show", *options, "--run"), re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--run", "--profile", "p.json"], ExitCode.USAGE, "--run measures the times that --profile reads: give one of them"),
        (["--profile", "p.json"], ExitCode.INPUT, "p.json is a profile of @main on sim, not of @main on cpu"),
        (["--profile", "p.json", "--device", "sim", "--config", "fuse=off"], ExitCode.INPUT, "the profile is of another program"),
        (["--profile", "none.json"], ExitCode.FILE, "cannot read none.json"),
        (["--html", "a.html"], ExitCode.USAGE, "needs the package fast-sugiyama\nhelp: pip install 'relayvm[show]'"),
    ],
)  # fmt: skip
def test_mistakes(
    words: list[str], code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "1", "--json-out", "p.json"]) == 0
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    assert main(["show", "rows.relay", *words]) == code
    assert message in capsys.readouterr().err


# ---- scopes and layouts ------------------------------------------------------------------------------------------------


def graph_of(count: int, named: int = 0) -> ProgramGraph:
    """A graph of kernels that read one or two of the last ones, of which the first ``named`` are of nodes with names."""
    rng = random.Random(count)
    lines = [f"/encoder/layer.{n // 25}/{'attention' if n % 2 else 'mlp'}/MatMul_{n}: MatMul(x)" for n in range(count)]
    source, starts = SourceText("model.onnx", "\n".join(lines)), np.cumsum([0, *(len(line) + 1 for line in lines)])
    spans = [Span(source, int(start), int(start) + 5) if n < named else None for n, start in enumerate(starts)]
    nodes = [Node(KERNEL, f"nn_matmul_{n}", "main", n, "cpu", spans[n]) for n in range(count)]
    pairs = {(max(0, n - 1 - rng.randrange(4)), n) for n in range(1, count) for _ in range(2)}
    edges = [Edge(a, b, f"v{a}", "float32[8, 16]", 512, False) for a, b in sorted(pairs)]
    return ProgramGraph("main", "cpu", ("main",), nodes, edges)


def page_data(page: str) -> Any:
    return json.loads(page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])


def test_a_page_of_5000_nodes() -> None:
    """Few items in each scope, each node in one, boxes apart, no text of the network."""
    pytest.importorskip("fast_sugiyama")
    graph = graph_of(5000, named=2500)
    page = graph_page(graph, scopes_of(graph), {}, "<b>title</b>", "", [])
    assert len(page) < 2_000_000 and "<b>title" not in page
    assert set(re.findall(r"\w+://[^\s\"']*", page)) == {"http://www.w3.org/2000/svg"}, "a name, and no address"
    found = page_data(page)
    items = [i for _, listed, _ in found["scopes"] for i in listed]
    assert sorted(i for i in items if i >= 0) == list(range(5000)) and len(set(items)) == len(items)
    assert len(found["nodes"]) == 5000 and len(found["edges"]) == len(graph.edges)
    for _, listed, (width, height, boxes, routes) in found["scopes"]:
        assert 0 < len(listed) == len(boxes) <= MOST_ITEMS
        assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
        assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if overlap(a, b)]
        assert all(len(points) % 2 == 0 and max(a, b) < len(boxes) for a, b, *points in routes)
    assert len({text for text in found["texts"] if text.startswith("layer.")}) == 100


def overlap(a: list[int], b: list[int]) -> bool:
    return abs(2 * a[0] + a[2] - 2 * b[0] - b[2]) < a[2] + b[2] and abs(2 * a[1] + a[3] - 2 * b[1] - b[3]) < a[3] + b[3]


def test_scopes() -> None:
    """Scopes of one item are joined with it; lists of any length are divided, in order."""
    root = scopes_of(graph_of(26, named=26))
    (encoder,) = root.items
    assert root.name == "@main" and isinstance(encoder, GraphScope) and encoder.name == "encoder"
    assert [item.name if isinstance(item, GraphScope) else item for item in encoder.items] == ["layer.0", 25]
    for count in (0, 1, MOST_ITEMS, MOST_ITEMS + 1, MOST_ITEMS**2 + 1):
        assert list(scopes_of(graph_of(count)).nodes()) == list(range(count))


def test_layouts() -> None:
    """Sources are above targets, edges that pass layers have points, upward edges are no circles, boxes alone have places."""
    pytest.importorskip("fast_sugiyama")
    found = layered([(100, 40)] * 8, [(0, 1), (1, 2), (0, 2), (2, 0), (1, 1), (5, 6)])
    tops = [y for _, y in found.corners]
    assert tops[0] < tops[1] < tops[2] and tops[5] < tops[6] and len(set(found.corners)) == 8
    assert len(found.routes[0, 2]) == 1 and max(tops[3], tops[4], tops[7]) == max(tops)
    assert layered([(100, 40)], []).corners == ((0, 0),)


def test_the_function_of_python(tmp_path: Path) -> None:
    vm = relay.VirtualMachine(relay.compile(FUNCTIONS))
    profile = vm.profile(np.ones((3, 4), "float32"), np.bool_(True))
    relay.show(vm, tmp_path / "vm.html", profile=profile)
    relay.show(vm.exe, str(tmp_path / "exe.html"), entry="loop")
    pages = [(tmp_path / f"{name}.html").read_text() for name in ("vm", "exe")]
    assert "<title>@main on cpu" in pages[0] and "<title>@loop on cpu" in pages[1] and "median of" in pages[0]
    with pytest.raises(relay.ArgumentError, match="show: program must be an Executable or a VirtualMachine, not the str"):
        wrong: Any = "p.relay"
        relay.show(wrong, tmp_path / "p.html")
    with pytest.raises(relay.InputError, match="the profile is of @main on cpu, not of @loop on cpu"):
        relay.show(vm, tmp_path / "p.html", entry="loop", profile=profile)
    with pytest.raises(relay.FileError, match="cannot write"):
        relay.show(vm, tmp_path / "none" / "p.html")
