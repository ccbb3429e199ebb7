"""The versions of installed packages, for keys of the cache."""

from __future__ import annotations

import functools
import os
import sys


@functools.cache
def installed_version(package: str) -> str:
    """The version of an installed package, which is not imported.

    The name of a package's metadata folder has the version.  ``importlib.metadata`` reads the folder's files, as e-mails: its
    import takes 20 ms, more than the rest of a look-up in the cache.  Raises PackageNotFoundError.
    """
    begin, end = f"{package.replace('-', '_').lower()}-", ".dist-info"
    for path in sys.path:
        try:
            names = os.listdir(path or ".")
        except OSError:
            continue
        for name in sorted(names):
            if name.lower().startswith(begin) and name.endswith(end):
                return name[len(begin) : -len(end)]
    from importlib.metadata import version  # for metadata of another form

    return version(package)
