"""Options that several commands share, and the parsers of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ....vm.bytecode.atomic_file import write_whole
from ....vm.device_table import DEVICES
from ...comparison.result_check import RTOL, SCALE_TOL
from ...inputs.given_inputs import FORMS, InputSyntaxError, Wanted, parse_input, parse_shape, split_option
from ...inputs.random_inputs import Range, parse_range
from ...settings.config import describe
from .exit_codes import ExitCode

Command = TypeVar("Command", bound=Callable[..., Any])

file_argument = click.argument("file", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
repeat_option = click.option("--repeat", type=click.IntRange(min=1), default=10, show_default=True, help="Measured runs.")
warmup_option = click.option(
    "--warmup", type=click.IntRange(min=0), default=2, show_default=True, help="Unmeasured runs before the measured runs."
)
device_option = click.option(
    "--device", metavar="|".join(DEVICES), help="The target device; default: cpu, or the target of a .rvm."
)

params_option = click.option(
    "--params",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Weights by the names of parameters, a .npz or .safetensors file: they become constants.",
)


def _parsed(parse: Callable[[str], tuple[str, Any]], is_list: bool = True) -> Callable[..., dict[str, Any]]:
    """A click callback for a repeated ``NAME=...`` option: a dict.  Each name is allowed once.

    ``is_list``: whether one option may hold several, separated by commas.
    """

    def callback(context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for text in (part for given in texts for part in (given.split(",") if is_list else (given,))):
            try:
                name, value = parse(text)
            except InputSyntaxError as error:
                raise click.BadParameter(str(error), context, parameter) from error
            if name in out:
                raise click.BadParameter(f"{name} is given twice", context, parameter)
            out[name] = value
        return out

    return callback


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, rest = split_option(text, "NAME=5,4")
    return name, parse_shape(rest)


def _dim(text: str) -> tuple[str, int]:
    name, rest = split_option(text, "NAME=SIZE, such as n=7")
    sizes = parse_shape(rest) if rest.strip().isdecimal() else ()
    if not sizes:
        raise InputSyntaxError(f"the size in {text!r} is not a number of at least 0")
    return name.removeprefix("?"), sizes[0]


def _range(text: str) -> tuple[str, Range]:
    name, rest = split_option(text, "NAME=LOW..HIGH, such as boxes=0..640")
    try:
        return name, parse_range(rest)
    except ValueError as error:
        raise InputSyntaxError(str(error)) from None


def _part(text: str) -> tuple[str, float]:
    path, equals, rest = text.rpartition("=")
    try:
        value = float(rest)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf or bool(equals) != bool(path):
        raise InputSyntaxError(f"{text!r} is not of the form 1e-3, or 0=1e-3 for the output 0")
    return path.strip().removeprefix("result."), value


def _listed_sizes(text: str) -> tuple[str, tuple[int, ...]]:
    name, rest = split_option(text, "NAME=1,16,256")
    sizes = parse_shape(rest)
    if not sizes:
        raise InputSyntaxError(f"{text!r} names no size")
    return name.removeprefix("?"), sizes


def _key(text: str) -> tuple[str, str]:
    return split_option(text, "KEY=VALUE")


def settings(text: str) -> dict[str, str]:
    """``KEY=VALUE[,KEY=VALUE]`` as a dict.  Raises InputSyntaxError."""
    out: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, value = _key(part)
        if key in out:
            raise InputSyntaxError(f"{key} is given twice")
        out[key] = value
    return out


def side_option(name: str) -> Callable[[Command], Command]:
    """``--a`` or ``--b``: the configuration of a side of a comparison."""

    def callback(context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
        try:
            return settings(",".join(texts))
        except InputSyntaxError as error:
            raise click.BadParameter(str(error), context, parameter) from error

    text = f"Configuration of side {name.upper()}; device=... is a key too."
    return click.option(f"--{name}", metavar="KEY=VALUE[,KEY=VALUE]", multiple=True, callback=callback, help=text)


def _config_help() -> str:
    keys = "; ".join(f"{key} = {'|'.join(values)} (default {default})" for key, default, values, _ in describe())
    return f"Compile with this setting (repeatable): {keys}."


config_option = click.option("--config", metavar="KEY=VALUE[,...]", multiple=True, callback=_parsed(_key), help=_config_help())


def _function_name(context: click.Context, parameter: click.Parameter, text: str) -> str:
    return text.removeprefix("@")


_ENTRY_OPTION = click.option(
    "--entry", default="main", show_default=True, metavar="NAME", callback=_function_name, help="The function to call."
)


def _shape_option(help: str) -> Callable[[Any], Any]:
    """The option of shapes by the names of parameters."""
    shape = _parsed(_shape, is_list=False)
    return click.option("--shape", "shapes", multiple=True, metavar="NAME=5,4", callback=shape, help=help)


_DIM_OPTION = click.option(
    "--dim", "dims", multiple=True, metavar="n=7[,m=3]", callback=_parsed(_dim), help="The size of the dimension ?n."
)
_SIZE_OPTIONS = (
    _ENTRY_OPTION,
    _shape_option("A parameter's shape."),
    _DIM_OPTION,
)
_INPUT_OPTIONS = (
    _ENTRY_OPTION,
    click.option(
        "--input",
        "values",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parsed(parse_input, is_list=False),
        help=f"One of {FORMS}.",
    ),
    _shape_option("A random input's shape."),
    _DIM_OPTION,
    click.option(
        "--range",
        "ranges",
        multiple=True,
        metavar="NAME=0..640",
        callback=_parsed(_range),
        help="Uniform random values from this range, ends included; default: standard normal floats, integers 0 to 9.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of random inputs."),
)


def input_options(command: Command) -> Command:
    """``--entry`` and the options of inputs: ``--input --shape --dim --range --seed``."""
    for option in reversed(_INPUT_OPTIONS):
        command = option(command)
    return command


def size_options(command: Command) -> Command:
    """``--entry`` and the options of parameter sizes: ``--shape --dim``."""
    for option in reversed(_SIZE_OPTIONS):
        command = option(command)
    return command


sizes_option = click.option(
    "--shapes", "sizes", multiple=True, metavar="n=1,16,256", callback=_parsed(_listed_sizes, is_list=False),
    help="Sizes of the dimension ?n; of an unnamed dimension as x.shape[0]=...; several options: all combinations.",
)  # fmt: skip


class _Seconds(click.ParamType):  # type: ignore[type-arg]  # generic for mypy only
    """``60s``, ``1.5m``, ``90``: a time."""

    name = "time"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([sm]?)", str(value).strip())
        seconds = float(found[1]) * (60 if found[2] == "m" else 1) if found else 0.0
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is not a time above 0 such as 60s or 2m", parameter, context)
        return seconds


seconds_option = click.option(
    "--duration", "seconds", type=_Seconds(), default="3s", show_default=True, metavar="3s|1m", help="Time of the measurement."
)
budget_option = click.option("--budget", type=_Seconds(), metavar="60s|2m", help="Time limit of the measurements; default: none.")


#: Export formats of a profile: the option and the content of the file.
_EXPORTS = {
    "json-out": "the profile as JSON, for `relayvm compare`",
    "csv": "every figure, one line per instruction",
    "markdown": "the tables, to paste into an issue",
    "trace": "the timeline, for ui.perfetto.dev and chrome://tracing",
    "html": "one page with timeline, tables and program",
}


def export_options(command: Command) -> Command:
    """``--json-out --csv --markdown --trace --html``: the files to write."""
    for name, text in reversed(_EXPORTS.items()):
        key = name.replace("-", "_")
        command = click.option(
            f"--{name}", f"{key}_path", type=click.Path(path_type=Path), metavar="FILE", help=f"Write {text}."
        )(command)
    return command


def wanted(
    values: dict[str, Any], shapes: dict[str, tuple[int, ...]], dims: dict[str, int], ranges: dict[str, Range], seed: int
) -> Wanted:
    """The input options as one object."""
    return Wanted(values, shapes, dims, seed, ranges)


def expected_options(other_default: str = "") -> Callable[[Command], Command]:
    """``--expected --rtol --atol``: expected results and tolerances.  ``other_default``: another default, and when it holds."""
    more = f"; {other_default}" if other_default else ""

    def with_options(command: Command) -> Command:
        for option in reversed(_expected_options(more)):
            command = option(command)
        return command

    return with_options


def _expected_options(more: str) -> tuple[Callable[[Command], Command], ...]:
    return (
        click.option(
            "--expected",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"Compare the results with a .npy or .npz file in the format of `run -o`; "
            f"end with {ExitCode.UNEXPECTED} if they differ.",
        ),
        click.option(
            "--rtol",
            multiple=True,
            metavar="[OUTPUT=]1e-3",
            callback=_parsed(_part),
            help=f"Relative tolerance of floats; default {RTOL:g}, more for 16 bits{more}. "
            "boxes=1e-3, 0=1e-3: for one output only.",
        ),
        click.option(
            "--atol",
            multiple=True,
            metavar="[OUTPUT=]1e-6",
            callback=_parsed(_part),
            help=f"Absolute tolerance of floats; default {SCALE_TOL:g} of the output's largest value{more}. "
            "Other dtypes must be equal.",
        ),
    )


def write_file(path: Path | None, text: Callable[[], str]) -> None:
    """Write ``text()`` to ``path`` unless ``path`` is None.  Raises FileError."""
    if path is not None:
        write_whole(path, text().encode("utf-8", "backslashreplace"))
