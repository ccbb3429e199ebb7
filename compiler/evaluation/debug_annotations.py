"""Annotations in the evaluator: whether a value fits the type that a variable declares.

A size with a name is the same for all parameters of one call.  A type parameter stands for any type, and the value of a reference
is not looked at.  The result of a function is checked when the last call in tail position returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...ops.core.adt_types import RefType, TypeCall, substitute_types
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ...shape_funcs.symbolic.dim import Dim, const, name_of
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Span, TypeCheckError
from ...vm.values.adt import ADT
from ..ir.expr import IRModule, Var
from .debug_values import RefValue
from .operator_calls import kind_of

#: The most values whose types are remembered.
_MOST_KNOWN = 100_000


class AnnotationChecker:
    """The check of values against the annotations of a module's variables."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        #: Values of ADTs that fit a type, which cannot change, by their identity: a list is not walked for each of its cells.
        self._known: dict[tuple[int, Type], ADT] = {}

    def check(self, bound: Iterable[tuple[Var, Any]], span: Span | None) -> dict[str, int]:
        """Check the values that are bound to variables; the sizes that the annotations name.

        Raises TypeCheckError for a value that does not fit an annotation.
        """
        sizes: dict[str, int] = {}
        for var, value in bound:
            if var.annotation is not None:
                misfit = self._misfit(value, var.annotation, sizes)
                if misfit is not None:
                    part, ty = misfit
                    where = "" if part is value else f" {var.annotation}: a part of it must be"
                    message = f"%{var.name} must be{where} {ty}, not {kind_of(part)}"
                    raise TypeCheckError(message, var.span or span, code=codes.Type.MISMATCH)
        return sizes

    def check_result(self, value: Any, ty: Type, sizes: dict[str, int], span: Span | None) -> None:
        """Check the result of a call, for arguments with these sizes.  Raises TypeCheckError for one that does not fit."""
        misfit = self._misfit(value, ty, dict(sizes))
        if misfit is not None:
            part, wanted = misfit
            where = "" if part is value else f" {ty}: a part of it must be"
            message = f"the result of the function must be{where} {wanted}, not {kind_of(part)}"
            raise TypeCheckError(message, span, code=codes.Type.MISMATCH)

    def _misfit(self, value: Any, ty: Type, sizes: dict[str, int]) -> tuple[Any, Type] | None:
        """The first part of a value that does not fit its type, and the type."""
        todo = [(value, ty)]
        found: dict[tuple[int, Type], ADT] = {}
        while todo:
            part, here = todo.pop()
            key = id(part), here
            if key in self._known or key in found:
                continue
            parts = self._parts(part, here, sizes)
            if parts is None:
                return part, here
            if isinstance(part, ADT):
                found[key] = part
            todo += parts
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= found
        return None

    def _parts(self, value: Any, ty: Type, sizes: dict[str, int]) -> list[tuple[Any, Type]] | None:
        """The parts of a value with their types, the first one last; None if the value itself does not fit."""
        match ty:
            case TensorType():
                fits = isinstance(value, np.ndarray) and value.dtype.name == ty.dtype and value.ndim == ty.rank
                return [] if fits and all(map(_fits, value.shape, ty.shape, [sizes] * ty.rank)) else None
            case TupleType():
                fits = isinstance(value, tuple) and len(value) == len(ty.fields)
                return list(zip(value, ty.fields, strict=True))[::-1] if fits else None
            case TypeCall():
                return self._fields(value, ty)
            case RefType() | FuncType():
                is_data = isinstance(value, (np.ndarray, tuple, ADT))
                return None if is_data or isinstance(ty, RefType) != isinstance(value, RefValue) else []
        return []

    def _fields(self, value: Any, ty: TypeCall) -> list[tuple[Any, Type]] | None:
        data = self.mod.type_definitions.get(ty.func.name)
        if not isinstance(value, ADT):
            return None
        if data is None:
            return []
        mapping = dict(zip(data.type_vars, ty.args, strict=False))
        for constructor in data.constructors:
            if constructor.name_hint == value.constructor and len(constructor.inputs) == len(value.fields):
                types: Iterator[Type] = (substitute_types(t, mapping) for t in constructor.inputs)
                return list(zip(value.fields, types, strict=True))[::-1]
        return None


def _fits(size: int, wanted: Dim, sizes: dict[str, int]) -> bool:
    """Whether a size is the known one, or the one that its name has."""
    known = const(wanted)
    name = name_of(wanted)
    if known is None and name is not None:
        known = sizes.setdefault(name, size)
    return known is None or known == size
