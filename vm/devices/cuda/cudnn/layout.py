"""Memory layout of convolutions by cuDNN, shared by machine code and Python: entries, plans, packs of addresses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .....ops.native.memory import record
from .....ops.native.object_layout import Record
from ....state.gpu_layout import ENTRY_ARGS, view_of

_WORD = np.int64

#: The arguments of a convolution's entry: the plan, and the addresses of data, weight and result.
CONVOLUTION_PLAN, CONVOLUTION_DATA, CONVOLUTION_WEIGHT, CONVOLUTION_OUT, CONVOLUTION_WORDS = range(ENTRY_ARGS, ENTRY_ARGS + 5)
#: Sizes of a convolution (see ``cuda_program.Convolution``), and where among them those of data, result and window begin.
N_SIZES = 13
BATCH, CHANNELS, OUTPUTS, INPUTS, SPACE, OUT_SPACE, WINDOW = 0, 1, 2, 3, 4, 7, 10
#: Behind a convolution's entry: ``unless``, the record CONVOLUTION, the sizes, and of the last launch with these sizes the row
#: (0: none) and the alignment.
CONVOLUTION_UNLESS, CONVOLUTION_RECORD, CONVOLUTION_SIZES = (CONVOLUTION_WORDS + k for k in range(3))
CONVOLUTION_ROW_AT, CONVOLUTION_ALIGNMENT, CONVOLUTION_ALL = (CONVOLUTION_SIZES + N_SIZES + k for k in range(3))
convolution_entry_at = view_of(
    alignment=CONVOLUTION_ALIGNMENT, data=CONVOLUTION_DATA, out=CONVOLUTION_OUT, plan=CONVOLUTION_PLAN,
    record=CONVOLUTION_RECORD, row_at=CONVOLUTION_ROW_AT, weight=CONVOLUTION_WEIGHT,
)  # fmt: skip

#: The constant part of a convolution: see ``cuda_program.Convolution``.
CONVOLUTION = np.dtype(
    [
        ("axes", _WORD),
        ("channels_last", _WORD),
        ("is_transposed", _WORD),
        ("type", _WORD),
        ("type_out", _WORD),
        ("compute", _WORD),
        ("stride", _WORD, (3,)),
        ("dilation", _WORD, (3,)),
        ("before", _WORD, (3,)),
    ]
)
convolution_at: Callable[[int], Record] = record(CONVOLUTION)

#: cuDNN for machine code: addresses of functions, handle, workspace, the tables of plans and of packs.  ``block``: the words in
#: which a plan is made (see ``plans``); ``failed``: the status of the calls since it was set to 0, or of several, combined;
#: ``tf32``: whether factors of float32 may be rounded to TF32.
CONVOLUTIONS = np.dtype(
    [
        (name, _WORD)
        for name in (
            *("create", "destroy", "finalize", "set", "get", "execute"),
            *("handle", "workspace", "workspace_bytes", "block", "failed", "n_made", "rows", "used", "serial", "packs", "tf32"),
        )
    ]
)
convolutions_at: Callable[[int], Record] = record(CONVOLUTIONS)

#: A row of the table of plans.  Key (see ``size_table``): record CONVOLUTION, alignment, sizes.  Then the plan, 0 if the library
#: has none, and the configuration that it is made of.
PLAN_ROW = np.dtype(
    [
        ("serial", _WORD),  # 0: the row is empty
        ("convolution", _WORD),
        ("alignment", _WORD),
        ("sizes", _WORD, (N_SIZES,)),
        ("plan", _WORD),
        ("configuration", _WORD),
    ]
)
plan_row_at: Callable[[int], Record] = record(PLAN_ROW)
#: Rows of the table, a power of two; half of them are used before the table is emptied.
PLAN_ROWS = 1024

#: A pack of addresses, which the library reads through a descriptor: data, weight and result; the descriptor, 0: there is none.
PACK = np.dtype([(name, _WORD) for name in ("data", "weight", "out", "descriptor")])
pack_at: Callable[[int], Record] = record(PACK)
#: Rows of the table of packs, a power of two: a pack replaces the pack in its row.
PACK_ROWS = 1024
