"""Reference of the functions at Relay's paths that are no operators, as ``segment_sum``: for ``relayvm ops``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...ops.core.op import REGISTRY
from ..builder import compositions as _  # noqa: F401  declares the functions
from ..builder.operator_functions import COMPOSED
from ..text.attributes import value_text


def composed() -> Mapping[str, Callable[..., Any]]:
    """The functions by their paths below ``relay``, those included that are an operator under another name."""
    return dict(sorted(COMPOSED.items()))


def composed_data(path: str) -> dict[str, Any]:
    """A function as plain data, with the keys of an operator.  ``operator``: the operator that it is a path of, else None."""
    function = COMPOSED[path]
    operator = function.__qualname__ if function.__qualname__ in REGISTRY and function.__qualname__ != path else None
    return {
        "name": path,
        "inputs": [p.name for p in inspect.signature(function).parameters.values() if p.default is inspect.Parameter.empty],
        "python": composed_signature(path),
        "operator": operator,
        "pattern": None,
        "doc": inspect.getdoc(function) or "",
    }


def composed_signature(path: str) -> str:
    """``segment_sum(data, segment_ids, num_segments=None)``."""
    listed = inspect.signature(COMPOSED[path]).parameters.values()
    empty = inspect.Parameter.empty
    shown = [p.name if p.default is empty else f"{p.name}={_value(p.default)}" for p in listed]
    return f"{path}({', '.join(shown)})"


def composed_text(path: str) -> str:
    """A function as text."""
    data = composed_data(path)
    kind = f"the operator {data['operator']} under another name" if data["operator"] else "a function of Python, no operator"
    doc = data["doc"].replace("\n", "\n  ").replace("\n  \n", "\n\n")
    return "\n".join([data["python"], f"  {doc}", f"  in Python relay.{path}: {kind}"])


def _value(value: Any) -> str:
    return str(value) if value is None or isinstance(value, bool) else value_text(value)
