"""Tiers of tests: ``--tier check``, ``--tier test`` and ``--tier rest``; without the option every test runs.

============  =========================================================================================================
``check``     the tests of ``test`` that use no machine code, start no process and are not marked ``lengthy``, and those marked
              ``quick``; of tests marked ``many`` one in MANY cases
``test``      every test that is not ``extensive``: every operator and every device; properties with a part of their examples
``rest``      the tests that are ``extensive``, with a fifth of their examples, and examples of other properties that ``test`` has
              not drawn, up to a fifth of them: ``test`` and ``rest`` are all tests, except cases of tests marked ``spread``
============  =========================================================================================================

A test marked ``spread`` has parameters whose values need not meet each value of the others, such as a dtype and a device.  Of
its cases that differ in these parameters alone, a tier runs one: the first value in the first such group, the second value in
the next group, and so on.  Every value is tested, and every group; a run without ``--tier`` has all pairs.  ``some`` is the same
for values over which one test loops.

Of a test marked ``split(n)`` the tier ``test`` runs one in ``n`` cases, and ``rest`` the others: for cases that take long and are
alike, not for properties.  Of a test marked ``thinned(n)`` the tier ``rest`` runs one in ``n`` of the cases that ``test`` has
not; a run without ``--tier`` has all.

No list says which tests use machine code.  In ``check`` a test that asks for a kernel, has LLVM emit an object, starts a process
or compiles for the emulated GPU is skipped at that point.  The names of the skipped tests are kept in pytest's cache beside a
hash of their file, and the next ``check`` leaves them out from the start, until the file changes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import seed, settings

T = TypeVar("T")

TIERS = ("check", "test", "rest")
MARKERS = (
    "extensive(**kept): not in `make test`, but in `make test-all`: beyond one representative for each operator and device; "
    "with arguments only the cases in which a parameter has another value than those of `kept`",
    "spread(*names): of cases that differ in these parameters alone, a tier has one, in turn",
    "split(n): of its cases `make test` has one in n, `make test-all` the others as well",
    "thinned(n): of its cases that `make test` has not, `make test-all` has one in n; a run without --tier has all",
    "drawn: draws examples without hypothesis' decorator; by `tiers.drawing`, or as many as `tiers.examples` or `tiers.draws`",
    "quick(**kept): in `make check`, although it uses kernels or starts a process; with arguments only the cases in which "
    "parameters have values of `kept`",
    "lengthy(**kept): not in `make check`, for it takes tenths of a second; with arguments only the cases in which a parameter "
    "has another value than those of `kept`",
    "many: a test with so many cases, mostly one for each operator, that `make check` has only some of them",
)
#: A tier draws one in so many examples of a property, and not fewer than so many; a run without ``--tier`` draws all.
PART, FEWEST = {"check": 20, "test": 8, "rest": 5}, {"check": 5, "test": 10, "rest": 10}
#: ``check`` has one in so many cases of a test that is marked ``many``.
MANY = 4
#: In pytest's cache: for each file a hash of its text, and the tests that were skipped.
SKIPPED = "relayvm/skipped_by_check"
#: Audit events that exclude a test from ``check``.
_ACTIONS = {"os.fork": "starts a process", "subprocess.Popen": "starts a process", "relayvm.emulator": "compiles for the GPU"}


#: The environment variable with the tier of this run, for the processes that its tests start; "" without a tier.
VARIABLE = "RELAYVM_TEST_TIER"
_tier: str | None = os.environ.get(VARIABLE) or None


def tier() -> str | None:
    """The tier of this run, in processes that its tests start too; None without ``--tier``."""
    return _tier


def belongs(tier: str | None, extensive: bool, drawn: bool) -> bool:
    """Whether a test belongs to the tier, as far as markers decide.  ``drawn``: whether it draws examples."""
    if tier == "rest":
        return extensive or drawn
    return tier is None or not extensive


def examples(number: int, is_extensive: bool = False) -> int:
    """The number of examples, out of ``number``, that a property draws in this run.

    ``rest``: those up to a fifth of ``number`` that ``test`` has not drawn, of a property that is not extensive.
    """
    drawn = _share(number, "test") if _tier == "rest" and not is_extensive else 0
    return _share(number, _tier) - min(drawn, _share(number, _tier))


def draws(number: int) -> range:
    """The numbers, out of ``range(number)``, of the examples that a property draws in this run."""
    first = _share(number, "test") if _tier == "rest" else 0
    return range(first, first + examples(number))


def _share(number: int, tier: str | None) -> int:
    return max(number // PART[tier], min(number, FEWEST[tier])) if tier in PART else number


def other_seed() -> int | None:
    """The seed of examples in ``rest``, where hypothesis would draw those of ``test`` again; None: as hypothesis does."""
    return 1 if _tier == "rest" and settings().derandomize else None


def drawing(number: int, **more: Any) -> Callable[[T], T]:
    """Decorate a property inside a test that is marked ``drawn``: ``settings`` of hypothesis for ``examples(number)``."""

    def decorated(function: T) -> T:
        changed = settings(max_examples=max(1, examples(number)), **more)(function)
        return changed if other_seed() is None else seed(other_seed())(changed)

    return decorated


def is_extensive(markers: Iterable[pytest.Mark], parameters: Mapping[str, Any]) -> bool:
    """Whether a case with these parameters is extensive."""
    return _is_beyond("extensive", markers, parameters)


def is_lengthy(markers: Iterable[pytest.Mark], parameters: Mapping[str, Any]) -> bool:
    """Whether a case with these parameters takes too long for ``check``."""
    return _is_beyond("lengthy", markers, parameters)


def _is_beyond(name: str, markers: Iterable[pytest.Mark], parameters: Mapping[str, Any]) -> bool:
    """Whether a case is none that a marker of this name keeps; a marker without arguments keeps none."""
    return any(not m.kwargs or not _has(m, parameters) for m in markers if m.name == name)


def is_quick(markers: Iterable[pytest.Mark], parameters: Mapping[str, Any]) -> bool:
    """Whether a case with these parameters is in ``check`` whatever it uses."""
    return any(_has(m, parameters) for m in markers if m.name == "quick")


def _has(marker: pytest.Mark, parameters: Mapping[str, Any]) -> bool:
    """Whether each parameter that the marker names has one of its values.  An object with a name is known by it."""
    return all(_named(parameters[p]) in values for p, values in marker.kwargs.items())


def _named(value: Any) -> Any:
    return getattr(value, "name", getattr(value, "__name__", value))


def add_option(parser: pytest.Parser) -> None:
    """``--tier``; called by ``conftest``, for this plugin is registered after options are read."""
    parser.addoption("--tier", choices=TIERS, help="run a part of the tests (see tests/tiers.py); default: all")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers; in ``check`` watch for machine code and processes."""
    global _tier
    _tier = config.getoption("--tier")
    os.environ[VARIABLE] = _tier or ""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("--tier") == "check":
        config.pluginmanager.register(_Watch(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other tiers."""
    tier = config.getoption("--tier")
    skipped = _known(config) if tier == "check" else set()
    left_out = skipped | _surplus(items) | _lengthy(items) if tier == "check" else skipped
    late = _late(items)
    kept = _spread(tier, [i for i in items if _belongs(tier, i, i in late)])
    thinned_out = _thinned_out(kept) if tier == "rest" else set()
    kept = [i for i in kept if i not in thinned_out]
    kept = [i for i in kept if i.nodeid not in left_out or _quick(i)]
    for item in kept:
        _draw_fewer(item)
    if len(kept) < len(items):
        chosen = set(kept)
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = kept


def _surplus(items: list[pytest.Item]) -> set[str]:
    """The cases of tests marked ``many`` that ``check`` leaves out: all but one in MANY, of each test from its first on."""
    numbers: Counter[str] = Counter()
    surplus = set[str]()
    for item in items:
        if item.get_closest_marker("many") is not None:
            test = item.nodeid.partition("[")[0]
            if numbers[test] % MANY:
                surplus.add(item.nodeid)
            numbers[test] += 1
    return surplus


def _lengthy(items: Iterable[pytest.Item]) -> set[str]:
    """The cases that take too long for ``check``."""
    return {item.nodeid for item in items if is_lengthy(item.iter_markers("lengthy"), _parameters(item))}


def _late(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The cases of tests marked ``split`` that ``test`` leaves to ``rest``."""
    marked = (i for i in items if i.get_closest_marker("split") is not None)
    return _but_one_in("split", [i for i in marked if not is_extensive(i.iter_markers(), _parameters(i))])


def _thinned_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The cases of tests marked ``thinned``, out of those that ``test`` has not, that ``rest`` leaves out."""
    return _but_one_in("thinned", items)


def _but_one_in(name: str, items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The cases of tests with this marker, but for one in as many as the marker says."""
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (marker := item.get_closest_marker(name)) is not None:
            cases.setdefault((item.nodeid.partition("[")[0], int(marker.args[0])), []).append(item)
    return {
        item for (test, part), of_test in cases.items() for k, item in enumerate(of_test) if is_late(test, k, len(of_test), part)
    }


def is_late(test: str, number: int, cases: int, part: int) -> bool:
    """Whether a tier leaves out a case of a test of which it has one in ``part``; the name of the test decides which of each
    ``part``."""
    return number % part != zlib.crc32(test.encode()) % min(part, cases)


def _spread(tier: str | None, items: list[pytest.Item]) -> list[pytest.Item]:
    """The items without the cases that ``spread`` leaves out of this tier."""
    groups: dict[str, dict[Any, list[pytest.Item]]] = {}
    for item in items:
        names = [name for marker in item.iter_markers("spread") for name in marker.args]
        if names and tier is not None:
            # cases with one value have one object: it need not be hashable
            others = tuple((name, id(value)) for name, value in _parameters(item).items() if name not in names)
            groups.setdefault(item.nodeid.partition("[")[0], {}).setdefault(others, []).append(item)
    left_out = set[pytest.Item]()
    for of_test in groups.values():
        for number, cases in enumerate(of_test.values()):
            left_out.update(case for place, case in enumerate(cases) if place != turn(tier, number, len(cases)))
    return [item for item in items if item not in left_out]


def turn(tier: str | None, number: int, cases: int) -> int:
    """The place of the case that a tier has of a group, out of so many: ``rest`` has another than ``test``."""
    return (number + (tier == "rest")) % cases


def some(values: Sequence[T], name: str, part: int) -> Sequence[T]:
    """Values over which the test of ``name`` loops: in a tier one in ``part``, others for other names; all without a tier.

    At least one, unless ``values`` is empty.
    """
    if _tier is None or not values:
        return values
    first = zlib.crc32(name.encode()) % min(part, len(values))
    return values[turn(_tier, first, min(part, len(values))) :: part]


def is_one_of(name: str, part: int) -> bool:
    """Whether ``name`` is one of the names, one in ``part``, that a tier takes: the same names in every tier."""
    return zlib.crc32(name.encode()) % part == 0


def _belongs(tier: str | None, item: pytest.Item, is_late: bool) -> bool:
    function = _function(item)
    drawn = item.get_closest_marker("drawn") is not None
    if hasattr(function, "hypothesis"):
        whole = getattr(function, "all_examples", function._hypothesis_internal_use_settings.max_examples)
        drawn = tier != "rest" or _number(item, whole) > 0
    return belongs(tier, is_late or is_extensive(item.iter_markers(), _parameters(item)), drawn)


def _function(item: pytest.Item) -> Any:
    function = getattr(item, "obj", None)
    return getattr(function, "__func__", function)


def _draw_fewer(item: pytest.Item) -> None:
    """Set the number of examples of a property; hypothesis keeps its settings at the function, which cases share."""
    function = _function(item)
    if hasattr(function, "hypothesis") and not hasattr(function, "all_examples"):
        whole = function._hypothesis_internal_use_settings
        function.all_examples, number = whole.max_examples, _number(item, whole.max_examples)
        if 0 < number < whole.max_examples:
            function._hypothesis_internal_use_settings = settings(whole, max_examples=number)
            function._hypothesis_internal_use_seed = other_seed()


def _number(item: pytest.Item, number: int) -> int:
    # cases share the settings: with one case in `rest` that `test` has not, all draw as many as that
    return examples(number, any(m.name == "extensive" for m in item.iter_markers()))


def _quick(item: pytest.Item) -> bool:
    return is_quick(item.iter_markers(), _parameters(item))


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.exists() else ""


def _known(config: pytest.Config) -> set[str]:
    """The tests that an earlier ``check`` skipped, of files that are as they were."""
    cache = getattr(config, "cache", None)
    kept = cache.get(SKIPPED, {}) if cache else {}
    return {name for file, (text, names) in kept.items() if text == _hash(config.rootpath / file) for name in names}


class _Watch:
    """Skips a test that uses machine code or starts a process, and keeps its name."""

    def __init__(self, config: pytest.Config) -> None:
        from llvmlite.binding import TargetMachine

        from relayvm.ops.native.compiled import kernel_store

        self._config = config
        self._on, self._why = False, ""
        self._names: list[str] = []
        sys.addaudithook(self._audit)
        # a listener of compilations as well: with an empty cache the test is skipped before the compilation
        kernel_store.on_compile.append(lambda _: self._stop("uses a kernel"))
        kernel_store.on_use.append(lambda _: self._stop("uses a kernel"))
        for emit in (TargetMachine.emit_object, TargetMachine.emit_assembly):
            setattr(TargetMachine, emit.__name__, self._watched(emit))

    def _watched(self, emit: Callable[..., Any]) -> Callable[..., Any]:
        """LLVM's method, which ends the test."""

        def watched(*args: Any) -> Any:
            self._stop("compiles machine code")
            return emit(*args)

        return watched

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _ACTIONS:
            self._stop(_ACTIONS[event])

    def _stop(self, why: str) -> None:
        if self._on:
            self._why = why
            raise pytest.skip.Exception(f"{why}: not in `make check`")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._on, self._why = not _quick(item), ""
        try:
            return (yield)
        finally:
            self._on = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Any:
        """Skip the test also where code between the test and the kernel caught the exception."""
        report = yield
        if self._why:
            if report.failed or report.when == "call":
                report.outcome, report.longrepr = "skipped", ("", 0, f"Skipped: {self._why}: not in `make check`")
            report.user_properties.append(("skipped_by_check", self._why))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if any(key == "skipped_by_check" for key, _ in report.user_properties):
            self._names.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """The controller writes; workers have only read."""
        cache = getattr(self._config, "cache", None)
        if cache is None or hasattr(self._config, "workerinput"):
            return
        kept = cache.get(SKIPPED, {})
        for name in dict.fromkeys(self._names):
            file = name.partition("::")[0]
            text = _hash(self._config.rootpath / file)
            if file not in kept or kept[file][0] != text:
                kept[file] = [text, []]
            if name not in kept[file][1]:
                kept[file][1].append(name)
        cache.set(SKIPPED, kept)
