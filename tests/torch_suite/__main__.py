"""Run torch's operator database: ``python -m tests.torch_suite [--dtype float32] [--filter X] [--outcome wrong] [--record]``.

Counts by dtype, and each sample that does not pass.  ``--record`` writes the counts of the table in docs/from-torch.md.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import re
import time
from collections import Counter
from pathlib import Path

import torch

from ..campaign.random_programs import kernels_once
from .coverage import uncovered
from .expectations import reason
from .outcomes import OUTCOMES, outcomes
from .samples import DTYPES, MOST, Sample, core_overloads, operators, samples_of

FOLDER = Path(__file__).with_name("counts")


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression in the names of operators")
    parser.add_argument("--dtype", choices=DTYPES, action="append")
    parser.add_argument("--outcome", choices=OUTCOMES, help="list samples with this outcome only")
    parser.add_argument("--most", type=int, default=MOST, help="samples of an operator")
    parser.add_argument("--all", action="store_true", help="list samples with a known reason as well")
    parser.add_argument("--record", action="store_true", help="write the counts for the documentation")
    parser.add_argument("--missing", action="store_true", help="only operators that the record does not have")
    return parser.parse_args()


def counted(samples: list[Sample], args: argparse.Namespace) -> dict[str, Counter[str]]:
    """The counts by dtype and outcome; samples that do not pass are printed."""
    counts: dict[str, Counter[str]] = {}
    for sample, end in zip(samples, outcomes(samples), strict=True):
        of_dtype = counts.setdefault(sample.dtype, Counter())
        of_dtype[end.kind] += 1
        of_dtype["fixed sizes"] += end.kind == "passed" and not end.is_open
        shown = end.kind not in ("passed", "not exported") or args.outcome == "not exported"
        if shown and args.outcome in (None, end.kind) and (args.all or not reason(sample, end)):
            print(f"{end.kind:12} {sample.name} {sample.dtype}: {end.reason}", flush=True)
    return counts


def _known(dtype: str) -> dict[str, dict[str, int]]:
    """The counts of the record of a dtype, by operator."""
    path = FOLDER / f"{dtype}.json"
    found: dict[str, dict[str, int]] = json.loads(path.read_text(encoding="utf-8"))["operators"] if path.exists() else {}
    return found


def record(operator: str, dtype: str, most: int, counts: Counter[str]) -> None:
    """Write the counts of an operator into the record of a dtype, over older ones."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f".{dtype}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes run other operators
        _write(operator, dtype, most, counts)


def _write(operator: str, dtype: str, most: int, counts: Counter[str]) -> None:
    overloads = len(core_overloads())
    known = {**_known(dtype), operator: {key: counts[key] for key in (*OUTCOMES, "fixed sizes") if counts[key]}}
    whole = {
        "torch": torch.__version__.partition("+")[0],
        "most": most,
        "overloads": overloads,
        "covered": overloads - len(uncovered()),
        "operators": dict(sorted(known.items())),
    }
    (FOLDER / f"{dtype}.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run the samples and print counts by outcome."""
    logging.disable(logging.CRITICAL)
    args, start, totals = options(), time.process_time(), dict[str, Counter[str]]()
    dtypes = args.dtype or DTYPES
    known = {dtype: _known(dtype) if args.missing else {} for dtype in dtypes}
    for operator in [name for name in operators() if re.search(args.filter, name)]:
        samples = [s for dtype in dtypes if operator not in known[dtype] for s in samples_of(operator, dtype, args.most)]
        with kernels_once.looked_up_once(kernels_once.hand_written_native):
            found = counted(samples, args)
        for dtype, counts in found.items():
            totals.setdefault(dtype, Counter()).update(counts)
            if args.record:
                record(operator, dtype, args.most, counts)
    for dtype, total in totals.items():
        print(f"{dtype}: {', '.join(f'{total[key]} {key}' for key in (*OUTCOMES, 'fixed sizes'))}")
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
