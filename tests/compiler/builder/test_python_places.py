"""Nodes that are built in Python know their lines: in errors of types and of runs, in executables; and nothing else sees it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.diagnostics.python_source import PythonSource

HERE = Path(__file__)
MODEL = """\
import relayvm as relay

x = relay.var("x", (relay.Any(), 4))
w = relay.var(
    "w",
    (3, 5),
)
y = relay.exp(x) * 2.0
z = relay.nn.dense(y, w)
model = relay.Function([x, w], z)
"""


def test_a_type_error_shows_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    model = runpy.run_path("model.py")["model"]
    with pytest.raises(relay.TypeCheckError) as raised:
        relay.compile(model)
    assert str(raised.value) == textwrap.dedent("""\
        error: nn.dense: the inner sizes of the product differ: 4 and 5
         --> model.py:9:1
          |
        9 | z = relay.nn.dense(y, w)
          | ^^^^^^^^^^^^^^^^^^^^^^^^
        note: this value is Tensor[(?, 4), float32]
         --> model.py:8:1
          |
        8 | y = relay.exp(x) * 2.0
          | ^^^^^^^^^^^^^^^^^^^^^^
        note: %w is Tensor[(3, 5), float32]
         --> model.py:4:1
          |
        4 | w = relay.var(
          | ^^^^^^^^^^^^^^""")


def test_a_package_behind_a_link_is_no_user_code(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "relayvm").symlink_to(Path(relay.__file__).parent)
    (tmp_path / "model.py").write_text("import relayvm as relay\n\nrelay.var('x', 'a shape')\n")
    # first on the path; without the site packages' finders, which know the package by its real folder
    start = "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in str(f).lower()]; "
    start += "import runpy; runpy.run_path('model.py')"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "packages")}
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "packages/relayvm" in done.stderr, "the package was imported by its link"
    assert "--> model.py:3:1" in done.stderr, done.stderr


def built() -> relay.Function:
    a, b = relay.var("a", (relay.Any(),)), relay.var("b", (relay.Any(),))
    total = a + b
    return relay.Function([a, b], total)


def test_a_run_shows_the_line_also_when_loaded() -> None:
    exe = relay.compile(built())
    name = os.path.relpath(HERE)
    for program in (exe, from_bytes(to_bytes(exe))):
        with pytest.raises(relay.VMError) as raised:
            relay.VirtualMachine(program).run(np.ones(3, "float32"), np.ones(2, "float32"))
        span = raised.value.diagnostics[0].span
        assert span is not None and span.place.startswith(f"{name}:") and "total = a + b" in str(raised.value)
    assert [s.name for s in exe.sources] == [name]
    kept = exe.sources[0].text
    assert "total = a + b" in kept and "def test_a_run" not in kept, "only lines that made nodes are kept"


def test_the_line_is_in_no_comparison_and_no_text() -> None:
    def again() -> relay.Function:
        a, b = relay.var("a", (relay.Any(),)), relay.var("b", (relay.Any(),))
        return relay.Function([a, b], a + b)

    assert relay.structural_equal(built(), again())
    assert relay.structural_hash(built()) == relay.structural_hash(again())
    assert relay.astext(built()) == relay.astext(again())
    assert HERE.name not in relay.astext(built()) and HERE.name not in repr(built())
    assert relay.structural_equal(relay.parse(relay.astext(relay.IRModule({"f": built()})))["f"], built())


def test_every_node_has_a_line() -> None:
    x = relay.var("x", (2,))
    call = relay.Call(relay.GlobalVar("f"), [x])
    nodes = [
        x, call, call.op, x + 1.0, 1.0 - x, -x, x < x, relay.exp(x), relay.const(1), relay.Constant([1]), relay.Tuple([x]),
        relay.TupleGetItem([x], 0), relay.Let(x, 1.0, x), relay.If(True, x, x), relay.Function([x], x), relay.Var("y"),
        relay.reshape(x, newshape=relay.var("s", (1,), "int64")),
    ]  # fmt: skip
    for node in nodes:
        assert node.span is not None and isinstance(node.span.source, PythonSource), node
        assert node.span.place.partition(":")[0].endswith(HERE.name)


def test_a_file_that_cannot_be_read_has_a_line_number() -> None:
    names: dict[str, object] = {"relay": relay}
    exec(compile("\n\nx = relay.var('x', (3,))\ny = relay.nn.relu((x, x))", "gone.py", "exec"), names)
    with pytest.raises(relay.TypeCheckError) as raised:
        relay.compile(relay.Function([names["x"]], names["y"]))
    text = str(raised.value)
    assert " --> gone.py:4:1\n" in text and "|" not in text
    saved = from_bytes(to_bytes(relay.compile(relay.Function([names["x"]], names["x"] + 1.0))))  # type: ignore[operator]
    assert all(set(s.text) <= set("\n") for s in saved.sources if s.name == "gone.py")


def test_places_of_two_files_are_not_joined(tmp_path: Path) -> None:
    first, second = relay.parse_expr("1f").span, relay.var("x").span
    assert first is not None and second is not None and first.to(second) is first
