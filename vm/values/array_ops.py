"""Python's operators and numpy's functions on objects that convert to numpy arrays.

They compute on the host with numpy and return numpy's results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_Result = Callable[["ArrayLike", Any], Any]


def _two(name: str) -> _Result:
    method = getattr(np.ndarray, name)

    def apply(self: ArrayLike, other: Any) -> Any:
        return method(self.numpy(), _plain(other))

    apply.__name__ = name
    return apply


def _one(name: str) -> Callable[[ArrayLike], Any]:
    method = getattr(np.ndarray, name)

    def apply(self: ArrayLike) -> Any:
        return method(self.numpy())

    apply.__name__ = name
    return apply


def _plain(value: Any) -> Any:
    """Replace array-like objects by their arrays, also in tuples and lists."""
    if isinstance(value, ArrayLike):
        return value.numpy()
    return type(value)(map(_plain, value)) if type(value) in (tuple, list) else value


class ArrayLike:
    """Base class with the operators and the protocols of numpy arrays.

    Comparison is elementwise, so the objects have no hash, as arrays have none.
    """

    __slots__ = ()

    def numpy(self) -> np.ndarray:
        """The elements as a numpy array."""
        raise NotImplementedError

    __add__, __radd__ = _two("__add__"), _two("__radd__")
    __sub__, __rsub__ = _two("__sub__"), _two("__rsub__")
    __mul__, __rmul__ = _two("__mul__"), _two("__rmul__")
    __matmul__, __rmatmul__ = _two("__matmul__"), _two("__rmatmul__")
    __truediv__, __rtruediv__ = _two("__truediv__"), _two("__rtruediv__")
    __floordiv__, __rfloordiv__ = _two("__floordiv__"), _two("__rfloordiv__")
    __mod__, __rmod__ = _two("__mod__"), _two("__rmod__")
    __divmod__, __rdivmod__ = _two("__divmod__"), _two("__rdivmod__")
    __pow__, __rpow__ = _two("__pow__"), _two("__rpow__")
    __lshift__, __rlshift__ = _two("__lshift__"), _two("__rlshift__")
    __rshift__, __rrshift__ = _two("__rshift__"), _two("__rrshift__")
    __and__, __rand__ = _two("__and__"), _two("__rand__")
    __or__, __ror__ = _two("__or__"), _two("__ror__")
    __xor__, __rxor__ = _two("__xor__"), _two("__rxor__")
    __lt__, __le__, __gt__, __ge__ = _two("__lt__"), _two("__le__"), _two("__gt__"), _two("__ge__")
    __eq__, __ne__ = _two("__eq__"), _two("__ne__")
    __hash__ = None  # type: ignore[assignment]
    __neg__, __pos__, __abs__, __invert__ = _one("__neg__"), _one("__pos__"), _one("__abs__"), _one("__invert__")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(out, ArrayLike) for out in options.get("out", ())):
            raise TypeError("numpy does not write into a Tensor; pass a numpy array as `out`")
        return getattr(ufunc, method)(*map(_plain, inputs), **{name: _plain(value) for name, value in options.items()})

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[_plain(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def __contains__(self, value: Any) -> bool:
        return _plain(value) in self.numpy()

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists; a number for rank 0."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The only element as a Python number.  Raises ValueError unless there is exactly one element."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return operator.index(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())
