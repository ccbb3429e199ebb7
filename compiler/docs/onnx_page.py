"""The page of ONNX's operators, ``docs/onnx.md``, from the table of the converters."""

from __future__ import annotations

from ..onnx_frontend import operators as operators  # declares the converters
from ..onnx_frontend.operator_table import declared_operators

_HEAD = """\
# ONNX

Generated from the converters by `python -m relayvm.compiler.docs.pages`; do not edit. {count} operators.

    mod, params = relay.frontend.from_onnx("model.onnx")
    vm = relay.VirtualMachine(relay.compile(mod, params=params))

A model is a path, a file's contents, or a `ModelProto` (`pip install 'relayvm[onnx]'`). A `dim_param` becomes a size `?name`, so
equal names are checked to be equal sizes; other sizes that are not declared are `?`. An input without a rank needs
`shape={{name: ...}}`. Shape computations stay computations of the program: placement and folding work on them. Data in files
beside the model is mapped into memory, not read; a file outside of the model's folder is refused. Messages, profiles and
`explain` name the nodes.

An operator that is not in the table is converted if the model has a function of its name, or if the standard gives a body for it
of operators in the table. All others are refused at once: the error lists each operator, its domain and version, the first node
and the number of nodes. An operator is converted from the listed versions on, each up to the next; an older version is refused.

Where a value decides the rank of a result (the axes of `Squeeze`, `Unsqueeze` and of reductions), the model must determine it: a
stored tensor, or a computation from stored tensors and known sizes.

`relay.frontend.OnnxBackend` is a backend of `onnx.backend.base`: ONNX's own suite runs on it (`python -m tests.onnx`).

| operator | domain | from version | |
|---|---|---|---|
"""


def onnx_markdown() -> str:
    """The page."""
    rows = []
    for domain, name, versions in declared_operators():
        since = ", ".join(str(v.since) for v in versions)
        notes = " ".join(dict.fromkeys(" ".join(v.doc.split()) for v in versions if v.doc))
        rows.append(f"| `{name}` | {domain or 'ai.onnx'} | {since} | {notes} |\n")
    return _HEAD.format(count=len(rows)) + "".join(rows)
