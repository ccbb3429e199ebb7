"""Where library functions are found."""

from __future__ import annotations

import subprocess
import sys

#: In a process of its own: nothing has imported scipy yet.
PROGRAM = """
import sys
from relayvm.ops.native.libraries import TABLE, addresses
found = addresses(TABLE)
assert all(found.values()) and len(set(found.values())) == len(TABLE), found
assert "scipy.linalg" not in sys.modules
import scipy.linalg.cython_blas
assert "sgemm" in scipy.linalg.cython_blas.__pyx_capi__
assert scipy.linalg.solve([[2.0]], [4.0]) == [2.0]
assert addresses(TABLE) == found
"""


def test_blas_is_found_without_the_package_around_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
