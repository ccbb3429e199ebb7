"""Arguments of the evaluator: from Python's values to arrays, tuples and ADTs, checked against declared types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.core.adt_types import RefType, TypeCall, TypeVar, substitute_types
from ...ops.core.ndarray import NDArray
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import InputError
from ...vm.values.adt import ADT
from ...vm.values.signature import ArgumentChecker, as_array, positional
from ...vm.values.tensor import Tensor
from ..ir.expr import Constructor, Function, IRModule
from ..ir.signature_attrs import defaults_of
from ..ir.visitor import Steps, run
from .debug_values import RefValue

#: The type of a parameter that may be anything.
_ANYTHING = TypeVar("any type")
#: The dtypes that Python's numbers have as arguments of parameters without a type.
_NARROWED = {"int64": "int32", "float64": "float32"}


def arguments(mod: IRModule, name: str, function: Function, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The evaluator's values for a call of a function.  Raises InputError for arguments that do not fit its parameters."""
    params = tuple((p.name, p.annotation or _ANYTHING) for p in function.params)
    signature = VMFunction(name, params, TupleType(()), 0, np.zeros(0, np.int32), defaults=defaults_of(function))
    converter = _Converter(mod, signature)
    given = positional(signature, args, named)
    return [run(converter.value(p, ty, value)) for (p, ty), value in zip(params, given, strict=True)]


class _Converter:
    """The arguments of one call."""

    def __init__(self, mod: IRModule, signature: VMFunction) -> None:
        self.mod, self.where, self.checker = mod, f"@{signature.name}", ArgumentChecker(signature)

    def value(self, name: str, ty: Type, value: Any) -> Steps[Any]:
        """The value of a parameter or a part of it."""
        match ty:
            case TensorType():
                return self._tensor(name, ty, value)
            case TupleType():
                if not isinstance(value, (tuple, list)) or len(value) != len(ty.fields):
                    what = f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__
                    message = f"{self.where}: %{name} takes {len(ty.fields)} values in a tuple, not {what}"
                    raise InputError(message, code=codes.Input.TYPE)
                return tuple((yield from self._each(name, ty.fields, value)))
            case TypeCall():
                return (yield from self._adt(name, ty, value))
            case RefType():
                if not isinstance(value, RefValue):
                    message = f"{self.where} takes a reference as %{name}, not {type(value).__name__}"
                    raise InputError(message, help="make one: relay.backend.interpreter.RefValue(x)", code=codes.Input.TYPE)
                return RefValue((yield self.value(name, ty.value, value.value)))
            case FuncType():
                message = f"{self.where} takes a function as %{name}: only the program itself can make it"
                raise InputError(message, code=codes.Input.TYPE)
        return (yield from self._anything(name, value))

    def _each(self, name: str, types: Sequence[Type], values: Sequence[Any]) -> Steps[list[Any]]:
        made = []
        for i, (ty, value) in enumerate(zip(types, values, strict=True)):
            made.append((yield self.value(f"{name}.{i}", ty, value)))
        return made

    def _tensor(self, name: str, ty: TensorType, value: Any) -> NDArray:
        array = as_array(name, value.numpy() if isinstance(value, (Tensor, NDArray)) else value, ty.dtype)
        self.checker.check(name, ty, array.shape, array.dtype.name)
        return _copied(array)

    def _adt(self, name: str, ty: TypeCall, value: Any) -> Steps[ADT]:
        known = {c.name_hint: c for c in self._constructors(ty)}
        if not isinstance(value, ADT):
            help = f"make one: relay.ADT({next(iter(known))!r}, (...))" if known else None
            message = f"{self.where}: %{name} takes a {ty}, not {type(value).__name__}"
            raise InputError(message, help=help, code=codes.Input.TYPE)
        if value.constructor not in known:
            message = f"{self.where}: %{name}: {ty} has no constructor {value.constructor}"
            raise InputError(message, help=f"its constructors: {', '.join(known) or 'none'}", code=codes.Input.TYPE)
        constructor = known[value.constructor]
        if len(value.fields) != len(constructor.inputs):
            message = (
                f"{self.where}: %{name}: {value.constructor} has {len(constructor.inputs)} fields, {len(value.fields)} were given"
            )
            raise InputError(message, code=codes.Input.TYPE)
        definition = self.mod.type_definitions[ty.func.name]
        mapping = dict(zip(definition.type_vars, ty.args, strict=False))
        types = [substitute_types(t, mapping) for t in constructor.inputs]
        fields = yield from self._each(name, types, value.fields)
        return ADT(value.constructor, fields, constructor.tag)

    def _constructors(self, ty: TypeCall) -> Sequence[Constructor]:
        data = self.mod.type_definitions.get(ty.func.name)
        return data.constructors if data else ()

    def _anything(self, name: str, value: Any) -> Steps[Any]:
        """A value for a parameter without a type."""
        if isinstance(value, ADT):
            fields = yield from self._each(name, [_ANYTHING] * len(value.fields), value.fields)
            return ADT(value.constructor, fields, value.tag)
        if isinstance(value, tuple):
            return tuple((yield from self._each(name, [_ANYTHING] * len(value), value)))
        if isinstance(value, RefValue):
            return RefValue((yield self.value(name, _ANYTHING, value.value)))
        if isinstance(value, (Tensor, NDArray)):
            value = value.numpy()
        if not isinstance(value, (np.ndarray, np.generic)):
            natural = np.asarray(value).dtype.name
            return _copied(as_array(name, value, _NARROWED.get(natural, natural)))
        return _copied(as_array(name, value, value.dtype.name))


def _copied(array: np.ndarray) -> NDArray:
    """A read-only copy: the result of a program may be its argument."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy.view(NDArray)
