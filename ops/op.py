"""An operator is one declaration: constructing an ``Op`` registers it, and everything else is derived from it."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.registry import SHAPE_FUNCS, ShapeFunc
from .compute import Compute, Reduction
from .implementation import Kernel


class OpPattern(enum.IntEnum):
    """How an operator may be fused (Relay's names)."""

    ELEMWISE = 0  # one output element from the elements at the same index
    BROADCAST = 1  # the same, with numpy broadcasting of the inputs
    INJECTIVE = 2  # one output element from one element of an input, elsewhere
    COMM_REDUCE = 3  # folds axes
    RESHAPE = 4  # the same bytes under another shape: no kernel at all
    OPAQUE = 8  # a kernel of its own
    MACHINE = 9  # an instruction of the machine: appears in the IR only after manifest_alloc
    COMPOSITE = 10  # calls of other operators, which take its place right after type inference: no kernel of its own


@dataclass(frozen=True)
class NoAttrs:
    """For an operator without attributes."""


class TypeRelError(Exception):
    """Argument types an operator does not take.  ``input`` is the position of the argument at fault (None: all)."""

    def __init__(self, message: str, *, input: int | None = None, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.input, self.help = message, input, help


#: ``(input dtypes, attrs) -> dtype`` of the one output, or ``-> (dtype, ...)``: then the result is a tuple.
#: A tuple input is a tuple of dtypes.  Raises TypeRelError.
DTypeRule = Callable[[tuple[Any, ...], Any], "str | tuple[str, ...]"]


#: ``(attrs, constants) -> (name, attrs)``: which static operator, with which attributes, a call stands for when some of its
#: arguments are constants; None when it must stay as it is.  ``constants`` has per input a numpy array, or None for what is
#: not known.  The new call takes the arguments whose input names the static operator has too.
StaticRule = Callable[[Any, Sequence[Any]], "tuple[str, Any] | None"]

#: ``(inputs, attrs) -> value`` or ``-> (value, ...)``: a composite operator as calls of others (see ops.composite).
Expand = Callable[[tuple[Any, ...], Any], Any]

REGISTRY: dict[str, Op] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Op:
    """An operator.

    ``inputs`` names the tensor inputs; a name ending in ``*`` is one input that is a tuple of tensors.
    The shape function is found under ``name`` in ``shape_funcs`` or, for elementwise, broadcast and reduce operators,
    follows from ``pattern``.
    Exactly one of ``compute`` (fusable), ``kernels`` (OPAQUE; see ``ops.implementation``) and ``expand`` (COMPOSITE, see
    ``ops.composite.composite``) is given; RESHAPE operators have none of them.
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
    shape_func_name: str | None = None  # when it is registered under another name
    static: StaticRule | None = None  # dyn.* only
    stateful: bool = False

    def __post_init__(self) -> None:
        def need(ok: object, what: str) -> None:
            if not ok:
                raise ValueError(f"operator {self.name!r}: {what}")

        need(self.name not in REGISTRY, "declared twice")
        need(self.doc.strip(), "has no doc")
        composite = self.pattern is OpPattern.COMPOSITE
        need((self.expand is not None) == composite, "expand goes with COMPOSITE")
        if self.pattern is OpPattern.OPAQUE:
            need(self.kernels and not self.compute, "an OPAQUE operator has kernels and no compute")
        elif composite or self.pattern in (OpPattern.RESHAPE, OpPattern.MACHINE):
            need(not self.kernels and not self.compute, f"a {self.pattern.name} operator has neither kernel nor compute")
        else:
            need(self.compute and not self.kernels, "a fusable operator has a compute and no kernels")
        names = [k.name for k in self.kernels]
        need(len(set(names)) == len(names), f"two of its implementations have one name: {', '.join(names)}")
        if self.pattern is OpPattern.MACHINE:
            REGISTRY[self.name] = self
            return
        need((self.reduction is not None) == (self.pattern is OpPattern.COMM_REDUCE), "reduction goes with COMM_REDUCE")
        need(len(self.shape_func.flags(len(self.inputs))) == len(self.inputs), "has a flag too many or too few")
        REGISTRY[self.name] = self

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    @property
    def shape_func(self) -> ShapeFunc:
        """Its shape function and flags.  Raises ValueError when there is none."""
        default = {OpPattern.ELEMWISE: "elementwise", OpPattern.BROADCAST: "broadcast", OpPattern.COMM_REDUCE: "reduce"}
        for name in (self.name, self.shape_func_name, default.get(self.pattern)):
            if name is not None and name in SHAPE_FUNCS:
                return SHAPE_FUNCS[name]
        raise ValueError(
            f"operator {self.name!r} has no shape function: register one with register_shape_func({self.name!r}, ...)"
        )

    @property
    def in_language(self) -> bool:
        """May a program call it?  Those that are only instructions of the machine have no shape function."""
        return self.pattern is not OpPattern.MACHINE or self.name in SHAPE_FUNCS

    @property
    def data_dependent(self) -> tuple[bool, ...]:
        """Per input: does the shape function read its values?"""
        return self.shape_func.flags(len(self.inputs))

    @property
    def implementations(self) -> tuple[str, ...]:
        """The names of its implementations, in the order in which one falls back on the next."""
        if self.pattern is OpPattern.RESHAPE:
            return ("view",)
        if self.expand is not None:
            return ("other operators",)
        return tuple(k.name for k in self.kernels) or ("generated",)

    def kernels_on(self, machine: str) -> tuple[Kernel, ...]:
        """Its kernels that run on ``machine`` (see ``Kernel.devices``), in order."""
        return tuple(k for k in self.kernels if machine in k.devices)


def get(name: str) -> Op:
    """The operator called ``name``.  Raises KeyError whose text suggests near names."""
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, REGISTRY, 3)
        raise KeyError(f"unknown operator {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    return REGISTRY[name]
