"""The code blocks of the README and of each page: Python and commands run, Relay is parsed and typed, output is compared.

A block's language says which: ``python``, ``sh``, ``relay``, and ``text`` or ``json`` for output and diagrams, which are no code.
The Python blocks of a page run one after the other, in an empty folder.  A page's blocks have the packages of the extras that
the page names, and no others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import relayvm as relay
from relayvm.compiler.docs.page_links import blocks, dead_links, pages
from relayvm.compiler.docs.site_pages import linked_files

from .extras import environment_with, extras_of

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = {"python", "sh", "relay", "text", "json"}
HEADER = '#[version = "0.0.5"]\n'
DENSE = HEADER + "def @main(%x: Tensor[(?n, 8), float32], %w: Tensor[(4, 8), float32]) { nn.dense(%x, %w) }"

#: Names that the Python blocks of a page take for granted.
GIVEN = {
    "docs/buckets.md": "import relayvm as relay",
    "docs/generation.md": f"""
import sys, onnx
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
from decoder_models import Sizes, decoder
onnx.save(decoder("joined", Sizes(layers=1, width=64, heads=4, shared=2, tokens=97, inner=96, most=256)), "decoder.onnx")
""",
    "docs/memory.md": f"""
import numpy as np, relayvm as relay
vm = relay.VirtualMachine(relay.compile({DENSE!r}))
x, y = np.ones((3, 8), "float32"), np.ones((4, 8), "float32")
""",
    "docs/number-formats.md": """
import numpy as np, onnx, onnx.parser
text = '<ir_version: 9, opset_import: ["": 18]> g (float[N, 8] x) => (float[N, 4] y) { y = MatMul(x, w) }'
model = onnx.parser.parse_model(text)
model.graph.initializer.append(onnx.numpy_helper.from_array(np.random.rand(8, 4).astype("float32"), "w"))
onnx.save(model, "model.onnx")
""",
    "docs/onnx.md": """
import onnx.parser, relayvm as relay
text = '<ir_version: 9, opset_import: ["": 18]> g (float[N] x) => (float[N] y) { y = Exp(x) }'
onnx.save(onnx.parser.parse_model(text), "model.onnx")
""",
    "docs/tuning.md": f"import relayvm as relay\nmodel = {DENSE!r}",
}
#: Pages whose Python blocks other programs run, and pages that need something that this machine may lack.
ELSEWHERE = {
    "README.md": "tests/test_examples.py compares its output with numpy",
    "docs/custom-operators.md": "tests/e2e/examples/test_custom_operators_page.py runs them, and its operator on each device",
    "docs/cuda.md": "needs a GPU: examples on one are in tests/cuda",
    "docs/errors.md": "generated: each example has run, and its message is compared",
    "docs/from-torch.md": "needs torch: examples/from_torch.py has these calls, and a test",
    "docs/ray.md": "needs ray: tests/cluster/test_on_ray.py",
}
#: Pages that need a package that the extra `test` does not bring: their blocks run where it is installed.
NEEDED = {"docs/number-formats.md": "onnxruntime", "docs/tutorial.md": "torch"}
#: The lines that the blocks of a page print, continued lines left out.
PRINTED = {
    "docs/coming-from-onnxruntime.md": [
        "(2, 3) ['rows', 4]",
        "(2, 3)",
        "(500, 3)",
        "[('x', 'Tensor[(?rows, 4), float32]')]",
        "[('y', 'Tensor[(?rows, 3), float32]')]",
        "error: @main: %x has size 5 on axis 1, not 4",
        "help: %x is declared Tensor[(?rows, 4), float32], the value is Tensor[(2, 5), float32]",
        "12.0",
    ],
    "docs/python.md": [
        "(2, 3) float32 cpu",
        "[[0, 0], [1, 1], [2, 2], [3, 3]]",
        "input/type | @main: %x has dtype float64, not float32 | %x is declared Tensor[(?n, 4), float32]; convert with .astype",
        "0.0 ndarray",
        "True",
        "True",
        "out of memory: 12582912 bytes are needed for float32[1048576, 3]",
        "(1, 3) 0",
        "[1, 2, 3]",
        '#[version = "0.0.5"]',
        "def @main(%x: Tensor[(?n, 4), float32]) {",
        "}",
        "",
        "[[2.0, 2.0, 2.0, 2.0]]",
    ],
}
#: A line, with the lines of the text that it begins: `cat > file <<'END'`.
_COMMAND = re.compile(r"^[^\n]*<<'(\w+)'\n.*?^\1$|^[^\n]+$", re.DOTALL | re.MULTILINE)
#: Commands that do not run here, by their first words, with the reason.
NOT_RUN = {
    "make": "CI calls the targets; the README's targets are compared with the Makefile",
    "pip install": "needs a package index",
    "python examples/": "needs packages of an extra; each example has a test",
    "relayvm compare build/mask_rcnn.onnx": "the model of an example that needs torch",
    "relayvm run model.relay --device cuda": "needs a GPU",
    "relayvm run detector.rvm": "the executable of Python blocks that need torch",
    "relayvm serve": "does not end: tests/serving, and the README's server in tests/test_examples.py",
    "curl": "asks the server of the line before",
}


def of_language(language: str) -> list[tuple[str, list[str]]]:
    """The blocks of a language by page."""
    found = [(page, [text for name, text in blocks((ROOT / page).read_text()) if name == language]) for page in pages(ROOT)]
    return [(page, texts) for page, texts in found if texts]


def blocks_to_run(language: str) -> list[Any]:
    """The blocks of a language by page, as cases of a test."""
    return [pytest.param(page, texts, id=page) for page, texts in of_language(language) if page not in ELSEWHERE]


def test_each_block_has_a_language() -> None:
    for page in pages(ROOT):
        text = (ROOT / page).read_text()
        assert {language for language, _ in blocks(text)} <= LANGUAGES, page
        outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"\n\n    \S", outside), f"{page}: a block that is indented has no language"


@pytest.fixture(scope="module")
def kernels_of_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the cache."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cache(kernels_of_pages: Path) -> str:
    """A folder with kernels of pages before, the machine's included, which takes seconds to compile, and no tuning records."""
    for path in kernels_of_pages.iterdir():
        if path.name.startswith("tuning"):
            path.unlink()
    return str(kernels_of_pages)


