"""Registries that import their declarations when they are first read."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import relayvm as relay
from relayvm.declarations.late_registry import LateRegistry

#: The module of the declarations; ``late_test`` has the registry and the list of imports.
DECLARATIONS = """
import time
from late_test import imports, made
imports.append("all")
assert made.has_declared("a") and not made.has_declared("b")
made["b"] = 2
assert made["b"] == 2 and "c" not in made, "declarations may read what is there"
time.sleep(0.1)
made["c"] = 3
made.imports = None
"""
Made = tuple[LateRegistry[int], list[str]]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """A registry with one declaration, two more to import, and the imports that were made."""
    made: LateRegistry[int] = LateRegistry()
    imports: list[str] = []
    (tmp_path / "late_declarations.py").write_text(DECLARATIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "late_test", types.SimpleNamespace(made=made, imports=imports))
    made["a"] = 1
    made.imports = lambda: importlib.import_module("late_declarations")
    yield made, imports
    sys.modules.pop("late_declarations", None)


READS: dict[str, tuple[Callable[[LateRegistry[int]], Any], Any]] = {
    "item": (lambda r: r["c"], 3),
    "in": (lambda r: "c" in r, True),
    "iteration": (list, ["a", "b", "c"]),
    "length": (len, 3),
    "get": (lambda r: r.get("c"), 3),
    "get a default": (lambda r: r.get("d", 4), 4),
    "pop": (lambda r: (r.pop("c"), len(r)), (3, 2)),
    "pop a default": (lambda r: r.pop("d", None), None),
    "delete": (lambda r: (r.__delitem__("c"), len(r)), (None, 2)),
    "keys": (lambda r: list(r.keys()), ["a", "b", "c"]),
    "values": (lambda r: list(r.values()), [1, 2, 3]),
    "items": (lambda r: list(r.items()), [("a", 1), ("b", 2), ("c", 3)]),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_sees_all_declarations_which_are_imported_once(read: str, registry: Made) -> None:
    made, imports = registry
    assert made["a"] == 1 and made.has_declared("a") and not made.has_declared("c") and imports == []
    function, expected = READS[read]
    assert function(made) == expected
    assert "b" in made and imports == ["all"]


def test_a_thread_waits_for_the_import_of_another(registry: Made) -> None:
    made, imports = registry
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(made.__getitem__, ["c"] * 4)) == [3] * 4
    assert imports == ["all"]


def test_a_failed_import_is_tried_again(registry: Made) -> None:
    made, imports = registry
    whole, made.imports = made.imports, lambda: importlib.import_module("late_module_that_is_not_there")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            made.get("c")
    made.imports = whole
    assert made["c"] == 3 and imports == ["all"]


def test_an_unknown_name_is_a_key_error(registry: Made) -> None:
    made, imports = registry
    with pytest.raises(KeyError, match="d"):
        made["d"]
    assert imports == ["all"]


_FIRST = """
import importlib, sys
importlib.import_module(sys.argv[1])
from relayvm.ops.core.op import get
print(get("add").name)
"""


@pytest.mark.parametrize(
    "module",
    ["ops.composition.composite", "ops.composition.legalize", "ops.registration.custom_op", "ops.defs.sampling.image",
     "ops.kernels", "compiler.text.parser", "compiler.builder.constructors", "compiler.ir.expr", "compiler.passes.fuse_ops",
     "shape_funcs.defs.convolution.conv", "op"],
)  # fmt: skip
@pytest.mark.extensive(module=["ops.composition.composite", "compiler.text.parser"])
def test_any_module_may_be_imported_first(module: str) -> None:
    command = [sys.executable, "-c", _FIRST, f"relayvm.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(relay.__file__).parents[1])
    assert (done.stdout.strip(), done.stderr) == ("add", "")
