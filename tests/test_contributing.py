"""The additions that CONTRIBUTING.md shows, made in a copy of the tree, pass the tests that it names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relayvm.compiler.docs.page_links import LINK

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
#: A path, and the text of the file or of its lines.
_ADDITION = re.compile(r"^`([\w./]+)`:\n\n```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Folders and files that a copy needs no own copy of.
_LEFT_OUT = (".*", "build", "__pycache__", "*.egg-info")

#: A program whose sizes depend on values, on the CPU and on the new device.
_ON_THE_DEVICE = """
import numpy as np
import relayvm as relay

TEXT = '''#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32], %s: Tensor[(2), int64]) {
  (dyn.reshape(exp(%x), %s), argwhere(greater(%x, 0f)), sort(sum(%x, axis=[1])))
}'''
x = np.random.default_rng(0).standard_normal((6, 2)).astype("float32")
args = x, np.array([3, 4])
machines = [relay.VirtualMachine(relay.compile(relay.parse(TEXT), target=t, place="off")) for t in ("cpu", "prompt")]
for _ in range(2):
    there, here = ([r.numpy() for r in vm.run(*args)] for vm in machines)
    for a, b in zip(there, here, strict=True):
        np.testing.assert_array_equal(a, b)
counters = machines[1].counters
assert counters["htod_copies"] and counters["dtoh_copies"] and counters["syncs"], counters
assert machines[1].run(*args)[0].device == "prompt"
machines[1].close()
print("prompt runs", counters["launches"], "kernels")
"""


def with_lines(text: str, change: str) -> str:
    """The text with the lines of a change that begin with ``+``, between the lines around them, which must be there once."""
    for part in change.split("@@\n"):
        lines = part.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" ", " +"))
        assert text.count(old) == 1, f"these lines are not there once:\n{old}"
        text = text.replace(old, new)
    return text


def make(root: Path) -> list[str]:
    """Make the additions; the paths."""
    paths = []
    for path, language, text in _ADDITION.findall(PAGE.read_text(encoding="utf-8")):
        file = root / path
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(with_lines(old, text) if language == "diff" else f"{old}\n\n{text}" if old else text, encoding="utf-8")
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("contribution") / "relayvm"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    assert len(make(root)) > 10
    return root


def run(tree: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree.parent)}
    how = () if arguments[0] == "-c" else ("-m",)
    done = subprocess.run([sys.executable, *how, *arguments], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.extensive
def test_the_operator(tree: Path) -> None:
    files = ["tests/ops/test_every_op.py", "tests/ops/cuda/opaque/test_compile.py", "tests/shape_funcs/test_bincount.py"]
    run(tree, "pytest", "-q", "-k", "bincount", *files)


@pytest.mark.extensive
def test_the_pass(tree: Path) -> None:
    run(tree, "pytest", "-q", "-k", "remove_copies", "tests/compiler/passes/test_before_after.py")


@pytest.mark.extensive
def test_the_device(tree: Path) -> None:
    """A device is its folder and one line elsewhere, besides the package's name in setup.cfg."""
    run(tree, "-c", _ON_THE_DEVICE)


@pytest.mark.extensive
def test_the_instruction(tree: Path) -> None:
    """The two texts that show all instructions are written anew, and nothing else is named."""
    tests = ["tests/vm/bytecode/test_isa.py", "tests/vm/bytecode/test_verify.py", "tests/vm/runtime/test_count_elements.py"]
    run(tree, "pytest", "-q", "--update", "-k", "recorded or fresh", tests[0])
    run(tree, "pytest", "-q", *tests)


@pytest.mark.extensive
def test_the_vector_instruction(tree: Path) -> None:
    run(tree, "pytest", "-q", "-k", "count_bits", "tests/ops/native/front_end/test_vectors.py")


@pytest.mark.extensive
def test_packages_and_layers(tree: Path) -> None:
    run(tree, "pytest", "-q", "tests/test_layers.py", "tests/test_packaging.py", "-k", "not built")


@pytest.mark.extensive
def test_style(tree: Path) -> None:
    run(tree, "ruff", "check", ".")
    run(tree, "ruff", "format", "--check", ".")


def test_lines_are_put_between_others() -> None:
    assert with_lines("a\nb\nc\n", " a\n+x\n b\n@@\n c\n+y\n") == "a\nx\nb\nc\ny\n"
    with pytest.raises(AssertionError, match="not there once"):
        with_lines("a\nb\n", " b\n+x\n a\n")


def test_the_changed_lines_are_there() -> None:
    """Each change fits the tree as it is."""
    changes = [(path, text) for path, language, text in _ADDITION.findall(PAGE.read_text(encoding="utf-8")) if language == "diff"]
    assert len(changes) == 7
    for path, text in changes:
        assert with_lines((ROOT / path).read_text(encoding="utf-8"), text)


@pytest.mark.parametrize("page", [PAGE, ROOT / "tests" / "README.md"], ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert targets and [target for target in targets if not (page.parent / target).exists()] == []
