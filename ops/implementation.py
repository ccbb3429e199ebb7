"""One way of computing an operator: what it is made of, when it may be used, when it is expected to be the fastest.

An OPAQUE operator declares one ``Kernel`` or several, in the order in which one falls back on the next.  The last one that runs
on a device takes every call there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..shape_funcs.dims import Dim, IntLike, dim, max_, product, total
from .conditions import Conditions
from .ty import ITEMSIZE, Tensor, computed_in

if TYPE_CHECKING:
    from .op import Op

#: The machines that implementations are for: the host, where the device ``sim`` computes too, and cards.
HOST, CARD = "cpu", "cuda"
#: Every buffer of a workspace begins at a multiple of so many bytes.
ALIGNMENT = 64


@dataclass(frozen=True)
class OpCall:
    """One call of an operator, as its implementations are asked about it.  ``inputs`` has the tensors of a tuple input in
    order; dims may be unknown.  ``device``: HOST or CARD."""

    op: Op
    attrs: Any
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    device: str = HOST

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Of the inputs, then of the outputs."""
        return tuple(t.dtype for t in (*self.inputs, *self.outputs))


#: How long a buffer is: a number, or ``(call) -> an expression over the sizes of its tensors``.
Length = int | Callable[[OpCall], Dim]


@dataclass(frozen=True)
class Scratch:
    """A buffer that a kernel's body works in: a part of its workspace, laid out by its wrapper.  It holds anything at first.

    It has ``length`` elements, or, where that is the number 0, as many as axis ``axis`` of the view of the first tensor is long,
    but at least one; with ``rows`` it is 2-D, so many rows of them.  ``dtype`` "" is that in which elements of the first tensor
    are computed with.
    """

    dtype: str = ""
    axis: int = 0
    rows: int = 0
    length: Length = 0


@dataclass(frozen=True)
class Buffer:
    """A buffer of one call: ``length`` elements of ``dtype``, or, unless ``rows`` is 0, so many rows of them."""

    dtype: str
    length: Dim
    rows: int = 0

    @property
    def row_bytes(self) -> int:
        """For each element of the length."""
        return max(self.rows, 1) * ITEMSIZE[self.dtype]

    @property
    def nbytes(self) -> Dim:
        """The bytes it takes in a workspace."""
        return (self.length * self.row_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True)
class Split:
    """How a kernel is divided between threads: along the first axis of the views of some tensors, all equally long there.

    The body is called with a part of these tensors, and the others whole; what it writes for one index must need no other.
    ``tensors``: which ones; the last one holds for all further tensors.  ``ns``: about how many nanoseconds it takes for each
    element of tensor ``by``, one of those that are divided.
    """

    ns: float
    tensors: tuple[bool, ...] = (True,)
    by: int = 0

    def divides(self, number: int) -> bool:
        """Is this tensor one of them?"""
        return self.tensors[min(number, len(self.tensors) - 1)]


