"""The installed files are the files on disk, once, under one name."""

from __future__ import annotations

import configparser
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

import relayvm
from relayvm.compiler.commands.cli import command

from .extras import extras_of

ROOT = Path(__file__).resolve().parents[1]
RELAY_MODULES = sorted((ROOT / "relay_modules").glob("*.py"))
LAYERS = sorted(init.parent.name for init in ROOT.glob("*/__init__.py"))


def setup_cfg() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def package_folders() -> set[Path]:
    """The root, and every folder of a layer that holds something besides caches."""
    inside = (f for layer in LAYERS for f in (ROOT / layer).rglob("*") if f.is_file() and f.suffix != ".pyc")
    return {ROOT} | {f.parent for f in inside}


def dotted(folder: Path) -> str:
    return ".".join(["relayvm", *folder.relative_to(ROOT).parts])


def test_packages_lists_every_folder() -> None:
    listed = setup_cfg()["options"]["packages"].split()
    assert sorted(listed) == sorted(map(dotted, package_folders()))
    for folder in package_folders():
        assert (folder / "__init__.py").exists(), f"{folder} has no __init__.py"


def test_every_data_file_of_a_package_is_installed() -> None:
    patterns = {name: value.split() for name, value in setup_cfg()["options.package_data"].items()}
    data = [
        f for folder in package_folders() - {ROOT} for f in folder.iterdir() if f.is_file() and f.suffix not in (".py", ".pyc")
    ]
    for file in [*data, ROOT / "py.typed"]:
        assert file.exists(), f"{file} is missing"
        wanted = patterns.get(dotted(file.parent), [])
        assert any(fnmatch(file.name, p) for p in wanted), f"{file.relative_to(ROOT)} is in no package_data"
    for name, wanted in patterns.items():
        folder = ROOT.joinpath(*name.split(".")[1:])
        for pattern in wanted:
            assert list(folder.glob(pattern)), f"package_data of {name}: nothing matches {pattern}"


def test_the_root_has_few_files() -> None:
    """Python, setuptools and type checkers look for them there."""
    assert sorted(f.name for f in ROOT.glob("*.py*") if f.suffix in (".py", ".pyi")) == [
        "__init__.py", "__init__.pyi", "__main__.py", "setup.py",
    ]  # fmt: skip


def test_the_built_package_has_relays_modules_beside_its_folders(tmp_path: Path) -> None:
    """Each file of the checkout is in the package, and an import finds Relay's modules in the package alone."""
    built = tmp_path / "built" / "relayvm"
    folders = ["--build-base", str(tmp_path / "base"), "--build-lib", str(built.parent)]
    # not as a script, as pip runs it: setuptools leaves out the script itself
    command = [sys.executable, "-c", 'exec(open("setup.py").read())', "--quiet", "build", *folders]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    names = {f.name for f in built.glob("*.py")}
    assert names == {"__init__.py", "__main__.py", *(f.name for f in RELAY_MODULES)} and (built / "__init__.pyi").exists()
    layers = {f.relative_to(ROOT) for layer in LAYERS for f in (ROOT / layer).rglob("*.py")}
    assert {f.relative_to(built) for f in built.rglob("*/*.py")} == layers
    modules = [f"relayvm.{f.stem}" for f in RELAY_MODULES]
    program = f"import pickle, {', '.join(modules)}; from relayvm.transform import InferType; import relayvm as relay\n"
    program += "assert pickle.loads(pickle.dumps(relay.ty.TypeKind)) is relay.ty.TypeKind; print(relay.transform.__file__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=alone(built.parent))
    assert done.stdout.strip() == str(built / "transform.py"), done.stderr


def alone(folder: Path) -> dict[str, str]:
    """The environment of a process that imports from ``folder`` first."""
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_no_module_bears_a_name_of_the_standard_library() -> None:
    inside = [f for folder in package_folders() for f in folder.glob("*.py") if not f.stem.startswith("__")]
    files = [*inside, *RELAY_MODULES]
    names = [*files, *(package_folders() - {ROOT})]
    assert not [str(f.relative_to(ROOT)) for f in names if f.stem in sys.stdlib_module_names]


