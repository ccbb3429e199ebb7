"""Child processes that have the packages of some extras only: all other installed packages are hidden from them."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]

#: The start of each Python process: neither modules nor metadata of hidden packages are found.
_START = """
import sys
from importlib.machinery import PathFinder

MODULES, PACKAGES = {modules!r}, {packages!r}

class Shown(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MODULES else PathFinder.find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, *arguments):
        for found in PathFinder.find_distributions(*arguments):
            if found.metadata["Name"].lower().replace("_", "-") not in PACKAGES:
                yield found

sys.meta_path[:] = [Shown if finder is PathFinder else finder for finder in sys.meta_path]
"""


def extras_of(text: str) -> set[str]:
    """The extras that a text names: ``relayvm[serve,onnx]``, ``"$RELAYVM[serve]"``, or (extra ``onnx``)."""
    named = [
        name for group in re.findall(r"(?:relayvm|\$RELAYVM)\[([\w, ]+)\]", text, re.IGNORECASE) for name in group.split(",")
    ]
    return {name.strip() for name in [*named, *re.findall(r"extra `(\w+)`", text)]}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def _requirements(package: str) -> tuple[Requirement, ...]:
    try:
        return tuple(map(Requirement, importlib.metadata.requires(package) or []))
    except importlib.metadata.PackageNotFoundError:
        return ()


@functools.cache
def _declared() -> dict[str, tuple[Requirement, ...]]:
    """The requirements of relayvm by extra, "" for all, as setup.cfg declares them."""
    from configparser import ConfigParser

    parser = ConfigParser(comment_prefixes=("#",), inline_comment_prefixes=None)
    parser.read(ROOT / "setup.cfg")
    texts = {"": parser["options"]["install_requires"], **parser["options.extras_require"]}
    return {extra: tuple(map(Requirement, filter(None, text.splitlines()))) for extra, text in texts.items()}


def packages_of(extras: Iterable[str]) -> set[str]:
    """The packages that an installation of relayvm with these extras has, itself included.  Raises KeyError."""
    declared = _declared()
    todo = [requirement for extra in ["", *extras] for requirement in declared[extra]]
    found, seen = {"relayvm", "pip", "setuptools"}, set[tuple[str, frozenset[str]]]()
    while todo:
        requirement = todo.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name, chosen = _normal(requirement.name), frozenset(requirement.extras)
        if (name, chosen) in seen:
            continue
        seen.add((name, chosen))
        found.add(name)
        if name == "relayvm":
            todo += [r for extra in chosen for r in declared[extra]]
            continue
        for each in _requirements(name):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ["", *chosen]):
                each.marker = None
                todo.append(each)
    return found


@functools.cache
def _installed() -> tuple[set[str], dict[str, list[str]]]:
    """The installed packages, and the packages of each module."""
    packages = {_normal(found.metadata["Name"]) for found in importlib.metadata.distributions()}
    return packages, dict(importlib.metadata.packages_distributions())


def hidden(extras: Iterable[str]) -> tuple[set[str], set[str]]:
    """The modules and packages of this environment that relayvm with these extras does not have."""
    kept = packages_of(extras)
    installed, owners = _installed()
    packages = installed - kept
    modules = {module for module, names in owners.items() if not {_normal(n) for n in names} & kept}
    return modules - {"relayvm"}, packages


def environment_with(extras: Iterable[str], folder: Path, hide: Iterable[str] = ()) -> dict[str, str]:
    """The environment variables of a process with these extras; a file in ``folder`` hides the rest.

    ``hide``: modules, which are packages of the same names, to hide besides.
    """
    modules, packages = hidden(extras)
    start = folder / "start"
    start.mkdir(exist_ok=True)
    (start / "sitecustomize.py").write_text(_START.format(modules=modules | set(hide), packages=packages | set(hide)))
    paths = [str(start), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
