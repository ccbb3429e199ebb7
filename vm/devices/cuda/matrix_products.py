"""Matrix products by cuBLASLt, as machine code: a table of the algorithms that the library has chosen.

The key of a row is the product with its types, the sizes, and the lowest alignment of the addresses.  At the first meeting of a
key the row gets the layouts of the matrices and the library's choice of an algorithm; later launches call the library with the
row.  If the library has no algorithm, the row says so, and the steps after the product run instead.
"""

from __future__ import annotations

from ....ops.native.c_functions import call_1, call_4, call_5, call_10
from ....ops.native.memory import load_i64, native, store_i64
from ...state.gpu_layout import (
    PRODUCT_BIAS,
    PRODUCT_ROW,
    PRODUCT_SIZES,
    entry_at,
    gpu_at,
    product_at,
    product_entry_at,
    product_row_at,
    products_at,
    words_at,
)
from .driver_api.library_calls import BIAS_POINTER
from .driver_api.size_table import row_of, store_key
from .graphs.held_back import flush

_ROW = PRODUCT_ROW.itemsize
assert PRODUCT_ROW.fields is not None
_ALGORITHM = PRODUCT_ROW.fields["algorithm"][1]
_N_SIZES = 6
#: Attributes by cublasLt.h: of layouts, the number of matrices and the elements from one to the next; of preferences, the first
#: of the four alignments, of A, B, C and D.
_BATCH_COUNT, _BATCH_STRIDE, _ALIGNMENTS = 5, 6, 5
#: The greatest alignment that an algorithm needs, in bytes.
_MOST_ALIGNED = 256
_LOW = 0xFFFFFFFF


@native
def has_algorithm(gpu: int, entry: int) -> bool:
    """Whether the library has an algorithm for a product with these addresses and sizes, which is then in its entry."""
    alignment = alignment_of(entry)
    row: int = product_entry_at(entry).row_at
    is_kept = row != 0 and product_entry_at(entry).alignment == alignment
    if not is_kept or product_row_at(row).serial != entry_at(entry).grid:
        row = find_row(gpu, entry, alignment)
        store_row(gpu, entry, alignment, row)
    return product_row_at(row).is_usable != 0


@native
def alignment_of(entry: int) -> int:
    """The lowest alignment of the addresses of a product, in bytes, at most 256."""
    bits = product_entry_at(entry).a | product_entry_at(entry).b | product_entry_at(entry).added
    bits |= product_entry_at(entry).out | product_entry_at(entry).bias | _MOST_ALIGNED
    return bits & -bits


@native
def store_row(gpu: int, entry: int, alignment: int, row: int) -> None:
    """Store the words of an entry that a row of the table decides."""
    p, r, s = products_at(gpu_at(gpu).products), product_row_at(row), product_at(product_entry_at(entry).record)
    product_entry_at(entry).row_at = row
    product_entry_at(entry).alignment = alignment
    entry_at(entry).grid = r.serial  # layouts of other sizes may get the same addresses later
    entry_at(entry).function = p.multiply
    product_entry_at(entry).handle = p.handle
    product_entry_at(entry).description = s.description
    product_entry_at(entry).alpha = s.alpha
    # by columns the product is that of the transposed matrices, in reverse order
    product_entry_at(entry).layout_b = r.layout_b
    product_entry_at(entry).layout_a = r.layout_a
    product_entry_at(entry).beta = s.beta
    product_entry_at(entry).layout_added = r.layout_out
    product_entry_at(entry).layout_out = r.layout_out
    product_entry_at(entry).algorithm = row + _ALGORITHM
    product_entry_at(entry).workspace = p.workspace
    product_entry_at(entry).workspace_bytes = p.workspace_bytes
    product_entry_at(entry).stream = gpu_at(gpu).compute


