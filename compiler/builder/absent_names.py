"""Names of Relay's that are not here, each with the reason or with the name to use instead: for errors and for pages."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ...declarations.frozen_dataclass import frozen


@frozen
class NotPlanned:
    """Names of operators (``*`` matches any letters) and the reason in one line."""

    names: tuple[str, ...]
    reason: str


NOT_PLANNED: tuple[NotPlanned, ...] = (
    NotPlanned(("contrib",), "operators for single processors: how data lies is the kernel's own business"),
    NotPlanned(
        ("nn.contrib_conv2d_winograd_nnpack_weight_transform",),
        "its result is a format of the library NNPACK; use relay.nn.contrib_conv2d_winograd_weight_transform",
    ),
)


def reason(name: str) -> str | None:
    """The reason why operator ``name`` is not planned; None for other names."""
    for entry in NOT_PLANNED:
        if any(fnmatchcase(name, pattern) for pattern in entry.names):
            return entry.reason
    return None


#: Other names, as they follow ``relay.``.
_ABSENT: dict[str, str] = {
    "annotation.checkpoint": "gradients compute values again at a checkpoint, and there are no gradients",
    "annotation.compiler_begin": "there are no external code generators",
    "annotation.compiler_end": "there are no external code generators",
    "annotation.function_on_device": "mark the values of the function: relay.annotation.on_device(value, device)",
    "collage": "there are no external code generators",
    "debug": "use relay.transform.PassContext(instruments=...), or `relayvm dump` for the program after a pass",
    "qnn.transform": "the compiler expands quantised operators that have no kernel",
    "quantize": "scales are not chosen by a pass; use the operators of relay.qnn.op",
    "TypeConstraint": "a constraint on types is the type rule of an operator: relay.register_op(dtype=...)",
    "TypeRelation": "a relation of types is the type rule of an operator: relay.register_op(dtype=...)",
}


def absence(name: str) -> str | None:
    """The reason why ``relay.<name>`` is not here; None for names that are not Relay's."""
    return _ABSENT.get(name) or reason(name)
