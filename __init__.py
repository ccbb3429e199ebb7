"""relayvm: compile and run tensor programs whose shapes are known only at run time.

    import relayvm as relay

    mod = relay.parse(text)                      # or build one: relay.var, relay.Function, relay.nn.dense, ...
    exe = relay.compile(mod, target="cpu")       # an Executable: data, saved and loaded as one file
    vm = relay.VirtualMachine(exe)
    result = vm.run(x, y)                        # numpy or DLPack in, relay.Tensor out

Every operator is a function here, at Relay's path: ``relay.add``, ``relay.nn.dense``, ``relay.vision.non_max_suppression``.
"""

from __future__ import annotations

import re as _re
from functools import partial as _partial
from importlib import import_module as _import_module
from pkgutil import get_data as _get_data
from typing import Any as _AnyValue

from . import vm

__version__ = "0.2.0"

#: Relay's modules, such as ``relayvm.transform``.  Where the package is installed, they are beside this file (see ``setup.py``).
__path__.append(f"{__path__[0]}/relay_modules")

#: Names that are other objects here than for type checkers: these take what people write: lists, numbers, names with or
#: without @.
_CONSTRUCTORS = dict.fromkeys(
    (
        "Call", "Constant", "FuncType", "Function", "GlobalVar", "If", "IRModule", "Let", "TensorType", "Tuple", "TupleGetItem",
        "TupleType", "Var",
    ),
    ".compiler.builder.constructors",
)  # fmt: skip


def _declared() -> tuple[dict[str, tuple[str, str]], list[str]]:
    """The public names of ``__init__.pyi``, each with its module and its name there ("": the module itself), and ``__all__``.

    A name is imported at its first use: a program that loads an executable needs no parser, and a message no operator.
    """
    stub = _get_data(__name__, "__init__.pyi")
    assert stub is not None
    text = stub.decode()
    modules = {}
    for module, group, line in _re.findall(r"^from (\S+) import (?:\(([^)]*)\)|(.*))$", text, _re.MULTILINE):
        for item in filter(None, _re.split(r",\s*", (group or line).strip())):
            name, _, alias = item.partition(" as ")
            modules[alias or name] = (f".{name}", "") if module == "." else (module, name)
    modules |= {name: (module, name) for name, module in _CONSTRUCTORS.items()}
    public = _re.findall(r'"(\w+)"', text[text.index("__all__ =") :])
    return modules, public


_MODULES, __all__ = _declared()

#: The names of ``relay.vm``, likewise.
_VM_LATE = {
    "Executable": (".vm.api.executable", "Executable"),
    "VMCompiler": (".compiler.executors.vm_compiler", "VMCompiler"),
    "VMExecutor": (".compiler.executors.create_executor", "VMExecutor"),
    "VirtualMachine": (".vm.api.machine", "VirtualMachine"),
    "compile": (".compiler.executors.vm_compiler", "compile"),
}


def _imported(module: str, attribute: str) -> _AnyValue:
    found = _import_module(module, __name__)
    return getattr(found, attribute) if attribute else found


def _operators() -> _AnyValue:
    """Every operator, and the functions that build several calls."""
    _import_module(".compiler.builder.compositions", __name__)
    return _imported(".compiler.builder.operator_functions", "operators")


vm.PUBLIC.update({_name: _partial(_imported, *_place) for _name, _place in _VM_LATE.items()})


def __getattr__(name: str) -> _AnyValue:
    """The operator, or group of operators, called ``name``.  Raises AttributeError that suggests near names."""
    if name in _MODULES:
        globals()[name] = _imported(*_MODULES[name])
        return globals()[name]
    return getattr(_operators(), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_operators())})
