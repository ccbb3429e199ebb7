"""Words that the built-in functions of a machine read: its handle, the handle of each function, the slots of a Tensor."""

from __future__ import annotations

from ..values.tensor import Tensor
from . import c_api

#: Words of a machine's handle: its state and its entry point; borrowed references to the machine, its ``_serve``, None, the
#: handle itself, and the type Tensor.
(STATE, MACHINE, VM, SERVE, NONE, SELF, TENSOR) = range(7)
MACHINE_WORDS = 7
#: Words of a function's handle: address of the machine's handle; number of the function; its number of parameters; parameter
#: table (see ``signature``) and number of its rows; the types ndarray and tuple; number of named dims; rank and dtype of
#: the result, -1 if it is no tensor; the table of the result (see ``results``), 0 if Python converts it, and number of its rows.
(OF, FUNCTION, N_PARAMETERS, PARAMETERS, N_ROWS, ARRAY_TYPE, TUPLE_TYPE, N_NAMED) = range(8)
(RANK, DTYPE, RESULT, N_RESULT_ROWS) = range(8, 12)
ENTRY_WORDS = 12


def _slot(name: str) -> int:
    """The byte offset of a slot in objects of type Tensor."""
    probe, mark = object.__new__(Tensor), object()
    setattr(probe, name, mark)
    words = [o for o in range(0, Tensor.__basicsize__, 8) if c_api.word_of(probe, o) == id(mark)]
    delattr(probe, name)
    assert len(words) == 1, f"no place of {name} in a Tensor"
    return words[0]


ADDRESS_SLOT, VM_SLOT, HANDLE_SLOT = _slot("_address"), _slot("_vm"), _slot("_handle")
