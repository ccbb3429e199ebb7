"""The modules that comments, docstrings and pages name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from relayvm.compiler.docs.page_links import pages

from .python_tokens import strings_and_comments

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("declarations", "shape_funcs", "ops", "vm", "compiler", "serving", "cluster", "relay_modules", "tests", "benchmarks")
#: A module by dots or slashes, from a layer on; ``vm.run`` and the like are names of a machine, so two dots at least.
CITED = re.compile(rf"(?<![\w./])(?:relayvm[./])?(?:{'|'.join(LAYERS)})(?:(?:\.\w+){{2,}}|(?:/[\w-]+)+(?:\.\w+)?)")
#: Endings of files.
ENDINGS = ("py", "md", "relay", "rly", "lark", "html", "css", "js", "txt", "json", "onnx", "png", "cfg")


def prose_of(path: Path) -> Iterator[str]:
    """The comments and the strings of a Python file; the whole text of another file."""
    text = path.read_text()
    if path.suffix != ".py":
        yield text
        return
    for _, token in strings_and_comments(text):
        if token.startswith("#") or '"""' in token:
            yield token


def exists(cited: str) -> bool:
    """Whether there is such a module, package or file, or such a name in a module."""
    cited = re.sub(r"^relayvm[./]", "", cited)
    path, _, ending = cited.rpartition(".")
    if "/" in cited and (ending in ENDINGS or not path):
        return (ROOT / cited).exists() or (not path and (ROOT / f"{cited}.py").exists())
    place, *names = cited.replace("/", ".").split(".")
    here = ROOT / place
    for i, name in enumerate(names):
        if (here / name).is_dir():
            here /= name
            continue
        module = here / f"{name}.py" if (here / f"{name}.py").exists() else here / "__init__.py"
        rest = names[i + 1 :] if module.stem == name else names[i:]
        return module.exists() and all(re.search(rf"\b{word}\b", module.read_text()) for word in rest)
    return True


def missing(path: Path) -> list[str]:
    """The modules that a file cites and that do not exist."""
    found = {match.group().rstrip(".") for text in prose_of(path) for match in CITED.finditer(text)}
    return sorted(cited for cited in found if not exists(cited))


def test_each_cited_module_exists() -> None:
    sources = [p for layer in LAYERS for p in (ROOT / layer).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT)): missing(path) for path in [*sources, *ROOT.glob("*.py"), *(ROOT / p for p in pages(ROOT))]
    }
    found.pop("tests/test_cited_modules.py")
    assert {path: cited for path, cited in found.items() if cited} == {}


def test_a_module_that_is_gone_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""See ops.native.status, ops.native.libraries and vm/isa.py; relayvm/vm/options.py."""\n'
        "# ops/kernels/conv, ops/kernels/gone, vm.run, vm.values.dlpack.as_array, vm.values.dlpack.gone\nx = 'vm.no.string'\n"
    )
    assert missing(path) == ["ops.native.libraries", "ops/kernels/gone", "vm.values.dlpack.gone", "vm/isa.py"]