def of_page(page: str, folder: Path) -> dict[str, str]:
    """The variables of a process that has the packages of the extras that a page names; the README's blocks name their own."""
    return environment_with(() if page == "README.md" else extras_of((ROOT / page).read_text()), folder)


@pytest.mark.split(2)
@pytest.mark.parametrize(
    ("page", "texts"), [pytest.param(*row, id=row[0]) for row in of_language("python") if row[0] not in ELSEWHERE]
)
def test_python(page: str, texts: list[str], tmp_path: Path, cache: str) -> None:
    if page in NEEDED and find_spec(NEEDED[page]) is None:
        pytest.skip(f"needs {NEEDED[page]}")
    program = "\n".join([GIVEN.get(page, ""), *texts])
    environment = {**of_page(page, tmp_path), "RELAYVM_CACHE_DIR": cache}  # a page leaves tuning records
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert lines == PRINTED.get(page, lines)


@pytest.mark.parametrize(("page", "texts"), blocks_to_run("relay"))
def test_relay(page: str, texts: list[str]) -> None:
    for text in texts:
        relay.transform.InferType()(relay.parse(text if text.startswith("#[version") else HEADER + text))


def commands() -> list[tuple[str, str]]:
    """The commands of all pages, lines that a backslash continues joined, and a text for a command with the command."""
    found = []
    for page, texts in of_language("sh"):
        lines = [each[0].strip() for text in texts for each in _COMMAND.finditer(text.replace("\\\n", " "))]
        found += [(page, line) for line in lines if line and not line.startswith("#")]
    return [(page, line) for page, line in found if page != "README.md" or "bin/relayvm" in line]


@pytest.mark.extensive
def test_commands(tmp_path: Path, cache: str) -> None:
    (tmp_path / "model.relay").write_text(DENSE)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    here = Path(sys.executable).parent
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(here)
    more = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "RELAYVM_CACHE_DIR": cache}
    ran, used = 0, set()
    for page, line in commands():
        if reason := next((words for words in NOT_RUN if line.startswith(words)), None):
            used.add(reason)
            continue
        line = line.replace("--preset", "--repeat 2 --preset")  # a comparison has 20 rounds
        environment = of_page(page, tmp_path) | more
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{page}: {line}\n{done.stderr}"
        ran += 1
    assert ran > 5 and used == set(NOT_RUN)


def test_tables_name_pages_that_need_them() -> None:
    with_python = {page for page, _ in of_language("python")}
    assert {*GIVEN, *ELSEWHERE, *NEEDED, *PRINTED} <= with_python


def test_no_link_is_dead(tmp_path: Path) -> None:
    assert dead_links(ROOT) == []
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "# A title\n[a](docs/a.md#one-two) [b](docs/b.md) [c](#a-title) [d](#two) [e](https://no.where)"
    )
    (tmp_path / "docs" / "a.md").write_text("## One `two`\n[up](../README.md#a-title)\n```text\n[x](y.md)\n```\n[z](#three)")
    assert dead_links(tmp_path) == ["README.md: docs/b.md", "README.md: #two", "docs/a.md: #three"]


def test_the_site_has_each_page_and_each_linked_file() -> None:
    listed = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(pages(ROOT))
    files = linked_files(ROOT)
    assert {*pages(ROOT), "examples/digits/README.md", "docs/images/profile.png", "benchmarks/serving.py"} <= {*files}
