"""LSTM, GRU and RNN on CUDA: one block per sequence and direction computes all its steps.

In each step a warp computes the product of the state with one row of the weights; then a thread computes one unit.  No block
waits for another, so one launch does the whole recurrence.
"""

from __future__ import annotations

from string import Template
from typing import Any

from ....shape_funcs.defs.products.recurrence import directions_of
from ....shape_funcs.symbolic.dim import Dim
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, element, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Fault, OpaqueCall, Operand, Site
from ...native.status import INDEX_OUT_OF_RANGE
from ..matmul.dot_product import PLUS_PRODUCT

_THREADS = 256

_ACTIVATE = Template("""
typedef $dtype Number;
DEVICE Number activate(Number x, int code, Number a, Number b) {
  switch (code) {
    case 0: return Number(1) / (Number(1) + exp(-x));
    case 1: return tanh(x);
    case 2: return x > Number(0) || x != x ? x : Number(0);
    case 3: return a * x + b;
    case 4: return x >= Number(0) ? x : a * x;
    case 5: return x > a ? x : Number(0);
    case 6: return a * tanh(b * x);
    case 7: { Number y = a * x + b; return y < Number(0) ? Number(0) : y > Number(1) ? Number(1) : y; }
    case 8: return x >= Number(0) ? x : a * (exp(x) - Number(1));
    case 9: return x / (Number(1) + (x < Number(0) ? -x : x));
    default: return (x > Number(0) ? x : Number(0)) + log1p(exp(x < Number(0) ? x : -x));
  }
}
DEVICE Number limit(Number x) {
  const Number top = $clip;
  return top > Number(0) ? (x > top ? top : x < -top ? -top : x) : x;
}
DEVICE int code_of(int k) { const int codes[] = {$codes}; return codes[k]; }
DEVICE Number alpha_of(int k) { const Number alphas[] = {$alphas}; return alphas[k]; }
DEVICE Number beta_of(int k) { const Number betas[] = {$betas}; return betas[k]; }
DEVICE Number applied(Number x, int k) { return activate(limit(x), code_of(k), alpha_of(k), beta_of(k)); }

// sums[r]: the state times row `r` of the weight, by one warp each.
DEVICE void multiply(const Number* weight, const Number* state, Number* sums, int64 rows, int64 units) {
  int lane = threadIdx.x & 31;
  for (int64 row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) {
    Number sum = 0;
    for (int64 k = lane; k < units; k += 32) sum = plus_product(sum, weight[row * units + k], state[k]);
    sum = warp_reduce(sum, Add());
    if (lane == 0) sums[row] = sum;
  }
  __syncthreads();
}
""")

_BODY = Template("""
  for (int64 work = blockIdx.x; work < directions * batch; work += gridDim.x) {
    int64 d = work / batch, b = work % batch, length = int64(length_at(lengths, b));
    if (length < 0 || length > steps) {
      if (threadIdx.x == 0) fail(fault, $status, site);
      continue;
    }
    bool is_turned = $turn == 1 || d == 1;
    const Number* rows = weight + d * $gates * units * units;
    Number* now = state + work * units;
    Number* mine = sums + work * $slots * units;
$start
    for (int64 k = threadIdx.x; k < units; k += blockDim.x) now[k] = first_at(initial, work * units + k);
    __syncthreads();
    for (int64 step = 0; step < steps; ++step) {
      int64 time = is_turned && step < length ? length - 1 - step : step;
      Number* target = out + ((time * directions + d) * batch + b) * units;
      if (step >= length) {
        for (int64 k = threadIdx.x; k < units; k += blockDim.x) target[k] = 0;
        continue;
      }
      int64 source = (time * batch + b) * directions * $gates * units + d * $gates * units;
$step
      __syncthreads();
    }
  }
""")

_LSTM_START = """
    Number* kept = cell + work * units;
    for (int64 k = threadIdx.x; k < units; k += blockDim.x) kept[k] = cell_at(initial_cell, work * units + k);
"""
_LSTM = Template("""
      multiply(rows, now, mine, 4 * units, units);
      for (int64 k = threadIdx.x; k < units; k += blockDim.x) {
        Number c = kept[k];
        const int first = 3 * d;
        Number i = mine[k] + at(projected, source + k) + peephole_at(peepholes, d * 3 * units + k) * c;
        Number o = mine[units + k] + at(projected, source + units + k);
        Number f = mine[2 * units + k] + at(projected, source + 2 * units + k);
        f += peephole_at(peepholes, (d * 3 + 2) * units + k) * c;
        i = applied(i, first);
        f = $forget;
        c = f * c + i * applied(mine[3 * units + k] + at(projected, source + 3 * units + k), first + 1);
        kept[k] = c;
        o = applied(o + peephole_at(peepholes, (d * 3 + 1) * units + k) * c, first);
        Number h = o * applied(c, first + 2);
        now[k] = h;
        target[k] = h;
      }
""")

