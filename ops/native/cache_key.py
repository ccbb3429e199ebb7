"""The name of an entry of the kernel cache: an ordered record of named fields, everything that can change the binary.

The record lies inside the entry, so that two entries can be compared field by field; its hash is the entry's id.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CacheKey:
    """``fields``: names and values, in order; the first is ``kind``."""

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, kind: str, fields: Mapping[str, str]) -> CacheKey:
        """The key of an artefact of this ``kind``: ``object`` (the processor's machine code) or ``cubin``."""
        return cls((("kind", kind), *fields.items()))

    @property
    def kind(self) -> str:
        return self.fields[0][1]

    @functools.cached_property
    def id(self) -> str:
        """64 hexadecimal digits.  Lengths are part of what is hashed: no two records give the same bytes."""
        digest = hashlib.sha256()
        for part in (part for field in self.fields for part in field):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()


def differences(a: CacheKey, b: CacheKey) -> list[tuple[str, str | None, str | None]]:
    """The fields in which two keys differ: name, value in ``a``, value in ``b`` (None where there is no such field)."""
    left, right = dict(a.fields), dict(b.fields)
    names = [*left, *(name for name in right if name not in left)]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]


#: A value longer than this is shown by the parts that differ, if it is a list.
_LONG = 60


def apart(a: str | None, b: str | None) -> tuple[str, str]:
    """Two values as they are shown: of long lists, only what is not in both."""
    if a is None or b is None:
        return a or "(no such field)", b or "(no such field)"
    if max(len(a), len(b)) <= _LONG or "," not in a + b:
        return a, b
    parts = [value.split(",") for value in (a, b)]
    only = [[part for part in own if part not in other] for own, other in (parts, parts[::-1])]
    return ",".join(only[0]) or "(nothing more)", ",".join(only[1]) or "(nothing more)"


#: Strings and character constants (kept), comments (replaced by a blank, as C does).
_TOKENS = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')|/\*.*?\*/|//(?:\\\n|[^\n])*""", re.DOTALL)


def canonical(text: str) -> str:
    """C text without comments, blank lines, indentation and blanks at ends of lines: what the binary does not depend on."""
    bare = _TOKENS.sub(lambda found: found[1] or " ", text)
    return "\n".join(filter(None, map(str.strip, bare.split("\n"))))


def text_hash(text: str) -> str:
    """The hash of C text in its canonical form."""
    return hashlib.sha256(canonical(text).encode()).hexdigest()