def test_no_module_is_loaded_under_two_names() -> None:
    for module in pkgutil.walk_packages(relayvm.__path__, "relayvm."):
        ours = module.name.split(".")[1] in LAYERS  # next to examples, benchmarks and tests
        if ours:
            importlib.import_module(module.name)
    names = defaultdict(set)
    for module in sys.modules.copy().values():  # one may stand there at two paths, as ``relayvm.backend.vm``
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(ROOT) and not Path(file).is_relative_to(ROOT / ".venv"):
            names[file].add(module.__name__)
    assert len(names) > 10
    twice = {file: sorted(n) for file, n in names.items() if len(n) > 1}
    assert not twice
    package = {file: n for file, n in names.items() if Path(file).relative_to(ROOT).parts[0] in LAYERS}
    assert all(name.startswith("relayvm.") for n in package.values() for name in n)


def test_the_command_exists() -> None:
    (script,) = entry_points(group="console_scripts", name="relayvm")
    assert callable(script.load())


def test_pytest_collects_tests_only() -> None:
    settings = setup_cfg()["tool:pytest"]
    assert settings["testpaths"] == "tests"
    assert "--confcutdir=tests" in settings["addopts"].split()
    assert not (ROOT / "conftest.py").exists(), "a root conftest.py makes pytest import the package twice"


#: The errors of mypy that the package ignores, mostly because numba, numpy or ctypes cannot be typed there.
IGNORED_TYPE_ERRORS = 33


def test_few_type_errors_are_ignored() -> None:
    sources = [
        *ROOT.glob("*.py"),
        *RELAY_MODULES,
        *(f for layer in LAYERS if layer != "tests" for f in (ROOT / layer).rglob("*.py")),
    ]
    product = [f for f in sources if f.relative_to(ROOT).parts[0] not in ("benchmarks", "examples", "tests")]
    ignored = [f"{f.relative_to(ROOT)}:{n}" for f in product for n, line in enumerate(f.open(), 1) if "# type: ignore" in line]
    assert len(ignored) <= IGNORED_TYPE_ERRORS, f"{len(ignored)} ignored errors: {', '.join(ignored)}"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("use", "absent"),
    [
        ("relayvm", ["numpy", "relayvm.ops", "relayvm.compiler"]),
        ("relayvm.ParseError", ["relayvm.compiler"]),
        ("relayvm.Executable, relayvm.VirtualMachine", ["relayvm.compiler", "numba", "llvmlite", "scipy", "rich"]),
        ("relayvm.parse, relayvm.compile", ["relayvm.compiler.comparison", "relayvm.compiler.commands", "numba", "llvmlite"]),
    ],
)
def test_a_name_is_imported_at_its_first_use(use: str, absent: list[str]) -> None:
    program = f"import relayvm, sys; {use}; print([m for m in {absent} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "[]\n"


# ---- metadata and distributions ----------------------------------------------------------------------------------------------


def test_the_metadata_have_what_an_index_shows() -> None:
    metadata = setup_cfg()["metadata"]
    assert metadata["version"] == "attr: relayvm.__version__", "the version stands in __init__.py alone"
    assert f"\n## {relayvm.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"Python :: (3\.\d+)$", metadata["classifiers"], re.MULTILINE)
    (first,) = re.findall(r">=(3\.\d+)", setup_cfg()["options"]["python_requires"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert versions[0] == first and f"Python {first} to {versions[-1]}." in readme


def test_each_extra_that_a_text_names_exists() -> None:
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "Dockerfile"]
    texts += [f for layer in LAYERS for f in (ROOT / layer).rglob("*.py")]
    named = {extra for text in texts for extra in extras_of(text.read_text(encoding="utf-8"))}
    assert {"onnx", "serve", "cuda13"} <= named <= {*setup_cfg()["options.extras_require"]}


def test_the_commands_of_the_dockerfile_exist() -> None:
    text = (ROOT / "examples" / "Dockerfile").read_text(encoding="utf-8")
    found = set(re.findall(r'^[^#\n]*\brelayvm(?: |", ")([a-z]+)(?: (install|import))?', text, re.MULTILINE))
    assert {("cache", "install"), ("cache", "import"), ("serve", "")} <= found
    for name, inner in found - {("", "")}:
        words = [name, inner] if inner else [name]
        assert CliRunner().invoke(command, [*words, "--help"]).exit_code == 0, words
