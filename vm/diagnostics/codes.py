"""Error codes, each with its meaning and a program or call that causes the error.

A code is ``family/name``, for example ``syntax/unbound-variable``: the enumeration and the member, in lower case.  Codes are
stable from version to version; the texts of messages may change.  Each class of errors has a default code (``RelayError.kind``)
for diagnostics without a code of their own.  ``docs/errors.md`` lists all codes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from ...ops.native import status


class Code(enum.Enum):
    """Base class of the families of codes.

    ``meaning``: a sentence.  ``example``: the text of a program if it begins with ``def``, otherwise Python; may be empty.
    """

    meaning: str
    example: str

    def __init__(self, meaning: str, example: str = "") -> None:
        self.meaning, self.example = meaning, example

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()}/{self.name.lower().replace('_', '-')}"


class Syntax(Code):
    """The text is not a program."""

    TEXT = "A text or file that is not a program; the message says why.", 'relay.parse("model.relay")'
    TOKEN = "An unexpected token.", "def @main(%x: float32) { exp(%x }"
    CHARACTER = "A character that no token begins with.", "def @main(%x: float32) { %x & 1 }"
    SEMICOLON = "A `;` is missing.", "def @main(%x: float32) { let %y = exp(%x) %y }"
    VERSION = "The version line is missing, repeated, or of another version.", 'relay.parse("def @main() { 1 }")'
    EMPTY = "A text without a function.", 'relay.parse("")'
    DIRECTIVE = "A line that begins with `#[` and is neither the version nor the metadata.", "def @main() { 1 }\n#[author]"
    COMMENT = "A comment that is not closed.", "def @main() { 1 } /* the end"
    METADATA = "The metadata does not hold the constants that the program names.", "def @main() { meta[relay.Constant][0] }"
    DUPLICATE = "A function, parameter or attribute is defined twice.", "def @main(%x: float32, %x: float32) { %x }"
    ORDER = "A parameter or argument after an attribute.", "def @main(%x: float32) { sum(axis=0, %x) }"
    UNBOUND_VARIABLE = "An unbound variable.", "def @main(%x: float32) { %y }"
    UNKNOWN_OPERATOR = "An unknown operator.", "def @main(%x: float32) { expp(%x) }"
    OPERATOR_AS_VALUE = "A value that is an operator with required attributes.", "def @main(%x: float32) { reshape }"
    ATTRIBUTE = (
        "An attribute that the operator does not have, or a value of a wrong type.",
        "def @main(%x: float32) { sum(%x, axs=0) }",
    )
    TENSOR = "A tensor literal with elements of several dtypes, or that is no box.", "def @main() { [1, 2f] }"
    INDEX = "A slice whose bounds are no integers.", "def @main(%x: Tensor[(4), float32]) { %x[1f] }"
    NUMBER = "A number without a suffix that it needs, or out of the range of its dtype.", "def @main() { 300i8 }"
    TYPE = (
        "An invalid type: an unknown dtype, too many dimensions, or a size that is no integer.",
        "def @main(%x: int3) { %x }",
    )


class Type(Code):
    """The types of the program do not match."""

    MISMATCH = (
        "A value has another type than its context requires.",
        "def @f(%x: int32) -> int32 { %x }\ndef @main(%x: float32) { @f(%x) }",
    )
    OPERANDS = "An operator does not take operands of these types.", "def @main(%x: float32, %i: int32) { add(%x, %i) }"
    ARITY = "A function is called with too many or too few arguments.", "def @f(%x: int32) { %x }\ndef @main() { @f() }"
    NOT_A_FUNCTION = "A value that is no function is called.", "def @main(%x: float32) { %x(1f) }"
    FIELD = "A field of a value that is no tuple, or a field that the tuple does not have.", "def @main(%x: float32) { %x.0 }"
    CONDITION = "The condition of an `if` is no bool.", "def @main(%x: float32) { if (%x) { 1 } else { 2 } }"
    BRANCHES = "The branches of an `if` have different types.", "def @main(%b: bool) { if (%b) { 1 } else { 2f } }"
    MATCH = (
        "A `match` that does not cover every value, or a pattern that does not fit the matched value.",
        "def @main(%b: bool) { match (if (%b) { A } else { B }) { A => 1 } }\ntype T { A, B }",
    )
    KIND = (
        "A part of a type that is no type of a value, or a wrong number of type arguments.",
        'relay.analysis.check_kind(relay.TupleType([relay.GlobalTypeVar("List")]))',
    )
    ANNOTATION = "A type that cannot be inferred and needs an annotation.", "def @main(%x) { %x }"
    SIGNATURE = (
        "The names of the results, `output_names`, or the defaults of parameters, `defaults`, do not fit the function.",
        'def @main(%x: float32, output_names=["a", "b"]) { %x }',
    )
    UNKNOWN = (
        "A function that the module does not have, or a variable that a program built in Python does not bind.",
        "def @main(%x: float32) { @f(%x) }",
    )
    BINDING = (
        "A variable that is bound twice, or used outside of its scope.",
        ('x = relay.var("x", ())\nrelay.compile(relay.Function([x], relay.Let(x, 1.0, x)))'),
    )
    MACHINE = (
        "An instruction of the machine in a program, or one that does not fit its arguments.",
        ("def @main(%x: float32) { vm.alloc_closure(%x) }"),
    )
    PLACE = "An impossible request for a device: no kernel, no implementation, or a refused copy."
    SIZE = "A tensor or program beyond the limits of the machine."
    STATIC = (
        "A program with control flow, for an executor of programs without.",
        """module = relay.parse('#[version = "0.0.5"] def @main(%b: bool) { if (%b) { 1f } else { 2f } }')\n"""
        """relay.create_executor("graph", module).evaluate()""",
    )
    EMPTY = "A module without a function.", "relay.compile(relay.IRModule({}))"


class Config(Code):
    """A requested configuration, device or function does not exist."""

    VALUE = "A configuration key has no such value.", 'relay.compile(relay.parse_expr("1f"), fuse="maybe")'
    KEY = "There is no such configuration key.", "relay.compile(program, optlevel=2)"
    DEVICE = "There is no such device, or an executable is for another device.", 'relay.compile(program, target="gpu")'
    LINK = "A simulated link is not described by a speed and a time.", 'relay.compare(program, link="fast")'
    FUNCTION = "The program has no such function to call.", 'relay.VirtualMachine(relay.compile(program))["mian"]'


class Argument(Code):
    """A call of relayvm's functions in Python."""

    VALUE = "An argument is of a wrong type or value.", 'relay.var("x", (2.5, 4))'
    KERNEL = "A function of `register_op(kernel=...)` that cannot be compiled to a kernel, or is called with too many arguments."


