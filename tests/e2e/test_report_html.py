"""The HTML page in a real browser without a window: no errors on its console, charts drawn, every button does its work."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.comparison.compare import compare_profiles
from relayvm.compiler.comparison.compare_text import page_table
from relayvm.vm.diagnostics.source import SourceText, Span
from relayvm.vm.inspection.graph.node_times import NodeTime
from relayvm.vm.inspection.graph.nodes import ARGUMENT, KERNEL, Edge, Node, ProgramGraph
from relayvm.vm.inspection.graph.program_graph import program_graph
from relayvm.vm.inspection.graph.scopes import MOST_ITEMS, scopes_of
from relayvm.vm.report.export_html import html_page
from relayvm.vm.report.graph.page import graph_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium on this machine")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1280,1000",
    "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom",
)  # fmt: skip

#: A program with a copy to the host, a wait for it, and something for every other view too.
PROGRAM = """
#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %s: Tensor[(1), int64]) {
  let %rows = argwhere(greater(%x, 0f)); // <b>not bold</b>
  (dyn.reshape(exp(%x), %s), %rows)
}
"""

#: Run in the page: press the button (or click the thing) that a selector names, then say what the page shows.
PROBE = """
<script>
const found = [];
function look(step) {
  const style = getComputedStyle(document.body), all = s => [...document.querySelectorAll(s)];
  const text = id => document.getElementById(id).textContent;
  found.push({
    step, theme: document.documentElement.dataset.theme, background: style.backgroundColor, hash: location.hash,
    pressed: all('[aria-pressed="true"]').map(b => b.textContent), kinds: [...new Set(all(".event").map(e => e.classList[1]))],
    axis: all("#timeline text").map(t => t.textContent), curves: all("path.curve").length, events: all(".event").length,
    heads: all("#content th").map(t => t.textContent), rows: all("#content tbody tr, #content .program tr").length,
    first: all("#content tbody tr:first-child td").map(t => t.textContent), text: text("content"), details: text("details"),
    bold: all("#content b").length, tiles: all(".tile").map(t => t.textContent), comparison: text("comparison"),
  });
}
look("start");
for (const step of STEPS) {
  const target = document.querySelector(step);
  if (!target) { found.push({step, missing: true}); continue; }
  target.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  look(step);
}
const out = Object.assign(document.createElement("pre"), {id: "found", textContent: JSON.stringify({found, errors})});
document.body.replaceChildren(out);
</script>
"""
ERRORS = '<script>const errors = []; addEventListener("error", e => errors.push(e.message));</script>'


#: Run in a frame: tell the page around it which elements of which view reach over its edge, and how wide the page is.
WIDE = """
<script>
const wide = [];
for (const view of Object.keys(VIEWS)) {
  state.view = view; apply();
  for (const e of document.querySelectorAll("body *"))
    if (!e.closest(".scroll, #tooltip, svg") && e.getBoundingClientRect().right > innerWidth)
      wide.push(view + " " + e.tagName + e.id);
}
parent.postMessage({wide, width: innerWidth, page: document.documentElement.scrollWidth}, "*");
</script>
"""


def browse(page: str, folder: Path, steps: list[str], fragment: str = "", probe: str = PROBE) -> dict[str, dict[str, Any]]:
    """The visible text of the page at the ``start`` and after each click, by selector.  Fails for errors and console messages."""
    probe = probe.replace("STEPS", json.dumps(steps))
    file = folder / "page.html"
    file.write_text(page.replace("<head>", f"<head>{ERRORS}", 1).replace("</body>", f"{probe}</body>"), encoding="utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'profile'}", f"{file.as_uri()}#{fragment}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not messages, messages
    shown = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert shown, done.stdout[-2000:] + done.stderr[-2000:]
    data = json.loads(html.unescape(shown.group(1)))
    assert data["errors"] == [] and not [f["step"] for f in data["found"] if "missing" in f]
    return {f["step"]: f for f in data["found"]}


#: As ``PROBE``, for the page of a graph.
GRAPH_PROBE = (
    PROBE.partition("  const style")[0]
    + """
  const style = getComputedStyle(document.body), all = s => [...document.querySelectorAll("#graph " + s)];
  found.push({
    step, background: style.backgroundColor, nodes: all(".node:not(.open) .first").map(t => t.textContent),
    open: all(".node.open .first").map(t => t.textContent), edges: all(".edge").length, sizes: all(".edge.sizes").length,
    about: document.getElementById("about").textContent, page: document.documentElement.scrollWidth - innerWidth,
    outside: all(".node").filter(n => n.getBBox().width < 1).length, seconds: performance.now() / 1000,
  });
}
"""
    + PROBE.partition("}\n")[2]
)


def profiles() -> Iterator[tuple[str, relay.Profile]]:
    """One program in two configurations."""
    x = np.linspace(-1, 1, 400, dtype=np.float32).reshape(100, 4)
    for name in ("input", "op"):
        machine = relay.VirtualMachine(relay.compile(PROGRAM, target="sim", data_dependence=name, place="off"))
        yield name, machine.profile(x, np.array([400]), repeat=3)


@pytest.fixture(scope="module")
def both() -> list[tuple[str, relay.Profile]]:
    return list(profiles())


def test_one_profile(both: list[tuple[str, relay.Profile]], tmp_path: Path) -> None:
    views = [f'#view [data-value="{v}"]' for v in ("copies", "source", "host", "memory", "runs", "operators")]
    others = ['#theme [data-value="dark"]', '#theme [data-value="light"]', '#kinds [data-value="kernel"]']
    others += ['#kinds button[data-value="kernel"]', "#zoom-in", "#zoom-all"]
    sort = ["#content th:nth-child(3)", ".event.dtoh"]
    seen = browse(both[0][1].to_html(), tmp_path, [*others, *views, *sort], "theme=light")
    start = seen["start"]
    assert start["theme"] == "light" and {"Light", "Operators"} <= set(start["pressed"])
    assert {"kernel", "dtoh", "htod", "sync", "shape_func", "launch", "alloc"} <= set(start["kinds"]) and start["curves"] == 1
    assert {"host", "sim kernels", "sim copies", "memory", "0 ns"} <= set(start["axis"])
    assert len(start["tiles"]) == 7 and "Copies to the host2" in start["tiles"][2]
    # colours
    dark, light = seen[others[0]], seen[others[1]]
    assert dark["theme"] == "dark" and dark["background"] != light["background"] == start["background"]
    assert "theme=dark" in dark["hash"]
    # the timeline
    hidden = seen[others[2]]
    assert "kernel" not in hidden["kinds"] and "dtoh" in hidden["kinds"] and "hide=kernel" in hidden["hash"]
    assert "kernels" not in hidden["pressed"]
    assert seen[others[3]]["kinds"] == start["kinds"] and "hide" not in seen[others[3]]["hash"]
    assert "from=0.25&to=0.75" in seen["#zoom-in"]["hash"] and seen["#zoom-in"]["axis"] != start["axis"]
    assert seen["#zoom-all"]["axis"] == start["axis"]
    # the views
    copies = seen[views[0]]
    assert (
        "Why" in copies["heads"] and "dyn.reshape: input 'newshape' is data-dependent" in copies["text"] and copies["rows"] == 3
    )
    assert "↑ to the host: 1 × 8 B" in seen[views[1]]["text"] and "// <b>not bold</b>" in seen[views[1]]["text"]
    assert seen[views[1]]["bold"] == 0, "the program's text is text"
    assert {"Bytes", "Holds"} <= set(seen[views[3]]["heads"])
    assert "%greater bool[100, 4]" in seen[views[3]]["text"] and "3.13 KiB" in seen[views[3]]["text"]
    assert "wait" in seen[views[2]]["text"] and "Timed runs" in seen[views[4]]["text"]
    operators = seen[views[5]]
    assert operators["rows"] == len({s.name for s in both[0][1].sites if s.kind == "kernel"})
    assert seen[sort[0]]["first"] != [] and sorted(seen[sort[0]]["text"]) == sorted(operators["text"])
    assert "data-dependent" in seen[sort[1]]["details"] or "reports the size" in seen[sort[1]]["details"]


def test_two_profiles_and_their_comparison(both: list[tuple[str, relay.Profile]], tmp_path: Path) -> None:
    table = {
        "title": "A against B",
        "header": ["per run", "input", "op"],
        "rows": [["syncs", "2", "3"], {"cells": ["dtoh_bytes", "16", "1624"], "mark": "", "tones": ["", "", "worse"]}],
        "notes": ["The results agree."],
    }
    page = html_page(both, table)
    seen = browse(
        page, tmp_path, ['#side [data-value="1"]', "#comparison th:nth-child(2)"], "view=copies&hide=alloc,sync,nothing&side=7"
    )
    start = seen["start"]
    assert "hide=alloc%2Csync" in start["hash"] and "side=1" in start["hash"], "what is not known is left out"
    assert start["curves"] == 2 and {"input", "op"} <= set(start["axis"]) and not {"alloc", "sync"} & set(start["kinds"])
    assert all(word in start["comparison"] for word in ("A against B", "dtoh_bytes", "1624", "The results agree."))
    assert "op" in seen['#side [data-value="1"]']["pressed"] and "input" not in seen['#side [data-value="1"]']["pressed"]
    assert all("input" in tile and "op" in tile for tile in start["tiles"])


def test_nothing_is_cut_on_a_phone(both: list[tuple[str, relay.Profile]], tmp_path: Path) -> None:
    """In a frame of a phone's width: the page is no wider than it, and what is wider scrolls in a box of its own."""
    page = html_page(both, page_table(compare_profiles(dict(both))))
    (tmp_path / "inner.html").write_text(page.replace("</body>", f"{WIDE}</body>"), encoding="utf-8")
    outer = (
        "<html><body><script>addEventListener('message', e => { document.body.textContent = JSON.stringify(e.data); })</script>"
        "<iframe src='inner.html' style='width: 375px; height: 800px; border: 0'></iframe></body></html>"
    )
    (tmp_path / "outer.html").write_text(outer, encoding="utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "outer.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'{"wide".*?}', done.stdout)
    assert found, done.stdout[-2000:]
    data = json.loads(html.unescape(found.group()))
    assert (data["wide"], data["width"]) == ([], 375) and data["page"] <= 375


