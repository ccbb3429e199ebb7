"""Predict the kernels' shares of the copy rate.

``python benchmarks/roofline`` writes the record and ``docs/gpu-roofline.md``.  With names of programs, for example
``python benchmarks/roofline cumsum "topk 10"``, only those are predicted, and nothing is written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# the folder of this package's package, not this folder
sys.path[0] = str(Path(__file__).resolve().parents[1])

from roofline.families import FAMILIES  # noqa: E402
from roofline.record import figures, page  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RECORD, PAGE = ROOT / "benchmarks" / "results" / "gpu-roofline.json", ROOT / "docs" / "gpu-roofline.md"

#: The keys of commits that are compared with: of all families, of those of halves, of those that sort or select.
COMMITS = ("before_commit", "before_halves", "before_ordered")


def main() -> None:
    """Predict the shares of the programs that the command line names, or those of all programs for the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="a name of the page's first column")
    parser.add_argument("--before", action="store_true", help="make the figures those that later figures are compared with")
    args = parser.parse_args()
    known = {family.name: family for family in FAMILIES}
    if unknown := set(args.programs) - known.keys():
        parser.error(f"unknown: {'; '.join(sorted(unknown))}. Known: {'; '.join(known)}")
    if args.programs and args.before:
        parser.error("--before is for all programs")
    old = json.loads(RECORD.read_text()) if RECORD.exists() else {"before": {}, **dict.fromkeys(COMMITS, "")}
    if args.programs:
        report(old["before"], {name: figures(known[name]) for name in args.programs})
        return
    found = {name: figures(family) for name, family in known.items()}
    if args.before:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True)
        old = {"before": found, **dict.fromkeys(COMMITS, commit.stdout.strip())}
    record = {**old, "after": found}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record))
    report(old["before"], found)


def report(before: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Print a line for each program, with its share before."""
    for name, f in found.items():
        share = before.get(name, {}).get("share")
        print(f"{name:32} {share} -> {f['share']} % ({f['bound']}), passes {f['passes']}, {f['registers']} registers")


if __name__ == "__main__":
    main()
