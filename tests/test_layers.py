"""The import rules, checked on the syntax trees: directions of imports, and modules that may be imported, and when."""

from __future__ import annotations

import ast
import configparser
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from .syntax_trees import statements

ROOT = Path(__file__).resolve().parents[1]
#: A folder imports itself and those to its left.
LAYERS = ("declarations", "shape_funcs", "ops", "vm", "compiler", "serving", "cluster")

#: Imports to the right: the command line starts the server.
TO_THE_RIGHT = {("compiler/commands/cli.py", "serving")}

#: Packages that cost start-up time or may be absent: the files that may import them (a folder ends in "/").
NAMED_FILES = {
    "lark": ("compiler/text/grammar_tables.py",),
    "numba": ("ops/native/front_end/numba_functions.py",),
    "llvmlite": ("ops/native/", "vm/fast_path/c_api.py"),
    "scipy": ("ops/native/blas/blas_sources.py", "compiler/comparison/significance.py"),
    "ml_dtypes": ("ops/core/tensor_types.py",),
    "cupy": ("ops/codegen/cuda/device_code/nvrtc.py", "vm/devices/cuda/"),
    "onnx": ("compiler/executors/onnx_backend.py", "compiler/onnx_frontend/", "compiler/comparison/against/"),
    "google": ("compiler/onnx_frontend/importing/reading.py", "serving/protocol/messages.py"),
    "starlette": ("serving/rest.py",),
    "uvicorn": ("serving/server.py", "serving/watched.py"),
    "grpc": ("serving/grpc_server.py",),
    "fast_sugiyama": ("vm/report/graph/layout.py",),
    "prometheus_client": ("serving/metrics.py",),
    "ray": ("cluster/",),
    "torch": ("compiler/torch_frontend/",),
}
#: Those that no file imports at module level, because importing relayvm must stay fast: ...
LAZY = ("numba", "llvmlite", "scipy", "cupy", "ml_dtypes")
#: ... except these, which are themselves imported only inside functions (``test_importing_relayvm_...`` holds them to it).
LAZY_FILES = ("ops/native/front_end/",)


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
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, lazy = todo.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(0, alias.name, node.lineno, not lazy)
        elif isinstance(node, ast.ImportFrom) and node.module is None:
            for alias in node.names:  # from .. import ops
                yield Import(node.level, alias.name, node.lineno, not lazy)
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.level, node.module, node.lineno, not lazy)
        elif not isinstance(node, ast.expr):  # which has no import
            test = getattr(node, "test", None)
            typing_only = "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))
            inner_lazy = lazy or typing_only or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            todo += [(inner, inner_lazy) for inner in reversed(list(ast.iter_child_nodes(node)))]


@functools.cache
def parsed(text: str) -> ast.Module:
    """The syntax tree of a file, which several rules walk."""
    return ast.parse(text)


def source_files(root: Path) -> list[Path]:
    """The package's own files: the root's, Relay's modules and the layers'."""
    return sorted([*root.glob("__*.py"), *(f for folder in ("relay_modules", *LAYERS) for f in (root / folder).rglob("*.py"))])


def place(file: Path) -> str:
    """The path of a file in the package, in which Relay's modules are beside the layers."""
    return file.relative_to(ROOT).as_posix().removeprefix("relay_modules/")


def broken_rules(path: str, text: str) -> list[str]:
    """Violations of the rules by the file at ``path`` (relative to the root), one line each."""
    bad = []
    parts = path.split("/")
    layer = parts[0] if len(parts) > 1 else None
    for i in imports(parsed(text)):
        place = f"{path}:{i.line}"
        if i.level == 0:
            if i.top == "relayvm" or i.top in LAYERS:
                bad.append(f"{place}: import {i.name} relatively")
            if i.top in NAMED_FILES and not path.startswith(NAMED_FILES[i.top] or "-"):
                bad.append(f"{place}: {i.top} is imported only in {', '.join(NAMED_FILES[i.top]) or 'no file'}")
            if i.top in LAZY and i.at_module_level and not path.startswith(LAZY_FILES):
                bad.append(f"{place}: import {i.top} inside the function that needs it")
        elif layer is not None:
            if i.level > len(parts):
                bad.append(f"{place}: {'.' * i.level}{i.name} is above the package")
                continue
            target = [*parts[: len(parts) - i.level], *i.name.split(".")][0]
            if target not in LAYERS:
                bad.append(f"{place}: a layer does not import the root's {target}")
            elif LAYERS.index(target) > LAYERS.index(layer) and (path, target) not in TO_THE_RIGHT:
                bad.append(f"{place}: {layer} may not import {target}")
    return bad


