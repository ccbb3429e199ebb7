"""Key of a kernel cache entry: an ordered record of named fields that covers everything that can change the binary.

The record is stored inside the entry, so two entries can be compared field by field.  The hash of the record is the entry's id.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping

from ....declarations.frozen_dataclass import frozen


@frozen
class CacheKey:
    """An ordered record of fields.  ``fields``: names and values, in order; the first is ``kind``."""

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, kind: str, fields: Mapping[str, str]) -> CacheKey:
        """The key of an artefact of this ``kind``, such as ``object`` (machine code of the CPU), ``cubin``, ``executable``."""
        return cls((("kind", kind), *fields.items()))

    @property
    def kind(self) -> str:
        return self.fields[0][1]

    @functools.cached_property
    def id(self) -> str:
        """The hash, as 64 hexadecimal digits.  Lengths are hashed too: no two records give the same bytes."""
        digest = hashlib.sha256()
        for part in (part for field in self.fields for part in field):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()


def differences(a: CacheKey, b: CacheKey) -> list[tuple[str, str | None, str | None]]:
    """The fields in which two keys differ: name, value in ``a``, value in ``b`` (None for an absent field)."""
    left, right = dict(a.fields), dict(b.fields)
    names = [*left, *(name for name in right if name not in left)]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]


#: A list longer than this is displayed by its differing elements.
_LONG = 60


def distinct_parts(a: str | None, b: str | None) -> tuple[str, str]:
    """Two values as displayed: of long lists, only the elements that are not in both."""
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
    """Normalize C text: without comments, blank lines, indentation and trailing blanks, on which the binary does not depend."""
    bare = _TOKENS.sub(lambda found: found[1] or " ", text)
    return "\n".join(filter(None, map(str.strip, bare.split("\n"))))


def text_hash(text: str) -> str:
    """The hash of C text in its canonical form."""
    return hashlib.sha256(canonical(text).encode()).hexdigest()
