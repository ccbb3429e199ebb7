"""Compile CUDA C to GPU machine code (a cubin), through the kernel cache.  Needs a compiler, but no GPU and no driver.

The compiler is NVRTC as cupy finds it: from NVIDIA's wheel (the extras ``relayvm[cuda12]`` and ``relayvm[cuda13]`` bring both),
or from an installed CUDA toolkit.  Nothing is imported before the first kernel that the store lacks.
"""

from __future__ import annotations

import contextvars
import functools
import os
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ....native.cache.cache_key import CacheKey, text_hash
from ....native.cache.nvrtc_version import nvrtc_version
from ....native.compiled import kernel_store

#: No fused multiply-add of separate sums and products: a GPU then rounds as the CPU does.  Denormals are kept and division and
#: square root are exact, which are NVRTC's defaults.  All functions are device functions: NVRTC 13.0 takes generic lambdas of
#: kernels for functions of the host otherwise, and refuses them; 13.5 does not.
OPTIONS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space")

#: Lines of source before and after the first bad line in the text of an error.
_CONTEXT_LINES = 4
_TEXT_NAME = "kernel.cu"


class NoNvrtc(Exception):
    """CUDA C cannot be compiled here; the text is the reason, in one line."""


class CudaCompileError(Exception):
    """CUDA C with a compile error, a bug of the code generator.  The text has the compiler's message and the source around it."""


class CudaCompiler(Protocol):
    """A compiler from CUDA C to images that a driver loads."""

    @property
    def version(self) -> str:
        """A text that differs between compilers that could generate different code.  Raises NoNvrtc."""

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        """Compile for ``arch`` (``sm_90``).

        ``text`` is the unchanged prelude, followed by the kernels.  Threads may call this at the same time.  Raises
        CudaCompileError, NoNvrtc.
        """


class Nvrtc:
    """NVRTC, loaded at first use.  Compiles in as many threads as call it."""

    @functools.cached_property
    def _library(self) -> Any:
        try:
            from cupy.cuda import nvrtc
        except ImportError as error:
            raise NoNvrtc(f"no CUDA compiler: cupy cannot be imported ({_first_line(error)}); {_INSTALL}") from error
        try:
            nvrtc.getVersion()
        except Exception as error:  # cupy's loader raises RuntimeError, ImportError and errors of its own
            raise NoNvrtc(f"no CUDA compiler: NVRTC cannot be loaded ({_first_line(error)}); {_INSTALL}") from error
        return nvrtc

    @functools.cached_property
    def version(self) -> str:
        """The version that NVRTC writes into its code, the build included: two builds can have one version number."""
        return nvrtc_version(self._asked_version)

    def _asked_version(self) -> str:
        library = self._library
        program = library.createProgram("", _TEXT_NAME, (), ())
        try:
            library.compileProgram(program, ())
            words = re.findall(
                rb"^// (Compiler Build ID: .*|Cuda compilation tools.*|Based on .*)$", library.getPTX(program), re.M
            )
        finally:
            library.destroyProgram(program)
        major, minor = library.getVersion()
        return f"NVRTC {major}.{minor}; " + "; ".join(word.decode().rstrip() for word in words)

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        """The cubin of ``text``.  Raises CudaCompileError, and NoNvrtc for an architecture unknown to this NVRTC."""
        library = self._library
        known = [f"sm_{number}" for number in library.getSupportedArchs()]
        if arch.rstrip("af") not in known:
            major, minor = library.getVersion()
            raise NoNvrtc(f"NVRTC {major}.{minor} does not compile for {arch}, only for {', '.join(known)}")
        return _whole(self._compiled(text, (f"--gpu-architecture={arch}", *options), library.getCUBIN))

    def _compiled(self, text: str, options: tuple[str, ...], image_of: Callable[[Any], Any]) -> bytes:
        """The image that ``image_of`` gives of the compiled program.  Raises CudaCompileError."""
        library = self._library
        program = library.createProgram(text, _TEXT_NAME, (), ())
        try:
            library.compileProgram(program, options)
            return bytes(image_of(program))
        except library.NVRTCError as error:
            raise CudaCompileError(_error_text(text, options[0], library.getProgramLog(program))) from error
        finally:
            library.destroyProgram(program)


