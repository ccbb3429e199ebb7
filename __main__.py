"""``python -m relayvm``."""

from __future__ import annotations

from .compiler.commands.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
