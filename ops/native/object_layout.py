"""Memory layout of the machine's objects, declared once as numpy record dtypes.

A kernel is ``int32 kernel(int64 argv, int64 n)``.  ``argv`` points at ``n`` addresses of TENSOR records (inputs, then outputs, a
workspace last).  The address of the library table (see ``jit.library_calls``) and the address of a SHARE follow. A kernel returns
a status (see ``status``).  A kernel that asks for threads does no work and returns minus the number of threads (see
``threads.team``).

Machine code reads these dtypes through ``memory.record``; Python reads them as ``numpy`` views.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..core.tensor_types import MAX_RANK

_WORD = np.int64


class Field(int):
    """Type of a record's field, for readers and mypy: a word, or an array of words."""

    def __getitem__(self, i: int) -> int:
        raise NotImplementedError

    def __setitem__(self, i: int, value: int) -> None:
        raise NotImplementedError


class Record(Protocol):
    """Type of the view of a record, for readers and mypy; the names of its fields are those of its dtype."""

    def __getattr__(self, name: str) -> Field: ...

    def __setattr__(self, name: str, value: int) -> None: ...


#: A tensor: a contiguous, row-major view of a storage.  ``payload`` holds the elements of small host tensors. Other objects use
#: the same record: a storage has the size of its block in ``shape[0]``; a tuple or closure has its fields at ``data`` and its
#: constructor or function number in ``dtype``.
TENSOR = np.dtype(
    [
        ("refcount", _WORD),
        ("tag", _WORD),  # kind of object: see the TAG_ names
        ("data", _WORD),  # address of the first element
        ("ndim", _WORD),
        ("dtype", _WORD),  # index into tensor_types.DTYPES
        ("device", _WORD),  # 0: host
        ("storage", _WORD),  # address of the storage object; 0: the payload, or memory that the machine does not own
        ("count", _WORD),  # a storage: its size class; a tuple or closure: number of fields
        ("shape", _WORD, (MAX_RANK,)),
        ("payload", _WORD, (MAX_RANK,)),
    ]
)
OBJECT_BYTES = TENSOR.itemsize

#: The partition of a kernel's work: part ``part`` of ``parts`` equal parts.  A kernel that can be divided, and has more than
#: ``limit`` units of work, asks for threads instead of running.
SHARE = np.dtype([("part", _WORD), ("parts", _WORD), ("limit", _WORD)])
#: The limit of a kernel that must not ask for threads.
NO_LIMIT = 1 << 62

#: A pending copy to the host is a TAG_PENDING object: the host tensor at ``data``, the source at ``storage``, the ticket to wait
#: for in ``count``, the instruction that began the copy in ``ndim``, the reason in ``dtype``, the source's device in ``device``.
TAG_TENSOR, TAG_STORAGE, TAG_ADT, TAG_CLOSURE, TAG_PENDING = 1, 2, 3, 4, 5
