"""Programs after the memory plan."""

from __future__ import annotations

from typing import Any

from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.lowering.pipeline import stages
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse

from ...programs import with_header


def planned(text: str, target: str = "cpu", **config: Any) -> IRModule:
    """The program after ``plan_memory``; the first line may be missing."""
    return stages(parse(with_header(text)), Config.of(**config), target)["planned"]
