"""Errors of a command: text on standard error or, with ``--json``, one object on standard output."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence

import click

from ....vm.diagnostics import codes
from ....vm.diagnostics.printable import printable, shortened
from ....vm.diagnostics.source import Diagnostic, FileError, RelayError
from .exit_codes import ExitCode, code_of
from .streams import complain, standard_output

#: Shows the traceback of an internal error.
TRACEBACK_VARIABLE = "RELAYVM_TRACEBACK"


def wants_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for JSON; the command line may be invalid otherwise."""
    return "--json" in (args[: args.index("--")] if "--" in args else args)


def tell(error: BaseException, as_json: bool) -> ExitCode:
    """Report the error that ended a command and return the exit code."""
    if isinstance(error, RelayError):
        code, diagnostics, text = code_of(error), error.diagnostics, str(error)
    else:
        code, diagnostic, text = _explained(error)
        diagnostics = (diagnostic,)
    if as_json:
        return _answer(code, diagnostics)
    complain(text)
    return code


def _explained(error: BaseException) -> tuple[ExitCode, Diagnostic, str]:
    """Exit code, diagnostic and text of an exception that is no RelayError."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            return ExitCode.INTERRUPTED, Diagnostic("interrupted", code=codes.Process.INTERRUPTED), "interrupted"
        case click.ClickException():
            usage = error.ctx.get_usage() + "\n" if isinstance(error, click.UsageError) and error.ctx is not None else None
            message = shortened(error.format_message())
            return ExitCode.USAGE, Diagnostic(message, help=usage, code=_usage_code(error)), _usage_text(error)
        case MemoryError():
            message = "this process has no more memory"
            return ExitCode.RUN, Diagnostic(message, code=codes.Process.MEMORY), f"error: {message}"
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    words = shortened(f"internal error: {type(error).__name__}: {error}".splitlines()[0])
    message = f"{words}; please report it, with what {TRACEBACK_VARIABLE}=1 shows"
    return ExitCode.INTERNAL, Diagnostic(message, code=codes.Process.INTERNAL), message


def _usage_code(error: click.ClickException) -> codes.Code:
    match error:
        case click.NoSuchOption():
            return codes.Usage.OPTION
        case click.MissingParameter():
            return codes.Usage.MISSING
        case click.BadParameter():
            return codes.Usage.VALUE
    return codes.Usage.COMMAND


def _usage_text(error: click.ClickException) -> str:
    """Click's message without control characters, which may come from the command line."""
    import io

    words = io.StringIO()
    error.show(words)
    return printable(words.getvalue()).rstrip("\n")


def _answer(code: ExitCode, diagnostics: Sequence[Diagnostic]) -> ExitCode:
    data = {"errors": [d.as_data() for d in diagnostics], "exit_code": int(code)}
    try:
        with standard_output():
            sys.stdout.write(json.dumps(data, indent=2) + "\n")
    except FileError as error:
        complain(str(error))
    return code
