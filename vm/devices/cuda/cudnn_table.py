"""The table of cuDNN's plans, in machine code.

The key of a row is the convolution, the sizes, and the lowest alignment of the addresses.  At the first meeting of a key the row
gets a plan, and later launches execute it.  If the library has none, the row says so, and the steps after the convolution run.
"""

from __future__ import annotations

from ....ops.native.memory import native
from ...state.gpu_layout import entry_at, gpu_at
from .cudnn.layout import (
    CONVOLUTION_SIZES,
    N_SIZES,
    PACK,
    PACK_ROWS,
    PLAN_ROW,
    PLAN_ROWS,
    convolution_entry_at,
    convolutions_at,
    pack_at,
    plan_row_at,
)
from .cudnn.plans import destroy, destroy_plan, make_plan
from .driver_api.device import FORKED
from .driver_api.driver_calls import STREAM_WAIT, drive_1
from .driver_api.size_table import row_of, store_key
from .graphs.held_back import flush
from .graphs.regions import forget_regions

_ROW = PLAN_ROW.itemsize
#: The greatest alignment that an engine needs, in bytes.
_MOST_ALIGNED = 16


@native
def has_plan(gpu: int, entry: int) -> bool:
    """Whether the library has a plan for a convolution with these addresses and sizes, which is then in its entry."""
    bits = convolution_entry_at(entry).data | convolution_entry_at(entry).weight
    bits |= convolution_entry_at(entry).out | _MOST_ALIGNED
    alignment = bits & -bits
    row: int = convolution_entry_at(entry).row_at
    is_kept = row != 0 and convolution_entry_at(entry).alignment == alignment
    if not is_kept or plan_row_at(row).serial != entry_at(entry).grid:
        row = find_plan(gpu, entry, alignment)
        convolution_entry_at(entry).row_at = row
        convolution_entry_at(entry).alignment = alignment
        entry_at(entry).grid = plan_row_at(row).serial  # a later plan may get the same address
        entry_at(entry).function = convolutions_at(gpu_at(gpu).convolutions).execute
        convolution_entry_at(entry).plan = plan_row_at(row).plan
    return plan_row_at(row).plan != 0


@native
def find_plan(gpu: int, entry: int, alignment: int) -> int:
    """The row of a convolution, with a plan made at its first meeting."""
    p, sizes = convolutions_at(gpu_at(gpu).convolutions), entry + 8 * CONVOLUTION_SIZES
    convolution = convolution_entry_at(entry).record
    row = row_of(p.rows, _ROW, PLAN_ROWS, convolution, alignment, sizes, N_SIZES)
    if plan_row_at(row).serial != 0:
        return row
    if 2 * p.used >= PLAN_ROWS:
        flush(gpu)  # an error is in the GPU's record; entries that are held back use plans
        clear_plans(gpu)
        row = row_of(p.rows, _ROW, PLAN_ROWS, convolution, alignment, sizes, N_SIZES)
    p.used += 1
    p.serial += 1
    store_key(row, p.serial, convolution, alignment, sizes, N_SIZES)
    make_plan(gpu, row)
    return row


@native
def clear_plans(gpu: int) -> None:
    """Empty the table.  No entry that is held back may use a row.

    A captured graph reads what its plans own: graphs are forgotten, and the GPU has run them before the plans are destroyed.
    """
    p = convolutions_at(gpu_at(gpu).convolutions)
    forget_regions(gpu)
    drive_1(gpu, STREAM_WAIT, gpu_at(gpu).compute)
    for i in range(PLAN_ROWS):
        row = p.rows + _ROW * i
        if plan_row_at(row).serial != 0:
            plan_row_at(row).serial = 0
            destroy_plan(gpu, row)
    p.used = 0


@native
def close_convolutions(gpu: int) -> None:
    """Destroy plans and packs.  In a forked process nothing may call the driver, which a plan has loaded code with."""
    if gpu_at(gpu).error == FORKED:
        return
    p = convolutions_at(gpu_at(gpu).convolutions)
    clear_plans(gpu)
    for i in range(PACK_ROWS):
        r = pack_at(p.packs + PACK.itemsize * i)
        destroy(gpu, r.descriptor)
        r.descriptor = 0
