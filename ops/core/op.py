"""Declarations of operators: constructing an ``Op`` registers the operator; everything else is derived from the declaration."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...declarations.field_names import add_names
from ...declarations.frozen_dataclass import frozen
from ...declarations.late_registry import LateRegistry
from ...shape_funcs.symbolic.registry import SHAPE_FUNCS, ShapeFunc
from .effect import NO_EFFECT, Effect
from .implementation import Kernel
from .parameters import Parameters
from .similar_names import question, similar
from .tensor_types import Type

if TYPE_CHECKING:  # a process that runs an executable computes no expression
    from .compute import Compute, Reduction


class OpPattern(enum.IntEnum):
    """Fusion pattern of an operator (Relay's names)."""

    ELEMWISE = 0  # one output element from the elements at the same index
    BROADCAST = 1  # the same, with numpy broadcasting of the inputs
    INJECTIVE = 2  # one output element from one input element at another index
    COMM_REDUCE = 3  # reduces axes
    RESHAPE = 4  # a view of the same bytes under another shape: no kernel
    OPAQUE = 8  # hand-written kernels
    MACHINE = 9  # an instruction of the virtual machine: appears in the IR only after manifest_alloc
    COMPOSITE = 10  # expanded into calls of other operators right after type inference: no kernel


@frozen
class NoAttrs:
    """Attributes of an operator without attributes."""


class TypeRelError(Exception):
    """Argument types that an operator does not accept.  ``input``: the position of the argument at fault (None: all)."""

    def __init__(self, message: str, *, input: int | None = None, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.input, self.help = message, input, help


#: ``(input dtypes, attrs) -> dtype`` of the only output, or ``-> (dtype, ...)`` of the fields of a tuple result.
#: A tuple input is a tuple of dtypes.  Raises TypeRelError.
DTypeRule = Callable[[tuple[Any, ...], Any], "str | tuple[str, ...]"]


#: ``(attrs, constants) -> (name, attrs)``: the static operator and its attributes that replace a call with some constant
#: arguments; None: no replacement.  ``constants``: per input a numpy array, or None if the value is unknown.  The new call keeps
#: the arguments whose input names the static operator shares.
StaticRule = Callable[[Any, Sequence[Any]], "tuple[str, Any] | None"]

#: ``(attrs, types) -> types``: the types of a call's inputs as far as the known ones determine them; None: unknown (see
#: ``ops.core.input_types``).  Raises TypeRelError for attributes that leave a type open.
InputRule = Callable[[Any, "tuple[Type | None, ...]"], "tuple[Type | None, ...]"]

#: ``(inputs, attrs) -> value`` or ``-> (value, ...)``: the expansion of a composite operator (see ops.composition.composite).
Expand = Callable[[tuple[Any, ...], Any], Any]

REGISTRY: LateRegistry[Op] = LateRegistry()
#: The shape functions of operators that register none of their own.
_SHAPE_FUNC_OF_PATTERN = {
    OpPattern.ELEMWISE: "elementwise",
    OpPattern.BROADCAST: "broadcast",
    OpPattern.COMM_REDUCE: "reduce",
}


@frozen
class Legalization:
    """The calls of an operator that no kernel takes, and their expansion into calls that kernels take (Relay's word).

    ``applies(dtypes, attrs)``: whether a call is expanded; the operator's dtype rule accepts the call.  ``expand(op, operands,
    attrs)``: the expansion (see ``ops.composition.legalize``).
    """

    applies: Callable[[tuple[Any, ...], Any], bool]
    expand: Callable[[Op, tuple[Any, ...], Any], Any]


@frozen(eq=False, kw_only=True)
class Op:
    """An operator.

    ``inputs``: the names of the tensor inputs; a name ending in ``*`` is one input that is a tuple of tensors.
    The shape function is registered in ``shape_funcs`` under ``name``; elementwise, broadcast and reduce operators default to
    the shape function of their ``pattern``.
    Exactly one of ``compute`` (fusable), ``kernels`` (OPAQUE; see ``ops.core.implementation``) and ``expand`` (COMPOSITE; see
    ``ops.composition.composite.composite``) is set; RESHAPE operators have none of the three.
    ``legalization``: the calls among those of ``dtype`` that are expanded before a kernel computes them.
    ``plain``: an operator with the same implementations, whose inputs and attributes this operator has, before other inputs.
    """

    name: str
    doc: str
    inputs: tuple[str, ...]
    pattern: OpPattern
    dtype: DTypeRule
    attrs: type = NoAttrs
    compute: Compute | None = None
    reduction: Reduction | None = None
    kernels: tuple[Kernel, ...] = ()
    expand: Expand | None = None
    legalization: Legalization | None = None
    shape_func_name: str | None = None  # if the shape function is registered under another name
    python: Parameters | None = None  # of the Python function; None: the inputs, then the attributes
    static: StaticRule | None = None  # dyn.* only
    infer_inputs: InputRule | None = None  # of operators with weights
    stateful: bool = False
    plain: Op | None = None  # its tuning records hold for this operator, too
    effect: Effect = NO_EFFECT  # MACHINE only

    def __post_init__(self) -> None:
        def need(ok: object, what: str) -> None:
            if not ok:
                raise ValueError(f"operator {self.name!r}: {what}")

        need(not REGISTRY.has_declared(self.name), "declared twice")
        need(self.doc.strip(), "has no doc")
        composite = self.pattern is OpPattern.COMPOSITE
        need((self.expand is not None) == composite, "expand goes with COMPOSITE")
        if self.pattern is OpPattern.OPAQUE:
            need(self.kernels and not self.compute, "an OPAQUE operator has kernels and no compute")
        elif composite or self.pattern in (OpPattern.RESHAPE, OpPattern.MACHINE):
            need(not self.kernels and not self.compute, f"a {self.pattern.name} operator has neither kernel nor compute")
        else:
            need(self.compute and not self.kernels, "a fusable operator has a compute and no kernels")
        add_names(self.attrs)
        names = [k.name for k in self.kernels]
        need(self.plain is None or self.plain.implementations == self.implementations, "has other implementations than ``plain``")
        need(len(set(names)) == len(names), f"two of its implementations have one name: {', '.join(names)}")
        if self.pattern is OpPattern.MACHINE:
            need(len(self.effect.roles) in (0, len(self.inputs)), "has a role too many or too few")
            REGISTRY[self.name] = self
            return
        need((self.reduction is not None) == (self.pattern is OpPattern.COMM_REDUCE), "reduction goes with COMM_REDUCE")
        need(self.shape_func.data_dependent.fit(len(self.inputs)), "has a flag too many or too few")
        REGISTRY[self.name] = self

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    if TYPE_CHECKING:  # bound in ``compiler.builder.ir_methods``

        def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str: ...

        def get_attr(self, attr_name: str) -> Any: ...

        def has_attr(self, attr_name: str) -> bool: ...

        def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None: ...

        def reset_attr(self, attr_name: str) -> None: ...

        @staticmethod
        def list_op_names() -> list[str]: ...

    @property
    def num_inputs(self) -> int:
        """The number of inputs; a tuple of tensors is one."""
        return len(self.inputs)

    @property
    def shape_func(self) -> ShapeFunc:
        """The shape function with its flags.  Raises ValueError if none is registered."""
        return _shape_func_of(self, SHAPE_FUNCS.changes)

    def is_legal(self, dtypes: tuple[Any, ...], attrs: Any) -> bool:
        """Whether kernels take a call with these dtypes and attributes as it is."""
        return self.legalization is None or not self.legalization.applies(dtypes, attrs)

    @property
    def in_language(self) -> bool:
        """Whether a program may call the operator.  Pure machine instructions have no shape function."""
        return self.pattern is not OpPattern.MACHINE or self.name in SHAPE_FUNCS

    @property
    def data_dependent(self) -> tuple[bool, ...]:
        """Per input, whether the shape function reads the values."""
        return _data_dependent_of(self, SHAPE_FUNCS.changes)

    @property
    def implementations(self) -> tuple[str, ...]:
        """The names of the implementations; each falls back on the next."""
        if self.pattern is OpPattern.RESHAPE:
            return ("view",)
        if self.expand is not None:
            return ("other operators",)
        return tuple(k.name for k in self.kernels) or ("generated",)

    def kernels_on(self, machine: str) -> tuple[Kernel, ...]:
        """The kernels that run on ``machine`` (see ``Kernel.devices``), in declared order."""
        return tuple(k for k in self.kernels if machine in k.devices)


@functools.lru_cache(maxsize=1 << 12)
def _shape_func_of(op: Op, changes: int) -> ShapeFunc:
    """``op.shape_func`` by the shape functions as they are; a compilation asks tens of thousands of times."""
    for name in (op.name, op.shape_func_name, _SHAPE_FUNC_OF_PATTERN.get(op.pattern)):
        found: ShapeFunc | None = None if name is None else SHAPE_FUNCS.get(name)
        if found is not None:
            return found
    raise ValueError(f"operator {op.name!r} has no shape function: register one with register_shape_func({op.name!r}, ...)")


@functools.lru_cache(maxsize=1 << 12)
def _data_dependent_of(op: Op, changes: int) -> tuple[bool, ...]:
    return op.shape_func.data_dependent.of_inputs(len(op.inputs))


def get(name: str) -> Op:
    """The operator called ``name``.  Raises KeyError with suggestions of similar names."""
    try:
        return REGISTRY[name]
    except KeyError:
        asked = question(similar(name, REGISTRY, 3), ", ")
    raise KeyError(f"unknown operator {name!r}" + (asked and f"; {asked}"))
