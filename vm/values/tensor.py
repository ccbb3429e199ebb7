"""Tensors returned by programs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ...ops.core.tensor_types import DTYPES, numpy_dtype
from ...ops.native.memory import tensor as record_at
from ...ops.native.status import SIZE_OVERFLOW
from ..bytecode.sync_reason import SyncReason
from ..device_table import DEVICE_TABLE, DEVICES
from ..diagnostics import codes
from ..diagnostics.source import VMError
from .array_ops import ArrayLike
from .dlpack import capsule
from .notebook import notebook_html

#: DLPack's device types.
_DL_CPU, _DL_CUDA = 1, 2


class Owner(Protocol):
    """The virtual machine whose memory a tensor is stored in."""

    @property
    def _ordinal(self) -> int: ...
    @property
    def _stream(self) -> int: ...
    def _from_array(self, array: np.ndarray, device: int) -> Tensor: ...
    def _to_host(self, tensor: Tensor, why: SyncReason = ...) -> Tensor: ...
    def _as_array(self, tensor: Tensor, address: int) -> np.ndarray | None: ...
    def _share_on_stream(self, tensor: Tensor, stream: int | None) -> object: ...
    def _export(self, owner: object, address: int, device: int) -> Any: ...
    def _check_not_lost(self, tensor: Tensor) -> None: ...


class Tensor(ArrayLike):
    """Result of a program, on the device on which the program computed it.

    The tensor owns its memory, which returns to the memory pool with the tensor.

    Reading the tensor on the host (``numpy()``, ``numpy.asarray``, ``__dlpack__``) is zero-copy and writable on ``cpu``.  From
    another device, reading is a copy and a synchronisation, both counted.  Other libraries access a tensor on a GPU in place
    (``__dlpack__``, ``__cuda_array_interface__``), without copy and synchronisation.

    Operators, indexing and numpy's functions compute on the host and return numpy arrays.  A copy (``copy.copy``) has its own
    memory on the same device.  A tensor is pickled as its elements, and unpickled on ``cpu``.
    """

    # only native code makes and finalizes tensors: see ``guard``
    __slots__ = ("__weakref__", "_address", "_handle", "_vm")

    _vm: Owner
    _address: int
    _handle: np.ndarray

    def __new__(cls, *args: Any, **named: Any) -> Tensor:
        """Raise TypeError: only virtual machines make tensors."""
        raise TypeError("a Tensor is a result of a VirtualMachine and cannot be made; numpy arrays can be passed to run()")

    def __getattr__(self, name: str) -> Any:
        if name in Tensor.__slots__:
            raise VMError(
                "this Tensor is no result: Python made it, and no VirtualMachine", help="VirtualMachine.run gives results"
            )
        return object.__getattribute__(self, name)  # raises AttributeError

    def __init_subclass__(cls) -> None:
        raise TypeError("Tensor has no subclasses: a VirtualMachine would never make one")

    def __copy__(self) -> Tensor:
        """A copy on the same device.  Raises VMError as ``numpy``, and if out of memory."""
        return self._vm._from_array(self.numpy(), record_at(self._address).device)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.__copy__()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        record = record_at(self._address)
        return tuple(record.shape[i] for i in range(record.ndim))

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return numpy_dtype(DTYPES[record_at(self._address).dtype])

    @property
    def device(self) -> str:
        """The device of the elements: ``cpu``, ``sim`` or ``cuda``."""
        name: str = DEVICES[record_at(self._address).device]
        return name

    @property
    def ndim(self) -> int:
        """The number of axes."""
        rank: int = record_at(self._address).ndim
        return rank

    def numpy(self) -> np.ndarray:
        """The elements as a numpy array.

        Raises VMError if the queued work that computes them fails, and for an empty tensor whose shape numpy refuses.
        """
        try:
            array = self._vm._as_array(self, self._address)
        except ValueError as error:  # an empty tensor: numpy limits the product of the nonzero sizes
            what = f"numpy has no arrays of shape {self.shape}: the product of their sizes, but for 0, is too large"
            raise VMError(what, code=codes.of_status(SIZE_OVERFLOW)) from error
        return self._vm._to_host(self).numpy() if array is None else array  # a device's array is None

    asnumpy = numpy  # Relay's old name

    def _on_host(self) -> Tensor:
        return self._vm._to_host(self) if record_at(self._address).device else self

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None
    ) -> Any:
        """A versioned DLPack capsule: on the GPU for a tensor on a GPU, otherwise on the host.

        ``stream``: the consumer's CUDA stream.  The stream waits for the work that computes the tensor; the host does not wait.
        When the consumer releases the tensor, the memory is reused only after the work launched on that stream so far.  With
        ``stream=-1`` the consumer synchronises both itself.

        Raises BufferError for another device, for a consumer without DLPack version 1, and for a stream in graph capture.
        """
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) not in (here, (_DL_CPU, 0)):
            raise BufferError(f"a tensor can be exported to the CPU or to where it is, not to DLPack device {tuple(dl_device)}")
        if max_version is None or max_version[0] < 1:
            raise BufferError("this consumer knows no DLPack version 1; use .numpy()")
        if here[0] == _DL_CUDA and dl_device in (None, here) and not copy:
            return self._vm._export(self._vm._share_on_stream(self, stream), self._address, here[0] | here[1] << 32)
        if here[0] == _DL_CUDA and copy and dl_device in (None, here):
            raise BufferError("a copy on the GPU is the consumer's to make: take the tensor in place and copy it there")
        host = self._on_host()
        if copy and host is self:
            return capsule(np.array(self.numpy()), max_version)
        return host._vm._export(host, host._address, _DL_CPU)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The tensor's GPU, or the CPU for all other devices; a tensor on ``sim`` is copied to the CPU."""
        dlpack = DEVICE_TABLE[record_at(self._address).device].dlpack
        if dlpack != _DL_CPU:
            return dlpack, self._vm._ordinal
        return _DL_CPU, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface of a tensor on a GPU; consumers wait for the machine's ``stream``.

        The protocol tells the machine neither the consumer's stream nor the end of its use.  Keep the tensor alive until the work
        that uses it has finished, or use DLPack.  Raises AttributeError for a tensor on another device.
        """
        if self.__dlpack_device__()[0] != _DL_CUDA:
            raise AttributeError("__cuda_array_interface__: the tensor is not on a CUDA device")
        self._vm._check_not_lost(self)
        data, stream = record_at(self._address).data, self._vm._stream
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (data, False), "version": 3, "stream": stream}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a rank-0 tensor has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype.name}, device={self.device})"

    def _repr_html_(self) -> str:
        """The shape, dtype and device for a notebook, and the elements if they are on the host."""
        return notebook_html(repr(self) + (f"\n{self.numpy()}" if self.device == DEVICES[0] else ""))
