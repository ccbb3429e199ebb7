"""``relayvm compare``: compare configurations, programs or saved profiles; print, write files, check conditions."""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ...vm.bytecode.executable import VMFunction
from ...vm.device_table import LINKED
from ...vm.diagnostics.source import ConfigError, FileError, InputError
from ...vm.report.profile_report import Profile
from ..comparison.compare import Comparison, compare_profiles
from ..comparison.compare_conditions import FIGURES, Condition, ConditionError, failures, parse_condition
from ..comparison.compare_text import page_table
from ..comparison.result_check import NODES_TOL, Tolerance
from ..comparison.run_comparison import PRESETS, REPEAT, compare_sides
from ..comparison.simulated_link import FORM, PCI_EXPRESS, SimulatedLink
from ..comparison.verdict_text import verdict_text
from ..inputs.given_inputs import InputSyntaxError, parse_shape, split_option
from ..inputs.random_inputs import Range
from ..load_program import STDIN, with_weights
from .compare_nodes import AGAINST_HELP, BISECT_HELP
from .compare_nodes import against as compare_against
from .compare_terminal import show
from .expected import Expected
from .terminal.exit_codes import ExitCode
from .terminal.options import (
    Command,
    device_option,
    expected_options,
    input_options,
    json_option,
    params_option,
    settings,
    side_option,
    wanted,
    write_file,
)
from .terminal.progress import compile_progress, round_progress
from .terminal.streams import complain, standard_output

#: The suffix of a saved profile.
PROFILE_SUFFIX = ".json"
_LETTERS = "abcd"

Sides = dict[str, tuple[Any, dict[str, str]]]


# ---- options ---------------------------------------------------------------------------------------------------------------


def _named_sides(context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, dict[str, str]]:
    out: dict[str, dict[str, str]] = {}
    for text in texts:
        name, _, rest = text.partition(":")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise click.BadParameter(f"{text!r} is not of the form NAME:KEY=VALUE,...", context, parameter)
        if name in out or name in _LETTERS:
            raise click.BadParameter(f"there are two sides {name!r}; --a to --d are sides too", context, parameter)
        try:
            out[name] = settings(rest)
        except InputSyntaxError as error:
            raise click.BadParameter(str(error), context, parameter) from error
    return out


