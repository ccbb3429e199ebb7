"""Shapes of recurrences: the products of all steps with the weights of the inputs, the recurrent weights, the initial states.

``projected``: ``(steps, batch, directions * gates * units)``; ``weight``: ``(directions, gates * units, units)``; states:
``(directions, batch, units)``.  The states of all steps: ``(steps, directions, batch, units)``.
"""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.registry import Operand, register_shape_func

#: Per operator the number of gates, the names of the inputs after the weight, and the number of states.
INPUTS: dict[str, tuple[int, tuple[str, ...], int]] = {
    "nn.lstm": (4, ("initial_state", "initial_cell", "peepholes", "lengths"), 2),
    "nn.gru": (3, ("initial_state", "reset_bias", "lengths"), 1),
    "nn.rnn": (1, ("initial_state", "lengths"), 1),
}


def directions_of(attrs: Any) -> int:
    """The number of directions."""
    return 2 if attrs.direction == "bidirectional" else 1


def _recurrence(name: str) -> None:
    gates, others, states = INPUTS[name]

    def shapes(inputs: tuple[Operand, ...], attrs: Any) -> list[Shape]:
        projected, weight, *rest = inputs
        need_rank(projected, 3, "projected", 0)
        need_rank(weight, 3, "weight", 1)
        steps, batch, columns = projected.shape
        directions, units = dim(directions_of(attrs)), weight.shape[2]
        text = f"the weight has {{}} directions, {attrs.direction} has {{}}"
        same_size(weight.shape[0], directions, text, 1, 0)
        same_size(
            weight.shape[1], units * gates, f"axis 1 of the weight has size {{}}, not {gates} gates of its units: {{}}", 1, 1
        )
        text = f"axis 2 of projected has size {{}}, not {gates} gates of all directions: {{}}"
        same_size(columns, units * (gates * directions_of(attrs)), text, 0, 2)
        state = (directions, batch, units)
        for n, (what, x) in enumerate(zip(others, rest, strict=True), 2):
            sizes: dict[str, tuple[Dim, ...]] = {
                "lengths": (batch,), "peepholes": (directions, units * 3), "reset_bias": (directions, units)
            }  # fmt: skip
            wanted = sizes.get(what, state)
            need_rank(x, len(wanted), what, n)
            for axis, size in enumerate(wanted):
                same_size(x.shape[axis], size, f"axis {axis} of {what} has size {{}}, it must be {{}}", n, axis)
        return [(steps, *state), *[state] * states]

    register_shape_func(name)(shapes)


for _name in INPUTS:
    _recurrence(_name)
