"""``python -m relayvm``, and the command ``relayvm``."""

# ruff: noqa: E402
from __future__ import annotations

import gc

gc.disable()  # imports make many objects and no garbage: the search for some takes a tenth of their time

from .compiler.commands.cli import main

gc.freeze()
gc.enable()

if __name__ == "__main__":
    raise SystemExit(main())
