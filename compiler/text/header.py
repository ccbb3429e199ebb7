"""Comments, version line and metadata section of a text, which surround its code."""

from __future__ import annotations

import re

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, SourceText, Span
from .metadata import METADATA_LINE, Metadata, read_metadata

VERSION = "0.0.5"
VERSION_LINE = f'#[version = "{VERSION}"]'

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*|#\[[^\]\n]*\]?')
_COMMENT = re.compile(r"/\*|\*/")
_VERSION = re.compile(r'#\[\s*version\s*=\s*"([^"]*)"\s*\]')
_METADATA = re.compile(r"#\[\s*metadata\s*\]")


@frozen
class Header:
    """``code`` is the text with everything else replaced by blanks, so that places remain valid.

    ``metadata``: None if it is unreadable; ``cut``: a comment extends to the end of the text.
    """

    code: str
    metadata: Metadata | None
    cut: bool


def split_header(source: SourceText, problems: list[Diagnostic], *, need_version: bool) -> Header:
    """The parts of a text; errors are appended to ``problems``."""
    text, code, at = source.text, [], 0
    version: str | None = None
    metadata: Metadata | None = Metadata()
    cut = False
    while (match := _TOKEN.search(text, at)) is not None:
        start, end = match.span()
        code.append(text[at:start])
        token = match[0]
        span = Span(source, start, end)
        if token.startswith('"'):
            code.append(token)
        elif token == "/*":
            end, cut = _comment_end(source, start, problems)
        elif (found := _VERSION.fullmatch(token)) is not None:
            version = _check_version(found[1], span, version, "".join(code), problems)
        elif _METADATA.fullmatch(token):
            metadata = read_metadata(text[end:], span, problems)
            end = len(text)
        elif token.startswith("#["):
            help = f"there are `{VERSION_LINE}` and `{METADATA_LINE}`"
            problems.append(Diagnostic(f"unknown directive `{token}`", span, help=help, code=codes.Syntax.DIRECTIVE))
        if not token.startswith('"'):
            code.append(_blank(text[start:end]))
        at = end
    code.append(text[at:])
    blanked = "".join(code)
    if need_version and version is None:
        problems.append(_no_version(source, blanked))
    return Header(blanked, metadata, cut)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _comment_end(source: SourceText, start: int, problems: list[Diagnostic]) -> tuple[int, bool]:
    depth = 0
    for match in _COMMENT.finditer(source.text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end(), False
    problems.append(
        Diagnostic(
            "this comment is not closed",
            Span(source, start, start + 2),
            help="comments nest: each `/*` needs its `*/`",
            code=codes.Syntax.COMMENT,
        )
    )
    return len(source.text), True


def _no_version(source: SourceText, code: str) -> Diagnostic:
    help = f"begin the text with {VERSION_LINE}"
    if not code.strip():
        return Diagnostic(f"{source.name} is empty: there is no program in it", help=help, code=codes.Syntax.EMPTY)
    start = len(code) - len(code.lstrip())
    return Diagnostic("the version line is missing", Span(source, start, start + 1), help=help, code=codes.Syntax.VERSION)


def _check_version(found: str, span: Span, before: str | None, code: str, problems: list[Diagnostic]) -> str:
    if before is not None:
        problems.append(Diagnostic("a second version line", span, code=codes.Syntax.VERSION))
    elif code.strip():
        problems.append(Diagnostic("the version line must come first", span, code=codes.Syntax.VERSION))
    elif found != VERSION:
        problems.append(
            Diagnostic(
                f"unknown version {found!r} of the text format",
                span,
                help=f"this program reads {VERSION_LINE}",
                code=codes.Syntax.VERSION,
            )
        )
    return found
