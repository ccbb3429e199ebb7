"""Choice of an operator's implementation for a call.

The candidates are the implementations that run on the device and take the call, in declared order.  The first candidate that fits
and pays for every size is chosen.  An earlier candidate whose conditions depend on run-time sizes becomes a *guarded version*: it
runs if its conditions hold.  The last candidate always fits and pays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...shape_funcs.symbolic.dim_operations import evaluate
from ..core.conditions import Choice, Conditions, Versions, conditions_text, undecided
from ..core.group import Group
from ..core.implementation import HOST, Kernel, OpCall

#: Reasons of a choice (see ``Choice.because``), besides the condition that paid.
FORCED, TUNED, ONLY = "forced", "tuned", "only one that fits"
#: The number of calls whose choice is remembered.
_KEPT = 1024

#: ``(call) -> ((name, conditions), ...)``: implementations measured to be faster than the default choice, and their conditions.
Preferred = Callable[[OpCall], Versions]


class Rejection(Exception):
    """An implementation that cannot be used for a call: ``name``, and ``why`` as the end of a sentence."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why


def candidates(call: OpCall) -> tuple[Kernel, ...]:
    """The implementations that run on the call's device and take it, in declared order."""
    return tuple(k for k in call.op.kernels_on(call.device) if k.takes(call))


def choose(call: OpCall, preferred: Preferred | None = None) -> Choice:
    """The choice for ``call``.  Raises Rejection if no implementation runs on its device."""
    return _default(call) if preferred is None and _can_be_hashed(call.attrs) else _choose(call, preferred)


def _can_be_hashed(attrs: object) -> bool:
    """Whether attributes are a key: those of a user's operator may have lists."""
    try:
        hash(attrs)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=_KEPT)
def _default(call: OpCall) -> Choice:
    """The choice without measurements: passes ask for it for each group that an equal call begins."""
    return _choose(call, None)


def _choose(call: OpCall, preferred: Preferred | None) -> Choice:
    kernels = candidates(call)
    if not kernels:
        raise Rejection("", f"no implementation of {call.op.name} runs on {call.device}")
    versions: list[tuple[str, Conditions]] = []
    because = ONLY if sum(undecided(k.fits(call)) is not None for k in kernels) == 1 else ""
    for name, where in preferred(call) if preferred else ():
        kernel = next((k for k in kernels if k.name == name), None)
        conditions = None if kernel is None else undecided(where + kernel.fits(call))
        if conditions is not None:
            versions.append((name, conditions))
            because = TUNED
        if conditions == ():
            return Choice(tuple(versions), because)
    for kernel in kernels:
        conditions = undecided(kernel.fits(call) + kernel.pays(call))
        if conditions == () or kernel is kernels[-1]:
            return Choice((*versions, (kernel.name, ())), because or _reason(versions, kernel, call))
        if conditions is not None:
            versions.append((kernel.name, conditions))
    raise AssertionError("the last candidate is always taken")


def resolve_implementation(group: Group, shapes: Sequence[Sequence[int]]) -> Group:
    """The group with the implementation chosen on the host for parameters of these ``shapes``."""
    if len(group.nodes[0].operator.kernels_on(HOST)) < 2:
        return group
    choice = choose(group.call_on(HOST))
    sizes = {d.args[0]: n for t, shape in zip(group.params, shapes, strict=True) for d, n in zip(t.shape, shape, strict=True)}
    taken = [bool(evaluate(guard, sizes)) for guard in choice.guards] + [True]
    return replace(group, implementation=choice.names[taken.index(True)])


def force(call: OpCall, name: str) -> tuple[Choice, Conditions]:
    """The choice of ``name`` for ``call``, and the run-time conditions under which it is correct.  Raises Rejection."""
    kernel = next((k for k in call.op.kernels if k.name == name), None)
    if kernel is None:
        raise Rejection(name, f"it is none of {', '.join(call.op.implementations)}")
    if call.device not in kernel.devices:
        raise Rejection(name, f"it does not run on {call.device}")
    if not kernel.takes(call):
        raise Rejection(name, "it does not take these types and attributes")
    needed = kernel.fits(call)
    left = undecided(needed)
    if left is None:
        raise Rejection(name, f"it needs {conditions_text(tuple(c for c in needed if undecided((c,)) is None))}")
    return Choice(((name, ()),), FORCED), left


def fallbacks(call: OpCall, after: str, planned: Sequence[tuple[int, int]] = ()) -> tuple[Kernel, ...]:
    """The fallbacks of the implementation ``after`` of ``call``: the candidates declared after it, in order, that are correct for
    every size and support the in-place pairs ``planned``."""
    kernels = candidates(call)
    names = [k.name for k in kernels]
    later = kernels[names.index(after) + 1 :] if after in names else kernels
    return tuple(k for k in later if undecided(k.fits(call)) == () and set(planned) <= set(k.in_place))


def _reason(versions: Sequence[tuple[str, Conditions]], last: Kernel, call: OpCall) -> str:
    if versions:
        return "sizes at run time decide"
    paid = last.pays(call)
    return f"pays: {conditions_text(paid)}" if paid else "the first that fits"