def test_imports_point_left() -> None:
    files = source_files(ROOT)
    assert len(files) > 10
    bad = [line for f in files for line in broken_rules(place(f), f.read_text())]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("vm/a.py", "from ..compiler import ir", "vm/a.py:1: vm may not import compiler"),
        ("compiler/commands/a.py", "from ...serving import app", "compiler/commands/a.py:1: compiler may not import serving"),
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
            "compiler/text/printer.py:2: lark is imported only in compiler/text/grammar_tables.py",
        ),
        (
            "vm/a.py",
            "def f():\n    import cupy.cuda",
            "vm/a.py:2: cupy is imported only in ops/codegen/cuda/device_code/nvrtc.py, vm/devices/cuda/",
        ),
        ("ops/native/a.py", "import llvmlite.ir", "ops/native/a.py:1: import llvmlite inside the function that needs it"),
        (
            "ops/native/a.py",
            "class A:\n    import llvmlite",
            "ops/native/a.py:2: import llvmlite inside the function that needs it",
        ),
    ],
)
def test_a_broken_rule_is_found(path: str, text: str, complaint: str) -> None:
    assert broken_rules(path, text) == [complaint]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("compiler/a.py", "from ..vm import isa\nfrom ..shape_funcs.dims import Dim\nfrom .passes import x\nfrom . import ir"),
        ("compiler/passes/a.py", "from ..ir import Expr\nfrom ...ops.op import Op"),
        ("ops/native/a.py", "def f():\n    import llvmlite.binding\n    from llvmlite import ir"),
        ("ops/native/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import llvmlite"),
        ("ops/native/front_end/a.py", "from llvmlite import ir"),
        ("__init__.py", "from .compiler.ir import IRModule\nfrom .vm import isa"),
    ],
)
def test_what_is_allowed_is_not_complained_about(path: str, text: str) -> None:
    assert broken_rules(path, text) == []


def module_name(path: str) -> str:
    """The dotted name of a file at ``path``, relative to the root; "" for the package itself."""
    return ".".join(part for part in path.removesuffix(".py").split("/") if part != "__init__")


def import_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports, by path and text: at module level, inside functions, for type checkers only."""
    names = {module_name(path) for path in texts}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for path, text in texts.items():
        name, parts = module_name(path), path.split("/")
        for node in statements(parsed(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                source = ".".join([*parts[: len(parts) - node.level], *(node.module.split(".") if node.module else [])])
                targets = {f"{source}.{alias.name}".lstrip(".") for alias in node.names}
                graph[name] |= {target if target in names else source for target in targets} & names - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components with more than one module."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        reached[start], todo = set(), [start]
        while todo:
            new = graph[todo.pop()] - reached[start]
            reached[start] |= new
            todo += new
    components = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph}
    return {component for component in components if len(component) > 1}


def folder_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The folders that the modules of each folder import.

    A folder is its own modules, without those of its subfolders: a folder that imports a subfolder and is imported from there is
    a circle, too.  Its modules have two subjects then, one before the subfolder and one after it, and none can be read first.
    """
    folders = {module_name(path): path.rpartition("/")[0] for path in texts}
    graph: dict[str, set[str]] = {folder: set() for folder in folders.values()}
    for module, imported in import_graph(texts).items():
        graph[folders[module]] |= {folders[name] for name in imported} - {folders[module]}
    return graph


