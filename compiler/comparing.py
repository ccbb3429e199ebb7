"""Two configurations of a program, run in turn in one process: results must agree, then what differs is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..vm.compare import Comparison
from ..vm.executable import Executable
from ..vm.machine import VirtualMachine
from ..vm.profiling import Sampler, check_repeat
from ..vm.source import ConfigError, Diagnostic, RelayError
from .compile import Program, compile
from .config import Config
from .inputs import Wanted, make_inputs
from .opening import function_of

#: Floats agree within this part of their value, plus this part of the largest value in the tensor: another order of
#: summation moves a small sum of large terms by that much.
RTOL, SCALE_TOL = 1e-5, 1e-6


class ResultsDiffer(RelayError):
    """Two configurations of one program gave different results."""


def compare(
    program: Program | Executable,
    a: Mapping[str, Any] | None = None,
    b: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    other: Program | Executable | None = None,
    device: str | None = None,
    entry: str = "main",
    repeat: int = 10,
    warmup: int = 2,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
) -> Comparison:
    """``program`` in configuration ``a`` against itself (or ``other``) in configuration ``b``, as profiles and differences.

    ``inputs``: by name or by position; those left out by name are drawn from ``seed``, with ``dims`` and ``shapes`` for
    sizes that are not known.  ``device`` (also a key of ``a`` and ``b``) is the host where it is not given.
    Raises ResultsDiffer where the results do not agree, and what compiling and running raises.
    """
    check_repeat(repeat, warmup)
    sides = [_executable(program, a or {}, device), _executable(program if other is None else other, b or {}, device)]
    function = function_of(sides[0], entry)
    if isinstance(inputs, Mapping) or inputs is None:
        arguments = make_inputs(function, Wanted(inputs or {}, shapes or {}, dims or {}, seed))
    else:
        arguments = tuple(inputs)
    return measure(sides[0], sides[1], arguments, entry=entry, repeat=repeat, warmup=warmup)


def measure(
    a: Executable, b: Executable, arguments: Sequence[Any], *, entry: str = "main", repeat: int = 10, warmup: int = 2
) -> Comparison:
    """Both executables on the same arguments: A B A B, after runs that do not count.  Raises ResultsDiffer."""
    samplers = [Sampler(VirtualMachine(exe), arguments, entry=entry) for exe in (a, b)]
    check_agreement(*(s.run() for s in samplers))
    for _ in range(warmup):
        for sampler in samplers:
            sampler.run()
    for sampler in samplers:
        sampler.machine.reset_counters()  # reading the results above is no part of the peak
    for _ in range(repeat):
        for sampler in samplers:
            sampler.time()
        for sampler in samplers:
            sampler.trace()
    return Comparison(samplers[0].profile(), samplers[1].profile())


def _executable(program: Program | Executable, settings: Mapping[str, Any], device: str | None) -> Executable:
    """The program in this configuration; an executable is in the one that it was compiled in."""
    own = dict(settings)
    device = own.pop("device", device)
    if not isinstance(program, Executable):
        return compile(program, **({} if device is None else {"target": device}), **own)
    wanted = {k: v for k, v in Config.of(**own).texts().items() if k in own} | ({} if device is None else {"device": device})
    have = {**program.config, "device": program.target}
    for key, value in wanted.items():
        if have.get(key) != value:
            raise ConfigError(
                f"this executable was compiled with {key}={have.get(key)}, not {key}={value}",
                help="give the program's text, or an executable for each side",
            )
    return program


# ---- do results agree? -----------------------------------------------------------------------------------------------------


def check_agreement(a: Any, b: Any) -> None:
    """Raises ResultsDiffer, naming every result that differs and how."""
    problems = [Diagnostic(f"the results of A and B differ: {text}") for text in _differences("result", a, b)]
    if problems:
        raise ResultsDiffer(problems)


def _differences(where: str, a: Any, b: Any) -> Iterator[str]:
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
            yield f"{where} is {_kind(a)} in A and {_kind(b)} in B"
            return
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _differences(f"{where}.{i}", x, y)
        return
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        yield f"{where} is {_kind(x)} in A and {_kind(y)} in B"
        return
    unequal = ~_agree(x, y)
    if unequal.any():
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(unequal)), unequal.shape)) if x.ndim else ()
        count = f"{int(unequal.sum())} of {x.size} elements"
        yield f"{where}, {_kind(x)}: {count}, the first at {list(at)}: {x[at]} in A, {y[at]} in B"


def _agree(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Element by element: do they agree?"""
    if x.dtype.kind != "f":
        return np.asarray(x == y)
    finite = np.abs(x[np.isfinite(x)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.asarray(np.isclose(x, y, rtol=RTOL, atol=SCALE_TOL * scale, equal_nan=True))


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    array = np.asarray(value)
    return f"{array.dtype.name}{list(array.shape)}"
