"""Every CUDA text that a test runs on the emulated GPU is compiled by NVRTC as well.

In a tier every second text by the front end (``FrontEnd``), which finds the mistakes of a text, and every second to machine code
for a real architecture, which can need too much of what a GPU has: in ``rest`` at once (``Quick``), after ``make test``, which
keeps these texts (``kept_texts``), by tests/ops/cuda/test_architectures.py.  A run without a tier makes machine code of every
text.
Registered as a plugin by ``conftest``: the run ends with the number of texts.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import pytest

from relayvm.ops.codegen.cuda.device_code import nvrtc
from relayvm.ops.codegen.cuda.device_code.matrix_instructions import uses_teams

from .. import tiers
from . import kept_texts, real

ARCHITECTURES = ("sm_80", "sm_90")
#: NVRTC leaves out what it declares of textures and of the runtime, which no text uses: 16 ms a text.
_LEAN = "--minimal"


class Quick(nvrtc.Nvrtc):
    """NVRTC with few optimisations: the same errors in 40 % of the time."""

    @functools.cached_property
    def options(self) -> tuple[str, ...]:
        """The options of NVRTC; none for a version without them."""
        options = ("--Ofast-compile=max", _LEAN)
        try:
            super().compile("", ARCHITECTURES[-1], options)
        except nvrtc.CudaCompileError:
            return ()
        return options

    @functools.cached_property
    def version(self) -> str:
        return " ".join([COMPILER.version, *self.options])

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        return super().compile(text, arch, (*options, *self.options))


#: What ``FrontEnd`` makes of a text without errors.
NO_IMAGE = b"no errors"


class FrontEnd(nvrtc.Nvrtc):
    """NVRTC without code of any kind: the errors in the text, in a sixth of the time of ``Quick``."""

    @functools.cached_property
    def version(self) -> str:
        return f"{COMPILER.version} syntax"

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        """NO_IMAGE.  Raises CudaCompileError."""
        target = f"--gpu-architecture={arch.replace('sm_', 'compute_')}"
        return self._compiled(text, (target, "--fdevice-syntax-only", _LEAN, *options), lambda _: NO_IMAGE)


#: Whatever stands in ``nvrtc`` while tests run, these are the real ones.
COMPILER, QUICK, FRONT_END, CUBIN = nvrtc.Nvrtc(), Quick(), FrontEnd(), nvrtc.cubin
#: Texts that were compiled, with the number of their kernels.
_proven: dict[str, int] = {}
_why_not: list[str] = []
#: The lock of the folder of texts, until the process ends.
_folder_lock: int | None = None


def architectures(text: str) -> Sequence[str]:
    """The architectures for which this run compiles a text: the newest in ``make test``, in ``rest`` one in turn, else all.

    Products by teams of warps have an architecture of their own.
    """
    known = (*ARCHITECTURES, "sm_90a") if uses_teams(text) else ARCHITECTURES
    return known[-1:] if tiers.tier() == "test" else tiers.some(known, text, len(known))


def compiler(text: str) -> nvrtc.Nvrtc:
    """The compiler by which this run proves a text."""
    if tiers.tier() is None:
        return COMPILER
    return QUICK if tiers.tier() == "rest" and tiers.is_one_of(text, 2) else FRONT_END


@functools.cache
def missing() -> str | None:
    """The reason why NVRTC compiles nothing here; None where it does."""
    try:
        assert COMPILER.version
    except nvrtc.NoNvrtc as error:
        return str(error)
    return None


def prove(text: str) -> None:
    """Compile a text with kernels (without the prelude) for its ``architectures``, once in a process.

    Raises CudaCompileError.
    """
    if real.gpu is not None or text in _proven or _why_not or "__global__" not in text:
        return  # a real GPU compiles for itself
    if tiers.tier() == "test" and tiers.is_one_of(text, 2):
        kept_texts.keep(text)
        return
    by = compiler(text)
    try:
        for arch in architectures(text):
            check_image(text, arch, by)
    except nvrtc.NoNvrtc as error:
        _why_not.append(str(error))
        return
    _proven[text] = text.count("__global__")


def check_image(text: str, arch: str, by: nvrtc.Nvrtc = QUICK) -> None:
    """Compile a text by NVRTC and check that the image is whole.  Raises CudaCompileError and NoNvrtc."""
    image = CUBIN(text, arch, by=by)
    if by is not FRONT_END:
        assert image[:4] == b"\x7fELF" and len(image) >= nvrtc.image_bytes(image), "a part of the image is missing"


def pytest_sessionstart() -> None:
    """Take a folder of texts; a worker, and a run of pytest that a test starts, have the folder of the whole run."""
    global _folder_lock
    if kept_texts.VARIABLE not in os.environ:
        _folder_lock = kept_texts.begin(writes=tiers.tier() == "test")


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
        known = sorted({arch for text in _proven for arch in architectures(text)})
        terminalreporter.write_line(f"{kernels} CUDA kernels in {texts} texts compiled with NVRTC for {' and '.join(known)}")