class Input(Code):
    """Inputs that do not fit their program."""

    VALUE = (
        "An invalid value or number.",
        "relay.VirtualMachine(relay.compile(program)).profile(array, repeat=0)",
    )
    ARGUMENTS = "An argument is missing, unknown or repeated.", "relay.VirtualMachine(relay.compile(program)).run()"
    TYPE = (
        "An argument has another dtype, rank or size than the parameter.",
        ('relay.VirtualMachine(relay.compile(program)).run(np.ones((2, 5), "float32"))'),
    )
    SIZES = (
        "One dimension has two different sizes.",
        ('relay.VirtualMachine(relay.compile(pair)).run(np.ones(3, "float32"), np.ones(2, "float32"))'),
    )
    PARAMETERS = "An entry of `params=` does not fit the parameters of @main.", 'relay.compile(program, params={"w": 1})'
    DONATION = "An argument cannot be donated.", 'relay.VirtualMachine(relay.compile(program)).run(array, donate=["y"])'


class File(Code):
    """Errors of files."""

    ACCESS = "A file cannot be read or written.", 'relay.parse(Path("nowhere.relay"))'
    DAMAGED = "A file is no executable of this version, or was damaged.", 'relay.Executable.load("model.rvm")'
    CACHE = "A saved cache is of another program, version or machine, or was damaged."


