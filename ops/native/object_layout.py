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


#: A tensor: a contiguous, row-major view of a storage.  ``payload`` holds the elements of small host tensors.  Other objects use
#: the same words under other names: see the layouts below.
TENSOR = np.dtype(
    [
        ("refcount", _WORD),
        ("tag", _WORD),  # kind of object: see the TAG_ names
        ("data", _WORD),  # address of the first element
        ("ndim", _WORD),
        ("dtype", _WORD),  # index into tensor_types.DTYPES
        ("device", _WORD),  # 0: host
        ("storage", _WORD),  # address of the storage object; 0: the payload, or memory that the machine does not own
        ("count", _WORD),  # of tensors: the lines that the object lacks (see ``vm.runtime.objects.chunks``)
        ("shape", _WORD, (MAX_RANK,)),
        ("payload", _WORD, (MAX_RANK,)),
    ]
)
OBJECT_BYTES = TENSOR.itemsize

#: The partition of a kernel's work: part ``part`` of ``parts`` equal parts.  A kernel that can be divided, and has more than
#: ``limit`` units of work, asks for threads instead of running.  The parts are in ``stretches`` of equally many neighbours;
#: ``own``: whether the thread computes the parts of this stretch in order.
SHARE = np.dtype([("part", _WORD), ("parts", _WORD), ("limit", _WORD), ("stretches", _WORD), ("own", _WORD)])
#: The limit of a kernel that must not ask for threads.
NO_LIMIT = 1 << 62


def _layout(**words: str | tuple[str, int]) -> np.dtype:
    """A layout of the words of an object: for each name the field of TENSOR, or an array field and an index, in their order."""
    assert TENSOR.fields is not None
    positions = [(place, 0) if isinstance(place, str) else place for place in words.values()]
    offsets = [TENSOR.fields[field][1] + index * np.dtype(_WORD).itemsize for field, index in positions]
    return np.dtype({"names": list(words), "formats": [_WORD] * len(words), "offsets": offsets, "itemsize": OBJECT_BYTES})


#: A storage.  ``writer``: LOST if the launch that writes it was dropped, on a GPU the number of that launch.  ``users``: on a GPU
#: the list of foreign streams that used it; 0: none.  ``elements``: the first word of the bytes of a small storage on the host.
#: ``first_tensor``: the first tensor in it (see ``vm.runtime.objects.poison``).  ``serial``: on ``sim`` the number of its
#: allocation.
STORAGE = _layout(
    refcount="refcount", tag="tag", data="data", writer="ndim", nbytes="dtype", device="device", users="storage",
    size_class="count", elements=("shape", 0), first_tensor=("payload", 0), serial=("payload", 1),
)  # fmt: skip
#: A tuple or constructor, and a closure.  ``fields``: the address of the fields, or of the captured values: the address of
#: ``inline``, which is the first of all words to the end of the object, or of a block of their own.
ADT = _layout(refcount="refcount", tag="tag", fields="data", n_fields="ndim", constructor="dtype", inline="device")
CLOSURE = _layout(refcount="refcount", tag="tag", fields="data", n_fields="ndim", function="dtype", inline="device")
#: A pending copy of ``source`` to the tensor ``to`` on the host.  ``ticket``: the work to wait for.  ``pc``, ``reason``: the
#: instruction that began the copy and its reason.  ``device``: the device of the source.
PENDING = _layout(
    refcount="refcount", tag="tag", to="data", pc="ndim", reason="dtype", device="device", source="storage", ticket="count"
)
#: A dead object, in a list of dead objects or of free ones.
FREE = _layout(next="refcount", tag="tag", data="data", nbytes="dtype")

TAG_TENSOR, TAG_STORAGE, TAG_ADT, TAG_CLOSURE, TAG_PENDING = 1, 2, 3, 4, 5
