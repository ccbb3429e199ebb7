"""``relay.backend.interpreter``: Relay's names of the executor ``debug`` and of its values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...vm.diagnostics.argument_errors import a_count, wrong
from ...vm.values.adt import ADT
from ..builder.constructors import ConstructorOfNodes
from ..evaluation.debug_values import RefValue as RefValue
from ..ir import expr as ir
from .create_executor import DebugExecutor as Interpreter
from .create_executor import Executor as Executor

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue"]


class ConstructorValue(metaclass=ConstructorOfNodes):
    """``ConstructorValue(constructor.tag, fields, constructor)``: a ``relay.ADT``.  Raises ArgumentError."""

    node = ADT

    @staticmethod
    def make(tag: int, fields: Iterable[Any], constructor: ir.Constructor) -> ADT:
        if not isinstance(constructor, ir.Constructor):
            help = 'relay.ADT("Cons", fields) names the constructor'
            raise wrong("ConstructorValue: the constructor", "a relay.Constructor", constructor, help)
        return ADT(constructor.name_hint, fields, a_count(tag, "ConstructorValue: the tag"))
