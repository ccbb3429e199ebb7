"""The time of a kernel on an H100 from the execution of some blocks of its machine code: the largest of three bounds.

* Memory: the sectors of 32 bytes that a block touches in tensors too large for the caches, at the copy rate; all sectors,
  counted each time they are loaded or stored, at the rate of the L2 cache.
* Issue: instructions of warps by pipe, at the pipe's rate ("Arithmetic Instructions" in the CUDA C++ Programming Guide,
  throughput of compute capability 9.0).
* Latency: the cycles of one warp, issued in order, where an instruction waits for its operands.  Blocks that are resident
  together overlap.  A load of new data takes as long as 40 KB in flight on each multiprocessor need at the full rate: that many
  bytes saturate the memory of an H100, and at less the rate falls in proportion (Little's law).

Latencies of other instructions are those of microbenchmarks of Hopper (Luo et al. 2024, "Benchmarking and Dissecting the Nvidia
Hopper GPU Architecture").  The model has no contention between the three bounds,
no tail of the last blocks, no cost of a launch, and no wait of a block for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relayvm.ops.codegen.cuda.machine_code import LIMITS, MachineCode

from .block import Block
from .decoded import Step

SMS, CLOCK, PEAK = 132, 1.755e9, 3.35e12
#: Bytes read and written per second by a copy; bytes per second of the L2 cache.
COPY_RATE, L2_RATE = 0.9 * PEAK, 5.5e12
#: Multiplications with an addition of float32 numbers per second.
PRODUCT_RATE = SMS * CLOCK * 128
#: Bytes in flight on a multiprocessor at the full rate; cycles that a load of new data takes then.
IN_FLIGHT = 40_000
LOAD_CYCLES = round(IN_FLIGHT * SMS / PEAK * CLOCK)
#: Tensors below this size stay in the caches.
CACHED = 1 << 20
#: Instructions of a warp per cycle and multiprocessor.
RATES = {"issue": 4.0, "fp32": 4.0, "integer": 2.0, "fp64": 2.0, "special": 0.5, "LSU": 1.0}
_SPECIAL = ("MUFU", "F2F", "F2I", "I2F", "POPC", "FLO", "FCHK")
_LATENCY = {"LDS": 30, "SHFL": 24, "MUFU": 22, "F2F": 20, "F2I": 20, "I2F": 20, "BAR": 30, "S2R": 30, "DADD": 16, "DMUL": 16,
            "DFMA": 16, "BRA": 8, "VOTE": 12, "POPC": 14}  # fmt: skip


@dataclass(frozen=True)
class Bounds:
    """Seconds of a launch by each bound, and the figures behind them."""

    memory: float
    issue: float
    latency: float
    instructions: Counter[str]  # of threads, by pipe
    loaded: Counter[int]  # bytes of tensors too large for the caches, by bytes per access
    moved: float  # bytes of memory, each sector of a block once
    passes: float
    in_flight: float
    occupancy: float
    divisions: int  # of 64-bit integers in inner loops, by a warp of the blocks that are executed

    @property
    def seconds(self) -> float:
        """The time of the launch."""
        return max(self.memory, self.issue, self.latency)


def pipe(step: Step) -> str:
    """The pipe of an instruction."""
    name = step.name
    if name in ("FADD", "FMUL", "FFMA", "HFMA2"):
        return "fp32"
    if name[0] == "D" and name != "DEPBAR":
        return "fp64"
    if name in _SPECIAL:
        return "special"
    if name in ("LDG", "STG", "LDS", "STS", "LDL", "STL", "SHFL", "ATOMG", "REDG", "ATOMS"):
        return "LSU"
    if name in ("BRA", "BSSY", "BSYNC", "EXIT", "NOP", "BAR", "WARPSYNC", "CALL", "RET", "BREAK") or step.opcode[0] == "U":
        return "issue"
    return "integer"


def bounds(code: MachineCode, ran: Sequence[Block], blocks: int, dynamic_bytes: int = 0) -> Bounds:
    """The bounds of a launch of ``blocks`` blocks, of which ``ran`` are executed.

    ``dynamic_bytes``: of dynamic shared memory.
    """
    each, threads = blocks / len(ran), ran[0].threads
    occupancy = code.occupancy(threads, LIMITS["sm_90"], dynamic_bytes)
    together = max(1, min(round(occupancy * LIMITS["sm_90"].warps * 32 / threads), -(-blocks // SMS)))
    of_pipe, loaded, once = Counter[str](), Counter[int](), Counter[tuple[str, int]]()
    sectors, banks, chain = Counter[tuple[str, int]](), 0, 0.0
    for block in ran:
        for k, warps in block.warps.items():
            of_pipe[pipe(block.steps[k])] += warps
        for (tensor, width), nbytes in block.loaded.items():
            loaded[width] += nbytes * (block.memory[tensor].size > CACHED)
        sectors += block.sectors
        banks += block.lines[0]
        once.update({key: len(np.unique(np.concatenate(found))) for key, found in block.touched.items()})
        chain += _chain(block) / len(ran)
    cycles = {name: count / RATES[name] for name, count in of_pipe.items()}
    cycles["issue"] = of_pipe.total() / RATES["issue"]
    # a wavefront of the L1 cache is 128 bytes: four sectors, or one access to each bank of shared memory
    cycles["LSU"] = max(cycles.get("LSU", 0), sectors.total() / 4 + banks)
    large = [key for key in sectors if ran[0].memory[key[1]].size > CACHED]
    loads = [key for key in large if key[0] == "LDG"]
    moved, read = 32 * sum(once[key] for key in large), 32 * sum(once[key] for key in loads)
    return Bounds(
        memory=each * max(moved / COPY_RATE, 32 * sectors.total() / L2_RATE),
        issue=each * max(cycles.values()) / SMS / CLOCK,
        latency=chain * max(1.0, blocks / SMS / together) / CLOCK,
        instructions=Counter({name: round(n * 32 * each) for name, n in of_pipe.items()}),
        loaded=Counter({width: round(n * each) for width, n in loaded.items()}),
        moved=moved * each,
        passes=sum(sectors[key] for key in loads) / max(1, sum(once[key] for key in loads)),
        in_flight=together * read / len(ran) * LOAD_CYCLES / max(chain, 1),
        occupancy=occupancy,
        divisions=sum(_divisions(code, block) for block in ran),
    )


def _divisions(code: MachineCode, block: Block) -> int:
    """The calls of the function that divides 64-bit integers, from inner loops."""
    inner = {i.at for loop in code.inner_loops() for i in loop}
    calls = [k for k, step in enumerate(block.steps) if step.name == "CALL" and step.at in inner and block.warps[k]]
    return sum(block.warps[k] for k in calls if _divides(block, block.steps[k]))


def _divides(block: Block, call: Step) -> bool:
    """Whether a called function begins with the conversion of a 64-bit integer, the estimate of a reciprocal."""
    assert call.target is not None, call
    for step in block.steps[block.index[call.target] :]:
        if step.name == "RET":
            return False
        if step.name == "I2F" and {"U64", "S64"} & set(step.modifiers):
            return True
    return False


def _chain(block: Block) -> float:
    """The cycles of the first warp: each instruction waits for its operands."""
    ready, now = dict[str, float](), 0.0
    for k, fresh in block.first_warp:
        step = block.steps[k]
        now = max([now + 1, *(ready.get(r, 0) for r in step.reads), ready.get(step.guard.lstrip("!"), 0)])
        done = now + (LOAD_CYCLES if fresh else 250) if step.name == "LDG" else now + _LATENCY.get(step.name, 5)
        if step.name in ("BAR", "BRA"):
            now = done
        for r in step.writes:
            ready[r] = done
    return now
