"""Shapes of recurrences, with constant sizes and through the program of symbolic sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .against_numpy import SIZES, case, f32

#: Per operator its gates, the shapes of its inputs after the weight (d: directions, b: batch, u: units), its states.
RECURRENCES: dict[str, tuple[int, Any, int]] = {
    "nn.lstm": (4, lambda d, b, u: [(d, b, u), (d, b, u), (d, 3 * u), (b,)], 2),
    "nn.gru": (3, lambda d, b, u: [(d, b, u), (d, u), (b,)], 1),
    "nn.rnn": (1, lambda d, b, u: [(d, b, u), (b,)], 1),
}


@case
def test_recurrences(agree: Any, draw: Any) -> None:
    name, direction = draw(st.sampled_from(list(RECURRENCES))), draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    gates, others, states = RECURRENCES[name]
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, units = (draw(SIZES) for _ in range(3))
    shapes = [(steps, batch, directions * gates * units), (directions, gates * units, units), *others(directions, batch, units)]
    wrong = draw(st.sampled_from([None, *range(len(shapes))]))
    if wrong is not None:
        axis = draw(st.integers(0, len(shapes[wrong]) - 1))
        refused = (wrong, axis) != (0, 0)
        shapes[wrong] = tuple(size + (k == axis) for k, size in enumerate(shapes[wrong]))

    def oracle() -> Any:
        if wrong is not None and refused:
            raise ValueError
        state = (directions, batch, units)
        return [(shapes[0][0], *state), *[state] * states]

    agree(name, [f32(shape) for shape in shapes], oracle, direction=direction)
