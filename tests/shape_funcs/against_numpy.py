"""The property of shape functions: constant sizes and the shape program of symbolic sizes both agree with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.shape_funcs.symbolic.registry import ShapeError

from ..tiers import drawing

SIZES = st.sampled_from([0, 1, 1, 2, 3, 5])
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
FULL_SHAPES = st.lists(SIZES, min_size=1, max_size=4).map(tuple)


def f32(shape: Any) -> np.ndarray:
    return np.zeros(shape, np.float32)


def scalar(value: Any, dtype: str = "int64") -> np.ndarray:
    return np.array(value, dtype)


def agree(
    shapes_of: Any, draw: Any, name: str, inputs: list[Any], oracle: Any, fixed: Any = (), compared: Any = list, **attrs: Any
) -> None:
    """Assert that constant and symbolic sizes yield the shapes of ``oracle()``, and an error if ``oracle()`` raises.
    ``compared``: what of the shapes is compared."""
    try:
        wanted = oracle()
    except (ValueError, IndexError, ZeroDivisionError):
        wanted = None
    s = shapes_of(name, inputs, **attrs)
    bits = draw(st.integers(0, 2**24 - 1))
    some = iter(range(10**9))
    runs = {
        "known": s.known,
        "unknown": lambda: s.unknown(fixed=fixed),
        "shared": lambda: s.unknown(shared=True, fixed=fixed),
        "mixed": lambda: s.unknown(lambda: bits >> (next(some) % 24) & 1, fixed=fixed),
    }
    for way, run in runs.items():
        if wanted is None:
            with pytest.raises(ShapeError):
                run()
        else:
            found = compared(run())
            assert found == wanted, f"{name}, {way}: {found} rather than {wanted}"


def case(test: Any) -> Any:
    """Decorate a property of ``draw`` and the fixture ``agree``; each example is one case."""

    @pytest.mark.drawn
    def run(shapes_of: Any) -> None:
        @drawing(60, deadline=None)
        @given(st.data())
        def example(data: Any) -> None:
            test(lambda *a, **k: agree(shapes_of, data.draw, *a, **k), data.draw)

        example()

    run.__name__ = test.__name__
    return run


def one(shape: Any) -> list[tuple[int, ...]]:
    return [tuple(map(int, shape))]


def near(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that usually broadcasts with ``shape``."""
    out = [draw(st.sampled_from([d, d, 1])) for d in shape[draw(st.integers(0, len(shape))) :]]
    if out and draw(st.integers(0, 9)) == 0:
        out[0] += 1
    return tuple(out)


def axis(draw: Any, rank: int) -> int:
    return draw(st.integers(-rank, rank - 1))
