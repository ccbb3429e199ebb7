"""The rules of the house, read from the syntax trees: which way imports point, and who may import what, and when."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("shape_funcs", "ops", "vm", "compiler")  # a folder imports itself and what stands to its left

#: Packages that cost start-up time or may be absent: the files that may import them (a folder ends in "/").
NAMED_FILES = {
    "lark": ("compiler/text/parser.py",),
    "numba": ("ops/native/", "vm/door.py"),
    "llvmlite": ("ops/native/", "vm/door.py"),
    "scipy": ("ops/native/blas_sources.py", "vm/report/significance.py"),
    "ml_dtypes": ("ops/ty.py",),
    "cupy": ("ops/native/nvrtc.py", "vm/cuda/"),
}
#: Those that no file imports at module level, because importing relayvm must stay fast: ...
LAZY = ("numba", "llvmlite", "scipy", "cupy", "ml_dtypes")
#: ... except these, which are themselves imported only inside functions (``test_importing_relayvm_...`` holds them to it).
LAZY_FILES = ("ops/native/intrinsics.py", "ops/native/half_arrays.py", "ops/native/front_end.py")


@dataclass(frozen=True)
class Import:
    """One imported module as a file says it: ``level`` dots, then ``name``."""

    level: int
    name: str
    line: int
    at_module_level: bool

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


def imports(tree: ast.Module) -> Iterator[Import]:
    """Every import in a file; those under ``if TYPE_CHECKING:`` do not happen and are left out of the start-up rule only."""
    lazy: set[ast.AST] = set()
    for node in ast.walk(tree):
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if typing_only or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            lazy.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(0, alias.name, node.lineno, node not in lazy)
        elif isinstance(node, ast.ImportFrom) and node.module is None:
            for alias in node.names:  # from .. import ops
                yield Import(node.level, alias.name, node.lineno, node not in lazy)
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.level, node.module, node.lineno, node not in lazy)


def source_files(root: Path) -> list[Path]:
    """The package's own files: the root's and the four layers'."""
    return sorted([*root.glob("*.py"), *(f for layer in LAYERS for f in (root / layer).rglob("*.py"))])


def broken_rules(path: str, text: str) -> list[str]:
    """What a file at ``path`` (relative to the root) does against the rules, one line each."""
    bad = []
    parts = path.split("/")
    layer = parts[0] if len(parts) > 1 else None
    for i in imports(ast.parse(text)):
        place = f"{path}:{i.line}"
        if i.level == 0:
            if i.top == "relayvm" or i.top in LAYERS:
                bad.append(f"{place}: import {i.name} relatively")
            if i.top in NAMED_FILES and not path.startswith(NAMED_FILES[i.top] or "-"):
                bad.append(f"{place}: {i.top} is imported only in {', '.join(NAMED_FILES[i.top]) or 'no file'}")
            if i.top in LAZY and i.at_module_level and path not in LAZY_FILES:
                bad.append(f"{place}: import {i.top} inside the function that needs it")
        elif layer is not None:
            if i.level > len(parts):
                bad.append(f"{place}: {'.' * i.level}{i.name} is above the package")
                continue
            target = [*parts[: len(parts) - i.level], *i.name.split(".")][0]
            if target not in LAYERS:
                bad.append(f"{place}: a layer does not import the root's {target}")
            elif LAYERS.index(target) > LAYERS.index(layer):
                bad.append(f"{place}: {layer} may not import {target}")
    return bad


def test_imports_point_left() -> None:
    files = source_files(ROOT)
    assert len(files) > 10
    bad = [line for f in files for line in broken_rules(f.relative_to(ROOT).as_posix(), f.read_text())]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("vm/a.py", "from ..compiler import ir", "vm/a.py:1: vm may not import compiler"),
        ("shape_funcs/a.py", "def f():\n    from ..ops import op", "shape_funcs/a.py:2: shape_funcs may not import ops"),
        ("ops/native/a.py", "from ...vm.isa import ISA", "ops/native/a.py:1: ops may not import vm"),
        ("ops/a.py", "from .. import compiler", "ops/a.py:1: ops may not import compiler"),
        ("vm/a.py", "from relayvm.ops import op", "vm/a.py:1: import relayvm.ops relatively"),
        ("vm/a.py", "import shape_funcs.dims", "vm/a.py:1: import shape_funcs.dims relatively"),
        ("vm/a.py", "from ... import x", "vm/a.py:1: ...x is above the package"),
        ("vm/a.py", "from ..__main__ import main", "vm/a.py:1: a layer does not import the root's __main__"),
        (
            "compiler/text/printer.py",
            "def f():\n    import lark",
            "compiler/text/printer.py:2: lark is imported only in compiler/text/parser.py",
        ),
        ("vm/a.py", "def f():\n    import cupy.cuda", "vm/a.py:2: cupy is imported only in ops/native/nvrtc.py, vm/cuda/"),
        ("ops/native/a.py", "import numba.core", "ops/native/a.py:1: import numba inside the function that needs it"),
        ("ops/native/a.py", "class A:\n    import numba", "ops/native/a.py:2: import numba inside the function that needs it"),
    ],
)
def test_a_broken_rule_is_found(path: str, text: str, complaint: str) -> None:
    assert broken_rules(path, text) == [complaint]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("compiler/a.py", "from ..vm import isa\nfrom ..shape_funcs.dims import Dim\nfrom .passes import x\nfrom . import ir"),
        ("compiler/passes/a.py", "from ..ir import Expr\nfrom ...ops.op import Op"),
        ("ops/native/a.py", "def f():\n    import numba\n    from llvmlite import ir"),
        ("ops/native/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numba"),
        ("__init__.py", "from .compiler.ir import IRModule\nfrom .vm import isa"),
    ],
)
def test_what_is_allowed_is_not_complained_about(path: str, text: str) -> None:
    assert broken_rules(path, text) == []


def test_every_third_party_import_is_a_declared_dependency() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    declared = {re.split(r"[ <>=!~]", line)[0] for line in config["options"]["install_requires"].split("\n") if line}
    declared |= {"llvmlite"} if "numba" in declared else set()  # numba's own compiler, always with it
    # cupy under the names of its wheels, and cuda-pathfinder, which comes with it
    declared |= {"cupy", "cuda"} if {"cuda12", "cuda13"} <= {*config["options.extras_require"]} else set()
    used = {
        i.top: f"{f.relative_to(ROOT)}:{i.line}"
        for f in source_files(ROOT)
        for i in imports(ast.parse(f.read_text()))
        if i.level == 0 and i.top not in sys.stdlib_module_names
    }
    missing = {name: place for name, place in used.items() if name not in declared}
    assert not missing, f"not in install_requires: {missing}"


def test_importing_relayvm_loads_no_compiler_backend() -> None:
    program = "import sys, relayvm; print(*sorted({m.partition('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    done = subprocess.run([sys.executable, "-c", program, *LAZY], capture_output=True, text=True, cwd=ROOT.parent)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr
