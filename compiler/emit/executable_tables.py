"""Tables of an executable under construction: each constant, kernel, shape function, reason and source once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ...ops.core.adt_types import AdtDefinition, TypeCall, type_parts
from ...ops.core.copy_reason import CopyReason
from ...ops.core.tensor_types import Type
from ...shape_funcs.symbolic.program import ShapeProgram
from ...vm.bytecode.executable import PackedFunc, VMFunction
from ...vm.device_table import DEVICES
from ...vm.diagnostics.python_source import Brief, PythonSource
from ...vm.diagnostics.source import Span
from ..ir.expr import IRModule
from ..ir.lowering_context import LoweringContext
from ..ir.primitive import BECAUSE
from ..ir.primitive_shape import primitive

#: Elements of constants up to this size are compared.
COMPARED_BYTES = 1 << 20


class Table:
    """Items by number, each once per key."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, make: Callable[[], Any]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.items)
            self.items.append(make())
        return self._numbers[key]


def _constant_key(data: np.ndarray) -> Hashable:
    """Equal for equal constants; for a large one, which may be a mapped file that nobody has read, only for the same memory."""
    same = data.tobytes() if data.nbytes <= COMPARED_BYTES else (data.ctypes.data, data.strides)
    return data.dtype.name, data.shape, same


class Tables:
    """The tables of the executable under construction."""

    def __init__(self, mod: IRModule, context: LoweringContext) -> None:
        self.mod, self.context = mod, context
        names = [name for name, f in mod.functions.items() if not f.is_primitive]
        self.functions = {name: i for i, name in enumerate(names)}
        self.constants, self.packed, self.shape_funcs = Table(), Table(), Table()
        self.reasons, self.sources = Table(), Table()
        self.briefs: dict[PythonSource, Brief] = {}
        self.host_fields: dict[tuple[str, str], tuple[int, ...]] = {}

    # each method returns the item's number, and creates a new item

    def constant(self, data: np.ndarray) -> int:
        return self.constants.number(_constant_key(data), lambda: data.view(np.ndarray))

    def kernel(self, name: str, n_inputs: int, n_outputs: int, workspace: bool) -> int:
        def make() -> PackedFunc:
            group = replace(primitive(self.mod[name], self.context).group, workspace=workspace)
            device = self.mod[name].attrs.get("device", self.context.target)
            because = self.mod[name].attrs.get(BECAUSE, "")
            return PackedFunc(group, DEVICES.index(device), n_inputs, n_outputs, because)

        return self.packed.number(name, make)

    def shape_func(self, name: str) -> int:
        prim = primitive(self.mod[name], self.context)
        return self.shape_funcs.number((prim.shape.program, name), lambda: (prim.shape.program, name))

    def assertion(self, program: ShapeProgram, name: str) -> int:
        return self.shape_funcs.number((program, name), lambda: (program, name))

    def reason(self, reason: CopyReason) -> int:
        return self.reasons.number(reason, lambda: reason)

    def tag(self, ty: Type | None, constructor: str) -> int:
        """The number of a constructor of an ADT's type."""
        assert isinstance(ty, TypeCall), ty
        return next(c.tag for c in self.mod.type_definitions[ty.func.name].constructors if c.name_hint == constructor)

    def adts(self, functions: Iterable[VMFunction]) -> tuple[AdtDefinition, ...]:
        """The definitions of the types in the functions' signatures, and of the types that those mention."""
        waiting: list[Type] = [t for f in functions for t in (*(ty for _, ty in f.params), f.result)]
        found: dict[str, AdtDefinition] = {}
        while waiting:
            ty = waiting.pop()
            waiting += type_parts(ty)
            if isinstance(ty, TypeCall) and ty.func.name not in found:
                data = self.mod.type_definitions[ty.func.name]
                constructors = tuple((c.name_hint, c.inputs) for c in data.constructors)
                found[ty.func.name] = AdtDefinition(ty.func.name, data.type_vars, constructors)
                waiting += [t for c in data.constructors for t in c.inputs]
        return tuple(found[name] for name in sorted(found))

    def place(self, span: Span) -> tuple[int, int, int]:
        """The number of the span's source, and its start and end there; of a Python file only the lines with nodes are kept."""
        source = span.source
        if not isinstance(source, PythonSource):
            return self.sources.number(source, lambda: source), span.start, span.end
        if source not in self.briefs:
            self.briefs[source] = source.brief()
        brief = self.briefs[source]
        start, end = brief.moved(span.start), brief.moved(span.end)
        return self.sources.number(brief.kept, lambda: brief.kept), start, end