#: Offsets in a 64-bit ELF header: of the positions of the segment and section tables, and of the size and number of their rows.
_TABLES_AT, _ROWS_AT = 32, 54


def image_bytes(image: bytes) -> int:
    """The minimum length of a cubin: the end of the segment and section tables that its header declares."""
    segments, sections = struct.unpack_from("<QQ", image, _TABLES_AT)
    segment_bytes, n_segments, section_bytes, n_sections = struct.unpack_from("<HHHH", image, _ROWS_AT)
    return int(max(segments + segment_bytes * n_segments, sections + section_bytes * n_sections))


def _whole(image: bytes) -> bytes:
    """Restore the last byte of a cubin, which cupy takes for the end of a string and drops.

    A table ends the image, and the last field of its last row is a little-endian number of 8 bytes (an alignment, or the size of
    an entry), far below 2^56: the byte is 0.
    """
    missing = image_bytes(image) - len(image)
    assert missing <= 1, f"NVRTC gave {len(image)} bytes of a cubin, {missing} too few"
    return image + bytes(max(missing, 0))


_INSTALL = "install relayvm[cuda13] or relayvm[cuda12]"

#: The compiler of ``cubin``.  Replaceable: its version is part of the key, so two compilers never share an entry.
compiler: CudaCompiler = Nvrtc()


def cubin(text: str, arch: str, name: str = "CUDA kernels", by: CudaCompiler | None = None) -> bytes:
    """The cubin of CUDA C ``text`` (without the prelude) for ``arch``, such as ``sm_90``; ``name`` is for people.

    ``by``: another compiler than ``compiler``.  Raises NoNvrtc without a compiler, CudaCompileError for a wrong text.
    """
    from .prelude import PRELUDE

    by = by or compiler
    fields = {
        "source": text_hash(text),
        "prelude": text_hash(PRELUDE),
        "arch": arch,
        "options": " ".join(OPTIONS),
        "compiler": by.version,
        # entries without this field were stored without their last byte
        "image": "whole",
    }
    return kernel_store.get_or_make(CacheKey.of("cubin", fields), name, lambda: by.compile(PRELUDE + text, arch, OPTIONS))


def compile_all(wanted: Sequence[tuple[str, str]], names: Sequence[str] | None = None) -> list[bytes]:
    """The cubins of many ``(text, arch)``, in order: at a cold start, in as many threads as there are cores.

    NVRTC compiles in parallel (13.5 on 2 cores: 16 kernels of 0.18 s each take 2.9 s one after another, 1.5 s in two threads).
    Equal texts are compiled once.  Raises the exceptions of ``cubin``, for the first failure.
    """
    from concurrent.futures import ThreadPoolExecutor

    named = names if names is not None else ["CUDA kernels"] * len(wanted)
    with ThreadPoolExecutor(max_workers=min(len(wanted), os.cpu_count() or 1) or 1) as pool:
        # each task in a copy of this context: uses count as this thread's
        tasks = [
            pool.submit(contextvars.copy_context().run, cubin, text, arch, name)
            for (text, arch), name in zip(wanted, named, strict=True)
        ]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _error_text(text: str, target: str, log: str) -> str:
    """The compiler's message for the option ``target``, then the lines around its first error with their numbers."""
    place = re.search(rf"{re.escape(_TEXT_NAME)}\((\d+)\)(?:: error|: catastrophic)", log)
    at = int(place[1]) if place else 1
    lines = text.split("\n")
    first, last = max(1, at - _CONTEXT_LINES), min(len(lines), at + _CONTEXT_LINES)
    shown = [f"{'>' if n == at else ' '} {n:>5} | {lines[n - 1]}" for n in range(first, last + 1)]
    arch = target.rpartition("=")[2]
    return "\n".join([f"a CUDA kernel does not compile for {arch}; this is a bug in relayvm", log.strip(" \0\n"), *shown])
