"""Empty tensors with an axis of 2**59: no operator runs through an axis around nothing."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import Op

from .every_op.program import Compiled, Mode
from .every_op.recipe import Call, dtypes_of, flags_of, one_of_each_pattern, operators, regroup
from .test_every_op import _ids, calls_of

HUGE = 2**59
#: All calls of an operator together take milliseconds; one loop of so many turns takes years.
SECONDS = 30
#: Of some operators more pairs of axes than this could be tried.
MOST = 40

Shapes = tuple[tuple[int, ...], ...]


def shapes_of(made: Call, flags: tuple[bool, ...]) -> Iterator[Shapes]:
    """The shapes of the inputs, where one axis is empty and another one huge; and where axes as long as these become so, too."""
    given = [x.shape for x in made.flat]
    for k, own in enumerate(given):
        for empty, huge in itertools.permutations(range(len(own)), 2) if not flags[k] else ():

            def changed(shape: tuple[int, ...], own: tuple[int, ...] = own, empty: int = empty, huge: int = huge) -> Any:
                new = tuple(0 if d == own[empty] else HUGE if d == own[huge] else d for d in shape)
                return new if 0 in new or HUGE not in new else shape

            alone = tuple(0 if axis == empty else HUGE if axis == huge else d for axis, d in enumerate(own))
            yield tuple(alone if j == k else s for j, s in enumerate(given))
            yield tuple(alone if j == k else s if flags[j] else changed(s) for j, s in enumerate(given))


def huge_calls(op: Op, made: Call) -> list[Call]:
    found = []
    for shapes in itertools.islice(dict.fromkeys(shapes_of(made, flags_of(op, made))), MOST):
        try:
            flat = [x if x.shape == s else np.empty(s, x.dtype) for x, s in zip(made.flat, shapes, strict=True)]
        except ValueError:  # too large even for numpy
            continue
        found.append(dataclasses.replace(made, inputs=tuple(regroup(made, flat))))
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.extensive(op=one_of_each_pattern())
@pytest.mark.parametrize("op", operators(), ids=_ids)
def test_nothing_is_run_through(op: Op) -> None:
    """Each call ends, in a result or in an error of ours."""
    made = calls_of(op, dtypes_of(op.name)[0])["odd"]
    calls = huge_calls(op, made)
    if not calls or isinstance(made.wanted, str):
        return
    compiled = Compiled(op, [made], Mode("any"), "cpu")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # which the alarm ends, wherever it is
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        for number, call in enumerate(calls):
            os.write(writing, bytes([number]))
            try:
                compiled.run(call)
            except relay.RelayError:
                pass
            except BaseException:
                os._exit(1)
        os._exit(0)
    os.close(writing)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tried = os.read(reading, len(calls))
    os.close(reading)
    assert code == 0, f"{[x.shape for x in calls[tried[-1]].flat]} {made.attrs}: {'no end' if code < 0 else 'another error'}"
