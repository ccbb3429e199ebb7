"""Predict the kernels' shares of the copy rate.

``python benchmarks/roofline`` writes the record and ``docs/gpu-roofline.md``.  With names of programs, for example
``python benchmarks/roofline cumsum "topk 10"``, only those are predicted, and nothing is written.  With ``--before`` the figures
become those that later figures are compared with, beside the commit of the package that is imported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import relayvm as relay

# the folder of this package's package, not this folder
sys.path[0] = str(Path(__file__).resolve().parents[1])

from roofline.families import FAMILIES  # noqa: E402
from roofline.record import figures, page  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RECORD, PAGE = ROOT / "benchmarks" / "results" / "gpu-roofline.json", ROOT / "docs" / "gpu-roofline.md"


def main() -> None:
    """Predict the shares of the programs that the command line names, or those of all programs for the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="a name of the page's first column")
    parser.add_argument("--before", action="store_true", help="write the figures as those that later figures are compared with")
    args = parser.parse_args()
    known = {family.name: family for family in FAMILIES}
    if unknown := set(args.programs) - known.keys():
        parser.error(f"unknown: {'; '.join(sorted(unknown))}. Known: {'; '.join(known)}")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"before": {}, "after": {}}
    found = {name: figures(known[name]) for name in args.programs or known}
    report(record["before"], found)
    if args.before:
        record["before"] |= {name: {"commit": commit(), **f} for name, f in found.items()}
    elif not args.programs:
        record["after"] = found
    else:
        return
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record, RECORD.parent))


def commit() -> str:
    """The commit of the package that is imported."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True, cwd=Path(relay.__file__).parent, check=True).stdout.strip()


def report(before: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Print a line for each program, with its share before."""
    for name, f in found.items():
        share = before.get(name, {}).get("share")
        print(f"{name:32} {share} -> {f['share']} % ({f['bound']}), passes {f['passes']}, {f['registers']} registers")


if __name__ == "__main__":
    main()
