"""Implementations of operators: body, preconditions, expected profit.

An OPAQUE operator declares one ``Kernel`` or several; each falls back on the next.  The last kernel that runs on a device takes
every call there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, IntLike, dim, product
from ...shape_funcs.symbolic.dim_operations import max_
from .conditions import Conditions
from .tensor_types import ITEMSIZE, Tensor, computed_in

#: The target machines of implementations: the host, on which the device ``sim`` computes too, and GPUs.
HOST, GPU = "cpu", "cuda"
#: Alignment of each buffer of a workspace, in bytes.
ALIGNMENT = 64


class Operator(Protocol):
    """Interface of an operator to its implementations; ``ops.core.op.Op`` satisfies it.

    The protocol breaks the cycle of types: an ``Op`` holds Kernels, a Kernel takes OpCalls, an OpCall holds its operator.
    """

    @property
    def name(self) -> str:
        """The name of the operator."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs; a name ending in ``*`` is a tuple of tensors."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels in declared order."""

    @property
    def plain(self) -> Operator | None:
        """An operator with the same implementations, on the first of the inputs; its tuning records hold, too."""

    @property
    def attrs(self) -> type:
        """The type of the attributes."""

    @property
    def implementations(self) -> tuple[str, ...]:
        """The names of the implementations in declared order."""

    def kernels_on(self, machine: str) -> tuple[Kernel, ...]:
        """The kernels that run on ``machine``, in declared order."""


@frozen
class OpCall:
    """A call of an operator: the argument of ``Kernel.takes``, ``fits`` and ``pays``.

    ``inputs``: the input tensors; a tuple input contributes its fields in order.  Dims may be unknown.  ``device``: HOST or GPU.
    """

    op: Operator
    attrs: Any
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    device: str = HOST

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the inputs, then of the outputs."""
        return tuple(t.dtype for t in (*self.inputs, *self.outputs))


#: Length of a buffer in elements: a number, or ``(call) -> an expression over the sizes of the call's tensors``.
Length = int | Callable[[OpCall], Dim]


@frozen
class Scratch:
    """A scratch buffer of a kernel's body: a segment of the workspace, laid out by the wrapper, uninitialised.

    A body does no arithmetic on elements that nobody has written, not even in lanes whose results are thrown away: operations on
    subnormal numbers, which may be there, take up to 25 times as long on some processors.

    ``length``: the number of elements; 0 stands for the size of axis ``axis`` of the first tensor's view, at least 1.  ``rows``:
    unless 0, the buffer is 2-D with ``rows`` rows of ``length`` elements.  ``dtype``: "" stands for the compute dtype of the
    first tensor.
    """

    dtype: str = ""
    axis: int = 0
    rows: int = 0
    length: Length = 0


