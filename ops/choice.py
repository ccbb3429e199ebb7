"""Which of an operator's implementations computes a call.

The candidates are those that run on the device and take the call, in declared order.  The first one that fits and pays for every
size is chosen.  One before it for which sizes at run time decide that becomes a *guarded version*: it is taken where its
conditions hold.  The last candidate fits and pays always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..shape_funcs.dims import evaluate
from .conditions import Choice, Conditions, Versions, conditions_text, undecided
from .group import Group
from .implementation import HOST, Kernel, OpCall

#: What a choice can be because of (see ``Choice.because``), besides what paid.
FORCED, TUNED, ONLY = "forced", "tuned", "only one that fits"

#: ``(call) -> ((name, conditions), ...)``: where measurements say that an implementation is faster than that chosen without.
Preferred = Callable[[OpCall], Versions]


@dataclass(frozen=True)
class Rejected(Exception):
    """An implementation that cannot be used for a call: ``name``, and ``why`` as the end of a sentence."""

    name: str
    why: str


def candidates(call: OpCall) -> tuple[Kernel, ...]:
    """The implementations that run on the call's device and take it, in declared order."""
    return tuple(k for k in call.op.kernels_on(call.device) if k.takes(call))


def choose(call: OpCall, preferred: Preferred | None = None) -> Choice:
    """The choice for ``call``.  Raises Rejected where no implementation runs on its device."""
    found = candidates(call)
    if not found:
        raise Rejected("", f"no implementation of {call.op.name} runs on {call.device}")
    versions: list[tuple[str, Conditions]] = []
    because = ONLY if sum(undecided(k.fits(call)) is not None for k in found) == 1 else ""
    for name, where in preferred(call) if preferred else ():
        kernel = next((k for k in found if k.name == name), None)
        conditions = None if kernel is None else undecided(where + kernel.fits(call))
        if conditions is not None:
            versions.append((name, conditions))
            because = TUNED
        if conditions == ():
            return Choice(tuple(versions), because)
    for kernel in found:
        conditions = undecided(kernel.fits(call) + kernel.pays(call))
        if conditions == () or kernel is found[-1]:
            return Choice((*versions, (kernel.name, ())), because or _why(versions, kernel, call))
        if conditions is not None:
            versions.append((kernel.name, conditions))
    raise AssertionError("the last candidate is always taken")


def settled(group: Group, shapes: Sequence[Sequence[int]], machine: str = HOST) -> Group:
    """The group by the implementation that is chosen when its parameters have these ``shapes``."""
    if len(group.nodes) != 1 or len(group.nodes[0].operator.kernels_on(machine)) < 2:
        return group
    choice = choose(group.call_on(machine))
    sizes = {d.args[0]: n for t, shape in zip(group.params, shapes, strict=True) for d, n in zip(t.shape, shape, strict=True)}
    taken = [bool(evaluate(guard, sizes)) for guard in choice.guards] + [True]
    return replace(group, implementation=choice.names[taken.index(True)])


def force(call: OpCall, name: str) -> tuple[Choice, Conditions]:
    """The choice of ``name`` for ``call``, and what sizes at run time must hold for it to be right.  Raises Rejected."""
    kernel = next((k for k in call.op.kernels if k.name == name), None)
    if kernel is None:
        raise Rejected(name, f"it is none of {', '.join(call.op.implementations)}")
    if call.device not in kernel.devices:
        raise Rejected(name, f"it does not run on {call.device}")
    if not kernel.takes(call):
        raise Rejected(name, "it does not take these types and attributes")
    needed = kernel.fits(call)
    left = undecided(needed)
    if left is None:
        raise Rejected(name, f"it needs {conditions_text(tuple(c for c in needed if undecided((c,)) is None))}")
    return Choice(((name, ()),), FORCED), left


def fallbacks(call: OpCall, after: str, planned: Sequence[tuple[int, int]] = ()) -> tuple[Kernel, ...]:
    """What may stand in for the implementation ``after`` of ``call``, whatever the sizes: the candidates declared behind it,
    in order, that are right for every size and can do in place what is ``planned`` so."""
    found = candidates(call)
    names = [k.name for k in found]
    behind = found[names.index(after) + 1 :] if after in names else found
    return tuple(k for k in behind if undecided(k.fits(call)) == () and set(planned) <= set(k.in_place))


def _why(versions: Sequence[tuple[str, Conditions]], last: Kernel, call: OpCall) -> str:
    if versions:
        return "sizes at run time decide"
    paid = last.pays(call)
    return f"pays: {conditions_text(paid)}" if paid else "the first that fits"
