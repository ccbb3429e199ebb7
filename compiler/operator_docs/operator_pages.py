"""Reference of the operators, from their declarations: for ``relayvm ops`` and the page ``docs/ops.md``."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...ops.core.implementation import Kernel
from ...ops.core.op import REGISTRY, Op, OpPattern
from ...ops.core.similar_names import question, similar
from ...vm.diagnostics.source import InputError
from ..builder.absent_names import NOT_PLANNED, reason
from ..builder.signatures import signature_text
from ..text.attributes import value_text
from .composition_pages import composed

#: Headings by a name's prefix, then, for a name without a prefix, by pattern.
_BY_PREFIX = {
    "nn": "Neural networks: `nn.`",
    "dyn": "Shapes and sizes that are values: `dyn.`",
    "vision": "Detection: `vision.`",
    "image": "Images: `image.`",
    "qnn": "Quantised tensors: `qnn.`",
}
_BY_PATTERN = {
    OpPattern.ELEMWISE: "Element by element",
    OpPattern.BROADCAST: "Element by element, with broadcasting",
    OpPattern.COMM_REDUCE: "Reductions",
    OpPattern.INJECTIVE: "Making and moving elements",
    OpPattern.RESHAPE: "The same elements under another shape",
    OpPattern.OPAQUE: "Searching and sorting",
    OpPattern.COMPOSITE: "Compositions of other operators",
    OpPattern.MACHINE: "Shapes as values",
}


def operators() -> list[Op]:
    """Every operator that a program may call, by name."""
    return [op for _, op in sorted(REGISTRY.items()) if op.in_language]


def operator(name: str) -> Op:
    """The operator ``name``.  Raises InputError that suggests similar names."""
    known = {op.name: op for op in operators()}
    if name not in known:
        why = reason(name)
        if why is not None:
            raise InputError(f"there is no operator {name}, and none is planned", help=why)
        every = [*known, *composed()]
        near = similar(name, every, 3, 0.5)
        near += [n for n in every if n.rpartition(".")[2] == name and n not in near]
        raise InputError(f"there is no operator {name}", help=question(near, ", ") or "`relayvm ops` lists them")
    return known[name]


def as_data(op: Op) -> dict[str, Any]:
    """An operator as plain data.  ``attributes``: name and default, ``required`` if there is no default."""
    return {
        "name": op.name,
        "inputs": list(op.inputs),
        "python": signature_text(op),
        "data_dependent": list(op.data_dependent),
        "upper_bound": op.shape_func.upper_bound,
        "pattern": op.pattern.name,
        "implementations": list(op.implementations),
        "kernels": [_kernel_data(op, k) for k in op.kernels],
        "attributes": [
            {"name": f.name, "required": _required(f), "default": None if _required(f) else _default(f)}
            for f in dataclasses.fields(op.attrs)
        ],
        "doc": op.doc,
    }


def _kernel_data(op: Op, kernel: Kernel) -> dict[str, Any]:
    """A kernel's declarations that do not depend on a call; ``in_place`` and ``aliases``: an input by name, an output."""
    return {
        "name": kernel.name,
        "devices": list(kernel.devices),
        "in_place": [[op.inputs[i], k] for i, k in kernel.in_place],
        "aliases": [[op.inputs[i], k] for i, k in kernel.aliases],
    }


def _kernel_text(data: dict[str, Any]) -> str:
    notes = [f"on {' and '.join(data['devices'])}"]
    notes += [f"in place of {name}" for name, _ in data["in_place"]]
    notes += [f"its result is {name}'s memory" for name, _ in data["aliases"]]
    return f"    {data['name']}: {', '.join(notes)}"


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def signature(op: Op) -> str:
    """``dyn.tile(data, reps*)``: a ``*`` behind an input whose values the shape function reads; tuples are ``(data, ...)``."""
    inputs = [
        (f"({name[:-1]}, ...)" if name.endswith("*") else name) + ("*" if flag else "")
        for name, flag in zip(op.inputs, op.data_dependent, strict=True)
    ]
    attrs = [f.name if _required(f) else f"{f.name}={value_text(_default(f))}" for f in dataclasses.fields(op.attrs)]
    return f"{op.name}({', '.join([*inputs, *attrs])})"


def python_form(op: Op) -> str:
    """The call in Python where its parameters are others than in the text format, else ""."""
    return f"relay.{signature_text(op)}" if op.python is not None else ""


def operator_text(op: Op) -> str:
    """One operator as text."""
    flagged = [name for name, flag in zip(op.inputs, op.data_dependent, strict=True) if flag]
    reads = f"the values of {', '.join(flagged)}" if flagged else "shapes only"
    bound = "; the kernel reports the true size, which is at most that" if op.shape_func.upper_bound else ""
    return "\n".join(
        [
            signature(op),
            f"  {op.doc}",
            *([f"  in Python {python_form(op)}"] if python_form(op) else []),
            f"  its shape function reads {reads}{bound}",
            f"  pattern {op.pattern.name}, implemented by {', '.join(op.implementations)}",
            *(_kernel_text(_kernel_data(op, k)) for k in op.kernels),
        ]
    )


def family(op: Op) -> str:
    """The heading of the operator's section."""
    return _BY_PREFIX.get(op.name.partition(".")[0] if "." in op.name else "", "") or _BY_PATTERN[op.pattern]


def ops_markdown() -> str:
    """The page of all operators."""
    families: dict[str, list[Op]] = {title: [] for title in (*_BY_PATTERN.values(), *_BY_PREFIX.values())}
    for op in operators():
        families[family(op)].append(op)
    parts = [_INTRODUCTION.format(count=len(operators()))]
    for title, ops in families.items():
        if ops:
            parts.append("\n".join([f"## {title}", "", "| operator | pattern | |", "|---|---|---|", *map(_row, ops)]))
    parts.append(_not_planned())
    return "\n\n".join(parts) + "\n"


def _not_planned() -> str:
    rows = [f"| {', '.join(f'`{name}`' for name in entry.names)} | {entry.reason} |" for entry in NOT_PLANNED]
    return "\n".join(["## Relay's operators that are not planned", "", "| operators | reason |", "|---|---|", *rows])


def _row(op: Op) -> str:
    doc = op.doc.replace("|", "\\|")
    if op.python is not None:
        doc += f" In Python: `{python_form(op)}`."
    return f"| `{signature(op)}` | {op.pattern.name} | {doc} |"


_INTRODUCTION = """\
# Operators

<!-- generated by `make docs`: do not edit -->

The language has {count} operators.

Inputs come first, then attributes with their defaults, as in the text format. A Python function has the same parameters, or
those given as "In Python". A `*` marks an input whose *values* the shape function reads: only
these inputs are ever copied to the host to compute a shape. `(data, ...)` is one input that is a tuple of tensors. The pattern
determines fusion: an `OPAQUE` operator has a kernel of its own, a `RESHAPE` operator has none, a `COMPOSITE` operator is expanded
into calls of other operators, which fuse by their own patterns. `relayvm ops NAME` describes one operator."""
