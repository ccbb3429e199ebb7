"""LSTM, GRU and RNN on the CPU: per step one product of the states of the batch with the recurrent weights.

Few rows are multiplied by a loop over the weights, more rows by a BLAS.  The last states are in the results ``state`` and
``cell`` from the begin on.  Each direction has activations of its own.  A sequence shorter than the number of steps is reversed
within its length; its later steps are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...native.memory import Array, generic
from ...native.status import INDEX_OUT_OF_RANGE, OK
from ...native.templates import instantiate
from ..matmul.cpu import by_blas
from ..matmul.gemv import multiply_thin
from ..matmul.matrix import Matrix
from ..shaped import Shaped
from .activations import REAL_FUNCTIONS, Activations, RealFunctions, activate, limit

#: Rows up to which a loop is faster than a BLAS.
THIN = 8

#: The parameters of the bodies: the exponential and the hyperbolic tangent of the dtype.
exponential: Any = None
tangent: Any = None


class Sequences(NamedTuple):
    """The steps of each sequence, and the directions: ``turn`` is 0 forward, 1 reverse, 2 both."""

    lengths: Array
    turn: int


class States(NamedTuple):
    """The states and the cells of all sequences, direction after direction."""

    state: Array
    cell: Array


class Reset(NamedTuple):
    """The bias of the new state in each direction, and whether the gate of reset applies after the weights of the new state."""

    bias: Array
    linear_before_reset: bool


@generic
def start(target: Array, source: Array, lengths: Array, steps: int) -> int:
    """Copy the initial states; a status: whether each length is at most the number of steps."""
    for k in range(len(source)):
        target[k] = source[k]
    for b in range(len(lengths)):
        if lengths[b] < 0 or lengths[b] > steps:
            return INDEX_OUT_OF_RANGE
    return OK


@generic
def recur(state: Array, at: int, weight: Array, w_at: int, out: Array, to: int, m: int, n: int, k: int, gemm: int) -> None:
    """``out[m, n]`` from ``to`` on: the states from ``at`` on, times the transpose of ``weight[n, k]`` from ``w_at`` on."""
    left, right = Matrix(state, at, k, False), Matrix(weight, w_at, k, True)
    if m <= THIN:
        multiply_thin(left, right, out, to, m, n, k)
    else:
        by_blas(left, right, out, to, m, n, k, gemm)


@generic
def time_of(sequences: Sequences, b: int, d: int, step: int) -> tuple[int, bool]:
    """The time of the state that sequence ``b`` computes in ``step`` of direction ``d``, and whether it is in the sequence."""
    length, turn = int(sequences.lengths[b]), sequences.turn
    return length - 1 - step if (turn == 1 or d == 1) and step < length else step, step < length


@generic
def store(out: Array, to: int, state: Array, at: int, units: int, is_in: bool) -> None:
    """Store a state among the states of all steps, 0 behind the end of the sequence."""
    for k in range(units):
        out[to + k] = state[at + k] if is_in else state.dtype.type(0)


@generic
def lstm_cell(
    gates: Array, g: int, last: States, at: int, peepholes: Array, p: int, units: int, activations: Activations, first: int,
    input_forget: bool, real: RealFunctions,
) -> None:  # fmt: skip
    """One step of one sequence: ``gates`` from ``g`` on are those of input, output, forget and cell, before their activations."""
    (state, cell), (codes, alphas, betas, clip) = last, activations
    i, o, f, c = g, g + units, g + 2 * units, g + 3 * units
    for k in range(units):
        gates[i + k] += peepholes[p + k] * cell[at + k]
        gates[f + k] += peepholes[p + 2 * units + k] * cell[at + k]
    limit(gates, i, units, clip)
    limit(gates, f, 2 * units, clip)
    activate(gates, i, units, codes[first], alphas[first], betas[first], real)
    if input_forget:
        for k in range(units):
            gates[f + k] = gates.dtype.type(1) - gates[i + k]
    else:
        activate(gates, f, units, codes[first], alphas[first], betas[first], real)
    activate(gates, c, units, codes[first + 1], alphas[first + 1], betas[first + 1], real)
    for k in range(units):
        now = gates[f + k] * cell[at + k] + gates[i + k] * gates[c + k]
        cell[at + k], gates[c + k] = now, now
        gates[o + k] += peepholes[p + units + k] * now
    limit(gates, o, units, clip)
    limit(gates, c, units, clip)
    activate(gates, o, units, codes[first], alphas[first], betas[first], real)
    activate(gates, c, units, codes[first + 2], alphas[first + 2], betas[first + 2], real)
    for k in range(units):
        state[at + k] = gates[o + k] * gates[c + k]


@generic
def lstm(
    projected: Shaped, weight: Shaped, initial: States, peepholes: Array, sequences: Sequences, out: Array, last: States,
    gates: Array, gemm: int, activations: Activations, input_forget: bool,
) -> int:  # fmt: skip
    """The states of all steps, the last states and cells."""
    steps, batch, directions, units = projected.dims[0], projected.dims[1], weight.dims[0], weight.dims[2]
    columns, state, real = 4 * units, last.state, RealFunctions(exponential, tangent)
    start(last.cell, initial.cell, sequences.lengths, steps)
    status = start(state, initial.state, sequences.lengths, steps)
    if status != OK:
        return status
    for d in range(directions):
        for step in range(steps):
            recur(state, d * batch * units, weight.data, d * columns * units, gates, 0, batch, columns, units, gemm)
            for b in range(batch):
                at = (d * batch + b) * units
                time, is_in = time_of(sequences, b, d, step)
                if is_in:
                    source = (time * batch + b) * directions * columns + d * columns
                    for k in range(columns):
                        gates[b * columns + k] += projected.data[source + k]
                    lstm_cell(
                        gates, b * columns, last, at, peepholes, d * 3 * units, units, activations, 3 * d, input_forget, real
                    )
                store(out, ((time * directions + d) * batch + b) * units, state, at, units, is_in)
    return OK


@generic
def gru(
    projected: Shaped, weight: Shaped, initial_state: Array, of_reset: Reset, sequences: Sequences, out: Array, state: Array,
    gates: Array, reset: Array, gemm: int, activations: Activations,
) -> int:  # fmt: skip
    """The states of all steps and the last states; gates of update, reset and the new state.

    ``reset``: the states times the gate of reset, then the product of these with the weights of the new state.
    """
    steps, batch, directions, units = projected.dims[0], projected.dims[1], weight.dims[0], weight.dims[2]
    columns, size, real = 3 * units, batch * units, RealFunctions(exponential, tangent)
    codes, alphas, betas, clip = activations
    reset_bias, linear_before_reset = of_reset
    used = 3 if linear_before_reset else 2
    status = start(state, initial_state, sequences.lengths, steps)
    if status != OK:
        return status
    for d in range(directions):
        w_at = d * columns * units
        for step in range(steps):
            recur(state, d * size, weight.data, w_at, gates, 0, batch, used * units, units, gemm)
            for b in range(batch):
                source = (time_of(sequences, b, d, step)[0] * batch + b) * directions * columns + d * columns
                g, at = b * used * units, (d * batch + b) * units
                for k in range(2 * units):
                    gates[g + k] += projected.data[source + k]
                limit(gates, g, 2 * units, clip)
                activate(gates, g, 2 * units, codes[2 * d], alphas[2 * d], betas[2 * d], real)
                for k in range(units):
                    reset[b * units + k] = gates[g + units + k] * state[at + k]
            if not linear_before_reset:
                # the products of the reset states follow them
                recur(reset, 0, weight.data, w_at + 2 * units * units, reset, size, batch, units, units, gemm)
            for b in range(batch):
                at = (d * batch + b) * units
                time, is_in = time_of(sequences, b, d, step)
                if is_in:
                    source = (time * batch + b) * directions * columns + d * columns + 2 * units
                    g, h = b * used * units, b * units
                    for k in range(units):
                        bias = reset_bias[d * units + k]
                        if linear_before_reset:
                            added = gates[g + units + k] * (gates[g + 2 * units + k] + bias)
                        else:
                            added = reset[size + h + k] + bias
                        reset[h + k] = projected.data[source + k] + added
                    limit(reset, h, units, clip)
                    activate(reset, h, units, codes[2 * d + 1], alphas[2 * d + 1], betas[2 * d + 1], real)
                    for k in range(units):
                        z = gates[g + k]
                        state[at + k] = (gates.dtype.type(1) - z) * reset[h + k] + z * state[at + k]
                store(out, ((time * directions + d) * batch + b) * units, state, at, units, is_in)
    return OK


@generic
def rnn(
    projected: Shaped, weight: Shaped, initial_state: Array, sequences: Sequences, out: Array, state: Array, sums: Array,
    gemm: int, activations: Activations,
) -> int:  # fmt: skip
    """The states of all steps and the last states."""
    steps, batch, directions, units = projected.dims[0], projected.dims[1], weight.dims[0], weight.dims[2]
    real, (codes, alphas, betas, clip) = RealFunctions(exponential, tangent), activations
    status = start(state, initial_state, sequences.lengths, steps)
    if status != OK:
        return status
    for d in range(directions):
        for step in range(steps):
            recur(state, d * batch * units, weight.data, d * units * units, sums, 0, batch, units, units, gemm)
            for b in range(batch):
                at = (d * batch + b) * units
                time, is_in = time_of(sequences, b, d, step)
                if is_in:
                    source = (time * batch + b) * directions * units + d * units
                    for k in range(units):
                        sums[b * units + k] += projected.data[source + k]
                    limit(sums, b * units, units, clip)
                    activate(sums, b * units, units, codes[d], alphas[d], betas[d], real)
                    for k in range(units):
                        state[at + k] = sums[b * units + k]
                store(out, ((time * directions + d) * batch + b) * units, state, at, units, is_in)
    return OK


def _by_dtype(template: Callable[..., int]) -> dict[str, Callable[..., int]]:
    return {
        dtype: instantiate(template, f"{template.__name__}_{dtype}", exponential=e, tangent=t)
        for dtype, (e, t) in REAL_FUNCTIONS.items()
    }


#: The body of each operator, by dtype.
LSTM, GRU, RNN = _by_dtype(lstm), _by_dtype(gru), _by_dtype(rnn)
