"""The public names of Relay's last version, read from ``relay_names.txt``."""

from __future__ import annotations

import ast
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("relay_names.txt")


@dataclass(frozen=True)
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
    names, namespace = [], ""
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            namespace = line.strip("[]")
        elif line and not line.startswith("#"):
            name, opened, _ = line.partition("(")
            names.append(RelayName(namespace, name, _parameters(line) if opened else None))
    return tuple(names)


def _parameters(line: str) -> dict[str, Any]:
    (function,) = ast.parse(f"def {line}: ...").body
    assert isinstance(function, ast.FunctionDef)
    found = [argument.arg for argument in function.args.args]
    defaults = [ast.literal_eval(value) for value in function.args.defaults]
    required = [inspect.Parameter.empty] * (len(found) - len(defaults))
    return dict(zip(found, [*required, *defaults], strict=True))