@dataclass(frozen=True)
class Kernel:
    """A hand-written implementation of an OPAQUE operator, for the host, for cards, or for both.

    ``body`` is a plain ``@generic`` function in the subset numba compiles: no exceptions, and no memory but its ``scratch``.
    (What depends on values may come from ``alloc``, freed before it returns.)  It gets C-contiguous arrays, inputs (the tensors
    of a tuple input in order) then outputs, then what is listed below, in this order, and returns a status (0: fine, see
    ops.native.status):

    * with an upper-bound operator one int64 array, into which it writes the true sizes;
    * an array for each of ``scratch``;
    * with ``libraries``, the address of a library function called by address (see ops.native.libraries), 0 for none.
      ``libraries`` says which by the dtype that is computed in; there is none where that differs between the tensors;
    * ``attrs(attrs)`` as keyword arguments: constants of the compiled code (ints, floats, bools, int tuples).

    ``choose(attrs, dtypes)``: the body for these attrs and tensors, where that is not always ``body``.

    ``views``: under which shape the body sees each tensor; the last one holds for all further tensors.

    ==========  ====================================================================================================
    ""          its own shape; a scalar is an array of one element
    "flat"      1-D: all elements
    "axis"      3-D: the axes before attrs.axis as one, that axis, the axes after it as one (axis None: (1, size, 1))
    "dims"      two arguments: the elements, 1-D, and the shape, an int64 array
    "skip"      not passed
    ==========  ====================================================================================================

    When it may be used is asked of a call: ``takes`` with what is known when a program is compiled (dtypes, attributes, ranks),
    ``fits`` for the conditions on sizes under which it is *right*, ``pays`` for those under which it is expected to be the
    fastest.  Conditions that sizes at run time decide are decided there, before the launch.

    What it does with memory, which a plan must know: ``in_place``, pairs of an input and an output that may be the same memory,
    when nothing else reads that input afterwards; ``aliases``, pairs of which the output *is* the input's memory; and what its
    ``scratch`` takes (``workspace``).
    """

    name: str
    body: Callable[..., int] | None
    attrs: Callable[[Any], dict[str, Any]] = lambda attrs: dataclasses.asdict(attrs)
    views: tuple[str, ...] = ("",)
    scratch: tuple[Scratch, ...] = ()
    #: How it runs in several threads; None: in one.
    split: Split | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)
    choose: Callable[[Any, tuple[str, ...]], Callable[..., int]] | None = None
    #: ``body`` is ordinary Python over numpy arrays, called between two entries of the native loop: slow, but anything goes.
    in_python: bool = False
    #: How it runs on CUDA devices: ``(OpaqueCall) -> CudaSource`` (see ops.kernels.cuda.source); None: it does not.
    cuda: Callable[[Any], Any] | None = None
    takes: Callable[[OpCall], bool] = lambda call: True
    fits: Callable[[OpCall], Conditions] = lambda call: ()
    pays: Callable[[OpCall], Conditions] = lambda call: ()
    in_place: tuple[tuple[int, int], ...] = ()
    #: As ``choose``, the body where the pairs of ``in_place`` are the same memory; None: the same one.
    over: Callable[[Any, tuple[str, ...]], Callable[..., int]] | None = None
    aliases: tuple[tuple[int, int], ...] = ()
    #: It may refuse values of its inputs although all its results are empty.  Others are not called then.
    refuses: bool = False
    #: Equal inputs give equal bits, whatever the number of threads and the run.
    deterministic: bool = True
    #: It may round float32 factors to 10 bits of mantissa, as tensor cores do where that is allowed.
    tf32: bool = False
    #: Its launches may be part of a CUDA graph.
    capture_safe: bool = True

    @property
    def devices(self) -> tuple[str, ...]:
        """The machines it runs on.  A kernel in Python runs on copies for a card."""
        on_host, on_card = self.body is not None, self.cuda is not None or self.in_python
        return (HOST,) * on_host + (CARD,) * on_card

    def body_for(self, attrs: Any, dtypes: tuple[str, ...], over: bool = False) -> Callable[..., int]:
        """The body for these attrs and dtypes (of the inputs, then the outputs), or that for a result ``over`` an input."""
        choose = self.over if over and self.over else self.choose
        body = choose(attrs, dtypes) if choose else self.body
        assert body is not None, f"{self.name} does not run on the host"
        return body

    def buffers(self, call: OpCall) -> tuple[Buffer, ...]:
        """What ``scratch`` is for ``call`` on the host."""
        first = (*call.inputs, *call.outputs)[0]

        def length(scratch: Scratch) -> Dim:
            if callable(scratch.length):
                return max_(scratch.length(call), 0)
            view = _viewed(self.views[0], first.shape, getattr(call.attrs, "axis", None))
            return dim(scratch.length) if scratch.length else max_(view[scratch.axis], 1)

        return tuple(Buffer(s.dtype or computed_in(first.dtype), length(s), s.rows) for s in self.scratch)

    def workspace(self, call: OpCall) -> Dim:
        """The bytes of memory that it needs for the time of ``call``, besides the tensors.  0 on cards: a launch says itself."""
        return total(b.nbytes for b in self.buffers(call)) if call.device == HOST else dim(0)


def _viewed(view: str, shape: Sequence[Dim], axis: int | None) -> tuple[IntLike, ...]:
    """The sizes of a tensor under a view (see Kernel)."""
    if view in ("flat", "dims") or (view == "axis" and axis is None):
        whole = product(shape)
        return (1, whole, 1) if view == "axis" else (whole,)
    if view == "axis":
        assert axis is not None
        axis %= len(shape)
        return (product(shape[:axis]), shape[axis], product(shape[axis + 1 :]))
    return tuple(shape) or (1,)
