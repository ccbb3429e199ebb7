"""Every operator of the registry: inferred type, shape function and kernel against numpy.

Per operator and dtype of its main input, at sizes of 0, 1, odd ones and about 10^4 elements, on every device that is tested:

* the first dtype: sizes as ``?``, fused with what comes before and behind; in ``make test`` on one of the devices, on others for
  other operators, and in ``make test-all`` another call on another device: the kernels of ``cpu`` and ``sim`` are the same;
* extensive: each other dtype in the same way; the first dtype with sizes static, ``?`` and named, fused and not, flagged inputs
  as constants, and other attributes.  In ``make test-all`` each operator has a third of its other dtypes, and one of these kinds
  of sizes and of the rows of attributes, others than the next operator, and each call one of the devices (``tiers.some``).

On ``cuda``, where a compiler takes seconds a kernel, the first dtype with ``?`` sizes, fused; with
``RELAYVM_TEST_DEVICES=cuda`` all of the above.

Kernels of the first dtype with ``?`` sizes are optimized as in the product, other kernels are not (``optimized``): of operators
with kernels of their own an eighth in ``make test``, of those whose kernels are generated one in sixteen; in ``rest`` a quarter
of the other operators with kernels of their own, and one in sixty-four of the others.
``RELAYVM_OPTIMIZE=1`` optimizes all.

Dtypes: all that the operator supports; of operators that only move elements, or whose kernel is slow to compile, one for
each width and kind (``by_width`` of its recipe).  One program serves all sizes that are not static, so each kernel is compiled
once.  An operator without a recipe fails: ``every_op`` documents how to add one.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import Op

from .. import tiers
from ..devices import DEVICES
from .every_op import all_recipes
from .every_op.drawing import CLASSES, Draw
from .every_op.program import Compiled, Mode, grouped
from .every_op.recipe import Call, dtypes_of, one_of_each_pattern, operators, recipe_of

#: The number of rows of non-default attributes.
VARIANTS = 2
REST = Mode("any")
#: The turn of an operator's first call.
FIRST = "first"
#: The devices with full coverage, and those with partial coverage.
FULL = tuple(d for d in DEVICES if d != "cuda") or DEVICES
GPUS = tuple(d for d in DEVICES if d not in FULL)
OTHERS = (Mode("any", fuse=False), Mode("named"), Mode("named", fuse=False), Mode("static"))


def calls_of(op: Op, dtype: str, variant: int = 0) -> dict[str, Call]:
    """A call for each class of sizes, with the same choices."""
    choices = np.random.default_rng([zlib.crc32(op.name.encode()), variant]).integers(0, 256, 64).tolist() if variant else ()
    return {size: recipe_of(op.name).make(Draw(dtype, size, choices), op.name) for size in CLASSES}


def check_calls(op: Op, calls: dict[str, Call], mode: Mode, devices: tuple[str, ...] = FULL) -> int:
    """Run the calls on the devices.  The number of cases."""
    programs = [[s] for s in calls] if mode.sizes == "static" else list(grouped(op, calls))
    for sizes in programs:
        for device in devices:
            check_program(op, {s: calls[s] for s in sizes}, mode, device)
    return len(calls) * len(devices)


def check_program(op: Op, calls: dict[str, Call], mode: Mode, device: str) -> None:
    try:
        compiled = Compiled(op, list(calls.values()), mode, device)
    except relay.TypeCheckError as error:
        refused(op, calls, mode, device, error)
        return
    for size, made in calls.items():
        where = f"{op.name} of {size} size ({mode}, {device}): {[(x.shape, x.dtype.name) for x in made.flat]} {made.attrs}"
        try:
            if isinstance(made.wanted, str):
                compiled.refuses(made)
            else:
                compiled.agrees(made)
        except Exception as error:
            error.add_note(where)
            raise


def refused(op: Op, calls: dict[str, Call], mode: Mode, device: str, error: relay.TypeCheckError) -> None:
    """A program that does not compile: right where a call must be refused, and then the others compile by themselves."""
    bad = {s: c for s, c in calls.items() if isinstance(c.wanted, str)}
    if not bad or any(str(c.wanted) not in str(error) for c in bad.values()):
        error.add_note(f"{op.name} ({mode}, {device}): {[[(x.shape, x.dtype.name) for x in c.flat] for c in calls.values()]}")
        raise error
    good = {s: c for s, c in calls.items() if s not in bad}
    if good:
        check_program(op, good, mode, device)


def in_turn(op: Op, what: str) -> tuple[str, ...]:
    """The devices for calls of an operator: in a tier one of them, in turn."""
    return tuple(tiers.some(FULL, f"{op.name} {what}", len(FULL)))


def _ids(item: Any) -> str:
    return item.name if isinstance(item, Op) else str(item)


def number_of(op: Op) -> int:
    """0: ``make test`` optimizes the kernels of this operator; 1: ``rest`` does.  To optimize takes most of the time of a kernel,
    and generated kernels are alike."""
    number = zlib.crc32(op.name.encode())
    return min(number % 8, 1) if op.kernels else number % 16


def test_every_operator_has_a_recipe() -> None:
    missing = [op.name for op in operators() if op.name not in all_recipes.RECIPES]
    assert not missing, f"operators without a recipe in tests/ops/every_op: {', '.join(missing)}"


def test_every_recipe_has_an_operator() -> None:
    assert set(all_recipes.RECIPES) <= {op.name for op in operators()}


@pytest.mark.quick(op=one_of_each_pattern())
@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=[] if number_of(op) else [pytest.mark.optimized]) for op in operators()], ids=_ids
)
def test_first_dtype(op: Op, record_property: Any) -> None:
    """The first dtype with ``?`` sizes."""
    dtype = dtypes_of(op.name)[0]
    record_property("every_op", (op.name, [dtype], check_calls(op, calls_of(op, dtype), REST, in_turn(op, FIRST))))


@pytest.mark.thinned(4)
@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.parametrize("op", [op for op in operators() if number_of(op) == 1], ids=_ids)
def test_first_dtype_optimized(op: Op, record_property: Any) -> None:
    """The same for others, optimized."""
    dtype = dtypes_of(op.name)[0]
    record_property("every_op", (op.name, [dtype], check_calls(op, calls_of(op, dtype), REST, FULL[:1])))


@pytest.mark.extensive
@pytest.mark.parametrize("op", operators(), ids=_ids)
def test_dtypes(op: Op, record_property: Any) -> None:
    """Each other dtype with ``?`` sizes."""
    dtypes = tiers.some(dtypes_of(op.name)[1:], op.name, 3)
    cases = {d: check_calls(op, calls_of(op, d), REST, in_turn(op, d)) for d in dtypes}
    record_property("every_op", (op.name, list(cases), sum(cases.values())))


@pytest.mark.extensive
@pytest.mark.parametrize("op", operators(), ids=_ids)
def test_sizes(op: Op, record_property: Any) -> None:
    """The first dtype with every other kind of size declaration."""
    dtype = dtypes_of(op.name)[0]
    calls = calls_of(op, dtype)
    cases = sum(check_calls(op, calls, mode, in_turn(op, str(mode))) for mode in tiers.some(OTHERS, op.name, len(OTHERS)))
    odd, static = {"odd": calls["odd"]}, Mode("static", fuse=False)
    cases += check_calls(op, odd, static, in_turn(op, FIRST))  # in ``rest`` the device on which ``test`` has not run it
    if any(op.data_dependent):
        cases += check_calls(op, calls, Mode("static", constants=True))
    record_property("every_op", (op.name, [dtype], cases))


@pytest.mark.extensive
@pytest.mark.parametrize("op", operators(), ids=_ids)
def test_attributes(op: Op, record_property: Any) -> None:
    """Other attributes, ranks and shapes that broadcast."""
    dtype, seen, cases = dtypes_of(op.name)[0], set(), 0
    for variant in tiers.some(range(1, VARIANTS + 1), op.name, VARIANTS):
        calls = calls_of(op, dtype, variant)
        key = repr([(c.attrs, [x.shape for x in c.flat]) for c in calls.values()])
        if key not in seen:
            cases += check_calls(op, calls, REST, in_turn(op, str(variant)))
        seen.add(key)
    record_property("every_op", (op.name, [dtype], cases))


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("op", operators(), ids=_ids)
def test_on_gpus(op: Op, device: str, record_property: Any) -> None:
    """One program, at every size that it serves."""
    dtype = dtypes_of(op.name)[0]
    calls = calls_of(op, dtype)
    largest = max(grouped(op, calls), key=len)
    cases = check_calls(op, {s: calls[s] for s in largest if s != "large"}, REST, (device,))
    record_property("every_op", (op.name, [dtype], cases))
