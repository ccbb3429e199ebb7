"""Implementations of matrix products, with the conditions under which each is correct and profitable.

==========  ====================================================================================================
rows        few rows, or one column, of floats of one dtype, or of halves to float32: one pass over a matrix
bytes       8-bit integers by signed ones, to int32: tiles of bytes, one matrix packed group by group
tiles       the same, the first matrix not transposed: the tiles of packed products, one matrix packed block by block
blas        float32 or float64
blocks      float16 and bfloat16: blocks converted to float32, multiplied by the BLAS
loops       any product
few_rows    on GPUs: up to 16 rows, a kernel that reads the second matrix once; other products as ``lt``
lt          on GPUs: cuBLASLt, its algorithm chosen for the sizes when they first occur; without an algorithm as ``gemm``
gemm        on GPUs: cuBLAS, or tiles for dtypes that cuBLAS does not support (``kernels/matmul/cuda``)
==========  ====================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import min_
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import BYTES
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.tensor_types import HALVES, ITEMSIZE, computed_in, is_float
from ...kernels.byte_products import packed
from ...kernels.byte_products import panels as byte_panels
from ...kernels.byte_products.byte_tile import COLUMNS, DEPTH
from ...kernels.matmul import cpu as bodies
from ...kernels.matmul import cuda as cuda
from ...kernels.matmul import few_rows, panels, tiles
from ...kernels.matmul import half as halves
from ...kernels.matmul.cublas_lt import SUPPORTED
from ...kernels.matmul.library_products import Product
from ...native.jit.products.register_tile import GROUP_PANELS, panel_width
from ...native.matrix_tiles import CONFIG_BYTES

#: Maximum number of rows for which ``rows`` is faster than a BLAS.
THIN = 8
#: The same of halves, rows of at least LONG_HALVES elements with rows, over tiles.
THIN_HALVES, LONG_HALVES = 16, 256
#: Columns, in panels, and multiplications from which tiles are mostly faster than OpenBLAS: measured with AVX-512, for 16 columns
#: and for 64 and more.  With a second matrix that is transposed, less work pays too.
LEAST_PANELS, LEAST_WORK = 2, 1 << 20
#: Library function by compute dtype.
GEMM = {"float32": "sgemm", "float64": "dgemm"}

#: ``(attrs) -> (whether a is transposed, whether b is transposed)``.
Transposed = Callable[[Any], tuple[bool, bool]]
_Sizes = Callable[[OpCall], tuple[Dim, Dim, Dim]]


def tensor_times_matrix(transposed: Transposed) -> tuple[Kernel, ...]:
    """The implementations of the product of a tensor of matrices with a single matrix."""

    def sizes(call: OpCall) -> tuple[Dim, Dim, Dim]:
        (a, b), (transpose_a, transpose_b) = (t.shape for t in call.inputs), transposed(call.attrs)
        n, k = b[::-1] if not transpose_b else b
        return (a[-1] if transpose_a else product(a[:-1])), n, k

    predicates = _Product(transposed, sizes, lambda call: dim(1))
    by_dtype = (bodies.matmul_loops, bodies.matmul_integers)
    return _kernels(
        predicates,
        bodies.matmul_rows,
        (tiles.matmul_tiles, tiles.matmul_half_tiles),
        packed.matmul_bytes,
        bodies.matmul_blas,
        halves.matmul_halves,
        by_dtype,
        cuda.matmul,
        by_few_rows=True,
    )


def batched_products(transposed: Transposed) -> tuple[Kernel, ...]:
    """The implementations of the batched product of matrices."""

    def sizes(call: OpCall) -> tuple[Dim, Dim, Dim]:
        _, m, n = call.outputs[0].shape
        return m, n, call.inputs[0].shape[1 if transposed(call.attrs)[0] else 2]

    by_dtype = (bodies.batch_matmul_loops, bodies.batch_matmul_integers)
    return _kernels(
        _Product(transposed, sizes, lambda call: call.outputs[0].shape[0]),
        bodies.batch_matmul_rows,
        (tiles.batch_matmul_tiles, tiles.batch_matmul_half_tiles),
        packed.batch_matmul_bytes,
        bodies.batch_matmul_blas,
        halves.batch_matmul_halves,
        by_dtype,
        cuda.batch_matmul,
    )


def tiled_products(transposed: Transposed) -> tuple[Kernel, ...]:
    """The implementations of the batched product of floats whose second matrices are repeated; an input after both has the
    repetitions."""
    found = batched_products(transposed)
    on_host = tuple(_of_matrices(kernel) for kernel in found if kernel.body is not None and kernel.name != "bytes")
    return (*on_host, Kernel("gemm", None, cuda=cuda.tiled_batch_matmul(transposed)))


def _of_matrices(kernel: Kernel) -> Kernel:
    """The kernel of calls that have a third input, of which only the shape function reads the values."""

    def of(fact: Callable[[OpCall], Any]) -> Callable[[OpCall], Any]:
        return lambda call: fact(replace(call, inputs=call.inputs[:2]))

    blocks = kernel.blocks and replace(kernel.blocks, count=of(kernel.blocks.count), work=of(kernel.blocks.work))
    buffers = tuple(replace(buffer, length=of(buffer.length)) if callable(buffer.length) else buffer for buffer in kernel.scratch)
    facts: dict[str, Any] = {"takes": of(kernel.takes), "fits": of(kernel.fits), "pays": of(kernel.pays)}
    return replace(kernel, views=("dims", "dims", "skip", "dims"), scratch=buffers, blocks=blocks, **facts)


def is_one_float(call: OpCall) -> bool:
    """Whether all tensors are float32, or all are float64."""
    return len(set(call.dtypes)) == 1 and call.dtypes[0] in GEMM


def _adds_own(call: OpCall) -> bool:
    """Whether sums have the dtype of the result: of float32, of float64, or of halves to float32."""
    a, b, out = call.dtypes
    return is_one_float(call) or (a in HALVES and b in HALVES and out == "float32")


@frozen
class _Product:
    """Predicates of the implementations for a call; ``sizes``: ``(m, n, k)`` of each product of the call."""

    transposed: Transposed
    sizes: _Sizes
    count: Callable[[OpCall], Dim]

    def flags(self, attrs: Any) -> dict[str, bool]:
        """The attributes as keyword arguments of a kernel body."""
        a, b = self.transposed(attrs)
        return {"transpose_a": a, "transpose_b": b}

    def stored_by_rows(self, call: OpCall) -> Conditions:
        """The conditions under which one of the matrices is stored by rows."""
        m, n, _ = self.sizes(call)
        return (condition(min_(m, n), "<=", 1),) if all(self.transposed(call.attrs)) else ()

    def is_thin(self, call: OpCall) -> Conditions:
        """The condition of few rows, or one column; of halves also of few columns, in rows."""
        m, n, k = self.sizes(call)
        if not is_one_float(call) and self.transposed(call.attrs)[1]:
            return (condition(min_(m, n), "<=", THIN_HALVES if (const(k) or 0) >= LONG_HALVES else THIN),)
        columns = const(n)
        # if there is certainly more than one column, only the rows matter
        return (condition(m if columns is not None and columns > 1 else min_(m, THIN * n), "<=", THIN),)

    def has_few_rows(self, call: OpCall) -> bool:
        """Whether the kernel for few rows may multiply these dtypes, and there may be few rows.

        Halves in any case: operators after a product are part of its primitive.
        """
        shape = Product(dim(1), *self.sizes(call), dim(0), dim(0), *self.transposed(call.attrs))
        dtypes = call.dtypes[0], call.dtypes[-1]
        return _by_lt(call) and (dtypes[0] in HALVES or few_rows.may_pay(dtypes, shape))

    def block_elements(self, call: OpCall) -> Dim:
        """The number of elements of the scratch blocks of ``blocks`` (see ``kernels/matmul/half``)."""
        m, n, k = self.sizes(call)
        rows, columns, inner = min_(m, halves.ROWS), min_(n, halves.COLUMNS), min_(k, halves.INNER)
        return (rows + columns) * inner + 2 * rows * columns

    def has_rows(self, call: OpCall) -> bool:
        """Whether the tensors are of one float dtype, and the first matrix is stored by rows."""
        return _adds_own(call) and not self.transposed(call.attrs)[0]

    def fills_tiles(self, call: OpCall) -> Conditions:
        """The conditions under which tiles are faster than a BLAS: few of their columns are empty, and packing pays.

        None for halves, which a BLAS takes in blocks of float32.
        """
        if not is_one_float(call):
            return ()
        m, n, k = self.sizes(call)
        columns = LEAST_PANELS * panel_width(ITEMSIZE[call.dtypes[-1]])
        return (condition(n, ">=", columns), condition(m * n * k, ">=", LEAST_WORK))

    def blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``kernels.matmul.tiles``."""
        m, n, _ = self.sizes(call)
        group = GROUP_PANELS * panel_width(ITEMSIZE[call.dtypes[-1]])
        return self.count(call) * ((m + panels.ROWS - 1) // panels.ROWS) * ((n + group - 1) // group)

    def work(self, call: OpCall) -> Dim:
        """Multiplications, which take one unit of cost or two each; packing is taken for eight rows."""
        m, n, k = self.sizes(call)
        return 2 * self.count(call) * (m + 8) * n * k

    def panel_elements(self, call: OpCall) -> Dim:
        """The number of elements of a group of panels of ``kernels.matmul.tiles``."""
        _, _, k = self.sizes(call)
        group = GROUP_PANELS * panel_width(ITEMSIZE[call.dtypes[-1]])
        if is_one_float(call):
            return (min_(k, panels.INNER) + 1) * group
        inner = min_(k, tiles.HALF_INNER)
        return (inner + 1) * group + inner * tiles.HALF_ROWS

    def has_bytes(self, call: OpCall) -> bool:
        """Whether bytes, stored by rows, are multiplied by signed ones to int32."""
        a, b, out = call.dtypes
        return a in BYTES and b == "int8" and out == "int32" and not self.transposed(call.attrs)[0]

    def byte_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``kernels.byte_products.packed``."""
        groups = (self.sizes(call)[1] + byte_panels.GROUP - 1) // byte_panels.GROUP
        return self.count(call) * self.byte_bands(call) * groups

    def byte_bands(self, call: OpCall) -> Dim:
        """The number of blocks for which columns are packed once."""
        return (self.sizes(call)[0] + byte_panels.BAND - 1) // byte_panels.BAND

    def byte_work(self, call: OpCall) -> Dim:
        """Multiplications, of which a unit of cost has eight; packing costs as much as 16 rows."""
        m, n, k = self.sizes(call)
        return self.count(call) * (m + 16) * n * k // 8

    def byte_rows(self, call: OpCall) -> Dim:
        """The most bytes of a band of copied rows."""
        m, _, k = self.sizes(call)
        return min_(m, byte_panels.BAND) * (_steps(k) * DEPTH * byte_panels.WIDENING)

    def byte_panels(self, call: OpCall) -> Dim:
        """The bytes of a group of panels."""
        _, n, k = self.sizes(call)
        return min_((n + COLUMNS - 1) // COLUMNS * COLUMNS, byte_panels.GROUP) * (_steps(k) * DEPTH)


def _steps(k: Dim) -> Dim:
    """The steps of panels of bytes along ``k`` places."""
    return (k + DEPTH - 1) // DEPTH


def _is_half(call: OpCall) -> bool:
    """Whether some tensor is float16 or bfloat16, and all tensors have the same compute dtype."""
    return bool(set(call.dtypes) & set(HALVES)) and len(set(map(computed_in, call.dtypes))) == 1


def _by_lt(call: OpCall) -> bool:
    """Whether cuBLASLt may multiply these dtypes."""
    return (call.dtypes[0], call.dtypes[-1]) in SUPPORTED and call.dtypes[0] == call.dtypes[1]


def _kernels(
    predicates: _Product,
    rows: Any,
    by_tiles: tuple[Any, Any],
    of_bytes: Any,
    blas: Any,
    blocks: Any,
    loops: tuple[Any, Any],
    on_gpu: Callable[..., Any],
    by_few_rows: bool = False,
) -> tuple[Kernel, ...]:
    of_floats, of_integers = loops

    def loop(attrs: Any, dtypes: tuple[str, ...]) -> Any:
        return of_floats if is_float(dtypes[0]) else of_integers

    common: dict[str, Any] = {"attrs": predicates.flags, "views": ("dims",)}

    def by_lt(name: str, takes: Callable[[OpCall], bool], **options: bool) -> Kernel:
        cuda = on_gpu(predicates.transposed, by_lt=True, **options)
        return Kernel(name, None, cuda=cuda, adds=True, follows=bool(options), takes=takes, **common)

    return (
        Kernel("rows", rows, takes=_adds_own, fits=predicates.stored_by_rows, pays=predicates.is_thin, **common),
        Kernel(
            "tiles",
            by_tiles[0],
            choose=lambda attrs, dtypes: by_tiles[dtypes[0] in HALVES],
            takes=predicates.has_rows,
            pays=predicates.fills_tiles,
            blocks=Blocks(predicates.blocks, predicates.work),
            scratch=(Scratch(length=predicates.panel_elements),),
            **common,
        ),
        Kernel(
            "bytes",
            of_bytes,
            takes=predicates.has_bytes,
            blocks=Blocks(predicates.byte_blocks, predicates.byte_work, predicates.byte_bands),
            scratch=(
                Scratch("uint8", length=predicates.byte_rows),
                Scratch("uint8", length=CONFIG_BYTES),
                Scratch("int8", length=predicates.byte_panels),
                Scratch("int32", length=byte_panels.GROUP),
                Scratch("int32", length=byte_panels.MOST_ROWS * byte_panels.GROUP),
            ),
            finishes=1,
            apart="over",
            **common,
        ),
        Kernel("blas", blas, takes=is_one_float, libraries=GEMM, **common),
        Kernel(
            "blocks",
            blocks,
            takes=_is_half,
            libraries=GEMM,
            scratch=(Scratch("float32", length=predicates.block_elements),),
            **common,
        ),
        Kernel("loops", of_floats, choose=loop, **common),
        *(by_lt("few_rows", predicates.has_few_rows, by_few_rows=True) for _ in range(by_few_rows)),
        by_lt("lt", _by_lt),
        Kernel("gemm", None, cuda=on_gpu(predicates.transposed), **common),
    )
