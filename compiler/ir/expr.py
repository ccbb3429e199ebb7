"""The nodes of the IR.  Immutable; compared by identity (``structural_equal`` compares structure).

A node's ``ty`` is its type once ``infer_type`` has run, else None.  ``span`` is its place in the source, or None.
An expression object that occurs twice is evaluated once (``%0`` in the text).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import GlobalTypeVar, TypeVar
from ...ops.core.ndarray import NDArray
from ...ops.core.op import Op
from ...ops.core.tensor_types import FuncType, TensorType, Type
from ...vm.diagnostics.argument_errors import UnknownName, a_text
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, SourceText, Span
from .by_name import ByName

if TYPE_CHECKING:
    from ...vm.bytecode.executable import FloatProduct

__all__ = [
    "Call", "Constant", "Expr", "Function", "GlobalVar", "IRModule", "If", "Let", "Tuple", "TupleGetItem", "TypeData", "Var",
    "let_chain", "make_lets", "map_bodies", "map_functions", "replace", "tensor_type", "type_of",
]  # fmt: skip


@frozen(eq=False, kw_only=True)
class Expr:
    """An expression.  Python's operators on expressions build calls (see ``builder``)."""

    span: Span | None = field(default=None, repr=False)
    ty: Type | None = field(default=None, repr=False)

    if TYPE_CHECKING:  # bound in ``builder.ir_methods``

        def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str: ...

        def astype(self, dtype: Any) -> Call: ...

        def astuple(self) -> Expr: ...

        def __call__(self, *args: Any) -> Call: ...

        def __getitem__(self, index: int) -> Expr: ...

        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[Expr]: ...

        def __add__(self, other: Any) -> Call: ...

        def __sub__(self, other: Any) -> Call: ...

        def __mul__(self, other: Any) -> Call: ...

        def __truediv__(self, other: Any) -> Call: ...

        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __lt__ = __le__ = __gt__ = __ge__ = __add__

        def __neg__(self) -> Call: ...

    @property
    def checked_type(self) -> Type:
        """The inferred type, ``ty``.  Raises ArgumentError before type inference."""
        if self.ty is None:
            help = "relay.transform.InferType()(mod) makes a typed module; a variable's declared type is its type_annotation"
            raise ArgumentError("the expression has no type yet", here(), help=help)
        return self.ty

    def same_as(self, other: object) -> bool:
        """Whether this is the other expression itself."""
        return self is other

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: Any) -> Expr:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an expression cannot be pickled, for it shares parts with others; pickle the IRModule it is in")


@frozen
class Id:
    """The identity of a variable, beside its name."""

    name_hint: str
    identity: object = field(repr=False)


@frozen(eq=False)
class Var(Expr):
    """A local variable ``%name``, compared by identity, not by name.  ``annotation`` is the declared type.

    ``identity``: what copies of the variable with other types share, as the ``vid`` of Relay's.
    """

    name: str
    annotation: Type | None = None
    identity: object = field(default_factory=object, kw_only=True, repr=False)

    if TYPE_CHECKING:

        def __init__(
            self, name_hint: str, type_annotation: Type | None = None, span: Span | None = None, *, ty: Type | None = None
        ) -> None: ...  # fmt: skip

    @property
    def name_hint(self) -> str:
        """Relay's name of ``name``."""
        return self.name

    @property
    def vid(self) -> Id:
        """The identity, which copies of the variable with other types share."""
        return Id(self.name, self.identity)

    @property
    def type_annotation(self) -> Type | None:
        """Relay's name of ``annotation``."""
        return self.annotation


@frozen(eq=False)
class GlobalVar(Expr):
    """``@name``: a function of the module."""

    name: str

    @property
    def name_hint(self) -> str:
        """Relay's name of ``name``."""
        return self.name


