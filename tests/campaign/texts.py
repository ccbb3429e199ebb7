"""Texts: generated programs, and programs altered by characters and by trees; each is compiled, or rejected by a diagnostic.

A diagnostic has a source span, and a text of bounded length without control characters.  A text that parses is printed and
parsed back.  A program that compiles, on the host and on ``sim``, passes the verifier, is written and read back.  No kernel is
compiled.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from pathlib import Path

import relayvm as relay
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.bytecode.verify import verify

from .part import Part
from .texts_drawn import characters, trees

_ROOT = Path(__file__).resolve().parents[2]
#: Characters of a message, and of a program that is altered: a compile of a long one takes as long as a hundred others.
_MESSAGE, _TEXT = 64 << 10, 4000


@functools.cache
def _seeds() -> tuple[str, ...]:
    files = sorted([*_ROOT.glob("examples/*.relay"), *_ROOT.glob("tests/**/*.relay")])
    return tuple(p.read_text("utf-8", errors="replace") for p in files)


@functools.cache
def _programs() -> tuple[str, ...]:
    return trees.programs(s for s in _seeds() if len(s) < _TEXT)


class Texts(Part[str]):
    """Altered texts."""

    name, unit, slice_trials, hang_seconds = "texts", "texts", 300, 30.0

    def draw(self, seed: int) -> str:
        """A quarter by characters, a half by trees, a quarter made."""
        r = random.Random(seed)
        match r.randrange(4):
            case 0:
                return characters.altered(r, r.choice(_seeds())[:_TEXT], r.choice(_seeds())[:_TEXT])
            case 1 | 2:
                return trees.altered(r, r.choice(_programs()))
        return trees.made(r)

    def check(self, case: str) -> str | None:
        """A mistake in the diagnostic, the printed text or the executable."""
        try:
            module = relay.parse(case)
        except relay.RelayError as error:
            return self._refused(error, "refused by the parser")
        text = relay.astext(module)
        again = relay.parse(text)
        if not relay.structural_equal(module, again):
            return "what prints does not parse back to the same module"
        for target in ("cpu", "sim"):
            try:
                exe = relay.compile(module, target=target)
            except relay.RelayError as error:
                if wrong := self._refused(error, f"refused by the compiler for {target}"):
                    return wrong
                continue
            self.seen[f"compiled for {target}"] += 1
            verify(exe)
            data = to_bytes(exe)
            if to_bytes(from_bytes(data)) != data:
                return "what is written and read back is written otherwise"
        return None

    def _refused(self, error: relay.RelayError, stage: str) -> str | None:
        self.seen[stage] += 1
        text = str(error)
        if not text or not all(d.message for d in error.diagnostics):
            return "the message is empty"
        if len(text) > _MESSAGE:
            return f"a message of {len(text)} characters"
        if bad := next((c for c in text if not c.isprintable() and c != "\n"), None):
            return f"the message holds {bad!r}"
        if lost := next((d for d in error.diagnostics if d.span is None and not _WHOLE.fullmatch(d.message)), None):
            return f"no place: {lost}"
        return None

    def smaller(self, case: str) -> Iterator[str]:
        """The text without a part of it, long parts first."""
        size = len(case) // 2
        while size:
            for at in range(0, len(case), size):
                yield case[:at] + case[at + size :]
            size //= 2

    def write(self, case: str) -> str:
        """Check it again."""
        return f"from tests.campaign.texts import PART\n\nassert PART.check({case!r}) is None"


#: Messages that speak of the whole text.
_WHOLE = re.compile("there is no function in the text|<string> is empty: .*")

PART = Texts()
