"""Places of the largest and smallest values of functions that never fall: those among the values as they are rounded."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu.block_scan import BELOW
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import NoAttrs
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs
from relayvm.ops.defs.axes.reduce import ArgReduceAttrs
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ..run_group import call, compiled, evaluate, group_of, plain

POSITIONS = {"argmax": np.argmax, "argmin": np.argmin}


def group(function, place, last=False, dtype="float32", length=None):
    """Places in the rows of ``function(x)``, of an unknown length, unless it is given."""
    shape = sym("n"), sym("m") if length is None else dim(length)
    nodes = [Node(function, NoAttrs(), (0,), ()), Node(place, ArgReduceAttrs(1, select_last_index=last), (1,), ())]
    return group_of([Tensor(dtype, shape)], nodes)


def rows(length):
    """Rows with a largest and a smallest value far from the others, near others, beside equal ones; saturated, infinite, NaN."""
    random = np.random.default_rng(length)
    x = random.standard_normal((24, length)).astype("float32")
    at = [int(a) for a in random.integers(0, length, 2)]
    near = np.float32(1 - BELOW / 8)
    for row, value in ((0, 9), (1, -9), (2, 0.2), (3, -0.2), (4, 30), (5, -30), (6, 100), (7, -110)):
        x[row, at] = value
    for row, value in ((8, 5), (9, -5), (10, 16), (11, -80)):
        x[row, at[0]], x[row, at[1]] = value, value * near
    x[12] = 20 + np.abs(x[12])
    x[13] = -120 - np.abs(x[13])
    x[14, at[0]], x[15, at[0]], x[16, at], x[17, at] = np.nan, np.inf, np.inf, -np.inf
    x[18], x[19], x[20], x[21] = np.nan, 0, -np.inf, np.where(random.random(length) < 0.5, 0.0, -0.0)
    x[22], x[23] = np.sort(x[22]), 0.22429632 + np.arange(length) * 2.0**-26
    return x


@pytest.mark.split(2)
@pytest.mark.parametrize("run", [plain, compiled])
@pytest.mark.parametrize("place", POSITIONS)
@pytest.mark.parametrize("function", ["sigmoid", "exp"])
def test_places_are_those_of_the_values(function, place, run):
    for length in (1, 3, 31, 33, 80, 300, 600):
        x = rows(length)
        values = call(function, [x], run=run)
        for last in (False, True):
            status, (ours,) = evaluate(group(function, place, last), [x], run)
            assert status == 0
            expected = length - 1 - POSITIONS[place](values[:, ::-1], axis=1) if last else POSITIONS[place](values, axis=1)
            np.testing.assert_array_equal(ours, expected, err_msg=f"length {length}, last {last}")


@pytest.mark.optimized
@pytest.mark.parametrize("place", POSITIONS)
def test_lengths_that_are_known(place):
    for length in (31, 80, 300):
        x = rows(length)
        status, (ours,) = evaluate(group("sigmoid", place, length=length), [x], compiled)
        assert status == 0
        np.testing.assert_array_equal(ours, POSITIONS[place](call("sigmoid", [x], run=compiled), axis=1))


def test_values_are_found_among_their_arguments():
    assert "_bound" in kernel_source(group("sigmoid", "argmax")).text
    # float16 rounds more values to one, tanh may fall, and a product costs nothing
    assert "_bound" not in kernel_source(group("sigmoid", "argmax", dtype="float16")).text
    assert "_bound" not in kernel_source(group("tanh", "argmax")).text
    assert "_bound" not in kernel_source(group("sigmoid", "argmax", dtype="float64")).text


def test_a_costly_argument_is_stored_instead():
    nodes = [Node("tanh", NoAttrs(), (0,), ()), Node("exp", NoAttrs(), (1,), ()), Node("argmax", ArgReduceAttrs(1), (2,), ())]
    costly = group_of([Tensor("float32", (sym("n"), sym("m")))], nodes)
    assert "_bound" not in kernel_source(costly).text and kernel_source(costly).text.count("tanh_float32") == 1
    x = rows(80)
    status, (ours,) = evaluate(costly, [x], compiled)
    values = call("exp", [call("tanh", [x], run=compiled)], run=compiled)
    assert status == 0
    np.testing.assert_array_equal(ours, values.argmax(1))


def test_a_cast_of_integers_is_an_argument():
    nodes = [
        Node("cast", CastAttrs("float32"), (0,), ()),
        Node("sigmoid", NoAttrs(), (1,), ()),
        Node("argmax", ArgReduceAttrs(1), (2,), ()),
    ]
    found = group_of([Tensor("int32", (sym("n"), sym("m")))], nodes)
    x = np.random.default_rng(0).integers(-30, 30, (40, 90)).astype("int32")
    status, (ours,) = evaluate(found, [x], compiled)
    assert status == 0 and "_bound" in kernel_source(found).text
    np.testing.assert_array_equal(ours, call("sigmoid", [x.astype("float32")], run=compiled).argmax(1))
