"""The samples that do not run, with the reasons.

``test_torch_suite`` holds the list exact: a sample that does not run and has no reason here is an error, and so is a reason that
no sample has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .outcomes import Outcome
from .samples import Sample


@dataclass(frozen=True)
class Reason:
    """The reason for an ``outcome``.

    ``found``: a pattern of the outcome's text; ``operators``: patterns of names of operators; ``dtypes``: "" for all.
    """

    why: str
    outcome: str
    found: str
    operators: Sequence[str] = (".*",)
    dtypes: Sequence[str] = ()

    def is_of(self, sample: Sample, end: Outcome) -> bool:
        """Whether it is the reason for this end."""
        return (
            end.kind == self.outcome
            and (not self.dtypes or sample.dtype in self.dtypes)
            and any(re.fullmatch(pattern, sample.operator) for pattern in self.operators)
            and re.fullmatch(self.found, end.reason, re.DOTALL) is not None
        )


_TRAINING = r".*: it (is in training mode|drops elements); programs here are run, not trained"

NOT_RUN: tuple[Reason, ...] = (
    Reason(
        "programs here are run, not trained",
        "refused",
        _TRAINING,
        (r"nn\.functional\.batch_norm(_\w+)?", "_native_batch_norm_legit"),
    ),
    Reason(
        "the data are a view: the elements of its storage are no input of the program",
        "refused",
        ".*: the data are a view, whose storage a program does not know",
        (r"as_strided\.partial_views", "as_strided"),
    ),
    Reason(
        "torch computes positions in halves, and differs from its own float32 as much; here they are computed in float32",
        "wrong",
        ".*",
        ("grid_sampler_2d",),
        ("float16", "bfloat16"),
    ),
    Reason("torch promises no order of equal elements", "wrong", r"result 1 at .*", ("topk", "sort")),
    Reason(
        "the mean of integers of 64 bits has no kernel",
        "refused",
        r".*nn\.avg_pool\dd: data is int64; supported: .*",
        (r"nn\.functional\.avg_pool\dd",),
        ("int64",),
    ),
    Reason(
        "halves are computed in float32: the quotient is not rounded before its fraction is dropped",
        "wrong",
        ".*",
        (r"div\.trunc_rounding",),
        ("bfloat16", "float16"),
    ),
)


def reason(sample: Sample, end: Outcome) -> Reason | None:
    """The reason for an outcome; None if there is none."""
    return next((r for r in NOT_RUN if r.is_of(sample, end)), None)