_GRU = Template("""
      multiply(rows, now, mine, $used * units, units);
      for (int64 k = threadIdx.x; k < 2 * units; k += blockDim.x) {
        mine[k] = applied(mine[k] + at(projected, source + k), 2 * int(d));
      }
      __syncthreads();
$reset
      for (int64 k = threadIdx.x; k < units; k += blockDim.x) {
        Number z = mine[k], bias = bias_at(reset_bias, d * units + k);
        Number added = $added;
        Number h = applied(at(projected, source + 2 * units + k) + added, 2 * int(d) + 1);
        h = (Number(1) - z) * h + z * now[k];
        now[k] = h;
        target[k] = h;
      }
""")
_RESET = """
      for (int64 k = threadIdx.x; k < units; k += blockDim.x) mine[3 * units + k] = mine[units + k] * now[k];
      __syncthreads();
      multiply(rows + 2 * units * units, mine + 3 * units, mine + 2 * units, units, units);
"""

_RNN = """
      multiply(rows, now, mine, units, units);
      for (int64 k = threadIdx.x; k < units; k += blockDim.x) {
        Number h = applied(mine[k] + at(projected, source + k), int(d));
        now[k] = h;
        target[k] = h;
      }
"""


def lstm(call: OpaqueCall) -> CudaSource:
    """An LSTM; inputs and attributes as of the CPU's body."""
    _, _, _, cells, peepholes, _ = call.inputs
    given = call.attrs.constants
    step = _LSTM.substitute(forget="Number(1) - i" if given["input_forget"] else "applied(f, first)")
    more = {"initial_cell": ("cell_at", cells), "peepholes": ("peephole_at", peepholes)}
    return _source(call, 4, 4, step, more, _LSTM_START)


def gru(call: OpaqueCall) -> CudaSource:
    """A GRU; inputs and attributes as of the CPU's body."""
    linear = call.attrs.constants["linear_before_reset"]
    added = "mine[units + k] * (mine[2 * units + k] + bias)" if linear else "mine[2 * units + k] + bias"
    step = _GRU.substitute(used=3 if linear else 2, reset="" if linear else _RESET, added=added)
    return _source(call, 3, 4, step, {"reset_bias": ("bias_at", call.inputs[3])})


def rnn(call: OpaqueCall) -> CudaSource:
    """A plain recurrent network; inputs and attributes as of the CPU's body."""
    return _source(call, 1, 1, _RNN, {})


def _source(
    call: OpaqueCall, gates: int, slots: int, step: str, more: dict[str, tuple[str, Operand]], start: str = ""
) -> CudaSource:
    """The program; ``slots``: numbers of scratch per unit and sequence; ``more``: other inputs, each with the function that reads
    its elements."""
    projected, weight, initial, lengths = *call.inputs[:3], call.inputs[-1]
    out, *states = call.results
    given: dict[str, Any] = call.attrs.constants
    dtype, assembly = out.dtype, Assembly()
    texts = {name: ", ".join(literal(dtype, v) for v in given[name]) for name in ("alphas", "betas")}
    steps, batch, units = projected.shape[0], projected.shape[1], weight.shape[2]
    directions = directions_of(call.attrs)
    readers = {"projected": ("at", projected), "initial": ("first_at", initial), "lengths": ("length_at", lengths), **more}
    assembly.text(
        PLUS_PRODUCT,
        _ACTIVATE.substitute(dtype=dtype, clip=literal(dtype, given["clip"]), codes=", ".join(map(str, given["codes"])), **texts),
        *(element(function, tensor) for function, tensor in readers.values()),
    )
    body = _BODY.substitute(
        status=INDEX_OUT_OF_RANGE, turn=given["turn"], gates=gates, slots=slots, start=start.strip("\n"), step=step.strip("\n")
    )
    extents: dict[str, Dim | int] = {"steps": steps, "batch": batch, "directions": directions, "units": units}
    parameters = (
        *(reads(name, tensor) for name, (_, tensor) in readers.items()),
        reads("weight", weight),
        *(writes(name, tensor) for name, tensor in zip(("out", "state", "cell"), call.results, strict=False)),
        Parameter(f"{dtype}*", "sums", assembly.scratch(batch * units * (directions * slots * (8 if dtype == "float64" else 4)))),
        *(size(name, value) for name, value in extents.items()),
        Parameter("void*", "fault", Fault()),
        Parameter("int64", "site", Site()),
    )
    assert len(states) in (1, 2), call.name
    assembly.kernel("recur", _THREADS, parameters, body)
    assembly.launch("recur", blocks(batch * directions))
    return assembly.source()
