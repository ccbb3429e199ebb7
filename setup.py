"""The build of the package: Relay's modules are installed beside its folders.  All else is said in setup.cfg."""

from __future__ import annotations

from pathlib import Path

import setuptools
from setuptools.command.build_py import build_py


class BuildPy(build_py):
    """``relay_modules/transform.py`` is installed as ``relayvm/transform.py``: programs and type checkers find it there.

    In a checkout the ``__path__`` of the package leads to the folder.
    """

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of a package: its name, the module's, the file."""
        found = super().find_package_modules(package, package_dir)
        if package == "relayvm":
            found = [module for module in found if Path(module[2]).name != "setup.py"]
            found += [(package, file.stem, str(file)) for file in sorted(Path("relay_modules").glob("*.py"))]
        return found


setuptools.setup(cmdclass={"build_py": BuildPy})
