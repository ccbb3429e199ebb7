"""The signature of a program's function for Python's ``help``, editors and notebooks."""

from __future__ import annotations

import keyword
from inspect import Parameter, Signature
from typing import Any

from ..bytecode.executable import VMFunction


class FunctionSignature:
    """The ``__signature__`` of an object with a ``function``: its parameters by name, with the texts of their types.

    A name that Python cannot call by name makes all arguments unnamed.
    """

    def __get__(self, entry: Any, owner: type) -> Signature:
        if entry is None:
            raise AttributeError("__signature__")  # of the class, which has the signature of its constructor
        return signature_of(entry.function)


def signature_of(function: VMFunction) -> Signature:
    """The signature: parameters, ``outputs`` and ``donate`` if no parameter has these names, and the result."""
    names = [name for name, _ in function.params]
    if any(not name.isidentifier() or keyword.iskeyword(name) for name in names):
        return Signature([Parameter("args", Parameter.VAR_POSITIONAL), Parameter("named", Parameter.VAR_KEYWORD)])
    first = len(names) - len(function.defaults)
    listed = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=str(ty), default=... if n >= first else Parameter.empty)
        for n, (name, ty) in enumerate(function.params)
    ]
    options = [name for name in ("outputs", "donate") if name not in names]
    listed += [Parameter(name, Parameter.KEYWORD_ONLY, default=()) for name in options]
    return Signature(listed, return_annotation=str(function.result))
