"""Code that is the same for every program, compiled into the folder of the package: ``relayvm cache install``.

Python's bytecode of the package is stored, too, beside the sources.

A first process with an empty cache compiles the machine, the parts that kernels share, and kernels that most networks have, for
some seconds, reads the grammar with lark and asks LLVM for the name of the CPU.  The folder has the results as entries of the
kernel cache (``ops/native/cache/installed_entries.py``).
"""

from __future__ import annotations

import compileall
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...ops.kernels.shared_tiles import obtain_tiles
from ...ops.native.cache import disk_cache, installed_entries
from ...ops.native.cache.host_processor import host_processor
from ...vm import thread_count
from ...vm.api.executable import Executable
from ...vm.machine import machine_code
from ...vm.runtime.kernels.companion import Companion, Job, can_help
from ...vm.runtime.kernels.kernel_addresses import obtain_parts, obtain_shared
from ..executable_cache import FOLDERS, PACKAGE, source_digest
from ..text.grammar_tables import tables
from .usual_byte_layers import usual_byte_layers
from .usual_byte_networks import usual_byte_networks
from .usual_layers import byte_products, usual_layers
from .usual_networks import usual_networks


def install(own: bool = False) -> int:
    """Write the entries that the folder of the package lacks; their number.  Raises OSError.

    ``own``: the machine's own code, without kernels of usual layers and networks, and without Python's bytecode.  The user's
    cache is neither read nor written.
    """
    _check_writable(installed_entries.folder())
    if not own:
        store_bytecode(PACKAGE)
    with _cache_of_its_own():
        tables()
        host_processor()
        source_digest()
        with _done_meanwhile([(machine_code.obtain_all, ()), (obtain_tiles, ())]):
            _obtain_parts(byte_products())
            if not own:
                _obtain_usual_parts()
        if not own:
            _obtain_usual_kernels()
        machine_code.obtain_all()
        obtain_tiles()
        found = list(disk_cache.entry_files())
        for file in found:
            place = installed_entries.path_of(file.id)
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_suffix(".part")
            shutil.copyfile(file.path, part)
            os.replace(part, place)
    return len(found)


def store_bytecode(package: Path) -> None:
    """Store Python's bytecode of the modules of a package that lack it.

    Some installers leave it out, and so does Python itself where ``PYTHONDONTWRITEBYTECODE`` is set, as in many images.  Every
    process then compiles the modules that it imports.
    """
    compileall.compile_dir(package, maxlevels=0, quiet=2)
    for name in (*FOLDERS, "serving"):
        compileall.compile_dir(package / name, quiet=2)


def _check_writable(folder: Path) -> None:
    """Raise OSError unless files can be made in the folder: before the compilations, which take up to a minute."""
    with contextlib.suppress(FileExistsError):  # no folder, as the next line finds
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _obtain_parts(program: Executable) -> None:
    """Store the parts of the kernels of a program."""
    for packed in program.packed:
        obtain_parts(packed.group)


def _obtain_usual_parts() -> None:
    """Store the parts of the usual layers, but not their kernels, and the kernels of the usual layers of bytes.

    The compilation of these stores the kernels that fold the constants of quantised networks, too.
    """
    _obtain_parts(usual_layers())
    for layers in usual_byte_layers():
        for packed in layers.packed:
            obtain_shared(packed.group)


def _obtain_usual_kernels() -> None:
    """Store the code of the kernels of usual networks, which kernels with other literals share; a companion begins at the end."""
    networks = itertools.chain(usual_networks(), usual_byte_networks())
    groups = [packed.group for network in networks for packed in network.packed]
    with _done_meanwhile([(obtain_shared, (group,)) for group in reversed(groups)]):
        for group in groups:
            obtain_shared(group)


@contextlib.contextmanager
def _done_meanwhile(jobs: Sequence[Job]) -> Iterator[None]:
    """Let a companion do jobs within the context, if it can: this process calls their functions afterwards all the same."""
    if thread_count.get_num_threads() < 2 or not can_help():
        yield
        return
    with contextlib.ExitStack() as stack:
        is_told = False
        with contextlib.suppress(OSError):  # no process can be started: this one compiles alone
            companion = Companion()
            stack.callback(companion.end)
            is_told = companion.tell(jobs)
        yield
        if is_told:
            companion.wait()


@contextlib.contextmanager
def _cache_of_its_own() -> Iterator[None]:
    """Let this process use an empty cache."""
    before = os.environ.get(disk_cache.FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="relayvm-installation-") as cache:
        os.environ[disk_cache.FOLDER_VARIABLE] = cache
        try:
            yield
        finally:
            del os.environ[disk_cache.FOLDER_VARIABLE]
            if before is not None:
                os.environ[disk_cache.FOLDER_VARIABLE] = before
