"""Relay's operators that are not planned, with reasons: for the page of operators and for error messages."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class NotPlanned:
    """Names of operators (``*`` matches any letters) and the reason in one line."""

    names: tuple[str, ...]
    reason: str


NOT_PLANNED: tuple[NotPlanned, ...] = (
    NotPlanned(
        ("qnn.*", "fixed_point_multiply*", "*simulated_quantize"),
        "quantisation is a number format of its own: scales and zero points would be part of every type",
    ),
    NotPlanned(("*contrib_*",), "layouts for the kernels of one processor: how data lies is the kernel's own business"),
    NotPlanned(
        ("sparse_reshape", "sparse_fill_empty_rows", "nn.sparse_*"),
        "sparse formats: a tensor here is dense; three dense tensors that mean one sparse one need types that say so",
    ),
    NotPlanned(
        ("collapse_sum_*", "*_grad", "*_backward_*"), "helpers of automatic differentiation: programs here are run, not trained"
    ),
    NotPlanned(("random.*",), "random numbers are state; a program that is run twice on the same inputs gives the same results"),
    NotPlanned(
        ("vision.proposal", "vision.multibox_*"),
        "one detector's tail as one operator: it is written with boxes, `topk` and `vision.non_max_suppression`",
    ),
    NotPlanned(
        ("nn.deformable_conv*", "nn.correlation"), "used by single networks: `image.grid_sample` and products say the same"
    ),
)


def reason(name: str) -> str | None:
    """The reason why operator ``name`` is not planned; None for other names."""
    for entry in NOT_PLANNED:
        if any(fnmatchcase(name, pattern) for pattern in entry.names):
            return entry.reason
    return None


def section() -> str:
    """The section of the page of operators."""
    rows = [f"| {', '.join(f'`{name}`' for name in entry.names)} | {entry.reason} |" for entry in NOT_PLANNED]
    return "\n".join(["## Relay's operators that are not planned", "", "| operators | reason |", "|---|---|", *rows])
