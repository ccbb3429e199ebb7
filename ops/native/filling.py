"""Native functions that differ only in what they call: one of them as a template, filled in for each.

A closure would do that, too, but machine code is found by what a function says and what its globals are: see
``compile.fingerprint``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def filled(template: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """A copy of a native function under another ``name``, whose globals of these ``names`` are these values.

    Raises KeyError for a name that its module has not.
    """
    assert isinstance(template, FunctionType)
    if unknown := names.keys() - template.__globals__.keys():
        raise KeyError(f"{template.__name__} has no {', '.join(sorted(unknown))}")
    copy = FunctionType(template.__code__, {**template.__globals__, **names}, name, template.__defaults__)
    copy.__dict__.update(template.__dict__)
    return copy
