"""The objects of the machine, as records in memory, declared once.

A kernel is ``int32 kernel(int64 argv, int64 n)``: ``argv`` points at ``n`` addresses of TENSOR records (inputs, then
outputs, a workspace last), followed by the address of the library table (see ``libraries``) and that of a SHARE.  It returns
a status (see ``status``), or, having done nothing, minus the number of threads that its work is worth (see ``threads``).

The same numpy dtypes are read by machine code (``record`` in ``memory``) and by Python (``numpy`` views).
"""

from __future__ import annotations

import numpy as np

from ..ty import MAX_RANK

_WORD = np.int64

#: A tensor: a view of a storage.  Contiguous, row-major.  ``payload`` holds the elements of small host tensors.
#: Other objects use the same record: a storage has its block's size in ``shape[0]``; a tuple or closure its fields at
#: ``data`` and its constructor or function number in ``dtype``.
TENSOR = np.dtype(
    [
        ("refcount", _WORD),
        ("tag", _WORD),  # which kind of object: see the TAG_ names
        ("data", _WORD),  # address of the first element
        ("ndim", _WORD),
        ("dtype", _WORD),  # index into ty.DTYPES
        ("device", _WORD),  # 0: host
        ("storage", _WORD),  # address of the storage object; 0: the payload or nobody's
        ("count", _WORD),  # a storage: its size class; a tuple or closure: number of fields
        ("shape", _WORD, (MAX_RANK,)),
        ("payload", _WORD, (MAX_RANK,)),
    ]
)
OBJECT_BYTES = TENSOR.itemsize

#: How much of its work a kernel is to do: part ``part`` of ``parts``, which together are all of it.  A kernel that can be
#: divided, and has more than ``limit`` units of work, asks for threads instead.
SHARE = np.dtype([("part", _WORD), ("parts", _WORD), ("limit", _WORD)])
#: The limit of who wants no questions.
NO_LIMIT = 1 << 62

#: A copy to the host that is under way is a TAG_PENDING: the host tensor at ``data``, the source at ``storage``, what to
#: wait for in ``count``, the instruction that began it in ``ndim``, its reason in ``dtype``, the source's device in ``device``.
TAG_TENSOR, TAG_STORAGE, TAG_ADT, TAG_CLOSURE, TAG_PENDING = 1, 2, 3, 4, 5
