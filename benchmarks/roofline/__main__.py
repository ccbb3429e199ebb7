"""Predict the kernels' shares of the copy rate: ``python benchmarks/roofline`` writes the record and ``docs/gpu-roofline.md``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# the folder of this package's package, not this folder
sys.path[0] = str(Path(__file__).resolve().parents[1])

from roofline.record import measured, page  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RECORD, PAGE = ROOT / "benchmarks" / "results" / "gpu-roofline.json", ROOT / "docs" / "gpu-roofline.md"

#: The keys of commits that are compared with: of all families, of those of halves, of those that sort or select.
COMMITS = ("before_commit", "before_halves", "before_ordered")


def main() -> None:
    """Predict, and write; with ``--before``, the figures become those that later ones are compared with."""
    old = json.loads(RECORD.read_text()) if RECORD.exists() else {"before": {}, **dict.fromkeys(COMMITS, "")}
    found = measured()
    if "--before" in sys.argv[1:]:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True)
        old = {"before": found, **dict.fromkeys(COMMITS, commit.stdout.strip())}
    record = {**old, "after": found}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record))
    for name, f in found.items():
        before = record["before"].get(name, {}).get("share")
        print(f"{name:32} {before} -> {f['share']} % ({f['bound']}), passes {f['passes']}, {f['registers']} registers")


if __name__ == "__main__":
    main()