@frozen(eq=False)
class Constant(Expr):
    """A tensor known at compile time: ``data`` is C-contiguous and read-only, a copy of an array that could still be written.

    ``data`` is a numpy array that also has Relay's ``numpy()``; a bool is a byte of 0 or 1.
    """

    data: NDArray

    if TYPE_CHECKING:  # any array becomes an NDArray

        def __init__(self, data: np.ndarray, *, span: Span | None = None, ty: Type | None = None) -> None: ...

    def __post_init__(self) -> None:
        data: Any = self.data
        if not isinstance(data, np.ndarray):
            return
        if data.dtype == np.bool_ and (data.view(np.uint8) > 1).any():  # files hold bools as 0 and 1
            data = data.view(np.uint8) != 0
        if not _is_frozen(data):
            data = np.array(data, order="C")
            data.setflags(write=False)
        if not isinstance(data, NDArray):
            object.__setattr__(self, "data", data.view(NDArray))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The array, as numpy asks for it: a constant may be the argument of a run."""
        return np.array(self.data, dtype) if copy or dtype is not None else np.asarray(self.data)


def _is_frozen(data: np.ndarray) -> bool:
    """Whether the array is contiguous, and neither it nor its bases are writeable: arrays, bytes or a file mapped for reading."""
    if not data.flags.c_contiguous:
        return False
    base: Any = data
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    if isinstance(base, memoryview):
        return base.readonly
    return base is None or isinstance(base, bytes)


@frozen(eq=False)
class Tuple(Expr):
    fields: tuple[Expr, ...]

    if TYPE_CHECKING:  # the form that users write: see ``builder``

        def __init__(self, fields: Sequence[Expr], *, span: Span | None = None, ty: Type | None = None) -> None: ...


@frozen(eq=False)
class TupleGetItem(Expr):
    tuple_value: Expr
    index: int


@frozen(eq=False)
class Call(Expr):
    """A call of ``op``, an operator or an expression whose value is a function.  ``attrs`` is the operator's attrs object.

    ``reads``: for a call of a primitive, per argument the place of the operator call that reads it (() if unknown).
    ``type_args``: the types of the callee's type parameters; () leaves them to inference.
    """

    op: Op | Expr
    args: tuple[Expr, ...]
    attrs: Any = None
    reads: tuple[Span | None, ...] = field(default=(), repr=False)
    type_args: tuple[Type, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self, op: Op | Expr, args: Sequence[Expr], attrs: Any = None, reads: tuple[Span | None, ...] = (),
            type_args: Sequence[Type] = (), *, span: Span | None = None, ty: Type | None = None,
        ) -> None: ...  # fmt: skip


@frozen(eq=False)
class Let(Expr):
    """``let %var = value; body``.  Chains are long: walk them with ``let_chain``, never by recursion."""

    var: Var
    value: Expr
    body: Expr


@frozen(eq=False)
class If(Expr):
    """``if (cond) true_branch else false_branch``.

    ``constructor``: if not empty, ``cond`` is a value of an ADT, and the condition is whether this constructor made it.
    """

    cond: Expr
    true_branch: Expr
    false_branch: Expr
    constructor: str = ""


@frozen(eq=False)
class Function(Expr):
    """``fn [type_params] (params) -> ret_type { body }``.  ``attrs["Primitive"] = 1`` marks a fused kernel."""

    params: tuple[Var, ...]
    body: Expr
    ret_type: Type | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    type_params: tuple[TypeVar, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self, params: Sequence[Var], body: Expr, ret_type: Type | None = None, attrs: Mapping[str, Any] | None = None,
            type_params: Sequence[TypeVar] = (), *, span: Span | None = None, ty: Type | None = None,
        ) -> None: ...  # fmt: skip

    @property
    def checked_type(self) -> Type:
        """The inferred type; before type inference the declared one, where the parameters and the result are annotated."""
        declared = tuple(param.annotation for param in self.params if param.annotation is not None)
        if self.ty is None and self.ret_type is not None and len(declared) == len(self.params):
            return FuncType(declared, self.ret_type, self.type_params)
        return super().checked_type

    @property
    def is_internal(self) -> bool:
        """Whether the function is compiled only if another function uses it: one of the standard library."""
        return bool(self.attrs.get("Internal"))

    @property
    def is_primitive(self) -> bool:
        """Whether the function is a fused kernel; a function for an external compiler is none, whatever attributes it has."""
        return bool(self.attrs.get("Primitive")) and "Compiler" not in self.attrs

    def with_attr(self, name: str | Mapping[str, Any], value: Any = None) -> Function:
        """The function with one more attribute, or with those of a dict."""
        more = name if isinstance(name, Mapping) else {a_text(name, "with_attr: the name"): value}
        return replace(self, attrs={**self.attrs, **more})

    def without_attr(self, name: str) -> Function:
        """The function without an attribute."""
        return replace(self, attrs={key: value for key, value in self.attrs.items() if key != name})


@frozen(eq=False)
class Constructor(Expr):
    """A constructor of the type definition ``belong_to``: ``Cons`` with ``inputs`` ``(A, List[A])`` and number ``tag``."""

    name_hint: str
    inputs: tuple[Type, ...]
    belong_to: GlobalTypeVar
    tag: int = 0

    @property
    def name(self) -> str:
        """The name, as of a variable."""
        return self.name_hint


@frozen(eq=False)
class TypeData:
    """A type definition: ``type List[A] { Cons(A, List[A]), Nil }``, without constructors ``extern type Name``."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...] = ()
    constructors: tuple[Constructor, ...] = ()
    span: Span | None = field(default=None, repr=False)