class Model(Code):
    """A model of another framework cannot be imported."""

    FORMAT = "A file that is no model, or a damaged one.", 'relay.frontend.from_onnx(b"no model")'
    OPERATOR = "Operators that cannot be converted; the message lists all of them."
    NODE = "A node whose inputs or attributes do not fit its operator, or that needs a value known at import."
    GRAPH = "A graph whose names or references do not fit together."
    TYPE = "An input whose type is missing or cannot be expressed."
    DTYPE = "A dtype that tensors here do not have."
    TENSOR = "A stored tensor whose data does not fit its type."
    EXTERNAL = "Data in another file: outside of the model's folder, missing, or too short."


class Results(Code):
    """Failed comparisons of results."""

    DIFFER = (
        "Two sides of a comparison gave different results.",
        ('relay.compare(relay.parse_expr("fn () { 1f }"), other=relay.parse_expr("fn () { 2f }"))'),
    )
    UNEXPECTED = "The results are not those of --expected."


class Serve(Code):
    """Requests that a server refuses, and models that it cannot serve."""

    REQUEST = "A request that is no request of the protocol, or does not name the model's tensors."
    ENDPOINT = "There is no such endpoint."
    METHOD = "The endpoint does not take this method."
    ENCODING = "A body in a compressed encoding."
    MODEL = "There is no such model or version."
    HEAD = "An address and headers beyond the limit of the server."
    HEAD_DEADLINE = "Headers that were not complete within the time of the server."
    LIMIT = "A body or tensor beyond a limit of the server."
    BUSY = "The queue of the model, or the memory for requests, is full."
    DEADLINE = "No answer within the time of the request or of the server."
    STOPPING = "The server stops, or the model was replaced by one with other inputs."
    RESULT = "A result that the requested form cannot hold."
    BATCH = "A declared batch dim by which the model cannot be batched."


class Usage(Code):
    """Errors in a command line."""

    OPTION = "There is no such option."
    COMMAND = "There is no such command, or the arguments do not go together."
    VALUE = "An option or argument has a value that it does not take."
    MISSING = "An option or argument is missing."


class Process(Code):
    """Errors that concern no program."""

    FAILED = "An error without a code of its own."
    INTERRUPTED = "The command was interrupted."
    MEMORY = "The process has no more memory."
    INTERNAL = "An error in relayvm: please report it."


#: Examples of the codes of failed runs.  Each status of the machine has a code; FAILED is the code of all other failures.
_RUN_EXAMPLES = {
    status.INDEX_OUT_OF_RANGE: 'relay.VirtualMachine(relay.compile(taken)).run(np.ones(3, "float32"), np.int32(7))',
    status.DIVISION_BY_ZERO: "relay.VirtualMachine(relay.compile(divided)).run(np.int32(1), np.int32(0))",
    status.EMPTY_REDUCTION: 'relay.VirtualMachine(relay.compile(largest)).run(np.ones(0, "float32"))',
}
_NUMBERS = {name: n for name, n in vars(status).items() if isinstance(n, int) and n in status.STATUS and n != status.OK}
_code_of_runs: Any = Code  # mypy takes this call for that of a member
Run: type[Code] = _code_of_runs(
    "Run",
    {
        "FAILED": ("The program failed at run time; the message has the reason.",),
        **{name: (f"{status.STATUS[n].capitalize()}.", _RUN_EXAMPLES.get(n, "")) for name, n in _NUMBERS.items()},
    },
)
Run.__doc__ = "The program failed at run time."


def of_status(number: int) -> Code:
    """The code of a status of the machine."""
    names = [name for name, n in _NUMBERS.items() if n == number]
    return Run[names[0]] if names else Run["FAILED"]


def families() -> tuple[type[Code], ...]:
    """The families of codes, in the order of the page."""
    return (Syntax, Type, Config, Argument, Input, File, Model, Run, Results, Serve, Usage, Process)


def codes() -> Iterator[Code]:
    """All codes."""
    for family in families():
        yield from family
