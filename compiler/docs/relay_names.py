"""Facts of Relay's last version: its public names (``relay_names.txt``) and its operators (``relay_operators.txt``)."""

from __future__ import annotations

import ast
import functools
import inspect
from pathlib import Path
from typing import Any

from ...declarations.frozen_dataclass import frozen


@frozen
class RelayName:
    """A name of ``namespace``; ``parameters``: of a function that builds operators, with their defaults, else None."""

    namespace: str
    name: str
    parameters: dict[str, Any] | None

    @property
    def path(self) -> str:
        """``relay.nn.dense``."""
        return f"{self.namespace}.{self.name}"


@functools.cache
def relay_names() -> tuple[RelayName, ...]:
    """Every name, in the order of the file.  A parameter without a default has ``inspect.Parameter.empty``."""
    return tuple(
        RelayName(namespace, line.partition("(")[0], _parameters(line) if "(" in line else None)
        for namespace, lines in _sections("relay_names.txt").items()
        for line in lines
    )


@functools.cache
def relay_operators() -> dict[str, list[str]]:
    """The operators of Relay's text format: with a shape function, without, and those that need none."""
    return {title: " ".join(lines).split() for title, lines in _sections("relay_operators.txt").items()}


def without_shape_function() -> list[str]:
    """Relay's operators that were not compiled for unknown sizes, since they had no shape function."""
    return relay_operators()["without a shape function"]


def _sections(file: str) -> dict[str, list[str]]:
    """The lines below each heading ``[...]``, without comments."""
    sections: dict[str, list[str]] = {}
    title = ""
    for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            title = line.strip("[]")
        elif line and not line.startswith("#"):
            sections.setdefault(title, []).append(line)
    return sections


def _parameters(line: str) -> dict[str, Any]:
    (function,) = ast.parse(f"def {line}: ...").body
    assert isinstance(function, ast.FunctionDef)
    found = [argument.arg for argument in function.args.args]
    defaults = [ast.literal_eval(value) for value in function.args.defaults]
    required = [inspect.Parameter.empty] * (len(found) - len(defaults))
    return dict(zip(found, [*required, *defaults], strict=True))
