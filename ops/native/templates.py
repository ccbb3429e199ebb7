"""Templates of native functions: functions that differ only in their callees and constants.

A closure would work, too, but machine code is keyed by the bytecode of a function and the values of its globals: see
``compiled.function_fingerprint``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def instantiate(template: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """Instantiate a template: a copy of a native function as ``name``, with the globals ``names`` replaced.

    Raises KeyError for a name that is no global of its module.
    """
    assert isinstance(template, FunctionType)
    if unknown := names.keys() - template.__globals__.keys():
        raise KeyError(f"{template.__name__} has no {', '.join(sorted(unknown))}")
    copy = FunctionType(template.__code__, {**template.__globals__, **names}, name, template.__defaults__)
    copy.__dict__.update(template.__dict__)
    copy.__annotations__ = template.__annotations__
    return copy