def test_a_program_that_does_nothing(tmp_path: Path) -> None:
    exe = relay.compile('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), float32]) { %x }\n')
    page = relay.VirtualMachine(exe).profile(np.ones(0, "float32"), repeat=1, warmup=0).to_html()
    views = [f'#view [data-value="{v}"]' for v in ("copies", "source", "host", "memory", "runs", "operators")]
    seen = browse(page, tmp_path, views)
    assert "No kernel ran." in seen["start"]["text"] and "No copies" in seen[views[0]]["text"]


@pytest.mark.extensive
def test_a_kernel_of_a_graph_unfolds(tmp_path: Path) -> None:
    """Five operators in one kernel, with the edges between them, and a copy with its reason."""
    pytest.importorskip("fast_sugiyama")
    exe = relay.compile(PROGRAM.replace("exp(%x)", "exp(%x * 2f) + tanh(exp(%x * 2f))"), target="sim", place="off")
    graph = program_graph(exe)
    number = next(n for n, node in enumerate(graph.nodes) if node.group is not None and len(node.group.nodes) > 3)
    page = graph_page(graph, scopes_of(graph), {}, "model", "", [])
    kernel, copy = f'#graph [data-id="n{number}"]', "#graph .node.copy"
    seen = browse(page, tmp_path, [kernel, copy], "", GRAPH_PROBE)
    count = len(graph.nodes[number].group.nodes)
    assert seen[kernel]["edges"] >= seen["start"]["edges"] + count - 1 and {"exp", "tanh"} <= set(seen[kernel]["nodes"])
    assert "because" in seen[copy]["about"] and "is data-dependent" in seen[copy]["about"]


