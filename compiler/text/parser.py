"""Parse a text to a module and report *all* its errors.

The text passes three stages: ``header`` removes comments, the version line and the metadata section; an LALR parser (``lalr``)
builds a syntax tree, and resumes after each error; ``elaborate`` converts the tree to IR.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ...ops.core.op import Op
from ...ops.core.tensor_types import Type
from ...ops.native.gc_pause import collection_paused
from ...vm.diagnostics import codes
from ...vm.diagnostics.argument_errors import a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import Diagnostic, FileError, ParseError, SourceText, Span
from ..ir.expr import Expr, IRModule, TypeData
from .elaborate_adt import AdtElaborator
from .grammar_tables import END, ERROR, SyntaxTree, Token, token
from .header import Header, split_header
from .lalr import Driver
from .meta_table import MetaTable, given_metadata
from .metadata import Metadata

T = TypeVar("T")

#: Suffixes of programs and executables, and the longest text that may be a path.
_PROGRAM, _EXECUTABLE, _LONGEST_NAME = ".relay", ".rvm", 1024


def read_source(path: str | Path) -> SourceText:
    """The text of a file.  Raises FileError if it cannot be read, ParseError if it is not UTF-8 text."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    return decode_source(data, str(path))


def decode_source(data: bytes, name: str) -> SourceText:
    """The text of a file's bytes.  Raises ParseError if they are not UTF-8 text."""
    if b"\0" in data:
        raise ParseError(f"{name} is a binary file: it has a zero byte at offset {data.index(0)}", help="give a Relay text file")
    try:
        return SourceText(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"{name} is no text: byte {data[error.start]:#04x} at offset {error.start} is not UTF-8"
        raise ParseError(message, help="give a Relay text file in UTF-8") from error


def parse(
    text: str | SourceText | Path,
    source_name: str = "<string>",
    init_module: IRModule | None = None,
    meta_table: MetaTable | None = None,
    *,
    init_meta_table: MetaTable | None = None,
) -> IRModule:
    """The module of a text, or of the file at a Path.

    A called function may be missing: another module may bring it (``mod.update``); type inference reports it if none does.
    ``init_module``: a module whose definitions the new module has, too.  ``meta_table``, Relay's ``init_meta_table``: the
    constants that ``meta[relay.Constant][0]`` names in a text without metadata, ``{"relay.Constant": [array, ...]}``.

    Raises ParseError with every error, in order of place, and ArgumentError.
    """
    given = given_metadata(meta_table if init_meta_table is None else init_meta_table)
    if init_module is not None and not isinstance(init_module, IRModule):
        raise wrong("parse: init_module", "an IRModule", init_module)
    source = as_source(text, "parse", source_name)
    elaborate = functools.partial(AdtElaborator.module, known=init_module)
    return _parsed(source, "module", elaborate, need_version=True, given=given)


def fromtext(data: str | SourceText | Path, source_name: str | None = None) -> IRModule:
    """Relay's name of ``parse``.  Raises ParseError."""
    return parse(data, "<string>" if source_name is None else source_name)


def parse_expr(text: str | SourceText | Path, source_name: str = "<string>") -> Expr | Op:
    """The expression of a text; the version line is optional, functions need not exist.

    The text that is an operator's name alone is the operator; within an expression the name is a function that calls it.

    Free variables are declared: ``free_var %x: Tensor[(?,), float32]; %x``.  Raises ParseError.
    """
    return _parsed(as_source(text, "parse_expr", source_name), "expression", AdtElaborator.expression, need_version=False)


def parse_type(text: str, definitions: Mapping[str, TypeData]) -> Type:
    """The type of a text that names types of ``definitions``.  Raises ParseError."""

    def elaborate(elaborator: AdtElaborator, tree: SyntaxTree) -> Type:
        elaborator.type_definitions = dict(definitions)
        return elaborator.inner(tree.children[0], 0)

    return _parsed(SourceText("<type>", text), "whole_type", elaborate, need_version=False)


@collection_paused()
def _parsed(
    source: SourceText,
    start: str,
    elaborate: Callable[[AdtElaborator, SyntaxTree], T],
    need_version: bool,
    given: Metadata | None = None,
) -> T:
    """The meaning of a source whose grammar begins with the rule ``start``; ``given`` serves a text without metadata."""
    problems: list[Diagnostic] = []
    header = split_header(source, problems, need_version=need_version)
    tree = _syntax(source, header, start, problems)
    metadata = given if given is not None and header.metadata == Metadata() else header.metadata
    found = elaborate(AdtElaborator(source, problems, metadata), tree)
    _raise(problems)
    return found


def as_source(text: str | SourceText | Path, who: str, source_name: str = "<string>") -> SourceText:
    """The text to parse.  A str is a program's text, a Path a file's name.

    Raises ParseError for an unreadable file and for a str that names a file, ArgumentError for any other type.
    """
    if isinstance(text, Path):
        return read_source(text)
    if isinstance(text, SourceText):
        return text
    if not isinstance(text, str):
        raise wrong(f"{who}: the program", "a text (str) or a Path", text)
    if names_a_file(text):
        message = f"{text} is the name of a file, not a program's text"
        is_executable = text.endswith(_EXECUTABLE)
        help = f"Executable.load({text!r}) reads an executable" if is_executable else f"give a path: {who}(Path({text!r}))"
        raise ParseError(message, here(), help=help)
    return SourceText(a_text(source_name, f"{who}: source_name"), text)


def names_a_file(text: str) -> bool:
    """Whether a text is the name of a file instead of a program: one word with a known suffix, or the path of an existing
    file."""
    if len(text) > _LONGEST_NAME or not text.strip() or any(c in text for c in "\n\0{}#%"):
        return False
    try:
        return text.endswith((_PROGRAM, _EXECUTABLE)) or Path(text).is_file()
    except OSError:  # too long a name for the system
        return False


def _raise(problems: list[Diagnostic]) -> None:
    if problems:
        raise ParseError(sorted(problems, key=lambda p: p.span.start if p.span is not None else 0))


# ---- the syntax tree ---------------------------------------------------------------------------------------------


def _syntax(source: SourceText, header: Header, start: str, problems: list[Diagnostic]) -> SyntaxTree:
    """The syntax tree; ``ERROR`` replaces erroneous parts."""
    driver = Driver(start)
    tokens = list(driver.tables.tokens(header.code))
    at = 0
    while at < len(tokens):
        if tokens[at].type != ERROR and driver.feed(tokens[at]):
            at += 1
            continue
        recovery = _Recovery(source, driver, tokens, at)
        if not (header.cut and tokens[at].type == END):
            problems.append(recovery.diagnostic())
        at = recovery.resume()
    tree: SyntaxTree = driver.values[-1]
    return tree


#: The names of terminals in messages; other terminals are shown as written.
_WORDS = {
    "LOCAL": "a variable", "GRAPH": "a graph variable", "GLOBAL": "a function name like `@main`", "NAME": "a name",
    "PROJECTION": "a field like `.0`", "NUMBER": "a number", "BOOL": "True or False", "STRING": "a string", "DIM": "`?`",
    "EQUALITY": "`==`", "RELATION": "`<`", END: "the end of the text",
}  # fmt: skip
#: The names of constructs, each wanted where all of its terminals are accepted.
_KINDS = (
    ("an expression", {"LOCAL", "NUMBER", "GLOBAL"}),
    ("a type", {"TENSOR", "NAME"}),
    ("an attribute value", {"STRING", "NUMBER"}),
    ("a dimension", {"DIM", "NUMBER"}),
    ("a parameter", {"LOCAL", "NAME"}),
)
#: Terminals that may follow any complete expression, omitted from messages.
_CONTINUE = {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "EQUALITY", "RELATION", "LPAR", "LSQB", "PROJECTION"}


class _Recovery:
    """One syntax error: its message, and the recovery of the parser."""

    def __init__(self, source: SourceText, driver: Driver, tokens: list[Token], at: int) -> None:
        self.source, self.driver, self.tokens, self.at = source, driver, tokens, at
        self.token = tokens[at]
        self.accepts = driver.accepts() - {ERROR}
        if "RPAR" in self.accepts:  # statements in parentheses are rarer than a missing comma or parenthesis
            self.accepts.discard("SEMICOLON")

    # ---- the message ----

    def diagnostic(self) -> Diagnostic:
        token, wanted = self.token, self._wanted()
        span = Span(self.source, token.start_pos, token.end_pos)
        if token.type == ERROR:
            return Diagnostic(
                f"unexpected character {str(token)!r}", span, help=_CHARACTER_HELP.get(str(token)), code=codes.Syntax.CHARACTER
            )
        if token.type == "DIM" and "DIM" not in self.accepts:
            return Diagnostic(
                f"`{token}` is a dimension of a type; it has no value here", span, help=_DIM_HELP, code=codes.Syntax.TOKEN
            )
        found = "the end of the text" if token.type == END else f"`{token}`"
        notes: tuple[tuple[str, Span | None], ...] = ()
        if token.type in (END, "DEF") and (brace := self._open_brace()) is not None:
            notes = (("this block is not closed", Span(self.source, brace.start_pos, brace.end_pos)),)
        if "SEMICOLON" in self.accepts and self._can_insert("SEMICOLON"):
            before = self.tokens[self.at - 1]
            return Diagnostic(
                f"expected `;` before {found}",
                Span(self.source, before.end_pos, before.end_pos),
                notes,
                _REMAINDER_HELP if token.type in ("LOCAL", "GRAPH") and "PERCENT" in self.accepts else None,
                code=codes.Syntax.SEMICOLON,
            )
        if token.type == "RBRACE" and wanted == "an expression":
            return Diagnostic("a block must end in an expression, without `;`", span, notes, code=codes.Syntax.TOKEN)
        return Diagnostic(f"expected {wanted}, found {found}", span, notes, code=codes.Syntax.TOKEN)

    def _wanted(self) -> str:
        accepts = set(self.accepts)
        for name, words in _KINDS:
            if words <= accepts:
                closers = sorted(accepts & {"RPAR", "RSQB"}) if name in ("a parameter", "a dimension") else []
                return " or ".join([name, *map(self._word, closers)])
        if accepts >= {"PLUS", "STAR"}:
            accepts -= _CONTINUE
        shown = sorted(map(self._word, accepts))
        return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1]

    def _word(self, terminal: str) -> str:
        if terminal in _WORDS:
            return _WORDS[terminal]
        return f"`{self.driver.tables.texts[terminal]}`"

    def _open_brace(self) -> Token | None:
        first = next((k for k in range(self.at - 1, -1, -1) if self.tokens[k].type == "DEF"), 0)
        stack: list[Token] = []
        for word in self.tokens[first : self.at]:
            if word.type == "LBRACE":
                stack.append(word)
            elif word.type == "RBRACE" and stack:
                stack.pop()
        return stack[-1] if stack else None

    # ---- recovery ----

    def resume(self) -> int:
        """Bring the parser into a state that accepts a later token; returns the index of that token."""
        if "SEMICOLON" in self.accepts and self._can_insert("SEMICOLON"):
            self.driver.feed(_made("SEMICOLON", ";", self.token))
            return self.at
        depth = 0
        for at in range(self.at, len(self.tokens)):
            kind = self.tokens[at].type
            if kind in ("DEF", END):
                depth = 0
            if depth == 0 and kind in ("SEMICOLON", "RBRACE", "DEF", END):
                size = self._state_for(kind)
                if size is not None:
                    self._unwind(size, at)
                    return at
            depth += (kind == "LBRACE") - (kind == "RBRACE" and depth > 0)
        raise AssertionError("the grammar has no rule to recover with at the end of the text")

    def _can_insert(self, kind: str) -> bool:
        size = len(self.driver.states)
        return self.token.type not in (ERROR, END, "DEF") and self.driver.would_take(size, kind, self.token.type)

    def _state_for(self, kind: str) -> int | None:
        """The size of the deepest stack that accepts ERROR and then ``kind``."""
        sizes = range(len(self.driver.states), 0, -1)
        return next((size for size in sizes if self.driver.would_take(size, ERROR, kind)), None)

    def _unwind(self, size: int, end: int) -> None:
        self.driver.cut(size)
        outside = self.tokens[end].type in ("DEF", END)
        start = self.at
        while start > 0 and self.tokens[start - 1].type not in (("DEF",) if outside else ("SEMICOLON", "LBRACE", "RBRACE")):
            start -= 1
        # the names in the skipped text: they may be declared there, so that their uses are no second error
        names = {str(t) for t in self.tokens[start:end] if t.type in ("LOCAL", "GRAPH", "GLOBAL")}
        self.driver.feed(_made(ERROR, " ".join(sorted(names)), self.token))


def _made(kind: str, value: str, like: Token) -> Token:
    return token(kind, value, like.start_pos, like.end_pos)


_REMAINDER_HELP = "a remainder is written with spaces: `%x % 2`"
_DIM_HELP = "unknown dimensions belong in types, as in `Tensor[(?, 4), float32]`"
_CHARACTER_HELP = {
    "%": "a variable is written `%name`, a graph variable `%0`",
    "@": "a function is written `@name`",
    '"': "a string ends on the line where it begins",
    "'": 'strings are written "so"',
    "#": "comments are written `// so` or `/* so */`",
}