@frozen(eq=False)
class IRModule:
    """Functions by name, usually with ``main``, and type definitions by name.

    ``float_products``: the products of quantised tensors that a pass has left in floats.  Users may change a module: that
    replaces the mappings ``functions`` and ``type_definitions``, which are never written, and which a GlobalVar or GlobalTypeVar
    indexes as its name does.  Passes create new modules.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    source: SourceText | None = None
    type_definitions: Mapping[str, TypeData] = field(default_factory=dict)
    float_products: tuple[FloatProduct, ...] = ()

    def __post_init__(self) -> None:
        for name in ("functions", "type_definitions"):
            if not isinstance(getattr(self, name), ByName):
                object.__setattr__(self, name, ByName(getattr(self, name)))

    @overload
    def __getitem__(self, name: str | GlobalVar) -> Function: ...

    @overload
    def __getitem__(self, name: GlobalTypeVar) -> TypeData: ...

    def __getitem__(self, name: str | GlobalVar | GlobalTypeVar) -> Function | TypeData:
        """The function of a name or GlobalVar, or the definition of a GlobalTypeVar.  Raises UnknownName."""
        if isinstance(name, GlobalTypeVar) and name.name in self.type_definitions:
            return self.type_definitions[name.name]
        name = name.name if isinstance(name, (GlobalVar, GlobalTypeVar)) else name
        if a_text(name, "the function's name") not in self.functions:
            listed = ", ".join(f"@{known}" for known in self.functions) or "none"
            raise UnknownName(f"the module has no function @{name}", here(), help=f"its functions: {listed}")
        return self.functions[name]

    if TYPE_CHECKING:  # bound in ``builder.ir_methods``

        @staticmethod
        def from_expr(expr: Any) -> IRModule: ...

        def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str: ...

        def __setitem__(self, key: str | GlobalVar, function: Expr) -> None: ...

        def __contains__(self, key: object) -> bool: ...

        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[str]: ...

        def get_type(self, name: str) -> tuple[Any, ...]: ...

        def get_constructor(self, adt: str, name: str) -> Constructor: ...

        def import_from_std(self, name: str) -> None: ...

        def update(self, other: IRModule | Mapping[str, Function] | Mapping[GlobalVar, Function]) -> None: ...

        def update_func(self, var: str | GlobalVar, func: Expr) -> None: ...

        def get_global_var(self, name: str) -> GlobalVar: ...

        def get_global_vars(self) -> list[GlobalVar]: ...


def map_functions(mod: IRModule, change: Callable[[Function], Function]) -> IRModule:
    """The module with each function changed, except primitives."""
    return replace(mod, functions={n: f if f.is_primitive else change(f) for n, f in mod.functions.items()})


def map_bodies(mod: IRModule, change: Callable[[Expr], Expr]) -> IRModule:
    """The module with the body of each function changed, except primitives."""
    return map_functions(mod, lambda f: replace(f, body=change(f.body)))


def type_of(expr: Expr) -> Type:
    """The type of an expression after type inference."""
    assert expr.ty is not None, expr
    return expr.ty


def tensor_type(expr: Expr) -> TensorType:
    """The type of a tensor expression after type inference."""
    assert isinstance(expr.ty, TensorType), expr.ty
    return expr.ty


def let_chain(expr: Expr) -> tuple[list[tuple[Var, Expr]], Expr]:
    """The bindings of a chain of lets, and its result."""
    bindings = []
    while isinstance(expr, Let):
        bindings.append((expr.var, expr.value))
        expr = expr.body
    return bindings, expr


def make_lets(bindings: list[tuple[Var, Expr]], result: Expr) -> Expr:
    """The chain of lets with these bindings."""
    for var, value in reversed(bindings):
        result = Let(var, value, result, span=value.span, ty=result.ty)
    return result
