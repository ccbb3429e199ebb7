"""`python benchmarks/formats`: see ``command``."""

from __future__ import annotations

import sys
from pathlib import Path

# The folder itself stands first on the path; its parent instead, so that this is the package ``formats`` and nothing else.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from formats.command import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