@frozen
class Buffer:
    """A scratch buffer of one call: ``length`` elements of ``dtype``, or ``rows`` rows of them if ``rows`` is not 0."""

    dtype: str
    length: Dim
    rows: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes for each element of the length."""
        return max(self.rows, 1) * ITEMSIZE[self.dtype]

    @property
    def nbytes(self) -> Dim:
        """Size of the buffer in a workspace, in bytes, rounded up to ALIGNMENT."""
        return (self.length * self.row_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@frozen
class Split:
    """Partition of a kernel between threads: along the first axis of some tensors' views, of the same size in all of them.

    The body is called with a segment of the partitioned tensors and the other tensors whole; the elements written for one index
    must depend on no other index.  ``tensors``: per tensor, whether it is partitioned; the last flag holds for the further ones.
    ``ns``: approximate nanoseconds for each element of tensor ``by``, one of the partitioned tensors.
    """

    ns: float
    tensors: tuple[bool, ...] = (True,)
    by: int = 0

    def divides(self, number: int) -> bool:
        """Whether tensor ``number`` is partitioned."""
        return self.tensors[min(number, len(self.tensors) - 1)]


@frozen
class Blocks:
    """Partition of a kernel between threads in blocks that its body counts: the body computes a range of them.

    After the tensors and ``counts`` the body takes ``low`` and ``high`` (exclusive).  The results of a block depend on no other.
    A body with the parameters ``thread_low`` and ``thread_high`` (exclusive) then takes the range of blocks that its thread is
    expected to compute in order, in this call and those around it: it may fetch the data of the next call.
    ``count``: the number of blocks of a call; ``work``: the work of all, in units of ``ops.codegen.loop_nest.cost``.
    ``together``: the number of neighbouring blocks, from a multiple of it on, for which the body prepares once, such as by
    packing an operand.  ``most``: the most parts that pay, None: as many as blocks.
    """

    count: Callable[[OpCall], Dim]
    work: Callable[[OpCall], Dim]
    together: Callable[[OpCall], Dim] = lambda call: dim(1)
    most: Callable[[OpCall], Dim] | None = None


@frozen
class Kernel:
    """A hand-written implementation of an OPAQUE operator, for the host, for GPUs, or for both.

    ``body`` is a plain ``@generic`` function in the subset that ``native.front_end`` compiles: no exceptions, and no memory but
    its ``scratch``.
    (Buffers whose size depends on values may come from ``alloc``, and are freed before the body returns.)  Its arguments are
    C-contiguous arrays, inputs (the tensors of a tuple input in order) then outputs, then the arguments below, in this order.
    It returns a status (0: success, see ops.native.status):

    * with an upper-bound operator one int64 array, into which the body writes the true sizes;
    * an array for each buffer of ``scratch``;
    * with ``libraries``, the address of a library function called by address (see ops.native.blas.library_calls), 0 for none.
      ``libraries`` maps the compute dtype to the function's name; the address is 0 if compute dtypes of float tensors differ;
    * ``attrs(attrs)`` as keyword arguments: constants of the compiled code (ints, floats, bools, int tuples, static words).

    A parameter whose type is a named tuple takes as many of these arguments as the tuple has fields, constants by their names.

    ``choose(attrs, dtypes)``: the body for these attrs and dtypes; None: always ``body``.

    ``views``: the shape of each tensor in the body; the last view holds for all further tensors.

    ==========  ====================================================================================================
    ""          its own shape; a scalar is an array of one element
    "flat"      1-D: all elements
    "rows"      2-D: all axes but the last as one, the last
    "axis"      3-D: the axes before attrs.axis as one, that axis, the axes after it as one (axis None: (1, size, 1))
    "dims"      two arguments: the elements, 1-D, and the shape, an int64 array
    "skip"      not passed
    ==========  ====================================================================================================

    Three predicates of a call decide the choice of the kernel: ``takes``, on compile-time facts (dtypes, attributes, ranks);
    ``fits``, the conditions on sizes under which the kernel is *correct*; ``pays``, the conditions under which the kernel is
    expected to be the fastest.  Conditions on run-time sizes are evaluated before the launch.

    Facts for the memory planner: ``in_place``, pairs of an input and an output that may share memory if the input is dead
    afterwards; ``aliases``, pairs of an input and an output that *is* a view of the input; ``scratch``, the buffers of its
    workspace.
    """

    name: str
    body: Callable[..., int] | None
    attrs: Callable[[Any], dict[str, Any]] = lambda attrs: dataclasses.asdict(attrs)
    views: tuple[str, ...] = ("",)
    scratch: tuple[Scratch, ...] = ()
    #: Partition between threads; None: a single thread.
    split: Split | None = None
    #: Another partition than ``split``.
    blocks: Blocks | None = None
    #: The number of trailing axes of the result over which the body finishes runs: after its buffers it takes ``finish`` and
    #: ``argv``, and calls ``finish`` for each part of its result (see ``ops.codegen.cpu.epilogue``).  0: it does not.  A body
    #: that takes ``addend`` may limit its results itself (see ``ops.codegen.cpu.channel_limits``).
    finishes: int = 0
    #: Unless "", the result may be written over an operand of the epilogue: the body passes ``finish`` the array with its sums,
    #: the first sum of the part, and the elements from a run of sums to the next.  "always": a buffer of the body's.  "over": the
    #: last buffer of ``scratch`` while the result shares memory with an operand or has another dtype, else the result itself.
    #: "whole": the result itself; while it has another dtype, the body's result is a buffer, and no operand is written over.
    apart: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    choose: Callable[[Any, tuple[str, ...]], Callable[..., int]] | None = None
    #: Whether ``body`` is ordinary Python over numpy arrays, called between two entries of the native loop: slow, unrestricted.
    in_python: bool = False
    #: Generator for CUDA devices: ``(OpaqueCall) -> CudaSource`` (see ops.codegen.cuda.cuda_program); None: no CUDA kernel.
    cuda: Callable[[Any], Any] | None = None
    #: Whether ``cuda`` may compute sums after the product in the same step (see ``ops.codegen.cuda.library_sums``).
    adds: bool = False
    #: Whether ``cuda`` may compute elementwise operators after the product, too (see ``ops.codegen.cuda.following``).
    follows: bool = False
    #: The inputs that ``cuda`` takes as expressions of elements, too (see ``ops.codegen.loop_nest.element_inputs``).
    elements: tuple[int, ...] = ()
    takes: Callable[[OpCall], bool] = lambda call: True
    fits: Callable[[OpCall], Conditions] = lambda call: ()
    pays: Callable[[OpCall], Conditions] = lambda call: ()
    in_place: tuple[tuple[int, int], ...] = ()
    #: As ``choose``, the body for calls in which the pairs of ``in_place`` share memory; None: the same body.
    over: Callable[[Any, tuple[str, ...]], Callable[..., int]] | None = None
    #: Whether, with these attributes, only some elements are accessed of a tensor that is written in place.
    updates: Callable[[Any], bool] = lambda attrs: False
    aliases: tuple[tuple[int, int], ...] = ()
    #: Whether the kernel may reject input values even if all results are empty.  Other kernels are not called for empty results.
    refuses: bool = False

    @property
    def devices(self) -> tuple[str, ...]:
        """The machines that the kernel runs on.  For a GPU, a kernel in Python runs on host copies."""
        on_host, on_gpu = self.body is not None, self.cuda is not None or self.in_python
        return (HOST,) * on_host + (GPU,) * on_gpu

    def body_for(self, attrs: Any, dtypes: tuple[str, ...], over: bool = False) -> Callable[..., int]:
        """The body for these attrs and dtypes (of the inputs, then the outputs); ``over``: the body for a result written in
        place of an input."""
        choose = self.over if over and self.over else self.choose
        body = choose(attrs, dtypes) if choose else self.body
        assert body is not None, f"{self.name} does not run on the host"
        return body

    def buffers(self, call: OpCall) -> tuple[Buffer, ...]:
        """The buffers of ``scratch`` for ``call`` on the host."""
        first = (*call.inputs, *call.outputs)[0]

        def length(scratch: Scratch) -> Dim:
            if callable(scratch.length):
                return max_(scratch.length(call), 0)
            view = _viewed(self.views[0], first.shape, getattr(call.attrs, "axis", None))
            return dim(scratch.length) if scratch.length else max_(view[scratch.axis], 1)

        return tuple(Buffer(s.dtype or computed_in(first.dtype), length(s), s.rows) for s in self.scratch)


def _viewed(view: str, shape: Sequence[Dim], axis: int | None) -> tuple[IntLike, ...]:
    """The sizes of a tensor under a view (see Kernel)."""
    if view == "rows":
        return (product(shape[:-1]), shape[-1])
    if view in ("flat", "dims") or (view == "axis" and axis is None):
        whole = product(shape)
        return (1, whole, 1) if view == "axis" else (whole,)
    if view == "axis":
        assert axis is not None
        axis %= len(shape)
        return (product(shape[:axis]), shape[axis], product(shape[axis + 1 :]))
    return tuple(shape) or (1,)
