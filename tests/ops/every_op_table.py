"""The table of operators and cases at the end of a run of ``test_every_op``."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One row per operator: the dtypes of its main input, and how many cases ran and agreed."""
    dtypes: dict[str, dict[str, None]] = {}
    cases: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", []):
        for key, value in getattr(report, "user_properties", []):
            if key == "every_op":
                name, seen, count = value
                dtypes.setdefault(name, {}).update(dict.fromkeys(seen))
                cases[name] = cases.get(name, 0) + count
    if not cases:
        return
    terminalreporter.section("every operator against numpy")
    for name in sorted(cases):
        terminalreporter.write_line(f"{name:<36} {cases[name]:>5}  {' '.join(dtypes[name])}")
    terminalreporter.write_line(f"{len(cases)} operators, {sum(cases.values())} cases")
