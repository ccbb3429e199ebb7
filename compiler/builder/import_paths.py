"""Modules within modules, as Relay's programs import them: ``from relayvm.op.nn import dense``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def importable(module: str, parts: Mapping[str, Any]) -> None:
    """Let the import system find ``module.name`` for each part: modules of other paths, and groups of operators."""
    sys.modules.update({f"{module}.{name}": part for name, part in parts.items()})
