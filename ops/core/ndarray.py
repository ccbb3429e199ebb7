"""Arrays that are data of a program, with Relay's methods beside numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np


class NDArray(np.ndarray):
    """A numpy array with ``numpy()``.  Arithmetic on it gives plain arrays."""

    def numpy(self) -> np.ndarray:
        """The elements as a plain array, in the same memory."""
        return self.view(np.ndarray)

    asnumpy = numpy

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        """The result of a ufunc: a plain array or scalar."""
        return array[()] if return_scalar else np.asarray(array)
