"""The table of docs/from-torch.md: the samples of torch's operator database that run, by dtype."""

from __future__ import annotations

import json
from typing import Any

from .generated_part import ROOT, with_part

#: The folder of the counts that ``python -m tests.torch_suite --record`` writes, a file for each dtype.
COUNTS = "tests/torch_suite/counts"
#: The dtypes, in the order of the table.
DTYPES = ("float32", "float16", "bfloat16", "int64", "bool")
#: The outcomes of samples that torch exports, those that passed first.
_ENDS = ("passed", "wrong", "unsupported", "refused", "error", "slow")


def from_torch_markdown() -> str:
    """docs/from-torch.md with the table."""
    heads = ("dtype", "torch", "operators", "of these, every sample runs", "samples", "run", "in %", "different values")
    lines = [f"| {' | '.join(heads)} | torch exports none |", "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for dtype in DTYPES:
        record: dict[str, Any] = json.loads((ROOT / COUNTS / f"{dtype}.json").read_text(encoding="utf-8"))
        exported = [counts for counts in record["operators"].values() if any(counts.get(end) for end in _ENDS)]
        samples = sum(counts.get(end, 0) for counts in exported for end in _ENDS)
        run, wrong = (sum(counts.get(end, 0) for counts in exported) for end in ("passed", "wrong"))
        whole = sum(not any(counts.get(end) for end in _ENDS[1:]) for counts in exported)
        none = sum(counts.get("not exported", 0) for counts in record["operators"].values())
        part = f"{100 * run / samples:.1f}"
        cells = (dtype, record["torch"], len(exported), whole, samples, run, part, wrong, none)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    overloads, covered = record["overloads"], record["covered"]
    lines += [
        "",
        "Operators that are not in the row of a dtype have no sample of it, or have not been recorded. "
        f"At most {record['most']} samples of an operator. Of torch's {overloads} core overloads "
        f"{covered} ({100 * covered / overloads:.1f} %) have a converter or are taken apart into such.",
        "",
    ]
    return with_part("docs/from-torch.md", "suite", "\n".join(lines))
