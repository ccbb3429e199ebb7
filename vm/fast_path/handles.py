"""Words that the built-in functions of a machine read: its handle, the handle of each function, the slots of a Tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.native.memory import record
from ...ops.native.object_layout import Record
from ..values.tensor import Tensor
from . import c_api

_WORD = np.int64

#: A machine's handle: its state and its entry point; borrowed references to the machine, its ``_serve``, None, the handle itself,
#: and the type Tensor.
MACHINE = np.dtype([(name, _WORD) for name in ("state", "machine", "vm", "serve", "none", "itself", "tensor")])
#: A function's handle.  ``of``: address of the machine's handle.  ``parameters``: parameter table (see ``signature``).
#: ``rank``, ``dtype``: of the result, -1 if it is no tensor.  ``result``: the table of the result (see ``results``), 0 if Python
#: converts the result.
ENTRY = np.dtype(
    [
        ("of", _WORD), ("function", _WORD), ("n_parameters", _WORD), ("parameters", _WORD), ("n_rows", _WORD),
        ("array_type", _WORD), ("tuple_type", _WORD), ("n_named", _WORD), ("rank", _WORD), ("dtype", _WORD), ("result", _WORD),
        ("n_result_rows", _WORD),
    ]
)  # fmt: skip
#: The handle of a closer: state and entry point of the machine, number of its constants.
CLOSER = np.dtype([("state", _WORD), ("machine", _WORD), ("n_constants", _WORD)])
machine_at: Callable[[int], Record] = record(MACHINE)
entry_at: Callable[[int], Record] = record(ENTRY)
closer_at: Callable[[int], Record] = record(CLOSER)


def _slot(name: str) -> int:
    """The byte offset of a slot in objects of type Tensor."""
    probe, mark = object.__new__(Tensor), object()
    setattr(probe, name, mark)
    words = [o for o in range(0, Tensor.__basicsize__, 8) if c_api.word_of(probe, o) == id(mark)]
    delattr(probe, name)
    assert len(words) == 1, f"no place of {name} in a Tensor"
    return words[0]


#: The slots of a Tensor that built-in functions read.
slots_at = c_api.words_of(number=_slot("_address"), vm=_slot("_vm"), handle=_slot("_handle"))
