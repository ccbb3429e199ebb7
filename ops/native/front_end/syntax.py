"""The syntax trees of native functions."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..generated_source import is_generated
from .values.scalars import Outside

#: The name of a function and its line: the line of the first decorator, if any.
Place = tuple[str, int]
#: The fields of syntax trees that have statements.
_OF_STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")


def definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function.  Raises Outside if its source is not at hand, or no longer the source of its code."""
    code = function.__code__
    place = code.co_name, code.co_firstlineno
    found = _functions(code.co_filename).get(place)
    if found is None or not (is_generated(code.co_filename) or _is_compiled_from(code, code.co_filename, place)):
        raise Outside(f"the source of {code.co_name} is not at hand in {code.co_filename}")
    return found


def _is_compiled_from(code: types.CodeType, filename: str, place: Place) -> bool:
    """Whether the file still has the source of ``code``: the file may have changed since its import."""
    compiled = _compiled(filename).get(place)
    return compiled is not None and compiled.co_code == code.co_code and compiled.co_names == code.co_names


@functools.lru_cache(maxsize=512)
def _functions(filename: str) -> dict[Place, ast.FunctionDef]:
    """The definitions of functions in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return {}
    return {(f.name, min([f.lineno, *(d.lineno for d in f.decorator_list)])): f for f in _definitions(tree)}


@functools.lru_cache(maxsize=512)
def _compiled(filename: str) -> dict[Place, types.CodeType]:
    """The code of the functions in a file, which ``_functions`` has read."""
    text = "".join(linecache.getlines(filename))
    try:
        return {(c.co_name, c.co_firstlineno): c for c in _codes(compile(text, filename, "exec", dont_inherit=True))}
    except (SyntaxError, ValueError):
        return {}


def _definitions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The definitions of functions among the statements of a tree; its expressions have none."""
    if isinstance(tree, ast.FunctionDef):
        yield tree
    for field in _OF_STATEMENTS:
        for statement in getattr(tree, field, ()):
            yield from _definitions(statement)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
