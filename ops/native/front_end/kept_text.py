"""Texts of LLVM functions, kept in the process: a function of this package is emitted once, and many kernels have it.

Of what stands outside of it, the text of a function depends on its source, the types of its arguments, the values of the globals
that it names, and the results of the functions that it calls.  Only the names of these functions are of its module.
"""

from __future__ import annotations

import re
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir

from ....declarations.frozen_dataclass import frozen
from ..generated_source import is_generated
from .llvm import instructions
from .values.machine_types import Static, Tuple, Type

#: A function, and the types of its arguments.
Call = tuple[Callable[..., Any], tuple[Type, ...]]
_NAME = re.compile(r'(@"[^"]+")')
_ABSENT = object()
#: Names of functions that are no functions of Python, but made for a module, or parts of object code (see ``code_parts``).
_OWN_NAMES = '@"relayvm.'


class Function(instructions.Function):
    """A function of a module, whose ``text`` may be known."""

    text: str | None = None

    def __str__(self) -> str:
        return super().__str__() if self.text is None else self.text


class Recording:
    """The calls of native functions by a function that is being emitted, each with its result, by their names in the text.

    ``is_whole``: whether they are all that must be known; not within a recursion, where types are assumed.  ``failed``: the calls
    of the attempts before.  ``computed``: the calls that the compiler has made of functions of static values, with their results.
    """

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Call, Type]] = {}
        self.failed: list[tuple[Call, ...]] = []
        self.computed: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []
        self.is_whole = True

    def begin_again(self) -> None:
        """Begin another attempt: the module keeps the functions that the attempt before has called."""
        self.failed.append(tuple(call for call, _ in self.calls.values()))
        self.calls = {}


@frozen
class KeptText:
    """The text of a function: ``fragments``, of which every second is the name of a function.

    ``calls``, ``failed``, ``computed``: see ``Recording``; ``libraries``: other functions that it calls, by name, with type and
    attributes; ``read``: namespaces, with a name and its value.
    """

    code: types.CodeType
    name: str
    result: Type
    fragments: tuple[str, ...]
    calls: dict[str, tuple[Call, Type]]
    failed: tuple[tuple[Call, ...], ...]
    computed: tuple[tuple[Callable[..., Any], tuple[Any, ...], Any], ...]
    libraries: dict[str, tuple[ir.FunctionType, tuple[str, ...]]]
    read: tuple[tuple[dict[str, Any], str, Any], ...]

    def is_valid(self, function: Callable[..., Any]) -> bool:
        """Whether all that the function names has the value that it had."""
        if self.code is not function.__code__ or any(names.get(name, _ABSENT) is not value for names, name, value in self.read):
            return False
        return all(compute(*given) == result for compute, given, result in self.computed)

    def text(self, names: dict[str, str]) -> str:
        """The text with other names: a reference for each reference."""
        return "".join(names.get(fragment, fragment) if at % 2 else fragment for at, fragment in enumerate(self.fragments))


_texts: weakref.WeakKeyDictionary[Callable[..., Any], dict[tuple[Type, ...], KeptText]] = weakref.WeakKeyDictionary()


def find(function: Callable[..., Any], kinds: tuple[Type, ...]) -> KeptText | None:
    """The text of a function for arguments of these types, if there is one."""
    found = _texts.get(function, {}).get(kinds)
    return found if found is not None and found.is_valid(function) else None


def keep(function: Callable[..., Any], kinds: tuple[Type, ...], made: Function, result: Type, recording: Recording) -> None:
    """Keep the text of a function that has been emitted, unless it depends on more of its module than names.

    Metadata have numbers of their module.  Functions of a generated text are compiled once.
    """
    if not recording.is_whole or is_generated(function.__code__.co_filename) or not all(map(_is_lasting, kinds)):
        return
    made.text = str(made)
    own = f'@"{made.name}"'
    fragments = tuple(_NAME.split(made.text))
    outside = set(fragments[1::2]) - recording.calls.keys() - {own}
    found = {reference: made.module.globals[reference[2:-1]] for reference in outside}
    if "!" in made.text or any(not f.is_declaration or name.startswith(_OWN_NAMES) for name, f in found.items()):
        return
    libraries = {f.name: (f.function_type, tuple(sorted(f.attributes))) for f in found.values()}
    calls, failed, computed = dict(recording.calls), tuple(recording.failed), tuple(recording.computed)
    kept = KeptText(function.__code__, own, result, fragments, calls, failed, computed, libraries, tuple(_read(function)))
    _texts.setdefault(function, {})[kinds] = kept


def declare(module: ir.Module, kept: KeptText) -> None:
    """Declare the functions of libraries that a text calls."""
    for name, (kind, attributes) in kept.libraries.items():
        if name not in module.globals:
            function = ir.Function(module, kind, name)
            for attribute in attributes:
                function.attributes.add(attribute)


def _is_lasting(kind: Type) -> bool:
    """Whether a type holds no object but functions of modules: other objects may be those of one kernel."""
    if isinstance(kind, Tuple):
        return all(map(_is_lasting, kind.items))
    thing = kind.value if isinstance(kind, Static) else None
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return thing is None or getattr(module, getattr(thing, "__name__", ""), None) is thing


def _read(function: Callable[..., Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """The globals that a function may name, and the attributes of modules among them: namespace, name, value."""
    names = function.__code__.co_names
    for name in names:
        value = function.__globals__.get(name, _ABSENT)
        yield function.__globals__, name, value
        if isinstance(value, types.ModuleType):
            yield from ((vars(value), attribute, vars(value).get(attribute, _ABSENT)) for attribute in names)
