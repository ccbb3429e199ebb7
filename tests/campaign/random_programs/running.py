"""The ways to run a random program, and the expected results."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.tensor_types import HALVES

from . import kernels_once
from .assemble import Assembly
from .program import Operation, Program, Value, statements


@dataclass(frozen=True)
class Way:
    """One way to run a program.

    ``as_text``: it is printed and parsed before.  ``runs``: of one machine, one after the other.  ``donated``: parameters that
    the last run may write over.
    """

    device: str
    config: tuple[tuple[str, Any], ...]
    as_text: bool = False
    runs: int = 1
    donated: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.device} {dict(self.config)}{' as text' if self.as_text else ''}, {self.runs} runs"


def ways(r: random.Random, program: Program, fused: bool, devices: Sequence[Sequence[str]] = (("cpu", "sim"),)) -> list[Way]:
    """Two or three ways that differ in much.  ``devices``: of the first way, of the second...; the last are of all others."""
    found = []
    for k in range(r.choice((2, 2, 3))):
        config: dict[str, Any] = {"opt_level": r.choice((0, 1, 2, 2, 3, 3)), "fuse": fused and k == 0}
        if config["fuse"]:
            config["opt_level"] = r.choice((2, 3))
        config["plan"] = r.choice(("on", "on", "off", "blind"))
        config["place"] = r.choice((True, True, False))
        config["bulk"] = r.choice((True, True, False))
        if r.random() < 0.2:
            config["data_dependence"] = r.choice(("op", "relay"))
        donated = tuple(n for n in program.parameters() if r.random() < 0.5) if r.random() < 0.3 else ()
        way = Way(
            r.choice(devices[min(k, len(devices) - 1)]), tuple(config.items()), r.random() < 0.15, r.choice((1, 2, 3)), donated
        )
        found.append(way)
    return found


def plainer(way: Way) -> Iterator[Way]:
    """Ways that leave one thing out."""
    if way.donated:
        yield replace(way, donated=())
    if way.runs > 1:
        yield replace(way, runs=1)
    if way.as_text:
        yield replace(way, as_text=False)
    if way.device != "cpu":
        yield replace(way, device="cpu")
    for k in range(len(way.config)):
        yield replace(way, config=way.config[:k] + way.config[k + 1 :])


def fitting(way: Way, program: Program) -> Way:
    """The way, donating only parameters that there are."""
    return replace(way, donated=tuple(n for n in way.donated if n in program.parameters()))


def text_of(program: Program) -> str:
    """The program as text; constants of it that are no scalars are parameters that compile binds."""
    return relay.astext(Assembly(program).module)


def bound(program: Program) -> dict[str, np.ndarray]:
    """Constants that are no scalars, which are in the text: what ``compile`` gets as ``params``."""
    values = program.values
    return {n: values[n].array for n in program.inputs() if n in program.constants and values[n].array.ndim}


@dataclass
class Outcome:
    """The outcome of a way: the results of each run, and of the run with other sizes (None: it failed).

    ``compiled``: how many kernels were new; ``interpreted``: whether plain Python took the place of one; ``mixed``: whether
    some generated kernels were machine code while others were interpreted.
    """

    runs: list[list[np.ndarray]]
    resized: list[np.ndarray] | None
    compiled: int
    interpreted: bool
    mixed: bool


def run(program: Program, way: Way, other: dict[str, np.ndarray] | None) -> Outcome:
    """Run it ``way.runs`` times, with the inputs ``other`` before the last run.  Results are held until the end."""
    module = Assembly(program).module
    source = relay.astext(module) if way.as_text else module
    exe = relay.compile(source, target=way.device, params=bound(program), **dict(way.config))
    with kernels_once.looked_up_once() as met:
        vm = relay.VirtualMachine(exe)
    kept, resized = [], None
    given = {n: program.values[n].array for n in program.inputs()}
    before = {n: x.tobytes() for n, x in given.items()}
    for k in range(way.runs):
        args = {n: program.values[n].array for n in program.parameters()}
        last = k == way.runs - 1
        if last and other is not None:
            if way.device == "cuda":  # a run that fails on a GPU loses all results that nobody has waited for
                for before_it in kept:
                    arrays(before_it)
            with contextlib.suppress(relay.RelayError):
                resized = arrays(vm.run(**other))
            with contextlib.suppress(relay.RelayError):
                arrays(vm.run(**args))  # queued work that fails is found by whom waits next
        if last and way.donated:
            kept.append(
                vm.run(
                    **{n: np.array(args[n], order="C") if n in way.donated else args[n] for n in args}, donate=list(way.donated)
                )
            )
        else:
            kept.append(vm.run(**args))
    written = [n for n, x in given.items() if x.tobytes() != before[n]]
    assert not written, f"arguments are written: {written}"
    compiled = sum(use.how == "compiles" for use in vm.prepared)
    mixed = not kernels_once.singles_native and bool(met.generated)
    return Outcome([arrays(r) for r in kept], resized, compiled, bool(met.interpreted), mixed)


def arrays(results: Any) -> list[np.ndarray]:
    """Copies of results."""
    return [np.array(x.numpy()) for x in results]


def resized_inputs(r: random.Random, program: Program) -> dict[str, np.ndarray] | None:
    """Inputs in which one or two of the sizes are other ones wherever they occur; None where none is open."""
    values = {n: program.values[n] for n in program.parameters()}
    sizes = sorted({n for v in values.values() if not v.known for n in v.array.shape})
    if program.sizes == "static" or not sizes:
        return None
    others = {n: r.choice((n + 1, 2 * n + 2, 1, 0)) for n in r.choices(sizes, k=r.choice((1, 1, 2)))}

    def resized(v: Value) -> np.ndarray:
        shape = v.array.shape if v.known else tuple(others.get(n, n) for n in v.array.shape)
        return v.array if shape == v.array.shape else np.resize(v.array, shape)

    return {n: resized(v) for n, v in values.items()}


def wrong(program: Program, way: Way, found: list[np.ndarray]) -> str | None:
    """The differences of results from numpy's.

    At opt_level 3 a scale is folded into a weight, so a zero may have the other sign: its bits are those of either zero.
    """
    names = program.body.results
    if len(found) != len(names):
        return f"{len(found)} results for {len(names)}"
    bits = _bits_of_floats(program) if dict(way.config).get("opt_level") == 3 else set()
    for name, x in zip(names, found, strict=True):
        value = program.values[name]
        if name in bits:
            x, value = _of_one_zero(x), replace(value, array=_of_one_zero(value.array))
        if (what := differs(value, x)) is not None:
            return f"result %{name}: {what}"
    return None


def _bits_of_floats(program: Program) -> set[str]:
    """The values that read floats as integers."""
    operations = (s for s in statements(program.body) if isinstance(s, Operation) and s.op == "reinterpret")
    return {name for s in operations for name in s.targets}


def _of_one_zero(x: np.ndarray) -> np.ndarray:
    """Integers that are the bits of floats, with the bits of 0.0 for those of -0.0; other arrays as they are."""
    if x.dtype.kind not in "iu":
        return x
    negative = np.array(1 << 8 * x.itemsize - 1, f"u{x.itemsize}").view(x.dtype)
    return np.where(x == negative, x.dtype.type(0), x)


def differs(value: Value, x: np.ndarray) -> str | None:
    """The difference of an array from a value."""
    wanted = value.array
    if x.dtype != wanted.dtype or x.shape != wanted.shape:
        return f"{x.dtype.name}{list(x.shape)} for {wanted.dtype.name}{list(wanted.shape)}"
    if value.error == 0:
        same = np.array_equal(x, wanted, equal_nan=x.dtype.kind not in "iub")
    else:
        a, b = x.astype("float64"), wanted.astype("float64")
        same = np.allclose(a, b, rtol=value.error, atol=value.error, equal_nan=True)
    if same:
        return None
    return f"{x.reshape(-1)[:8].tolist()} for {wanted.reshape(-1)[:8].tolist()} ({wanted.dtype.name}{list(wanted.shape)})"


def disagree(program: Program, a: Way, x: list[np.ndarray], b: Way, y: list[np.ndarray], mixed: bool = False) -> str | None:
    """The differences between the results of two ways: floats may differ by rounding; other values must be equal.

    ``mixed``: whether machine code computes some functions in one way that plain Python computes in the other.
    """
    is_folded = any(dict(w.config).get("opt_level") == 3 for w in (a, b))
    bits_of_floats = _bits_of_floats(program) if is_folded else set()
    for name, one, two in zip(program.body.results, x, y, strict=True):
        if name in bits_of_floats:
            one, two = _of_one_zero(one), _of_one_zero(two)
        value = program.values[name]
        in_float32 = one.dtype.name in HALVES and _widens(a) != _widens(b)
        bits = not (mixed or in_float32 or _rounds(a, b)) and one.dtype == two.dtype and one.shape == two.shape
        if (
            bits
            and one.tobytes() != two.tobytes()
            and not (one.dtype.kind not in "iub" and np.isnan(one.astype("float32")).any())
        ):
            return f"%{name}: {one.reshape(-1)[:8].tolist()} ({a}), {two.reshape(-1)[:8].tolist()} ({b})"
        if (what := differs(replace(value, array=two, error=_error(one.dtype.name)), one)) is not None:
            return f"%{name}: {a} gives {what} ({b})"
    return None


def _error(dtype: str) -> float:
    return 0.0 if "float" not in dtype else {"float64": 1e-8, "float32": 1e-3, "float16": 0.05, "bfloat16": 0.2}[dtype]


def _rounds(a: Way, b: Way) -> bool:
    """Whether the results of two ways may differ by roundings: kernels of GPUs fold in another order.

    Where kernels of one operator are interpreted, the compiler still folds constants by machine code, whose functions round in
    another way than those of plain Python.
    """
    if not kernels_once.singles_native and _folded(a) != _folded(b):
        return True
    return (a.device == "cuda") != (b.device == "cuda") or any(
        dict(w.config).get("opt_level") == 3 or dict(w.config).get("fuse") for w in (a, b)
    )


def _widens(way: Way) -> bool:
    """Whether the compiler keeps float32 between operators on halves."""
    return dict(way.config).get("opt_level", 2) >= 2 and way.device != "cuda"


def _folded(way: Way) -> int:
    """The constants that the compiler folds: 0 none, 1 those of each function, 2 also those of inlined functions."""
    return min(int(dict(way.config).get("opt_level", 2)), 2)
