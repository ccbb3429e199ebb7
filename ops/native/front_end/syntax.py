"""The syntax trees of native functions."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from .scalars import Outside


def definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function.  Raises Outside if its source is not at hand, or no longer the source of its code."""
    code = function.__code__
    found, compiled = _functions(code.co_filename).get((code.co_name, code.co_firstlineno), (None, None))
    # a file may have changed since it was imported
    if found is None or compiled is None or compiled.co_code != code.co_code or compiled.co_names != code.co_names:
        raise Outside(f"the source of {code.co_name} is not at hand in {code.co_filename}")
    return found


@functools.lru_cache(maxsize=512)
def _functions(filename: str) -> dict[tuple[str, int], tuple[ast.FunctionDef, types.CodeType | None]]:
    """The functions of a file, and their code, by name and line: the line of the first decorator, if any."""
    text = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(text)
        codes = {(c.co_name, c.co_firstlineno): c for c in _codes(compile(text, filename, "exec", dont_inherit=True))}
    except (SyntaxError, ValueError):
        return {}
    functions = {(f.name, min([f.lineno, *(d.lineno for d in f.decorator_list)])): f for f in ast.walk(tree) if _is_function(f)}
    return {key: (node, codes.get(key)) for key, node in functions.items()}


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