@native
def find_row(gpu: int, entry: int, alignment: int) -> int:
    """The row of a product, filled at its first meeting."""
    p, sizes, product = products_at(gpu_at(gpu).products), entry + 8 * PRODUCT_SIZES, product_entry_at(entry).record
    row = row_of(p.rows, _ROW, p.n_rows, product, alignment, sizes, _N_SIZES)
    if product_row_at(row).serial != 0:
        return row
    if 2 * p.used >= p.n_rows:
        flush(gpu)  # an error is in the GPU's record; entries that are held back use rows
        clear_products(gpu)
        row = row_of(p.rows, _ROW, p.n_rows, product, alignment, sizes, _N_SIZES)
    p.used += 1
    p.serial += 1
    store_key(row, p.serial, product, alignment, sizes, _N_SIZES)
    fill_row(gpu, row, entry, alignment)
    return row


@native
def fill_row(gpu: int, row: int, entry: int, alignment: int) -> None:
    """Make the layouts of a product, and let the library choose an algorithm."""
    product, w = product_entry_at(entry).record, entry + 8 * PRODUCT_SIZES
    c, r, s = gpu_at(gpu), product_row_at(row), product_at(product)
    p = products_at(c.products)
    sizes = words_at(w)
    m, n, k, batch = sizes.word[0], sizes.word[1], sizes.word[2], sizes.word[3]
    a_width, a_rows = (m, k) if s.transpose_a != 0 else (k, m)
    b_width, b_rows = (k, n) if s.transpose_b != 0 else (n, k)
    r.layout_a = new_layout(gpu, s.type_a, a_width, a_rows, batch, sizes.word[4])
    r.layout_b = new_layout(gpu, s.type_b, b_width, b_rows, batch, sizes.word[5])
    r.layout_out = new_layout(gpu, s.type_out, n, m, batch, m * n)
    r.is_usable = 0
    if r.layout_a == 0 or r.layout_b == 0 or r.layout_out == 0:
        return
    error = 0
    store_i64(c.out, alignment)
    for i in range(4):
        error |= call_4(p.set_preference, p.preference, _ALIGNMENTS + i, c.out, 4) & _LOW
    if s.has_bias != 0:  # the library derives the alignment of the bias from its address
        error |= call_4(p.set_description, s.description, BIAS_POINTER, entry + 8 * PRODUCT_BIAS, 8) & _LOW
    if error != 0:
        return
    store_i64(c.out, 0)
    a, b, out, answer = r.layout_b, r.layout_a, r.layout_out, row + _ALGORITHM  # as the library names the matrices
    error = call_10(p.choose, p.handle, s.description, a, b, out, out, p.preference, 1, answer, c.out)
    r.is_usable = 1 if error & _LOW == 0 and load_i64(c.out) & _LOW == 1 and r.workspace_bytes <= p.workspace_bytes else 0


@native
def new_layout(gpu: int, kind: int, width: int, rows: int, batch: int, step: int) -> int:
    """A layout of matrices by rows, by columns of ``width`` elements for the library; 0 if the library refuses it."""
    c = gpu_at(gpu)
    p = products_at(c.products)
    if call_5(p.new_layout, c.out, kind, width, rows, width) & _LOW != 0:
        return 0
    layout = load_i64(c.out)
    store_i64(c.out, batch)
    error = call_4(p.set_layout, layout, _BATCH_COUNT, c.out, 4) & _LOW
    store_i64(c.out, step)
    error |= call_4(p.set_layout, layout, _BATCH_STRIDE, c.out, 8) & _LOW
    if error != 0:
        call_1(p.free_layout, layout)
        return 0
    return layout


@native
def clear_products(gpu: int) -> None:
    """Empty the table.  No entry that is held back may use a row; a captured graph uses none."""
    p = products_at(gpu_at(gpu).products)
    for i in range(p.n_rows):
        r = product_row_at(p.rows + _ROW * i)
        if r.serial != 0:
            r.serial = 0
            free_layout(gpu, r.layout_a)
            free_layout(gpu, r.layout_b)
            free_layout(gpu, r.layout_out)
    p.used = 0


@native
def free_layout(gpu: int, layout: int) -> None:
    if layout != 0:
        call_1(products_at(gpu_at(gpu).products).free_layout, layout)
