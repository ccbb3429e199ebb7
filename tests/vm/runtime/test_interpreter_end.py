"""The end of the interpreter: objects of Python that outlive the modules are destroyed safely."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: A machine, its functions and a capsule are destroyed last; the C library overwrites all memory that was freed before.
PROGRAM = """
import numpy as np, relayvm as relay
vm = relay.VirtualMachine(relay.compile('#[version = "0.0.5"]\\ndef @main(%x: Tensor[(?n,), float32]) { add(%x, 1f) }'))
result = vm.run(np.ones(3, "float32"))
kept = result.__dlpack__(max_version=(1, 0)), result.numpy()
"""
OVERWRITTEN = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255"}


@pytest.mark.skipif(sys.platform != "linux", reason="MALLOC_PERTURB_ is a variable of glibc")
def test_a_machine_that_lives_to_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **OVERWRITTEN}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
