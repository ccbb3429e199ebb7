"""Programs: random typed ones, in several configurations, against numpy and each other."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from .part import Part
from .random_programs import kernels_once
from .random_programs.forms import Forms
from .random_programs.program import Operation, Program, statements
from .random_programs.running import Way, disagree, fitting, plainer, resized_inputs, run, ways, wrong
from .random_programs.shrinking import simpler
from .random_programs.writing import body

# dead memory is poisoned: who reads it gets a wrong answer
os.environ.setdefault("RELAYVM_POISON", "1")

#: What is counted of a way's configuration.
_SHOWN: dict[str, Callable[[dict[str, Any]], bool]] = {
    "fused": lambda c: c.get("fuse", True) and c.get("opt_level", 2) >= 2,
    "not planned": lambda c: c.get("plan") == "off",
    "not placed": lambda c: not c.get("place", True),
}


@dataclass(frozen=True)
class Case:
    """A program and the ways in which it runs."""

    program: Program
    ways: tuple[Way, ...]
    seed: int | None = None  # of the inputs of other sizes; None: without


class Programs(Part[Case]):
    """Random programs."""

    name, unit, slice_trials, hang_seconds = "programs", "programs", 20, 60.0
    slice_environment = {kernels_once.INTERPRETS: "1"}  # noqa: RUF012
    #: Devices of the first way, of the second..., and one in so many programs whose first way is fused.
    devices: tuple[tuple[str, ...], ...] = (("cpu", "sim"),)
    fused_share = 0.25

    def draw(self, seed: int) -> Case:
        """A program that grows from the seed."""
        r = random.Random(seed)
        program = Forms(r).program()
        return Case(
            program, tuple(ways(r, program, r.random() < self.fused_share, self.devices)), seed if r.random() < 0.5 else None
        )

    def check(self, case: Case) -> str | None:
        """Every way gives numpy's results, and with other sizes the results of every other way."""
        self._count(case)
        program, found = case.program, []
        other = resized_inputs(random.Random(case.seed), program) if case.seed is not None else None
        kernels_once.raised.clear()
        for way in case.ways:
            outcome = run(program, way, other)
            self.seen["kernels compiled"] += outcome.compiled
            self.seen["machine code only"] += not outcome.interpreted
            if kernels_once.raised:
                raise kernels_once.raised.pop()
            for k, results in enumerate(outcome.runs):
                if (what := wrong(program, way, results)) is not None:
                    return f"{way}, run {k}: {what}"
            found.append((way, outcome))
        for (a, x), (b, y) in itertools.combinations(found, 2):
            if kernels_once.chosen_by_the_cache and (x.interpreted or y.interpreted):
                continue  # plain Python and machine code may round a function in different ways
            if (what := disagree(program, a, x.runs[0], b, y.runs[0], x.mixed or y.mixed)) is not None:
                return f"two ways differ: {what}"
            if x.resized is not None and y.resized is not None:
                self.seen["other sizes"] += 1
                if (what := disagree(program, a, x.resized, b, y.resized, x.mixed or y.mixed)) is not None:
                    return f"with other sizes: {what}"
        return None

    def _count(self, case: Case) -> None:
        for way in case.ways:
            config = dict(way.config)
            self.seen[f"on {way.device}"] += 1
            self.seen[f"at opt_level {config.get('opt_level', 2)}"] += 1
            self.seen.update(what for what, so in _SHOWN.items() if so(config))
            self.seen["with donated arguments"] += bool(way.donated)
        self.seen[f"sizes {case.program.sizes}"] += 1
        for s in statements(case.program.body):
            if isinstance(s, Operation):
                self.seen[f"operators/{s.op}"] += 1
            else:
                self.seen[f"statements {type(s).__name__.lower()}"] += 1

    def smaller(self, case: Case) -> Iterator[Case]:
        """One way, a plainer way, fewer statements."""
        if len(case.ways) > 1:
            yield from (replace(case, ways=(way,)) for way in case.ways)
            yield from (replace(case, ways=pair) for pair in itertools.combinations(case.ways, 2) if len(case.ways) > 2)
        if case.seed is not None:
            yield replace(case, seed=None)
        for k, way in enumerate(case.ways):
            yield from (replace(case, ways=(*case.ways[:k], w, *case.ways[k + 1 :])) for w in plainer(way))
        for program in simpler(case.program):
            yield replace(case, program=program, ways=tuple(fitting(w, program) for w in case.ways))

    def write(self, case: Case) -> str:
        """The program's text and inputs, compiled and run in a way that fails; else in all ways, which must agree."""
        failing = [w for w in case.ways if self._fails(case.program, w)]
        other = resized_inputs(random.Random(case.seed), case.program) if case.seed is not None else None
        return body(case.program, tuple(failing[:1] or case.ways), None if failing else other)

    def _fails(self, program: Program, way: Way) -> bool:
        try:
            return self.check(Case(program, (way,))) is not None
        except Exception:
            return True


PART = Programs()
