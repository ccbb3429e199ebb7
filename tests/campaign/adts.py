"""Functional programs with types, matches, closures, references and type parameters: the evaluator against the machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.bytecode.executable_file import load_bytes, to_bytes

from .functional_programs.growth import Growth, simplest
from .functional_programs.nodes import Node, Program, smaller_programs
from .part import Part
from .random_programs import kernels_once

#: The results of a run whose match has no clause for its value.
NO_MATCH = "no case matches"
DTYPES = {"int": "int32", "vec": "int32", "float": "float32", "fvec": "float32", "bool": "bool"}


@dataclass(frozen=True)
class Way:
    """A device and a configuration.  ``stored``: the executable is saved and loaded before it runs."""

    device: str
    opt_level: int
    fuse: bool = False
    stored: bool = False


@dataclass(frozen=True)
class Case:
    """A program and the ways in which it runs."""

    program: Program
    ways: tuple[Way, ...]


class Adts(Part[Case]):
    """Random functional programs."""

    name, unit, slice_trials, hang_seconds = "adts", "programs", 12, 60.0
    slice_environment = {kernels_once.INTERPRETS: "1"}  # noqa: RUF012

    def draw(self, seed: int) -> Case:
        """A program that grows from the seed."""
        r = random.Random(seed)
        program = Growth(r).program()
        every = [Way(device, level) for device in ("cpu", "sim") for level in (0, 2, 3)]
        chosen = r.sample(every, 3)
        chosen[0] = replace(chosen[0], stored=True, fuse=r.random() < 0.25)
        return Case(program, tuple(chosen))

    def check(self, case: Case) -> str | None:
        """The evaluator and every way give the same results; the printed program is the program."""
        text, args = text_of(case.program), arguments(case.program)
        mod = relay.parse(text)
        printed = mod.astext()
        again = relay.parse(printed)
        if not relay.structural_equal(mod, again) or again.astext() != printed:
            return "the printed program differs"
        self._count(case)
        try:
            with kernels_once.looked_up_once():
                wanted: Any = plain(relay.create_executor("debug", mod).evaluate()(*args))
        except relay.TypeCheckError as error:  # of another class than the compiler's: shrinking tells them apart
            raise AssertionError(f"the evaluator: {error.diagnostics[0].message}") from error
        except relay.VMError as error:
            if NO_MATCH not in str(error):
                raise
            wanted = None
            self.seen["no clause applies"] += 1
        for way in case.ways:
            kernels_once.raised.clear()
            try:
                found = plain(run(mod, way, args))
            except relay.VMError as error:
                if NO_MATCH not in str(error):
                    raise
                if wanted is not None:
                    return f"{way}: {NO_MATCH}, but the evaluator gives a result"
                continue
            if kernels_once.raised:
                raise kernels_once.raised.pop()
            # a failure whose value nobody needs may be removed
            if wanted is not None and (what := difference(wanted, found)) is not None:
                return f"{way}: {what}"
        return None

    def _count(self, case: Case) -> None:
        for way in case.ways:
            self.seen[f"on {way.device} at opt_level {way.opt_level}"] += 1
            self.seen["fused"] += way.fuse
            self.seen["saved and loaded"] += way.stored
        for f in case.program.functions:
            for node in f.body.nodes():
                self.seen[f"expressions/{node.form}"] += 1

    def smaller(self, case: Case) -> Iterator[Case]:
        """One way, a plainer way, simpler expressions."""
        if len(case.ways) > 1:
            yield from (replace(case, ways=(way,)) for way in case.ways)
        for way in case.ways[:1]:
            for plainer in (replace(way, fuse=False), replace(way, stored=False), replace(way, device="cpu")):
                if plainer != way:
                    yield replace(case, ways=(plainer,))
        types = {repr(n.ty): n.ty for f in case.program.functions for n in f.body.nodes() if n.ty}
        known: dict[str, Node] = {key: simplest(ty) for key, ty in types.items()}
        for program in smaller_programs(case.program, known):
            yield replace(case, program=program)

    def write(self, case: Case) -> str:
        """The program, run by the evaluator and in each way."""
        lines = [
            "import numpy as np",
            "",
            "import relayvm as relay",
            "from tests.campaign.adts import Way, difference, plain, run",
            "",
        ]
        lines += ['text = r"""', *text_of(case.program).splitlines(), '"""', "mod = relay.parse(text)"]
        listed = ", ".join(f"np.array({value!r}, {DTYPES[ty]!r})" for ty, value in case.program.arguments)
        lines += [f"args = [{listed}]", "assert relay.structural_equal(relay.parse(mod.astext()), mod)"]
        lines += ['wanted = plain(relay.create_executor("debug", mod).evaluate()(*args))']
        lines += [f"for way in {list(case.ways)!r}:", "    assert difference(wanted, plain(run(mod, way, args))) is None"]
        return "\n".join(lines)


def text_of(program: Program) -> str:
    """The program in the text format."""
    functions = "\n".join(f.text() for f in program.functions)
    return f'#[version = "0.0.5"]\n{program.types.strip()}\n{functions}\n'


def arguments(program: Program) -> list[np.ndarray]:
    """The arguments of ``main``."""
    return [np.array(value, DTYPES[ty]) for ty, value in program.arguments]


def run(mod: relay.IRModule, way: Way, args: list[np.ndarray]) -> Any:
    """The result of the machine."""
    exe = relay.compile(mod, target=way.device, opt_level=way.opt_level, fuse=way.fuse)
    if way.stored:
        exe = load_bytes(to_bytes(exe), "stored.rvm", relay.Executable)
    with kernels_once.looked_up_once():
        vm = relay.VirtualMachine(exe)
    return vm.run(*args)


def plain(value: Any) -> Any:
    """A result as tuples and arrays; a constructor is the first item of its tuple."""
    if isinstance(value, relay.ADT):
        return (value.constructor, *map(plain, value))
    return tuple(map(plain, value)) if isinstance(value, tuple) else np.array(value.numpy())


def difference(wanted: Any, found: Any) -> str | None:
    """The first difference of two results; floats may differ by rounding."""
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        if not isinstance(wanted, tuple) or not isinstance(found, tuple) or len(wanted) != len(found):
            return f"{found} for {wanted}"
        return next((what for a, b in zip(wanted, found, strict=True) if (what := difference(a, b)) is not None), None)
    if isinstance(wanted, str) or isinstance(found, str):
        return None if wanted is found or (isinstance(wanted, str) and wanted == found) else f"{found} for {wanted}"
    if (wanted.dtype, wanted.shape) != (found.dtype, found.shape):
        return f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
    with np.errstate(all="ignore"):
        close = (
            np.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=True)
            if found.dtype.kind == "f"
            else (found == wanted).all()
        )
    return None if close else f"{found.tolist()} for {wanted.tolist()}"


PART = Adts()