def test_a_folder_has_at_most_twenty_modules() -> None:
    buffers = [f for top in (*LAYERS, "tests", "benchmarks") for f in (ROOT / top).rglob("*") if f.is_dir()]
    counts = {f.relative_to(ROOT).as_posix(): len(list(f.glob("*.py"))) for f in buffers}
    assert {f: n for f, n in counts.items() if n > 20} == {}


def test_no_circle_of_folders() -> None:
    texts = {place(f): f.read_text() for f in source_files(ROOT)}
    graph = folder_graph({path: text for path, text in texts.items() if "/" in path})  # the root sees all layers
    assert "ops/core" in graph["ops/kernels/conv"] and "vm/bytecode" in graph["compiler/emit"]
    assert sorted(map(sorted, circles(graph))) == []


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"vm/a/x.py": "from ..b.y import y", "vm/b/y.py": "", "vm/b/z.py": "from ..a.x import x"}, {"vm/a", "vm/b"}),
        ({"vm/a/x.py": "from .b.y import y", "vm/a/z.py": "", "vm/a/b/y.py": "from ..z import z"}, {"vm/a", "vm/a/b"}),
        ({"vm/a/__init__.py": "from .b.y import y", "vm/a/z.py": "", "vm/a/b/y.py": "from ..z import z"}, {"vm/a", "vm/a/b"}),
        ({"vm/a/__init__.py": "from .b.y import y", "vm/a/b/y.py": "from ..c.z import z", "vm/a/c/z.py": ""}, set()),
    ],
)
def test_a_circle_of_folders_is_found(texts: dict[str, str], found: set[str]) -> None:
    assert circles(import_graph(texts)) == set()
    assert {folder for circle in circles(folder_graph(texts)) for folder in circle} == found


def test_no_import_circle() -> None:
    graph = import_graph({place(f): f.read_text() for f in source_files(ROOT)})
    assert "vm.bytecode.executable" in graph["vm.api.executable"] and "compiler.lowering.pipeline" in graph["compiler.lowered"]
    assert circles(graph) == set()


