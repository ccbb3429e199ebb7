"""Registration of a user's operators, with the user's errors as diagnostics with their place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ...ops.registration import custom_op
from ...vm.diagnostics.argument_errors import a_sequence, a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError

__all__ = ["one_block", "register_op", "register_shape_func", "restore_shape_func", "unregister_op"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _checked(function: _Function) -> _Function:
    """The function with checked arguments, and its ValueError as an ArgumentError."""
    who = function.__name__

    @functools.wraps(function)
    def call(name: Any, *args: Any, **named: Any) -> Any:
        a_text(name, f"{who}: the operator's name")
        if who == custom_op.register_op.__name__ and (args or "inputs" in named):
            for given in a_sequence(args[0] if args else named["inputs"], f"{who}: the inputs", '["lhs", "rhs"]'):
                a_text(given, f"{who}: an input's name")
        for word in ("element", "kernel", "dtype", "func"):
            if not (named.get(word) is None or callable(named[word])):
                raise wrong(f"{who}: {word}", "a function", named[word])
        if who == custom_op.register_shape_func.__name__:
            flags = args[0] if args else named.get("data_dependent", False)
            if not isinstance(flags, bool):
                for flag in a_sequence(flags, f"{who}: data_dependent", "one bool for each input, or one for all"):
                    if not isinstance(flag, bool):
                        raise wrong(f"{who}: a flag of data_dependent", "a bool", flag)
            body = args[1] if len(args) > 1 else None
            if not (body is None or callable(body)):
                raise wrong(f"{who}: func", "a function", body)
        try:
            return function(name, *args, **named)
        except ValueError as error:
            raise ArgumentError(str(error), here()) from error

    return call  # type: ignore[return-value]


register_op = _checked(custom_op.register_op)
register_shape_func = _checked(custom_op.register_shape_func)
restore_shape_func = _checked(custom_op.restore_shape_func)
unregister_op = _checked(custom_op.unregister_op)


def one_block(text: str, threads: int = 256) -> Callable[[Any], Any]:
    """``register_op(cuda=...)`` of CUDA C that one block of ``threads`` threads runs: for work whose steps need each other.

    The text has the names of a text for one element (inputs, ``out``, ``x_size1``, ``sizes``, attributes, ``fail``), without
    ``at``.  ``thread`` is the number of a thread, from 0 to ``threads - 1``; ``__syncthreads()`` waits for the others, whose
    stores to memory are seen after it.  ``threads``: a multiple of 32, at most 1024.  Raises ArgumentError.
    """
    from ...ops.codegen.cuda.custom_element import one_block as kernel  # the code generator, which other operators do without

    a_text(text, "one_block: the CUDA C")
    if type(threads) is not int or threads % 32 or not 32 <= threads <= 1024:
        raise wrong("one_block: threads", "a multiple of 32 up to 1024", threads)
    return kernel(text, threads)
