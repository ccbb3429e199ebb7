"""The pass of the compiler after which the results of a model differ first from another runtime's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....vm.api.machine import VirtualMachine
from ....vm.diagnostics.source import RelayError
from ....vm.report.completion import finish
from ...compile import compile
from ...executors.result_arrays import array_of
from ...inputs.given_inputs import Wanted
from ...ir.expr import IRModule
from ...ir.structural_equal import structural_equal
from ...lowered import as_module, lowered
from ...lowering.pipeline import context_of, lowering, steps
from ...settings.config import LEAVE_OUT, Config
from ...transform.inlining import inline
from ...tuning.settings import Tuning
from ..result_check import NODES_TOL, Tolerance
from .node_comparison import NodeError, node_error, random_inputs
from .observed_model import NodeValue, observed_model
from .peers import Arrays, Peer

SCHEMA = 1


@frozen
class Culprit:
    """The pass after which the results differ first.

    ``position``: its position among the passes that run, from 1.  ``functions``: the functions that it changed.  ``error``: the
    first result that differs with the pass, ``before``: the same result without it and the optional passes after it.
    ``setting``: the configuration key that leaves the pass out.  ``suffices``: whether the results agree with this setting alone.
    """

    name: str
    position: int
    functions: tuple[str, ...]
    error: NodeError
    before: NodeError
    setting: str
    suffices: bool


@frozen
class PassBisection:
    """The search for a pass, of a model on two runtimes, ``names``.

    ``count``: the number of passes that run.  ``results``: with all passes.  ``culprit``: None if the results agree, and if they
    differ with no optional pass, too (``always``).  ``tried``: the number of programs that were compiled.  ``untested``: the
    passes that the search could not stop after, since the program did not compile.
    """

    file: str
    names: tuple[str, str]
    count: int
    results: tuple[NodeError, ...]
    culprit: Culprit | None
    always: bool
    tried: int
    untested: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Whether all results are within the tolerance."""
        return all(e.mismatch is None for e in self.results)

    def as_data(self) -> dict[str, Any]:
        """Plain data, as in the JSON form."""
        c = self.culprit
        found = None if c is None else {
            "pass": c.name, "position": c.position, "functions": list(c.functions), "result": c.error.as_data(),
            "before": c.before.as_data(), "setting": c.setting, "suffices": c.suffices,
        }  # fmt: skip
        return {
            "schema": SCHEMA,
            "file": self.file,
            "runtimes": list(self.names),
            "agree": self.agree,
            "passes": self.count,
            "results": [e.as_data() for e in self.results],
            "pass": found,
            "always": self.always,
            "tried": self.tried,
            "untested": list(self.untested),
        }


def bisect_passes(
    file: Path, own: Peer, settings: Mapping[str, Any], device: str, other: Peer, wanted: Wanted, tolerance: Tolerance,
) -> PassBisection:  # fmt: skip
    """The pass after which the results of ``own``, compiled with ``settings`` for ``device``, differ first from ``other``'s.

    Optional passes are left out from the last one on.  Raises RelayError as ``compare_nodes``.
    """
    return _Search(file, own, settings, device, other, wanted, tolerance).found()


class _Search:
    """A search between a number of passes with which the results agree, and one with which they differ."""

    def __init__(
        self, file: Path, own: Peer, settings: Mapping[str, Any], device: str, other: Peer, wanted: Wanted, tolerance: Tolerance,
    ) -> None:  # fmt: skip
        self.file, self.names, self.settings, self.device = str(file), (own.name, other.name), dict(settings), device
        self.model = observed_model(file)
        self.inputs = random_inputs(self.model, wanted)
        self.tolerance = replace(tolerance, least=max(tolerance.least, NODES_TOL))
        self.expected = other.prepare(self.model.plain)(self.inputs)
        self.module = inline(as_module(self.model.plain))
        self.config = Config.of(**self.settings)
        self.steps = steps(self.config, context_of(self.module, self.config, device))
        #: The positions of the optional passes, from 1.
        self.optional = [position for position, step in enumerate(self.steps, 1) if step.optional]
        self.tried: dict[int, tuple[NodeError, ...] | None] = {}

    def found(self) -> PassBisection:
        """The result of the search.  Raises RelayError if the program does not compile with all passes, or with none."""
        most = len(self.optional)
        results = self._errors(most)
        culprit, always = None, False
        if any(e.mismatch is not None for e in results):
            always = any(e.mismatch is not None for e in self._errors(0))
            culprit = None if always else self._culprit(*self._narrowed(0, most))
        untested = [self.steps[self.optional[most - 1] - 1].name for most, tried in self.tried.items() if tried is None]
        return PassBisection(
            self.file, self.names, len(self.steps), results, culprit, always, len(self.tried), tuple(untested)
        )  # fmt: skip

    def _narrowed(self, agree: int, differ: int) -> tuple[int, int]:
        """Two numbers of passes with no number between them that can be tried: the results agree with the first alone."""
        left = set(range(agree + 1, differ))
        while between := [n for n in left if agree < n < differ]:
            middle = min(between, key=lambda n: (abs(2 * n - agree - differ), n))
            left.discard(middle)
            try:
                errors = self._errors(middle)
            except RelayError:  # a pass may need one that is left out
                self.tried[middle] = None
                continue
            if any(e.mismatch is not None for e in errors):
                differ = middle
            else:
                agree = middle
        return agree, differ

    def _errors(self, most: int) -> tuple[NodeError, ...]:
        """The results with the first optional passes, beside the expected ones."""
        program = lowered(self.module, self.device, None, self.config, Tuning.of(True, self.config.tune, None, None), most=most)
        self.tried[most] = errors = self._compared(VirtualMachine(program.emit()))
        return errors

    def _compared(self, machine: VirtualMachine) -> tuple[NodeError, ...]:
        result = machine.run(*self.inputs.values())
        finish(machine)
        arrays = list(map(array_of, result)) if isinstance(result, tuple) else [array_of(result)]
        values: Arrays = dict(zip(self.model.outputs, map(np.asarray, arrays), strict=True))
        outputs = [NodeValue(name, "output", "", ()) for name in self.model.outputs if name in self.expected]
        return tuple(node_error(v, values, self.expected, self.tolerance) for v in outputs)

    def _culprit(self, agree: int, differ: int) -> Culprit:
        position = self.optional[differ - 1]
        errors, before = self.tried[differ], self.tried[agree]
        assert errors is not None and before is not None, "both were compiled"
        number = next(i for i, e in enumerate(errors) if e.mismatch is not None)
        name = self.steps[position - 1].name
        key = LEAVE_OUT + name
        return Culprit(
            name, position, self._changed(position, differ), errors[number], before[number], f"{key}=off", self._suffices(key)
        )  # fmt: skip

    def _changed(self, position: int, most: int) -> tuple[str, ...]:
        """The functions that the pass at a position changed, added or removed."""
        before, after = self.module, self.module
        for number, (_, module) in enumerate(lowering(self.module, self.config, self.device, most=most), 1):
            before, after = after, module
            if number == position:
                break
        return tuple(name for name in {**before.functions, **after.functions} if _differ(name, before, after))

    def _suffices(self, key: str) -> bool:
        """Whether the results agree if the pass alone is left out."""
        try:
            machine = VirtualMachine(compile(self.module, target=self.device, **{**self.settings, key: "off"}))
            return all(e.mismatch is None for e in self._compared(machine))
        except RelayError:
            return False


def _differ(name: str, before: IRModule, after: IRModule) -> bool:
    if name not in before.functions or name not in after.functions:
        return True
    return not structural_equal(before.functions[name], after.functions[name])