@pytest.mark.parametrize(
    ("b", "found"),
    [
        ("from .a import x", True),
        ("def f():\n    from . import a", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..vm.a import x", True),
        ("from .c import x", True),
        ("from .d import x\nimport a", False),
    ],
)
def test_an_import_circle_is_found(b: str, found: bool) -> None:
    texts = {"vm/__init__.py": "", "vm/a.py": "from .b import x", "vm/b.py": b, "vm/c.py": "from . import a", "vm/d.py": ""}
    modules = {name for circle in circles(import_graph(texts)) for name in circle}
    assert modules & {"vm.a", "vm.b"} == ({"vm.a", "vm.b"} if found else set())


def test_words_of_the_field_name_one_class_each() -> None:
    positions: dict[str, list[str]] = {name: [] for name in ("Kernel", "PassContext", "Scope")}
    for file in source_files(ROOT):
        for node in parsed(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name in positions:
                positions[node.name].append(place(file))
    assert positions == {
        "Kernel": ["ops/core/implementation.py"],
        "PassContext": ["compiler/transform/pass_context.py"],
        "Scope": ["compiler/onnx_frontend/scope.py"],
    }


def test_every_third_party_import_is_a_declared_dependency() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    declared = {re.split(r"[ <>=!~]", line)[0] for line in config["options"]["install_requires"].split("\n") if line}
    declared |= {"llvmlite"} if "numba" in declared else set()  # numba's own compiler, always with it
    # cupy under the names of its wheels, and cuda-pathfinder, which comes with it
    declared |= {"cupy", "cuda"} if {"cuda12", "cuda13"} <= {*config["options.extras_require"]} else set()
    # onnx under the name of its extra, and protobuf, which it requires
    declared |= {"onnx", "google"} if "onnx" in config["options.extras_require"] else set()
    # the packages of the extra serve, two of them under the names of their distributions
    serve = [re.split(r"[ <>=!~]", line)[0] for line in config["options.extras_require"]["serve"].split("\n") if line]
    declared |= {{"grpcio": "grpc", "prometheus-client": "prometheus_client"}.get(name, name) for name in serve}
    # the package of the extra show under the name of its distribution
    show = config["options.extras_require"]["show"].split()[0]
    declared |= {{"fast-sugiyama": "fast_sugiyama"}[show]}
    # torch under the name of its extra
    declared |= {"torch"} & {*config["options.extras_require"]}
    # ray under the name of its extra
    declared |= {"ray"} & {*config["options.extras_require"]}
    used = {
        i.top: f"{f.relative_to(ROOT)}:{i.line}"
        for f in source_files(ROOT)
        for i in imports(parsed(f.read_text()))
        if i.level == 0 and i.top not in sys.stdlib_module_names
    }
    missing = {name: place for name, place in used.items() if name not in declared}
    assert not missing, f"not in install_requires: {missing}"


#: Private attributes that a file reads of another file's classes, each with its reason.
FOREIGN_PRIVATE = {
    "vm/machine/argument_rows.py": {"_address"},  # a Tensor has no public address: native code reads its objects
    "vm/machine/arguments.py": {"_address", "_handle", "_to_host", "_vm"},
    "vm/machine/machine_core.py": {"_address"},
    "vm/machine/python_kernels.py": {"_address"},
    "vm/devices/cuda/interop.py": {"_address"},
    "vm/api/machine.py": {"_from_array"},  # the machine of unpickled tensors makes them
    "vm/report/completion.py": {"_exclusively", "_wait"},  # a measurement waits uncounted
    # of other packages
    "__main__.py": {"_exit", "_run_exitfuncs"},  # the end of a process without its objects' ends
    "serving/supervisor.py": {"_exit"},  # a forked process must not run its parent's exit
    "compiler/torch_frontend/importing/graph.py": {"_schema"},  # the public functions of torch give no names of arguments
    "compiler/torch_frontend/dynamo/compiled_graph.py": {"_version"},  # of a tensor: how often it was written
    "vm/fast_path/c_api.py": {"_ARRAY_API"},
    "vm/diagnostics/python_source.py": {"_getframe"},
}
#: The public methods of named tuples.
NAMED_TUPLE = {"_asdict", "_make", "_replace"}


#: A private attribute of another object than ``self``; in a file without such a text there is none.
_MAYBE_FOREIGN = re.compile(r"(?<!\bself)(?<!\bcls)\._")


def foreign_private(text: str) -> set[str]:
    """The private attributes that a file reads of objects other than ``self``, and that nothing in it defines."""
    if not _MAYBE_FOREIGN.search(text):
        return set()
    tree = parsed(text)
    defined: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                defined.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Constant(value=str(name)):  # also in __slots__
                defined.add(name)
    used = {n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr.startswith("_") and not n.attr.endswith("__")}
    return {n.attr for n in used if ast.unparse(n.value) not in ("self", "cls")} - defined - NAMED_TUPLE


def test_private_attributes_are_read_where_they_are_defined() -> None:
    found = {place(f): foreign_private(f.read_text()) for f in source_files(ROOT)}
    assert {f: names for f, names in found.items() if names} == FOREIGN_PRIVATE


def test_a_foreign_private_attribute_is_found() -> None:
    assert foreign_private("def f(machine):\n    return machine._view, machine.view, machine.__dict__") == {"_view"}
    assert foreign_private("class A:\n    def f(self, other):\n        self._x = 1\n        return other._x, self._y") == set()


def test_environment_variables_of_the_runtime_are_read_in_one_file() -> None:
    readers = {
        f.relative_to(ROOT).as_posix() for f in (ROOT / "vm").rglob("*.py") if re.search(r"environ\b|getenv", f.read_text())
    }
    assert readers == {"vm/options.py"}


def test_importing_relayvm_loads_no_compiler_backend() -> None:
    program = "import sys, relayvm; print(*sorted({m.partition('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    done = subprocess.run([sys.executable, "-c", program, *LAZY], capture_output=True, text=True, cwd=ROOT.parent)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr
