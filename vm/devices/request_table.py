"""The handler of a device's requests, from a table of functions (see ``vm.state.device_requests``)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...ops.native.compiled import kernel_store
from ...ops.native.generated_source import define
from ...ops.native.memory import native
from ..state.device_requests import REQUESTS, WORDS
from ..state.state_layout import state_at

_PARAMETERS = ("state", "request", *WORDS)
#: Type of a handler.
Handler = Callable[..., int]


def handler(
    device: str, table: Mapping[str, Callable[..., Any]], record: str = "record", before: Callable[..., None] | None = None
) -> Handler:
    """The function ``(state, request, a, b, c, d)`` in machine code that serves the requests of a device.

    ``table``: a native function for each request, by its name; a request without one is answered 0.  A function takes the
    state, if its first parameter is called ``state``, the address of the device's record, if the next one has the name
    ``record``, and then as many words of the request as it has other parameters.  ``before``: a function that takes the record,
    called before every request but the first one of the table, which is the fastest.
    """
    assert set(table) <= set(REQUESTS), sorted(set(table) - set(REQUESTS))
    lines = [f"def {device}({', '.join(_PARAMETERS)}):", f'    """Serve a request to {device}."""']
    lines.append(f"    {record} = state_at(state).device_record")
    for number, (name, function) in enumerate(table.items()):
        if number == 1 and before is not None:
            lines.append(f"    before({record})")
        call = f"{name.lower()}({', '.join(_arguments(function, record))})"
        returned = [f"return {call} + 0"] if _answers(function) else [call, "return 0"]
        lines += [f"    if request == {REQUESTS[name]}:", *(f"        {line}" for line in returned)]
    names = {name.lower(): function for name, function in table.items()}
    namespace: dict[str, Any] = {**names, "state_at": state_at, "before": before}
    define(f"requests of {device}", "\n".join([*lines, "    return 0", ""]), namespace)
    served: Handler = native(namespace[device])
    return served


def _arguments(function: Callable[..., Any], record: str) -> list[str]:
    parameters = list(inspect.signature(function).parameters)
    own = [name for name in ("state", record) if name in parameters[:2]]
    return own + list(WORDS[: len(parameters) - len(own)])


def _answers(function: Callable[..., Any]) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None")


@functools.cache
def address_of(served: Handler, device: str) -> int:
    """The address of a handler's machine code."""
    words = ", ".join(["int64"] * len(_PARAMETERS))
    return kernel_store.address_of(served, f"int64({words})", f"the machine's side of {device}")
