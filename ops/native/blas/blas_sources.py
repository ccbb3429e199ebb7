"""Discovery of a BLAS: the library in numpy's wheels, which is loaded already, else the library in scipy.

numpy's comes first since it costs nothing to load, and products are then as fast as numpy's own.  Other builds of numpy link the
BLAS of their system (MKL, Accelerate, a reference BLAS), under names that tell neither its speed nor its dependencies: scipy's
table of BLAS functions has one signature for every build of scipy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from ....declarations.frozen_dataclass import frozen

#: The module of numpy that multiplies matrices; its library in numpy's wheels is OpenBLAS with 64-bit integers.
NUMPY_MODULE = "numpy._core._multiarray_umath"
_NUMPY_SYMBOL = "scipy_{name}_64_"
#: Names of the functions that get and set the number of threads of a BLAS, for the process: OpenBLAS in wheels and elsewhere,
#: with integers of 64 or 32 bits, BLIS, and MKL.
_THREAD_FUNCTIONS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@frozen
class Source:
    """A package that brings a BLAS.

    ``address`` of a function, by its name in BLAS, raises ImportError with the reason.  The functions take integers by address,
    of 32 or 64 bits: 64-bit integers with the low half first serve both.  ``threads``: the addresses of the functions that get
    and set the number of threads; None without such functions.
    """

    package: str
    address: Callable[[str], int]
    threads: Callable[[], tuple[int, int] | None] = lambda: None


def _in_numpy(name: str) -> int:
    """Look up a function in the libraries that numpy's module is linked with, so in the copy that it calls; nothing is loaded."""
    library = _loaded(import_module(NUMPY_MODULE))
    symbol = _NUMPY_SYMBOL.format(name=name)
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
    except AttributeError:
        raise ImportError(f"it is not linked with a library that has {symbol}") from None


def _loaded(module: Any) -> ctypes.CDLL:
    """The shared library of a module, with its dependencies.  Raises ImportError for a module without one."""
    file = getattr(module, "__file__", None)
    if file is None:
        raise ImportError(f"{module.__name__} is no file")
    try:
        return ctypes.CDLL(file, mode=os.RTLD_NOLOAD)
    except OSError as error:
        raise ImportError(f"{file} is not loaded: {error}") from None


def _thread_functions(library: ctypes.CDLL) -> tuple[int, int] | None:
    """The functions that get and set the number of threads of the BLAS with which a library is linked."""
    for pair in _THREAD_FUNCTIONS:
        with contextlib.suppress(AttributeError):
            get, set_ = (ctypes.cast(library[name], ctypes.c_void_p).value for name in pair)
            return (get, set_) if get and set_ else None
    return None


def _in_scipy(name: str) -> int:
    """Look up a function in scipy's table of BLAS functions; its C signature is checked."""
    if sys.byteorder != "little":
        raise ImportError("it takes integers of 32 bits, and here the low half of 64 bits does not come first")
    capsule = _cython_blas().__pyx_capi__.get(name)
    if capsule is None:
        raise ImportError(f"scipy.linalg.cython_blas has no {name}")
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    kinds = [part.strip().rsplit(" ", 1)[0] for part in signature.decode().partition("(")[2].rstrip(")").split(",")]
    short = ["real" if kind.endswith(f"cython_blas_{name[0]}") else kind for kind in kinds]
    wanted = ["char"] * 2 + ["int"] * 3 + ["real"] * 2 + ["int", "real", "int"] + ["real"] * 2 + ["int"]
    if short != wanted:
        raise ImportError(f"scipy.linalg.cython_blas.{name} has an unknown signature: {signature.decode()}")
    return int(api.PyCapsule_GetPointer(capsule, signature))


def _cython_blas() -> Any:
    """Import scipy's table of BLAS functions by itself: the package around it would import all of its linear algebra, 0.1 s."""
    import scipy

    name = "scipy.linalg.cython_blas"
    if name in sys.modules:
        return sys.modules[name]
    spec = PathFinder.find_spec(name, [str(Path(folder) / "linalg") for folder in scipy.__path__])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module {name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)  # the module registers itself, and then the package would never have it as an attribute
    return module


#: Sources in the order in which they are tried.
SOURCES = (
    Source("numpy", _in_numpy, lambda: _thread_functions(_loaded(import_module(NUMPY_MODULE)))),
    Source("scipy", _in_scipy, lambda: _thread_functions(_loaded(_cython_blas()))),
)
