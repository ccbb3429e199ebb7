"""Texts: programs of the examples and tests, altered; each parses and compiles, or is refused by a diagnostic."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from pathlib import Path

import relayvm as relay

from .part import Part

_ROOT = Path(__file__).resolve().parents[2]
_TOKENS = [
    *"(){}[],;:=<>-%@#\"\\/*.?", "let", "if", "else", "fn", "def", "->", "Tensor", "float32", "int64", "bool", "?n", "?",
    "0", "1", "-1", "1f", "2i64", "1e400f", "True", "nan", "9223372036854775808", "%x", "%0", "@main", "axis=[0]", "dtype=",
    "add", "nn.dense", "é", "\x1b[31m", "\0", "\n", "\t", "\u2028", "//", "/*", "*/", "meta[", "]",
]  # fmt: skip


@functools.cache
def _seeds() -> tuple[str, ...]:
    files = sorted([*_ROOT.glob("examples/*.relay"), *_ROOT.glob("tests/**/*.relay")])
    return tuple(p.read_text("utf-8", errors="replace")[:4000] for p in files)


class Texts(Part[str]):
    """Altered texts."""

    name, unit, slice_trials, hang_seconds = "texts", "texts", 300, 20.0

    def draw(self, seed: int) -> str:
        """A text with one to four places altered."""
        r = random.Random(seed)
        text = r.choice(_seeds())
        for _ in range(r.randint(1, 4)):
            a = r.randrange(len(text) + 1)
            b = min(len(text), a + r.choice([0, 1, 1, 2, 5, 40]))
            other = r.choice(_seeds())
            c = r.randrange(len(other) + 1)
            middle = r.choice(["", r.choice(_TOKENS), other[c : c + r.randint(1, 60)], text[a:b] * r.randint(2, 5)])
            text = text[:a] + middle + text[b:]
        return text

    def check(self, case: str) -> str | None:
        """A diagnostic, or a module whose print parses back."""
        try:
            module = relay.parse(case)
        except relay.RelayError as error:
            self.seen["refused"] += 1
            return None if str(error) else "the message is empty"
        self.seen["parsed"] += 1
        again = relay.parse(relay.astext(module))
        return None if relay.structural_equal(module, again) else "what prints does not parse back to the same module"

    def smaller(self, case: str) -> Iterator[str]:
        """The text without a part of it, long parts first."""
        size = len(case) // 2
        while size:
            for at in range(0, len(case), size):
                yield case[:at] + case[at + size :]
            size //= 2

    def write(self, case: str) -> str:
        """Parse it again."""
        return f"from tests.campaign.texts import PART\n\nassert PART.check({case!r}) is None"


PART = Texts()
