"""Configuration of every test: one cache of compiled kernels that is kept between runs, and properties without a deadline."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite(f"{__package__}.golden_texts")

from . import golden_texts, tiers  # noqa: E402  after the registration

golden = golden_texts.golden

ROOT = Path(__file__).resolve().parents[1]

#: 1: the tests for ``cuda`` run on the emulated GPU; 0: never; not set: where there is no driver of a real one.
EMULATED = "RELAYVM_EMULATED"

# Compiling a kernel takes tenths of a second: all workers, and the processes that tests start, share one store.
os.environ.setdefault("RELAYVM_CACHE_DIR", str(ROOT / ".cache" / "relayvm"))
os.environ["RELAYVM_INSTALLED_CODE"] = str(
    ROOT / ".cache" / "nothing installed"
)  # tests with an empty cache compile all they use

# Workers and processes of tests import the same modules: keep their bytecode, even where the environment forbids it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell's background jobs ignore Ctrl-C; tests send it to themselves, and would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests make many objects that live until their end: full collections at the default threshold take a tenth of their time.
gc.set_threshold(100_000, 20, 50)

# Every pass checks its result.
os.environ.setdefault("RELAYVM_CHECK", "1")

# Every machine poisons memory that is dead: who reads it gets a wrong answer.
os.environ.setdefault("RELAYVM_POISON", "1")

# The machines this runs on are shared and slow; a property that compiles something must not fail for it.
settings.register_profile("relayvm", deadline=None)
# Where nobody looks on, the same examples every time: a new find there would stop a change that has nothing to do with it.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "relayvm")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--device cuda``: a device more, for every test that runs on all of them (see ``devices``); ``--tier`` (see ``tiers``);
    ``--update`` (see ``golden_texts``)."""
    tiers.add_option(parser)
    golden_texts.add_option(parser)
    parser.addoption("--device", action="append", default=[], help="a device to test besides those of RELAYVM_TEST_DEVICES")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported."""
    from . import optimization
    from .emulator import left_failed, proof
    from .ops import every_op_table

    config.pluginmanager.register(tiers)
    config.pluginmanager.register(optimization)
    config.pluginmanager.register(proof)
    config.pluginmanager.register(left_failed)
    config.pluginmanager.register(every_op_table)  # here, for workers have no terminal
    listed = os.environ.get("RELAYVM_TEST_DEVICES")
    named = [*(listed.split(",") if listed else _testable()), *config.getoption("--device")]
    os.environ["RELAYVM_TEST_DEVICES"] = ",".join(dict.fromkeys(filter(None, named)))
    if "cuda" in named and _shall_emulate():
        _plug_in(config)


def pytest_collection_finish() -> None:
    """Keep modules and test items out of garbage collections."""
    _freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Keep out of later collections what this test has left: numba, and machine code that other tests use again.

    Each full collection would take 0.2 to 0.5 s otherwise, a fifth of the time of all tests.
    """
    try:
        return (yield)
    finally:
        _reset_threads()
        if _full_collections() > _frozen_at:
            _freeze()


def _reset_threads() -> None:
    """Let no test leave its number of threads to the next: ``set_num_threads`` outranks the environment, which tests set."""
    counts = sys.modules.get("relayvm.vm.thread_count")
    if counts is not None and counts._chosen is not None:
        counts.set_num_threads(None)


#: The number of full collections when objects were frozen last.
_frozen_at = 0


def _full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])


def _freeze() -> None:
    """Collect garbage, and exclude all other objects from later collections."""
    global _frozen_at
    gc.collect()
    gc.freeze()
    _frozen_at = _full_collections()


def _testable() -> list[str]:
    """Every device that can be tested here: ``cuda`` on a GPU, or on the emulated one where that can be built."""
    from .emulator import emulator

    return ["cpu", "sim", *(["cuda"] if not _shall_emulate() or emulator.available() is None else [])]


def _shall_emulate() -> bool:
    from relayvm.vm.devices.cuda.driver_api.driver import NoCuda, load_library

    if setting := os.environ.get(EMULATED):
        return setting == "1"
    try:
        load_library()
    except NoCuda:
        return True
    return False


def _plug_in(config: pytest.Config) -> None:
    """For the whole run, and in the processes that tests start, ``cuda`` is the emulated GPU."""
    from .emulator import emulator
    from .emulator.platform import plugged_in

    if why := emulator.available():
        raise pytest.UsageError(f"the device cuda cannot be tested: there is no GPU, and {why}")
    stack = contextlib.ExitStack()
    stack.enter_context(plugged_in())
    config.add_cleanup(stack.close)
    children = str(ROOT / "tests" / "emulator" / "children")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [children, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="session", autouse=True)
def no_reports() -> Iterator[None]:
    """No lines about long compilations: without a cache of kernels they come among what tests expect on standard error."""
    from relayvm.ops.native.compiled import compile_reports

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compile_reports, "SECONDS", (3600.0,))
        yield
