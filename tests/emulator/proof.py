"""Every CUDA text that a test runs on the emulated GPU is compiled by NVRTC as well, for real architectures.

Registered as a plugin by ``conftest``: the run ends with how many there were.
"""

from __future__ import annotations

from typing import Any

import pytest

from relayvm.ops.native.jit import nvrtc

from . import real

ARCHITECTURES = ("sm_80", "sm_90")
#: Whatever stands in ``nvrtc`` while tests run, these are the real ones.
_COMPILER, CUBIN = nvrtc.Nvrtc(), nvrtc.cubin
#: Texts that were compiled, with the number of their kernels.
_proven: dict[str, int] = {}
_why_not: list[str] = []


def prove(text: str) -> None:
    """Compile a text with kernels (without the prelude) for all ARCHITECTURES, once in a process.  Raises CudaCompileError."""
    if real.gpu is not None or text in _proven or _why_not or "__global__" not in text:
        return  # a real GPU compiles for itself
    try:
        for arch in ARCHITECTURES:
            image = CUBIN(text, arch, by=_COMPILER)
            assert image[:4] == b"\x7fELF" and len(image) >= nvrtc.image_bytes(image), "a part of the image is missing"
    except nvrtc.NoNvrtc as error:
        _why_not.append(str(error))
        return
    _proven[text] = text.count("__global__")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells its controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cuda_texts"] = (dict(_proven), list(_why_not))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """The controller takes what a worker tells."""
    found, why_not = getattr(node, "workeroutput", {}).get("cuda_texts", ({}, []))
    _proven.update(found)
    _why_not.extend(why_not)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report the number of compiled kernels."""
    if _why_not:
        terminalreporter.write_line(f"CUDA texts were not compiled: {_why_not[0]}")
    elif _proven:
        kernels, texts = sum(_proven.values()), len(_proven)
        terminalreporter.write_line(
            f"{kernels} CUDA kernels in {texts} texts compiled with NVRTC for {' and '.join(ARCHITECTURES)}"
        )