def _bindings(context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> list[dict[str, tuple[int, ...]]]:
    out = []
    for text in texts:
        binding: dict[str, tuple[int, ...]] = {}
        for part in filter(None, text.split(";")):
            try:
                name, sizes = split_option(part, "NAME=5,4 or n=7")
                binding[name.removeprefix("?")] = parse_shape(sizes)
            except InputSyntaxError as error:
                raise click.BadParameter(str(error), context, parameter) from error
        if binding in out:
            raise click.BadParameter(f"{text!r} is given twice", context, parameter)
        out.append(binding)
    return out


_FAIL_IF_HELP = (
    "End with 1 if this holds in any case (repeatable), such as 'b.dtoh_bytes > 0' or 'b.time > a.time * 1.05'. "
    f"SIDE.FIGURE, numbers, + - * /, comparisons, and, or, not. Figures, per run, times in ns: {', '.join(FIGURES)}."
)
_LINK_HELP = (
    f"Simulate a link to {LINKED}: its speed and the time that each copy takes besides; memory: neither. "
    f"Default: {PCI_EXPRESS} for a --preset on {LINKED}, else memory."
)
_PRESET_HELP = "; ".join(f"{name}: sides {', '.join(sides)}" for name, sides in PRESETS.items())


def _link(context: click.Context, parameter: click.Parameter, text: str | None) -> SimulatedLink | None:
    try:
        return None if text is None else SimulatedLink.parse(text)
    except ConfigError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def _side_options(command: Command) -> Command:
    for letter in reversed(_LETTERS):
        command = side_option(letter)(command)
    return command


def _file_option(name: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(name, type=click.Path(path_type=Path), metavar="PATH", help=help_text)


# ---- the command -------------------------------------------------------------------------------------------------------------


@click.command("compare", short_help="Compare FILE in several configurations.")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE [FILE...]")
@_side_options
@click.option("--side", "named", multiple=True, metavar="NAME:KEY=VALUE,...", callback=_named_sides, help="A side with a name.")
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help=f"A predefined set of sides. {_PRESET_HELP}.")
@click.option(
    "--shapes",
    "bindings",
    multiple=True,
    metavar="NAME=5,4;n=7",
    callback=_bindings,
    help="Sizes of one case; several options: several cases and their geometric mean.",
)
@input_options
@params_option
@device_option
@click.option(
    "--repeat", type=click.IntRange(min=1), default=REPEAT, show_default=True, help="Rounds; every side runs in each round."
)
@click.option("--link", metavar=FORM, callback=_link, help=_LINK_HELP)
@click.option("--fail-if", "conditions", multiple=True, metavar="CONDITION", help=_FAIL_IF_HELP)
@click.option(
    "--profiles/--no-profiles", default=None, help="Also print each side in nvprof's form; default: if there are two sides."
)
@click.option("--against", metavar="RUNTIME", help=AGAINST_HELP)
@click.option("--bisect", is_flag=True, help=BISECT_HELP)
@click.option("--brief", is_flag=True, help="Print results, copies, bytes, time and the reasons of copies only.")
@click.option("--all", "everything", is_flag=True, help="Also print rows below 1 % of the time that do not differ.")
@expected_options(f"with --against {NODES_TOL:g}")
@json_option
@_file_option("--json-out", "Write the comparison as JSON.")
@_file_option("--html", "Write one page with the timelines of all sides.")
@_file_option("--trace", "Write a trace for Perfetto, one process per side.")
def compare_command(
    files: tuple[Path, ...],
    named: dict[str, dict[str, str]],
    preset: str | None,
    bindings: list[dict[str, tuple[int, ...]]],
    entry: str,
    params: Path | None,
    device: str | None,
    repeat: int,
    link: SimulatedLink | None,
    conditions: tuple[str, ...],
    profiles: bool | None,
    against: str | None,
    bisect: bool,
    brief: bool,
    everything: bool,
    as_json: bool,
    json_out: Path | None,
    html: Path | None,
    trace: Path | None,
    values: dict[str, Any],
    shapes: dict[str, tuple[int, ...]],
    dims: dict[str, int],
    ranges: dict[str, Range],
    seed: int,
    expected: Path | None,
    rtol: dict[str, float],
    atol: dict[str, float],
    **lettered: dict[str, str],
) -> int:
    """Run FILE in several configurations, in turn, and show the differences; or several FILEs, or saved profiles (.json).

    --a to --d, --side and --preset define sides; with several FILEs, each FILE is a side. Every side is compared with the first.
    --against compares a model with another runtime, value by value.
    Ends with 3 if results differ between sides, with 4 if results differ from --expected, with 1 if a --fail-if holds.
    """
    if against is not None:
        others = (named, preset, bindings, *(lettered[side] for side in "bcd"), params, link, conditions, html, trace, expected)
        if any(others):
            raise click.UsageError("--against has two sides, the program with the settings of --a and the other runtime")
        given_inputs = wanted(values, shapes, dims, ranges, seed)
        return compare_against(
            files, against, lettered["a"], device, given_inputs, Tolerance(rtol, atol), repeat,
            bisect=bisect, as_json=as_json, json_out=json_out,
        )  # fmt: skip
    if bisect:
        raise click.UsageError("--bisect looks for a pass by the results of --against: give both")
    saved = [f for f in files if f.suffix == PROFILE_SUFFIX]
    if saved:
        inputs = (values, shapes, dims, ranges, params)
        given = any((named, preset, bindings, *lettered.values(), *inputs, device, link, expected, rtol, atol))
        if len(saved) < len(files) or given:
            raise click.UsageError("saved profiles are compared with each other, as they are: no programs, sides or inputs")
        sides = {letter: _profile(f) for letter, f in zip(_side_names(len(files)), files, strict=True)}
        wanted_conditions = _conditions(conditions, tuple(sides))
        found = compare_profiles(sides)
    else:
        with compile_progress():
            programs = _sides(files, lettered, named, preset, params)
        wanted_conditions = _conditions(conditions, tuple(programs))
        if expected is not None and len(bindings) > 1:
            raise click.UsageError("--expected holds the results of one case: give --shapes once")
        tolerance = Tolerance(rtol, atol)
        with compile_progress(late=False), round_progress() as on_round:
            found = compare_sides(
                programs,
                wanted(values, shapes, dims, ranges, seed),
                bindings,
                device=device,
                entry=entry,
                repeat=repeat,
                on_round=on_round,
                tolerance=tolerance,
                check=None if expected is None else _check(expected, tolerance),
                link=PCI_EXPRESS if link is None and preset is not None and device == LINKED else link,
            )
    found = replace(found, files=tuple(map(str, files)) if len(files) > 1 else ())
    _write(found, json_out, html, trace)
    with standard_output():
        if as_json:
            click.echo(json.dumps(found.as_data(), indent=2))
        elif brief:
            click.echo(verdict_text(found))
        else:
            show(found, profiles, everything)
    bad = list(failures(wanted_conditions, found))
    for line in bad:
        complain(line)
    return ExitCode.CHECK if bad else ExitCode.OK


def _check(file: Path, tolerance: Tolerance) -> Callable[[str, Any, VMFunction], object]:
    """A check of each side's results against the file."""
    return lambda name, value, function: Expected(file, function, tolerance).verdict(value).demand(name)


def _conditions(texts: Sequence[str], sides: tuple[str, ...]) -> list[Condition]:
    try:
        return [parse_condition(text, sides) for text in texts]
    except ConditionError as error:
        raise click.BadParameter(str(error), param_hint="'--fail-if'") from error


def _side_names(count: int) -> list[str]:
    if count > len(_LETTERS):
        raise click.UsageError(f"there are {count} files; {len(_LETTERS)} can be compared at once")
    if count < 2:
        raise click.UsageError("there must be two saved profiles, or more, to compare")
    return list(_LETTERS[:count])


def _sides(
    files: Sequence[Path],
    lettered: dict[str, dict[str, str]],
    named: dict[str, dict[str, str]],
    preset: str | None,
    params: Path | None,
) -> Sides:
    """Program and configuration of each side, by name; ``params``: the weights of all programs."""
    given = [letter for letter in _LETTERS if lettered[letter]]
    if preset is not None:
        if given or named or len(files) > 1:
            raise click.UsageError("--preset says which sides there are: no --a to --d, no --side, one FILE")
        named = PRESETS[preset]
    least = 0 if named else 2
    count = max([least, len(files) if not named else 0, *(_LETTERS.index(x) + 1 for x in given)])
    if count > len(_LETTERS) or (named and len(files) > 1):
        raise click.UsageError(f"{len(files)} files are too many: one for all sides, or one each for {', '.join(_LETTERS)}")
    sides = {letter: lettered[letter] for letter in _LETTERS[:count]} | named
    if len(sides) < 2:
        raise click.UsageError("one side is no comparison: give another --side")
    if 1 < len(files) != len(sides):
        raise click.UsageError(f"there are {len(files)} files for {len(sides)} sides: give one for all of them, or one for each")
    if list(files).count(STDIN) > 1:
        raise click.UsageError("standard input (-) can be one of the files only")
    loaded = [with_weights(f, params) for f in files]
    return {name: (loaded[i if len(files) > 1 else 0], own) for i, (name, own) in enumerate(sides.items())}


def _profile(path: Path) -> Profile:
    try:
        return Profile.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no profile: it is not text") from error


def _write(found: Comparison, json_out: Path | None, html: Path | None, trace: Path | None) -> None:
    """Write the requested files.  Raises FileError if a file cannot be written."""
    several = len(found.cases) > 1
    named = [
        (f"{name} {case.name}" if several else name, profile)
        for case in found.cases
        for name, profile in zip(found.sides, case.profiles, strict=True)
    ]
    for path, make in ((json_out, found.to_json), (html, lambda: _page(named, found)), (trace, lambda: _trace(named))):
        write_file(path, make)


def _page(named: Sequence[tuple[str, Profile]], found: Comparison) -> str:
    from ...vm.report.export_html import html_page

    return html_page(named, page_table(found))


def _trace(named: Sequence[tuple[str, Profile]]) -> str:
    from ...vm.report.export_trace import chrome_trace

    return json.dumps(chrome_trace(named))
