"""The prose of the repository: paths in pages exist; docstrings and comments follow the style rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .python_tokens import names_of, strings_and_comments
from .syntax_trees import statements

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("declarations", "shape_funcs", "ops", "vm", "compiler", "serving", "cluster")
#: Pages for readers.  CHANGELOG.md is left out: its table has the old names of moved modules.
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Folders and files whose docstrings and comments follow the rules.
CLEAN = (
    *sorted(file.name for file in ROOT.glob("*.py")),
    "benchmarks",
    "compiler",
    "declarations",
    "examples",
    "ops",
    "relay_modules",
    "serving",
    "cluster",
    "shape_funcs",
    "tests",
    "vm",
)
FOLDERS = sorted(f.name for f in ROOT.iterdir() if f.is_dir() and not f.name.startswith("."))

_CODE = re.compile(r"```.*?```|`([^`\n]+)`", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)]*))?\)")
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
_MODULE = re.compile(rf"relayvm\.({'|'.join(LAYERS)})(\.\w+)+|({'|'.join(LAYERS)})(\.\w+){{2,}}")


def broken_paths(text: str) -> Iterator[str]:
    """Each text in backticks that looks like a file, folder or module of the repository and is none.

    Files: ``*.py``, and texts that begin with a folder of the repository.  The output folder ``build`` is exempt.
    """
    for match in _CODE.finditer(text):
        code = match[1] or ""
        first = code.partition("/")[0]
        looks_like_a_path = code.endswith(".py") or ("/" in code and first in FOLDERS)
        if _PATH.fullmatch(code) and looks_like_a_path and first != "build" and not list(ROOT.glob(code)):
            yield code
        if _MODULE.fullmatch(code) and not _is_module(code.removeprefix("relayvm.").split(".")):
            yield code


def _is_module(parts: list[str]) -> bool:
    """Whether the parts name a module of the product, or at most two names within a module."""
    heads = (ROOT.joinpath(*parts[:n]) for n in range(len(parts), max(1, len(parts) - 2) - 1, -1))
    return any(head.with_suffix(".py").is_file() or (head.is_dir() and head.name == parts[-1]) for head in heads)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_in_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not list(broken_paths(text))
    assert not [link for link in _LINK.findall(text) if not _exists(page, *link)]


def _exists(page: Path, path: str, anchor: str) -> bool:
    """Whether the target of a relative link exists, with the heading that it names."""
    target = page.parent / path if path else page
    if not target.exists() or not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("`vm/bytecode/isa.py` and `vm/report/export_*.py`, `compiler/text/`", []),
        ("`vm/isa.py`, `isa.py`, `compiler/sides/`", ["vm/isa.py", "isa.py", "compiler/sides/"]),
        ("`relayvm.compiler.docs.pages`, `vm.bytecode.size_expressions`, `vm.sync_reasons`", []),
        ("`ops.native.compiled.kernel_store.counters`, `relayvm.ops.dims.Dim`", ["relayvm.ops.dims.Dim"]),
        ("`a.json`, `int32 kernel(argv, n)`, `build/campaign`, `relayvm.set_num_threads`", []),
    ],
)
def test_a_broken_path_is_found(text: str, broken: list[str]) -> None:
    assert list(broken_paths(text)) == broken


#: First words of free relative clauses and of questions.
_FIRST_WORDS = frozenset(
    ("what", "where", "which", "how", "when", "who", "whom", "whose", "whoever", "whatever", "whichever", "that", "those", "why")
)
#: Code in backticks, and an indented block of code after two colons.
_CODE_SPAN = re.compile(r"``.*?``|`[^`]*`|(?<=::)\n\n(?: {4}[^\n]*(?:\n|\Z)|\n)+", re.DOTALL)
_SENTENCE_END = re.compile(r"[.?!:](?=\s|$)|\n\s*\n")


def words_of(heading: str) -> list[str]:
    """The words in backticks in the first column of the table of docs/glossary.md below the heading."""
    _, _, rest = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition(f"## {heading}\n")
    first_columns = [line.split("|")[1] for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")]
    words = [word for column in first_columns for word in re.findall(r"`([^`]+)`", column)]
    assert len(words) > 10
    return words


def retired_words() -> re.Pattern[str]:
    """A pattern of the words that prose does not use."""
    words = [re.escape(word).replace(r"\ ", r"\s+") for word in words_of("Retired words")]
    return re.compile(rf"\b({'|'.join(words)})\b", re.IGNORECASE)


RETIRED = retired_words()
RETIRED_FROM_NAMES = frozenset(words_of("Words retired from names"))
#: The words of a name: of ``PoolWindows`` "Pool" and "Windows".
_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Names of other packages.
_OTHERS_NAMES = frozenset(("shares_memory", "may_share_memory"))


def retired_names(text: str) -> set[str]:
    """The names of a file that have a retired word in them, and are no test's name."""
    names = {name for name in names_of(text) if not name.startswith("test_")} - _OTHERS_NAMES
    return {name for name in names if RETIRED_FROM_NAMES & {word.lower() for word in _WORD_OF_NAME.findall(name)}}


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring."""
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every block of comments; lines of one block are joined."""
    block: list[tuple[int, str]] = []
    for line, token in strings_and_comments(text):
        if token.startswith("#"):
            if block and block[-1][0] != line - 1:
                yield block[0][0], "\n".join(part for _, part in block)
                block = []
            block.append((line, token.lstrip("#: ")))
    if block:
        yield block[0][0], "\n".join(part for _, part in block)


