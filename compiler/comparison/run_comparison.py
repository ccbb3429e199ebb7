"""Comparison runs: configurations of a program run in turn in one process; results must agree before times are compared."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...vm.api.executable import Executable
from ...vm.api.machine import VirtualMachine
from ...vm.bytecode.executable import ExecutableData, VMFunction
from ...vm.device_table import LINKED
from ...vm.diagnostics.argument_errors import a_count, a_mapping, a_sequence
from ...vm.diagnostics.source import ConfigError, InputError
from ...vm.report.profiling import Sampler, check_repeat
from ..compile import compile
from ..inputs.given_inputs import Wanted, make_inputs
from ..lowered import Program
from ..settings.config import Config
from .compare import Comparison
from .compare_text import side_name
from .comparison_data import Case, Method
from .result_check import ResultsDiffer, Tolerance, check_agreement
from .signatures import check_signatures
from .simulated_link import SimulatedLink

__all__ = ["PRESETS", "Comparison", "ResultsDiffer", "compare", "compare_sides", "measure"]

#: Predefined sets of sides, by name.  Conditions use the names of sides.
PRESETS: dict[str, dict[str, dict[str, str]]] = {
    "data-dependence": {
        "op": {"data_dependence": "op", "place": "off"},
        "relay": {"data_dependence": "relay", "place": "off"},
        "input": {"data_dependence": "input", "place": "off"},
        "input_place": {"data_dependence": "input", "place": "on"},
    }
}

#: Runs of a side in a round; the least time is the sample, because disturbances only add time.
PER_ROUND = 3
#: The default number of rounds.
REPEAT = 20
_SEED = 20
#: The most bytes and blocks allocated between machines, so that the addresses of their memory vary.
_MOST_SHIFT, _SHIFTS = 4096, 16


def compare(
    program: Program | Executable,
    a: Mapping[str, Any] | None = None,
    b: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    other: Program | Executable | None = None,
    device: str | None = None,
    entry: str = "main",
    repeat: int = REPEAT,
    warmup: int = 1,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    rtol: float | Mapping[str, float] | None = None,
    atol: float | Mapping[str, float] | None = None,
    link: str | None = None,
) -> Comparison:
    """``program`` in configuration ``a`` against itself (or ``other``) in configuration ``b``, as profiles and differences.

    ``inputs``: by name or by position; inputs omitted by name are random, from ``seed``, with ``dims`` and ``shapes`` for
    unknown sizes.  ``device`` (also a key of ``a`` and ``b``): by default the host.
    ``repeat``: rounds, in each of which both run in turn.  ``rtol``, ``atol``: tolerances of the result check, for all
    outputs or by output (``"0"``, ``"1.0"`` in tuples); None: up to rounding.  ``link``: the speed of the link to ``sim`` and
    the time that each copy takes besides, such as ``"16GB/s,5us"``; None: copies are as fast as memory.
    Raises ResultsDiffer if the results differ, and the errors of compilation and of runs.
    """
    tolerance = Tolerance(_by_output(rtol), _by_output(atol))
    simulated = None if link is None else SimulatedLink.parse(link)
    sides = [a_mapping(side, f"compare: side {name}", 'such as {"fuse": "off"}') for name, side in (("a", a), ("b", b))]
    programs = {"a": (program, sides[0]), "b": (program if other is None else other, sides[1])}
    if isinstance(inputs, Mapping) or inputs is None:
        inputs, shapes = a_mapping(inputs, "compare: inputs"), a_mapping(shapes, "compare: shapes")
        sizes = {name: a_sequence(shape, f"compare: the shape of {name}") for name, shape in shapes.items()}
        dims = {name: a_count(size, f"compare: the size of {name}") for name, size in a_mapping(dims, "compare: dims").items()}
        wanted = Wanted(inputs, sizes, dims, a_count(seed, "compare: the seed"))
        return compare_sides(
            programs, wanted, device=device, entry=entry, repeat=repeat, warmup=warmup, tolerance=tolerance, link=simulated
        )
    check_repeat(repeat, warmup)
    exes, given = _executables(programs, device), a_sequence(inputs, "compare: inputs")
    return measure(exes, {"": given}, entry=entry, repeat=repeat, warmup=warmup, tolerance=tolerance, link=simulated)


def _by_output(limit: float | Mapping[str, float] | None) -> Mapping[str, float]:
    found = {} if limit is None else dict(limit) if isinstance(limit, Mapping) else {"": limit}
    for value in found.values():
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise InputError(f"a tolerance is a number of at least 0, not {value!r}")
    return found


def compare_sides(
    sides: Mapping[str, tuple[Program | Executable, Mapping[str, Any]]],
    wanted: Wanted,
    bindings: Sequence[Mapping[str, tuple[int, ...]]] = (),
    *,
    device: str | None = None,
    entry: str = "main",
    repeat: int = REPEAT,
    warmup: int = 1,
    on_round: Callable[[int, int], object] | None = None,
    tolerance: Tolerance | None = None,
    check: Callable[[str, Any, VMFunction], object] | None = None,
    link: SimulatedLink | None = None,
) -> Comparison:
    """Compare any number of sides, each a program in a configuration, by name.

    ``bindings``: one case each; shapes of parameters and sizes of dimensions, in addition to the inputs ``wanted`` in all
    cases; none: one case.  ``on_round``: called after each round with the number of finished rounds and of all rounds.
    ``tolerance``: the tolerance of the result check.  ``check``: called with name, result and result type of each
    side; raises an error for a wrong result.  ``link``: of the sides on ``sim``; None: copies are as fast as memory.
    Raises as ``compare``.
    """
    check_repeat(repeat, warmup)
    if len(sides) < 2:
        raise InputError("there must be two sides, or more, to compare")
    exes = _executables(sides, device)
    function = check_signatures(exes, entry, {name: program for name, (program, _) in sides.items()})
    cases = {_case_name(b): make_inputs(function, _bound(function, wanted, b)) for b in bindings or ({},)}
    return measure(
        exes, cases, entry=entry, repeat=repeat, warmup=warmup, on_round=on_round, tolerance=tolerance, check=check, link=link
    )


def measure(
    sides: Mapping[str, Executable],
    cases: Mapping[str, Sequence[Any]],
    *,
    entry: str = "main",
    repeat: int = REPEAT,
    warmup: int = 1,
    on_round: Callable[[int, int], object] | None = None,
    tolerance: Tolerance | None = None,
    check: Callable[[str, Any, VMFunction], object] | None = None,
    link: SimulatedLink | None = None,
) -> Comparison:
    """Measure the executables on the same arguments, in each case.  Raises ResultsDiffer, and InputError for a ``link`` without a
    side on ``sim``.

    In a round every side runs, in a random order that the next round reverses, on a machine created for the round; blocks
    of random sizes are allocated in between.  The addresses of a machine's memory change its speed at small operators by up
    to a factor of two for its whole life, so two machines of one executable would differ.
    """
    check_repeat(repeat, warmup)
    if link is not None and all(exe.target != LINKED for exe in sides.values()):
        raise InputError(
            f"a link leads to the device {LINKED}, and no side runs there",
            help=f'device="{LINKED}"; --device {LINKED}',
        )
    total, done, found, within = len(cases) * repeat, 0, [], ""
    for name, arguments in cases.items():
        samplers = [Sampler(_machine(exe, link), arguments, entry=entry) for exe in sides.values()]
        within = _check_results(dict(zip(sides, samplers, strict=True)), tolerance, check)
        draw = random.Random(_SEED)
        order = list(samplers)
        for i in range(repeat):
            order.reverse() if i % 2 else draw.shuffle(order)
            for sampler in order:
                held = _shift_memory(draw)
                _sample(sampler, warmup, link)
                del held
            done += 1
            if on_round is not None:
                on_round(done, total)
        found.append(Case(name, tuple(s.profile() for s in samplers)))
    return Comparison(
        tuple(sides),
        tuple(found),
        Method(repeat, PER_ROUND, warmup, tolerance=within, link=str(link) if link not in (None, SimulatedLink()) else ""),
    )


def _machine(exe: ExecutableData, link: SimulatedLink | None) -> VirtualMachine:
    if link is None or exe.target != LINKED:
        return VirtualMachine(exe)
    return VirtualMachine(exe, link_bytes_per_s=link.bytes_per_s, link_latency_ns=link.latency_ns)


def _sample(sampler: Sampler, warmup: int, link: SimulatedLink | None) -> None:
    """The runs of one side in a round."""
    sampler.move_to(_machine(sampler.machine.exe, link))
    for _ in range(warmup):
        sampler.run()
    for _ in range(PER_ROUND):
        sampler.time()
        sampler.trace()


def _shift_memory(draw: random.Random) -> list[bytearray]:
    return [bytearray(draw.randrange(1, _MOST_SHIFT)) for _ in range(draw.randrange(_SHIFTS))]


def _check_results(
    samplers: Mapping[str, Sampler], tolerance: Tolerance | None, check: Callable[[str, Any, VMFunction], object] | None
) -> str:
    """Compare the results and return the tolerances in words.  Raises ResultsDiffer, and the errors of ``check``."""
    results = {side_name(name): sampler.run() for name, sampler in samplers.items()}
    if check is not None:
        for sampler, (name, result) in zip(samplers.values(), results.items(), strict=True):
            check(name, result, sampler.machine[sampler.entry].function)
    (first, value), *others = results.items()
    sampler = next(iter(samplers.values()))
    precisions = {s.machine.exe.config.get("precision", "") for s in samplers.values()}
    limits = (tolerance or Tolerance()).of(sampler.machine[sampler.entry].function, precisions)
    texts = [check_agreement(value, result, (first, name), limits) for name, result in others]
    return texts[0]


def _bound(function: VMFunction, wanted: Wanted, binding: Mapping[str, tuple[int, ...]]) -> Wanted:
    """The inputs of one case: a name is a parameter's, or else a dimension's."""
    parameters = {name for name, _ in function.params}
    dims = {n: s[0] for n, s in binding.items() if n.partition(".")[0] not in parameters and len(s) == 1}
    shapes = {n: s for n, s in binding.items() if n not in dims}
    return replace(wanted, shapes={**wanted.shapes, **shapes}, dims={**wanted.dims, **dims})


def _case_name(binding: Mapping[str, tuple[int, ...]]) -> str:
    return ";".join(f"{name}={','.join(map(str, sizes))}" for name, sizes in binding.items())


def _executables(
    sides: Mapping[str, tuple[Program | Executable, Mapping[str, Any]]], device: str | None
) -> dict[str, Executable]:
    return {name: _executable(program, settings, device) for name, (program, settings) in sides.items()}


def _executable(program: Program | Executable, settings: Mapping[str, Any], device: str | None) -> Executable:
    """The program compiled in this configuration.  Raises ConfigError for an executable with another configuration."""
    own = dict(settings)
    device = own.pop("device", device)
    if not isinstance(program, Executable):
        return compile(program, **own) if device is None else compile(program, device, **own)
    wanted = {k: v for k, v in Config.of(**own).texts().items() if k in own} | ({} if device is None else {"device": device})
    have = {**program.config, "device": program.target}
    for key, value in wanted.items():
        if have.get(key) != value:
            raise ConfigError(
                f"this executable was compiled with {key}={have.get(key)}, not {key}={value}",
                help="give the program's text, or an executable for each side",
            )
    return program
