"""Executables: files of real programs, altered; each is refused, runs, or fails by an error of ours, and writes nothing else."""

from __future__ import annotations

import base64
import json
import os
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import relayvm as relay

from .part import Part

#: Of so many mutants with kernels that are no base's, one is run: a kernel takes a tenth of a second and more to compile.
_OTHER_KERNELS = 40
#: Of so many mutants one runs again, in the range-checked loop.
_PLAIN = 200


@dataclass(frozen=True)
class Mutant:
    """A file, and the seed of its arguments."""

    data: bytes
    seed: int


class Executables(Part[Mutant]):
    """Altered files."""

    name, unit, slice_trials, hang_seconds = "executables", "executables", 400, 60.0

    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] = set()

    def prepare(self) -> None:
        """Compile the kernels of the programs, and run each once."""
        from .hostile import bases, memo, trial

        os.environ.setdefault("RELAYVM_POISON", "1")
        memo.remember()
        for data in (bases.base(name, target) for name in bases.PROGRAMS for target in bases.TARGETS):
            exe = trial.loaded(data)
            trial.run(exe, trial.arguments(exe, 0) or [])
            self._known |= trial.kernels(exe)

    def draw(self, seed: int) -> Mutant:
        """A file with a few things altered."""
        from .hostile.bases import PROGRAMS, TARGETS, base
        from .hostile.mutations import mutated

        r = random.Random(seed)
        return Mutant(mutated(base(r.choice(sorted(PROGRAMS)), r.choice(TARGETS)), seed), seed)

    def check(self, case: Mutant) -> str | None:
        """Load it, make a machine of it, run it."""
        from .hostile import trial

        if not self._known:  # in a test made of a finding
            self.prepare()
        try:
            exe = trial.loaded(case.data)
        except relay.RelayError as error:
            self.seen["refused"] += 1
            return None if str(error) else "the message is empty"
        if not trial.kernels(exe) <= self._known and case.seed % _OTHER_KERNELS:
            self.seen["verified, with other kernels"] += 1
            return None
        try:
            args = trial.arguments(exe, case.seed)
        except relay.ConfigError:  # no main
            args = None
        if args is None:
            self.seen["verified, not to be called"] += 1
            return None
        ended, wrong = trial.run(exe, args)
        self.seen[ended] += 1
        if wrong is None and case.seed % _PLAIN == 0 and ended != "endless":
            from .hostile.plainly import run_plainly

            self.seen["also range-checked"] += 1
            wrong = run_plainly(exe, args)
        return wrong

    def smaller(self, case: Mutant) -> Iterator[Mutant]:
        """The file without an instruction, and without the parts for human readers."""
        from relayvm.vm.bytecode import isa

        from .hostile.files import Sections

        try:
            sections = Sections.of(case.data)
            for row in sections.header["functions"]:
                row["spans"], row["notes"] = [], []
            sections.header["sources"] = []
            if (data := sections.file()) != case.data:
                yield Mutant(data, case.seed)
            for f in range(len(sections.code)):
                items = sections.instructions(f)
                for i, item in enumerate(items):
                    if isinstance(item, isa.Instruction):
                        less = sections.copy()
                        less.put(f, items[:i] + items[i + 1 :])
                        yield Mutant(less.file(), case.seed)
        except (ValueError, KeyError, TypeError, IndexError, json.JSONDecodeError):
            return

    def write(self, case: Mutant) -> str:
        """Check the file again."""
        packed = base64.b85encode(zlib.compress(case.data, 9)).decode()
        lines = "\n".join(f"    {packed[i : i + 110]!r}" for i in range(0, len(packed), 110))
        return (
            "import base64\nimport zlib\n\nfrom tests.campaign.executables import PART, Mutant\n\n"
            f"packed = (\n{lines}\n)\n"
            f"assert PART.check(Mutant(zlib.decompress(base64.b85decode(packed)), {case.seed})) is None"
        )


PART = Executables()