def broken_prose(path: str, text: str) -> list[str]:
    """Violations of the style rules in the file at ``path``, one line each."""
    bad = []
    found = list(docstrings(ast.parse(text)))
    for line, docstring in found:
        first = re.match(r"\W*(\w+)", _CODE_SPAN.sub("x", docstring))
        if first and first[1].lower() in _FIRST_WORDS:
            bad.append(f"{path}:{line}: begins with {first[1]}")
        end = _SENTENCE_END.search(_CODE_SPAN.sub("x", docstring))
        if end and end[0] == "?":
            bad.append(f"{path}:{line}: begins with a question")
    for line, prose in (*found, *comments(text)):
        bad += [f"{path}:{line}: {' '.join(m[0].split())}" for m in RETIRED.finditer(_CODE_SPAN.sub("x", prose))]
    return bad


def python_files(folder: str) -> list[Path]:
    """The Python files of a folder, or a single file."""
    return [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", CLEAN)
def test_docstrings_and_comments_follow_the_rules(folder: str) -> None:
    files = python_files(folder)
    assert files
    bad = [line for f in files for line in broken_prose(f.relative_to(ROOT).as_posix(), f.read_text(encoding="utf-8"))]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("folder", CLEAN)
def test_names_have_no_retired_words(folder: str) -> None:
    bad = {
        f.relative_to(ROOT).as_posix(): retired_names(f.stem + "\n" + f.read_text(encoding="utf-8")) for f in python_files(folder)
    }
    assert not {path: names for path, names in bad.items() if names}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def turned_tile(a): return a.Rooms + PIECES", {"turned_tile", "Rooms", "PIECES"}),
        ("x = f'{said}'; y = 'pieces'  # pictures", {"said"}),
        ("def test_small_pictures(): np.shares_memory(a, in_place, share)", set()),
    ],
)
def test_a_retired_name_is_found(text: str, names: set[str]) -> None:
    assert retired_names(text) == names


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ('"""What a register holds."""', ["a.py:1: begins with What"]),
        ('def f():\n    """Those bytes of ``x``."""', ["a.py:2: begins with Those"]),
        ('"""Is it whole?  Yes."""', ["a.py:1: begins with a question"]),
        ('"""Forward data flow.  Why not backward?"""', []),
        ('"""Whether ``what`` is stored in the ``door`` of a table."""', []),
        ('"""The\nfront\ndoor."""', ["a.py:1: front door"]),
        ('"""An example::\n\n    pieces = n\n\nIts loop."""', []),
        ('"""An example::\n\n    n = 1\n\nIts pieces."""', ["a.py:1: pieces"]),
        ("x = 1  # the host\n# goes on\n", ["a.py:1: the host goes on"]),
        ('x = "what lies in the card"', []),
    ],
)
def test_broken_prose_is_found(text: str, complaints: list[str]) -> None:
    assert broken_prose("a.py", text) == complaints
