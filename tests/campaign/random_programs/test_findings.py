"""A program whose wanted result is wrong on purpose is found, made smaller, and written as a test that fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ..programs import PART, Case
from .program import Operation
from .running import text_of


def _spoiled(case: Case) -> Case:
    """One result of it off by one."""
    name = case.program.body.results[-1]
    value = case.program.values[name]
    other = replace(value, array=np.asarray(value.array + np.ones((), value.array.dtype)))
    return replace(case, program=replace(case.program, values={**case.program.values, name: other}))


def _first(seed: int) -> Case:
    """A case whose last result is an integer tensor that an operator makes."""
    while True:
        case = PART.draw(seed)
        array = case.program.values[case.program.body.results[-1]].array
        last = case.program.body.results[-1]
        made = any(isinstance(s, Operation) and last in s.targets for s in case.program.body.statements)
        if made and array.size and array.dtype.kind == "i" and len(case.program.body.statements) > 4:
            return case
        seed += 1


@pytest.mark.extensive
def test_a_wrong_result_is_found_and_written_small() -> None:
    right = _first(0)
    assert PART.check(right) is None
    case = _spoiled(right)
    assert PART.check(case) is not None
    progress = True
    while progress:
        found = (c for c in PART.smaller(case) if len(text_of(c.program)) < len(text_of(case.program)) or c.ways != case.ways)
        smaller = next((c for c in found if _fails(c)), None)
        progress, case = smaller is not None, smaller or case
    assert len(case.ways) == 1 and case.ways[0].runs == 1 and not case.ways[0].config
    left = case.program.body.statements
    assert len(left) <= 1 and all(isinstance(s, Operation) for s in left)
    with pytest.raises(AssertionError):
        exec(PART.write(case), {})
    exec(PART.write(right), {})


def _fails(case: Case) -> bool:
    try:
        return PART.check(case) is not None
    except Exception:
        return False
