"""An operator is one declaration: constructing an ``Op`` registers it, and everything else is derived from it."""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.registry import SHAPE_FUNCS, ShapeFunc
from .compute import Compute, Reduction


class OpPattern(enum.IntEnum):
    """How an operator may be fused (Relay's names)."""

    ELEMWISE = 0  # one output element from the elements at the same index
    BROADCAST = 1  # the same, with numpy broadcasting of the inputs
    INJECTIVE = 2  # one output element from one element of an input, elsewhere
    COMM_REDUCE = 3  # folds axes
    RESHAPE = 4  # the same bytes under another shape: no kernel at all
    OPAQUE = 8  # a kernel of its own
    MACHINE = 9  # an instruction of the machine: appears in the IR only after manifest_alloc


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


@dataclass(frozen=True)
class Kernel:
    """A hand-written CPU kernel of an OPAQUE operator.

    ``body`` is a plain function in the subset numba compiles: ``body(in0, ..., out0, ..., **attrs)`` with C-contiguous
    arrays, tensors of a tuple input in order; it returns a status (0: fine, see ops.native.status).  ``attrs`` maps the
    operator's attrs to keyword arguments that become constants of the compiled code (ints, floats, bools, int tuples).
    With an upper-bound operator, one more int64 array comes last: the body writes the true sizes there.
    ``libraries``: names of library functions called by address (see ops.native.libraries).
    """

    name: str
    body: Callable[..., int]
    attrs: Callable[[Any], dict[str, Any]] = lambda attrs: dataclasses.asdict(attrs)
    libraries: tuple[str, ...] = ()


REGISTRY: dict[str, Op] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Op:
    """An operator.

    ``inputs`` names the tensor inputs; a name ending in ``*`` is one input that is a tuple of tensors.  ``defaults``
    gives how many trailing inputs may be left out (0 for nearly all).  The shape function is found under ``name``
    in ``shape_funcs`` or, for elementwise, broadcast and reduce operators, follows from ``pattern``.
    Exactly one of ``compute`` (fusable) and ``kernel`` (OPAQUE) is given; RESHAPE operators have neither.
    """

    name: str
    doc: str
    inputs: tuple[str, ...]
    pattern: OpPattern
    dtype: DTypeRule
    attrs: type = NoAttrs
    compute: Compute | None = None
    reduction: Reduction | None = None
    kernel: Kernel | None = None
    shape_func_name: str | None = None  # when it is registered under another name
    static: Callable[..., Any] | None = None  # dyn.* only: see dynamic-to-static
    stateful: bool = False

    def __post_init__(self) -> None:
        def need(ok: object, what: str) -> None:
            if not ok:
                raise ValueError(f"operator {self.name!r}: {what}")

        need(self.name not in REGISTRY, "declared twice")
        need(self.doc.strip(), "has no doc")
        if self.pattern is OpPattern.OPAQUE:
            need(self.kernel and not self.compute, "an OPAQUE operator has a kernel and no compute")
        elif self.pattern in (OpPattern.RESHAPE, OpPattern.MACHINE):
            need(not self.kernel and not self.compute, f"a {self.pattern.name} operator has neither kernel nor compute")
        else:
            need(self.compute and not self.kernel, "a fusable operator has a compute and no kernel")
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
        for name in (self.shape_func_name, self.name, default.get(self.pattern)):
            if name is not None and name in SHAPE_FUNCS:
                return SHAPE_FUNCS[name]
        raise ValueError(
            f"operator {self.name!r} has no shape function: register one with register_shape_func({self.name!r}, ...)"
        )

    @property
    def data_dependent(self) -> tuple[bool, ...]:
        """Per input: does the shape function read its values?"""
        return self.shape_func.flags(len(self.inputs))

    @property
    def implementations(self) -> tuple[str, ...]:
        """The names of its kernels on the CPU."""
        if self.pattern is OpPattern.RESHAPE:
            return ("view",)
        return (self.kernel.name,) if self.kernel else ("generated",)


def get(name: str) -> Op:
    """The operator called ``name``.  Raises KeyError whose text suggests near names."""
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, REGISTRY, 3)
        raise KeyError(f"unknown operator {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    return REGISTRY[name]