@pytest.mark.extensive
def test_the_page_of_a_graph(tmp_path: Path) -> None:
    """A graph of 5,000 nodes: folded at first, scopes unfold in place, nodes have facts, edges of sizes show where asked for."""
    pytest.importorskip("fast_sugiyama")
    lines = [f"/encoder/layer.{n // 25}/MatMul_{n}: MatMul(x)" for n in range(4999)]
    source, starts = SourceText("model.onnx", "\n".join(lines)), np.cumsum([0, *(len(line) + 1 for line in lines)])
    nodes = [Node(ARGUMENT, "%x", "main", -1, "sim", detail={"type": "float32[?n]"})]
    nodes += [
        Node(
            KERNEL, f"product_{n}", "main", n, "sim", Span(source, int(starts[n]), int(starts[n]) + 5), {"results": "float32[?]"}
        )
        for n in range(4999)
    ]
    edges = [Edge(n, n + 1, f"v{n}", "float32[8]", 32, False) for n in range(4999)]
    edges += [Edge(0, n, "x", "float32[8]", 32, True) for n in range(2, 5000)]
    graph = ProgramGraph("main", "sim", ("main",), nodes, edges)
    page = graph_page(graph, scopes_of(graph), {n: NodeTime(1000 * n, 1) for n in range(1, 5000)}, "model", "", ["fuse=off"])
    first, layer = '#graph [data-id="s2"]', '#graph [data-id="s17"]'
    seen = browse(page, tmp_path, [first, layer, '#graph [data-id="n1"]', "#legend button", "#fold"], "theme=dark", GRAPH_PROBE)
    start = seen["start"]
    assert start["open"] == ["▾ encoder"] and 10 < len(start["nodes"]) <= MOST_ITEMS + 1 and not start["sizes"]
    assert start["seconds"] < 5 and start["outside"] == 0 and start["page"] <= 0
    assert len(seen[first]["open"]) == 2 and set(start["nodes"]) - {"▸ 1 to 14"} < set(seen[first]["nodes"])
    assert seen[layer]["open"][-1] == "▾ layer.0" and "product_0" in seen[layer]["nodes"]
    about = seen['#graph [data-id="n1"]']["about"]
    assert all(word in about for word in ("product_0", "1.00 µs", "@main 0", "%v0  float32[8]  32 B", "model.onnx:1"))
    assert seen["#legend button"]["sizes"] > 10 and len(seen["#fold"]["nodes"]) == len(start["nodes"])
