"""Exit codes, declared once; the help and docs/commands.md list them."""

from __future__ import annotations

import enum

from ....vm.diagnostics.source import ConfigError, FileError, InputError, RelayError, VMError
from ...comparison.result_check import ResultsDiffer, ResultsUnexpected


class ExitCode(enum.IntEnum):
    """Exit codes, the same for every command.  ``meaning``: the code in words."""

    meaning: str

    OK = 0, "all went well; also where a reader of the output left early"
    CHECK = 1, "a check failed: a --fail-if holds, `cache verify` found damage"
    USAGE = 2, "the command line: an unknown option, configuration key or device"
    DIFFERENT = 3, "the sides of a comparison gave different results"
    UNEXPECTED = 4, "the results are not those of --expected"
    INPUT = 5, "an argument does not fit the program: an input, a size, a name"
    FILE = 6, "a file cannot be read or written; standard output, too"
    PROGRAM = 7, "the program's text has a mistake, or a stored file is damaged"
    RUN = 8, "the program failed while it ran: an index, a division, memory"
    INTERNAL = 70, "a mistake of relayvm's own"
    INTERRUPTED = 130, "interrupted (Ctrl-C)"

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member


#: Exit codes of error classes; the first class that matches decides.
_OF_ERRORS: dict[type[RelayError], ExitCode] = {
    ResultsUnexpected: ExitCode.UNEXPECTED,
    ResultsDiffer: ExitCode.DIFFERENT,
    FileError: ExitCode.FILE,
    ConfigError: ExitCode.USAGE,
    InputError: ExitCode.INPUT,
    VMError: ExitCode.RUN,
    RelayError: ExitCode.PROGRAM,
}


def code_of(error: RelayError) -> ExitCode:
    """The exit code of an error."""
    return next(code for cls, code in _OF_ERRORS.items() if isinstance(error, cls))


def listed() -> str:
    """The codes and their meanings, one per line, for the help."""
    return "\n".join(f"{code:>5}  {code.meaning}" for code in ExitCode)
