"""The campaign: random trials of every way into relayvm, in child processes, as many as time allows.

    python -m tests.campaign                      # every part, 60 seconds in all
    python -m tests.campaign texts --trials 50000
    python -m tests.campaign texts --seed 1234 --trials 1   # one trial again

A trial is drawn from its seed alone, so a seed is a finding's name.  A finding (a wrong result, an error that is not ours, a
crash, a hang) is made smaller and written to a file that is a test.  ``make fuzz SECONDS=...`` is the same.

The parts come one after the other; the exit code is 1 when something was found.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import click

from .hunt import hunt, write

FOLDER = Path(__file__).parent
#: Modules of this folder that are no part.
_NO_PARTS = ("__main__", "part", "worker", "child", "hunt", "test_slice")
PARTS = tuple(sorted(p.stem for p in FOLDER.glob("*.py") if p.stem not in _NO_PARTS))


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--seconds", default=60.0, help="For all parts together, where --trials is not given.")
@click.option("--trials", default=None, type=int, help="Of each part, however long they take.")
@click.option("--seed", default=0, help="The first trial's.")
@click.option("--jobs", default=2, help="Processes.")
@click.option("--out", default="build/campaign", type=click.Path(path_type=Path), help="Folder for tests made of findings.")
def main(parts: tuple[str, ...], seconds: float, trials: int | None, seed: int, jobs: int, out: Path) -> None:
    """Random trials of relayvm."""
    click.echo(f"{platform.platform()}, Python {platform.python_version()}, {jobs} processes, seeds from {seed}")
    found = 0
    chosen = parts or PARTS
    for name in chosen:
        report = hunt(name, seed, trials, seconds / len(chosen), jobs)
        click.echo(str(report))
        for finding in report.findings:
            click.echo(f"  {finding.kind} at seed {finding.seed}: {finding.what}\n    {write(name, finding, out)}")
        found += len(report.findings)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
