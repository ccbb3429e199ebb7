"""Entries of the kernel cache in a folder of the package, which `relayvm cache install` made.

They hold all code that a process needs besides the kernels of its program: the machine's functions, the tables of the grammar,
LLVM's name of the CPU (see ``compiler.installation``).  Other processes only read the folder.  An entry that was made for
another CPU or other versions has another key, so it is not found, and the process compiles.  The folder needs no check that
others cannot write to it: modules of the package are in its parent, or the user named another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

#: The environment variable that names another folder.
FOLDER_VARIABLE = "RELAYVM_INSTALLED_CODE"


def folder() -> Path:
    """The folder of the entries, which need not exist: ``RELAYVM_INSTALLED_CODE``, else one in the package."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[3] / "installed_code"


def path_of(key_id: str) -> Path:
    """The path of the entry with this id, which need not exist."""
    return folder() / key_id[:2] / key_id[2:]
