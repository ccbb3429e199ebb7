"""The list of public Python names in docs/python.md: signatures and first sentences of docstrings, grouped by their modules."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from .generated_part import with_part

PAGE = "docs/python.md"
ERRORS, MODULES = "Errors", "Modules"
#: The groups: title, and the modules whose names they have, from the package's root.
GROUPS = {
    "Compile and run": (
        "compiler.compile",
        "compiler.executors",
        "vm.api",
        "vm.bytecode",
        "vm.devices",
        "vm.thread_count",
        "vm.values",
    ),
    "Profile and compare": ("compiler.comparison", "compiler.shown_program", "vm.report"),
    "Text": ("compiler.text",),
    "Build programs": ("compiler.builder", "compiler.ir", "ops.core.adt_types", "ops.core.tensor_types"),
    "Analyse and rewrite": ("compiler.analysis", "compiler.transform"),
    "Custom operators": ("ops.registration.custom_op", "shape_funcs"),
    ERRORS: ("vm.diagnostics",),
}
#: The classes whose methods and properties are listed.
WITH_MEMBERS = ("VirtualMachine", "Executable", "Tensor", "Profile", "Comparison")
#: Characters of the longest default that is shown.
_LONGEST = 24


def python_markdown() -> str:
    """The page with the list of this version."""
    return with_part(PAGE, "names", "\n".join(_lines()) + "\n")


def public_names() -> dict[str, str]:
    """Each public name of the package with its group."""
    package = _package()
    return {name: _group(getattr(package, name), package.__name__) for name in package.__all__}


def _package() -> Any:
    assert __package__
    return import_module(__package__.partition(".")[0])


def _group(found: Any, root: str) -> str:
    if isinstance(found, ModuleType):
        return MODULES
    if isinstance(found, type) and issubclass(found, BaseException):
        return ERRORS
    module = found.__module__.removeprefix(f"{root}.")
    fitting = [(len(prefix), title) for title, prefixes in GROUPS.items() for prefix in prefixes if module.startswith(prefix)]
    assert fitting, f"{found!r} of {module} has no group"
    return max(fitting)[1]


def _lines() -> Iterator[str]:
    package, groups = _package(), public_names()
    for title in (*GROUPS, MODULES):
        yield from (f"### {title}", "", "| name | meaning |", "|---|---|")
        for name in sorted((n for n, group in groups.items() if group == title), key=str.lower):
            yield _row(name, getattr(package, name))
        yield ""
    for name in WITH_MEMBERS:
        yield from (f"### Members of `{name}`", "", "| name | meaning |", "|---|---|")
        for member, found in inspect.getmembers(getattr(package, name)):
            if not member.startswith("_") and first_sentence(found) and (callable(found) or isinstance(found, property)):
                yield _row(member, found)
        yield ""


def _row(name: str, found: Any) -> str:
    return f"| `{name}{_parameters(found)}` | {first_sentence(found).replace('|', chr(92) + '|')} |"


def _parameters(found: Any) -> str:
    """The parameters of a function with their defaults; "" for what users do not call, and where the docstring shows the call."""
    is_data = isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, (BaseException, enum.Enum)))
    if is_data or isinstance(found, (ModuleType, property)):
        return ""
    parameters = list(inspect.signature(found).parameters.values())
    if {p.kind for p in parameters} == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return ""
    shown = [p.replace(annotation=inspect.Parameter.empty, default=_shown(p.default)) for p in parameters if p.name != "self"]
    return str(inspect.Signature(shown))


def _shown(default: Any) -> Any:
    """A default as the list shows it: ``...`` for objects without a literal, and for long ones."""
    text = repr(default)
    return default if default is inspect.Parameter.empty or (len(text) <= _LONGEST and text[0] != "<") else _Omitted()


class _Omitted:
    def __repr__(self) -> str:
        return "..."


def first_sentence(found: Any) -> str:
    """The first sentence of a docstring as Markdown; "" if there is none."""
    if isinstance(found, (str, bytes, int, float, tuple)):
        return ""
    paragraph = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) ", paragraph)[0].removesuffix(":").replace("``", "`")
