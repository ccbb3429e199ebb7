"""Comments, version line and metadata section of a text, which surround its code."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops.core.tensor_types import DTYPES, array_bytes, numpy_dtype
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, SourceText, Span

VERSION = "0.0.5"
VERSION_LINE = f'#[version = "{VERSION}"]'
METADATA_LINE = "#[metadata]"
#: The key of the constants in the metadata.
CONSTANTS = "relay.Constant"

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*|#\[[^\]\n]*\]?')
_COMMENT = re.compile(r"/\*|\*/")
_VERSION = re.compile(r'#\[\s*version\s*=\s*"([^"]*)"\s*\]')
_METADATA = re.compile(r"#\[\s*metadata\s*\]")


@dataclass(frozen=True)
class Header:
    """``code`` is the text with everything else replaced by blanks, so that places remain valid.

    ``constants`` are the metadata's, None if unreadable; ``cut``: a comment extends to the end of the text.
    """

    code: str
    constants: tuple[np.ndarray, ...] | None
    cut: bool


def split_header(source: SourceText, problems: list[Diagnostic], *, need_version: bool) -> Header:
    """The parts of a text; errors are appended to ``problems``."""
    text, code, at = source.text, [], 0
    version: str | None = None
    constants: tuple[np.ndarray, ...] | None = ()
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
            constants = _read_constants(text[end:], span, problems)
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
    return Header(blanked, constants, cut)


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


# ---- the metadata section ----------------------------------------------------------------------------------------


def metadata_text(constants: Iterable[np.ndarray]) -> str:
    """The metadata section that holds ``constants``."""
    entries = [
        {"dtype": c.dtype.name, "shape": list(c.shape), "data": base64.b64encode(c.tobytes()).decode("ascii")} for c in constants
    ]
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    return f'{METADATA_LINE}\n{{"{CONSTANTS}": [\n{lines}\n]}}\n'


def _read_constants(text: str, span: Span, problems: list[Diagnostic]) -> tuple[np.ndarray, ...] | None:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        at = span.end + error.pos
        problems.append(
            Diagnostic(f"the metadata is no JSON: {error.msg}", Span(span.source, at, at + 1), code=codes.Syntax.METADATA)
        )
        return None
    except RecursionError:
        help = "it is one list of constants"
        problems.append(Diagnostic("the metadata is nested too deeply", span, help=help, code=codes.Syntax.METADATA))
        return None
    except ValueError as error:  # a number with more digits than Python reads
        problems.append(Diagnostic(f"the metadata cannot be read: {error}", span, code=codes.Syntax.METADATA))
        return None
    entries = data.get(CONSTANTS) if isinstance(data, dict) else None
    if not isinstance(entries, list) or len(data) != 1:
        problems.append(
            Diagnostic(
                f"the metadata must be an object with the one key {CONSTANTS!r}, a list of constants",
                span,
                code=codes.Syntax.METADATA,
            )
        )
        return None
    out = []
    for number, entry in enumerate(entries):
        try:
            out.append(_read_constant(entry))
        except ValueError as error:
            problems.append(Diagnostic(f"constant {number} of the metadata: {error}", span, code=codes.Syntax.METADATA))
            out.append(np.zeros(()))
    return tuple(out)


def _read_constant(entry: Any) -> np.ndarray:
    """Raises ValueError."""
    if not isinstance(entry, dict) or sorted(entry) != ["data", "dtype", "shape"]:
        raise ValueError("it must have the keys dtype, shape and data")
    dtype, shape = entry["dtype"], entry["shape"]
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"its shape must be a list of sizes, not {shape!r}")
    try:
        raw = base64.b64decode(entry["data"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"its data is no base64: {error}") from error
    needed = array_bytes(shape, dtype)
    if len(raw) != needed:
        raise ValueError(f"its data has {len(raw)} bytes, but {dtype} of shape {tuple(shape)} has {needed}")
    if dtype == "bool" and raw.translate(None, b"\0\1"):
        raise ValueError("a bool is a byte 0 or 1")
    return np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape)
