"""What a program returns: a tensor where the program left it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ops.native.memory import tensor as record_at
from ..ops.native.status import SIZE_OVERFLOW
from ..ops.ty import DTYPES, numpy_dtype
from . import codes
from .dlpack import capsule
from .executable import DEVICES
from .layout import CUDA
from .on_host import OnHost
from .source import VMError

if TYPE_CHECKING:
    from .machine import VirtualMachine

#: DLPack's numbers of kinds of devices.
_DL_CPU, _DL_CUDA = 1, 2


class Tensor(OnHost):
    """A result on the device where the program left it.  Owns its memory, which goes back to the pool with it.

    Reading it on the host (``numpy()``, ``numpy.asarray``, ``__dlpack__``) is zero-copy and writable on ``cpu``; from another
    device it is a copy and a wait, both counted like any other.  On a card, other libraries take it as it is, without either
    (``__dlpack__``, ``__cuda_array_interface__``).

    Operators, indexing and numpy's functions compute on the host and give numpy's arrays.  A copy (``copy.copy``) has memory of
    its own on the same device; pickled, a tensor is its elements, and on ``cpu`` wherever it is unpickled.
    """

    # made, and let go of, by machine code alone: see ``guard``
    __slots__ = ("__weakref__", "_address", "_handle", "_vm")

    _vm: VirtualMachine
    _address: int
    _handle: np.ndarray

    def __new__(cls, *args: Any, **named: Any) -> Tensor:
        """Raises TypeError: a machine makes its results."""
        raise TypeError("a Tensor is a result of a VirtualMachine and cannot be made; numpy arrays can be passed to run()")

    def __getattr__(self, name: str) -> Any:
        if name in Tensor.__slots__:
            raise VMError(
                "this Tensor is no result: Python made it, and no VirtualMachine", help="VirtualMachine.run gives results"
            )
        return object.__getattribute__(self, name)  # which says what there is not

    def __init_subclass__(cls) -> None:
        raise TypeError("Tensor has no subclasses: a VirtualMachine would never make one")

    def __copy__(self) -> Tensor:
        """Raises VMError as ``numpy`` does, and when there is no memory."""
        return self._vm._taken_in(self.numpy(), record_at(self._address).device)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.__copy__()

    def __reduce__(self) -> Any:
        from .pickling import tensor_of

        return tensor_of, (self.numpy(),)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        record = record_at(self._address)
        return tuple(record.shape[i] for i in range(record.ndim))

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return numpy_dtype(DTYPES[record_at(self._address).dtype])

    @property
    def device(self) -> str:
        """Where the elements are: ``cpu``, ``sim`` or ``cuda``."""
        return DEVICES[record_at(self._address).device]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return record_at(self._address).ndim

    def numpy(self) -> np.ndarray:
        """The elements as a numpy array.  Raises VMError when queued work that makes them fails, and for an empty tensor of
        a shape that numpy refuses."""
        if record_at(self._address).device:
            return self._vm._to_host(self).numpy()
        try:
            return self._vm._as_array(self, self._address)
        except ValueError as error:  # an empty one: numpy multiplies the other sizes all the same
            what = f"numpy has no arrays of shape {self.shape}: the product of their sizes, but for 0, is too large"
            raise VMError(what, code=codes.of_status(SIZE_OVERFLOW)) from error

    def _on_host(self) -> Tensor:
        return self._vm._to_host(self) if record_at(self._address).device else self

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None
    ) -> Any:
        """A versioned DLPack capsule: on a card for what is there, else on the host.  ``stream``: the consumer's CUDA stream,
        which is made to wait for the work that makes the tensor; the host does not wait.  When the consumer lets go of the
        tensor, work that it has launched on that stream by then still finds it: the memory is used again behind that work.  With
        ``stream=-1`` the consumer orders both itself.

        Raises BufferError for another device, an old consumer, or a stream that is captured.
        """
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) not in (here, (_DL_CPU, 0)):
            raise BufferError(f"a tensor can be exported to the CPU or to where it is, not to DLPack device {tuple(dl_device)}")
        if max_version is None or max_version[0] < 1:
            raise BufferError("this consumer knows no DLPack version 1; use .numpy()")
        if here[0] == _DL_CUDA and dl_device in (None, here) and not copy:
            return self._vm._export(self._vm._lend(self, stream), self._address, here[0] | here[1] << 32)
        if here[0] == _DL_CUDA and copy and dl_device in (None, here):
            raise BufferError("a copy on the card is the consumer's to make: take the tensor in place and copy it there")
        host = self._on_host()
        if copy and host is self:
            return capsule(np.array(self.numpy()), max_version)
        return host._vm._export(host, host._address, _DL_CPU)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The card that the tensor is on; else the CPU, for which a tensor on another device is copied."""
        if record_at(self._address).device == CUDA:
            return _DL_CUDA, self._vm._ordinal
        return _DL_CPU, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The tensor in place for libraries of CUDA arrays; they wait for the machine's ``stream``.  Not there off a card.

        The protocol does not say on which stream the memory is used, nor when that ends: keep the tensor until the work that uses
        it has run, or take it by DLPack.
        """
        if record_at(self._address).device != CUDA:
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
