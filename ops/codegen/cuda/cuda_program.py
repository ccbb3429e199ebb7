"""The CUDA program of a group as data: CUDA C, and the launches of its kernels in order.

Tensors are numbered as in the argv of a CPU kernel: the group's parameters, its results, then (upper-bound operators) the
int64 vector of counts.  Every kernel argument is a 64-bit word: an address or an int64.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, Shape


@frozen
class Data:
    """The address of the first element of the tensor at ``position``.

    Within ``Turns`` the address moves by ``item_bytes`` for each item before the turn's first.
    """

    position: int
    item_bytes: Dim | int = 0


@frozen
class Size:
    """An int64 over the sizes of the tensors, computed at each launch.

    ``dim`` has no unknowns but the dims of tensors and the results of ``axis_size``.
    """

    dim: Dim | int


@frozen
class Word:
    """A constant int64."""

    value: int


@frozen
class Scratch:
    """The address of workspace number ``index``: uninitialised, aligned to 256 bytes, private to this launch."""

    index: int


@frozen
class Fault:
    """The address of the machine's fault word, to be passed to ``fail`` (see ``prelude``)."""


@frozen
class Site:
    """The number of the launching instruction, to be passed to ``fail``."""


@frozen
class Handle:
    """The handle of a library, by name: ``cublas``."""

    library: str


@frozen
class Address:
    """The host address of a constant of ``nbytes`` bytes that lives as long as the machine: an argument that libraries read
    through a pointer."""

    content: bytes


Argument = Data | Size | Word | Scratch | Fault | Site | Handle | Address
Extent = Dim | int


@frozen
class Launch:
    """One launch of the kernel ``entry`` of the text.  Nothing is launched for a grid of size 0."""

    entry: str
    grid: tuple[Extent, Extent, Extent]
    block: tuple[int, int, int]
    args: tuple[Argument, ...]
    shared_bytes: Extent = 0  # of dynamic shared memory


@frozen
class LibraryCall:
    """One call of a library's C function by address, on the machine's stream; its status must be 0.

    All arguments are passed as 64-bit words, so floating-point arguments cannot be passed by value.  The call is skipped if
    ``unless`` (an int64) is 0.
    """

    function: str
    args: tuple[Argument, ...]
    unless: Extent = 1


@frozen
class MatrixProduct:
    """One product by cuBLASLt, ``out = finish(op(a)[m, k] @ op(b)[k, n] + added)`` for each of ``batch`` matrices by rows.

    A step is the number of elements from one matrix to the next.  The library chooses an algorithm when sizes and alignment occur
    for the first time.  If it has one, the next ``instead`` steps are skipped; else, and if ``unless`` is 0, only they run.
    ``types`` of a, b and out, ``compute``, ``scale`` and ``epilogue`` are the library's numbers.
    """

    a: Argument
    b: Argument
    out: Argument
    sizes: tuple[Extent, ...]  # m, n, k, batch, step of a, step of b
    transposed: tuple[bool, bool]
    types: tuple[int, int, int]
    compute: int
    scale: int
    alpha: Address
    beta: Address
    epilogue: int
    added: Argument | None = None
    bias: Argument | None = None
    unless: Extent = 1
    instead: int = 1


@frozen
class Convolution:
    """One convolution by cuDNN, ``out = data`` convolved with ``weight``: products are not of mirrored windows, as in Relay.

    The library makes a plan when sizes and alignment occur for the first time.  If it has one, the next ``instead`` steps are
    skipped; else, and if ``unless`` is 0, only they run.  ``types`` of data (and weight) and out, and ``compute`` are the
    library's numbers.  ``axes``: 2 or 3 spatial axes, the last of the three that the numbers are stated for.

    ``is_transposed``: ``data`` is written, from ``weight`` and ``out``.  Each element of ``out`` adds the weight times itself to
    the elements of ``data`` that it would be computed from.
    """

    data: Argument
    weight: Argument
    out: Argument
    sizes: tuple[Extent, ...]  # batch, channels, output channels, channels of a group; data, out, window: depth, rows, columns
    axes: int
    stride: tuple[int, int, int]
    dilation: tuple[int, int, int]
    before: tuple[int, int, int]  # padding before the first element; the library's padding behind the last follows from the sizes
    channels_last: bool  # of data, weight and out
    types: tuple[int, int]
    compute: int
    unless: Extent = 1
    instead: int = 1
    is_transposed: bool = False


@frozen
class Turns:
    """The next ``n_steps`` steps run for ``per`` of ``total`` items (the images of a batch) at a time.

    The last turn ends with the last item: all turns have the same sizes, and the last computes some items again.
    ``0 < per <= total``, or nothing runs.
    """

    total: Extent
    per: Extent
    n_steps: int


Step = Launch | LibraryCall | MatrixProduct | Convolution | Turns


@frozen
class CudaSource:
    """``text``: CUDA C without the prelude; its kernels are ``extern "C" __global__ void entry(...)``, and begin with
    ``BEGIN_KERNEL();``.

    ``steps`` run one after another on one stream.  ``scratch``: the size in bytes of each workspace.  The
    steps may be captured in a CUDA graph.  Equal groups have equal sources.

    ``is_whole``: an int64, whether the steps compute what follows a product, too (``OpaqueCall.sums``, ``OpaqueCall.following``).
    A ``MatrixProduct`` adds sums in any case.
    """

    text: str = ""
    steps: tuple[Step, ...] = ()
    scratch: tuple[Extent, ...] = ()
    is_whole: Extent = 0


@frozen
class Elements:
    """A tensor that is not stored: bodies of functions of an int64 ``at``, the place of an element in row-major order.

    ``element`` returns an element in its compute dtype.  ``pack``, if ``width`` is not 0, returns a ``Pack`` of so many from a
    multiple of the width on; it may be called where the condition ``usable`` holds.  ``parameters``: kind, name and argument of
    what the bodies read.  They call the functions of ``cuda_text``.
    """

    parameters: tuple[tuple[str, str, Argument], ...]
    element: str
    width: int = 0
    pack: str = ""
    usable: str = "false"


@frozen
class Operand:
    """A tensor of an OPAQUE operator's call.

    ``position`` is None for a literal of the group with the value ``value``, and for a tensor that is computed by ``elements``.
    """

    position: int | None
    dtype: str
    shape: Shape
    value: Any = None
    elements: Elements | None = None


@frozen
class Sums:
    """Sums after a product, by positions: a matrix of the result's shape, a vector with an element for each column."""

    matrix: int | None = None
    vector: int | None = None


@frozen
class OpaqueCall:
    """An OPAQUE operator's call, the argument of ``Kernel.cuda``: inputs (tuples flattened), results, position of the counts.

    ``sums``: what a kernel with ``adds`` may add to its product in the same step (see ``library_sums``).  ``following``: what a
    kernel with ``follows`` may compute of each element of its product that it has stored, in the same step.
    """

    name: str
    attrs: Any
    inputs: tuple[Operand, ...]
    results: tuple[Operand, ...]
    counts: int | None = None
    sums: Sums = Sums()
    following: Elements | None = None
