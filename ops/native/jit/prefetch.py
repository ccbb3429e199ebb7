"""Requests for cache lines before they are used: reads of memory overlap with computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..memory import set_machine_form, twin
from .marked_accesses import AHEAD, marked


@twin
def fetch(array: Any, at: int) -> None:
    """Ask for the cache line of an element that will be read, or that is outside the array."""


@twin
def fetch_early(array: Any, at: int) -> None:
    """As ``fetch``, into the second cache: for more lines than the first one holds."""


@twin
def fetch_to_write(array: Any, at: int) -> None:
    """Ask for the cache line of an element that will be written, or that is outside the array."""


@twin
def load_ahead(array: Any, at: int) -> Any:
    """An element; the vectors of a loop over elements also ask for the lines ``AHEAD_BYTES`` further, as ``fetch_early``."""
    return array[at]


def _load_ahead(emitter: Any, array: Any, at: Any) -> Any:
    from ..front_end.arrays import load_element

    return marked(emitter, AHEAD, "load", lambda: load_element(emitter, array, [at]))


def _prefetch(write: int, level: int = 1) -> Callable[[], Any]:
    """The provider of the machine form: a prefetch into the cache of a level, which never faults."""

    def form(emitter: Any, array: Any, at: Any) -> None:
        from llvmlite import ir

        b, byte, flag = emitter.builder, ir.IntType(8).as_pointer(), ir.IntType(32)
        name, kind = "llvm.prefetch.p0", ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
        place = b.bitcast(b.gep(array.parts[0], [emitter.word(at)]), byte)
        b.call(function, [place, flag(write), flag(4 - level), flag(1)])

    return lambda: form


set_machine_form(load_ahead, lambda: _load_ahead)
set_machine_form(fetch, _prefetch(0))
set_machine_form(fetch_early, _prefetch(0, 2))
set_machine_form(fetch_to_write, _prefetch(1))
