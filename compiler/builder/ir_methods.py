"""Methods of IR nodes that print, parse or build, bound to the classes in ``ir.expr``.

The printer, the parser and the constructors import the nodes.  Only the package ``compiler`` imports this module: its ``bind``
completes the package ``ir``.
"""

from __future__ import annotations

import copyreg
import dataclasses
from collections.abc import Callable
from typing import Any

from ...declarations import field_names
from ...ops.core.adt_types import GlobalTypeVar
from ...ops.core.op import Op
from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import const
from ...vm.diagnostics.argument_errors import UnknownName
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ...vm.values.notebook import notebook_html
from ..ir import op_attributes
from ..ir.expr import Expr, IRModule
from ..ir.match_expr import Clause
from ..text import printer
from ..text.comments import Annotate
from ..text.parser import parse
from . import constructors, expr_methods, module_methods, type_definitions


def _expression_text(self: Expr, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """The expression in the text format (see ``printer``)."""
    return printer.astext(self, show_meta_data, annotate)


def _module_text(self: IRModule, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """The module in the text format (see ``printer``); without metadata it does not parse back."""
    return printer.astext(self, show_meta_data, annotate)


def _operator_text(self: Op, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """The operator's name in the text format."""
    return printer.astext(self, show_meta_data, annotate)


def _short_text(self: Expr | IRModule) -> str:
    return printer.astext(self, show_meta_data=False)


def _module_page(self: IRModule) -> str:
    """The text of the module for a notebook."""
    return notebook_html(_short_text(self))


#: The depth from which a ``repr`` shows ``...``: programs are deep.
_SHOWN_DEPTH = 4


def _repr(self: Expr | Clause, depth: int = _SHOWN_DEPTH) -> str:
    """The class and its fields, as of a dataclass; inner expressions up to a depth."""
    if depth == 0:
        return "..."
    shown = [f"{f.name}={_shown(getattr(self, f.name), depth - 1)}" for f in dataclasses.fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, (Expr, Clause)):
        return _repr(value, depth)
    if isinstance(value, tuple) and any(isinstance(item, (Expr, Clause)) for item in value):
        return f"({', '.join(_shown(item, depth) for item in value)}{',' * (len(value) == 1)})"
    return repr(value)


def _module_parts(module: IRModule) -> tuple[Callable[[str], IRModule], tuple[str]]:
    return parse, (module.astext(),)


def _concrete_shape(self: TensorType) -> tuple[int, ...]:
    """The sizes as ints.  Raises ArgumentError for a size that is known only at run time."""
    sizes = tuple(map(const, self.shape))
    known = tuple(size for size in sizes if size is not None)
    if len(known) < len(sizes):
        raise ArgumentError(f"{self} has sizes that are known only at run time", here(), help="shape has them, too")
    return known


def _no_attribute(name: object, names: list[str]) -> UnknownName:
    return UnknownName(f"the call has no attribute {name}{did_you_mean(str(name), names)}", here())


def _bind(cls: type, name: str, function: Any) -> None:
    function.__name__, function.__qualname__ = name, f"{cls.__qualname__}.{name}"
    setattr(cls, name, function)


def bind() -> None:
    """Bind the methods and register the pickling of modules."""
    _bind(Expr, "astext", _expression_text)
    _bind(IRModule, "astext", _module_text)
    _bind(Op, "astext", _operator_text)
    _bind(IRModule, "_repr_html_", _module_page)
    for name, method in expr_methods.METHODS.items():
        setattr(Expr, name, method)
    for kind in expr_methods.WHOLE_TUPLES:
        for name, member in expr_methods.TUPLE_PROPERTIES.items():
            setattr(kind, name, member)
    for name, method in {**module_methods.METHODS, **type_definitions.METHODS}.items():
        setattr(IRModule, name, method)
    for name, operator_method in op_attributes.METHODS.items():
        setattr(Op, name, operator_method)
    field_names.error = _no_attribute
    for kind in Expr.__subclasses__():
        _bind(kind, "__repr__", _repr)
    Expr.__str__ = IRModule.__str__ = _short_text  # type: ignore[assignment, method-assign]
    IRModule.from_expr = staticmethod(constructors.IRModule.from_expr)  # type: ignore[method-assign]
    setattr(TensorType, "concrete_shape", property(_concrete_shape))  # noqa: B010  not declared in the layer of types
    _bind(GlobalTypeVar, "__call__", type_definitions.apply)
    copyreg.pickle(IRModule, _module_parts)
