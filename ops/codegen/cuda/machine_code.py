"""Figures of the machine code of GPU kernels (SASS): registers, spills, widths of loads, loops, occupancy.

The text is a listing of nvdisasm; instructions are described in NVIDIA's "CUDA Binary Utilities".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ....declarations.frozen_dataclass import frozen

_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+),")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_RESOURCES = re.compile(r"^\s*Function (\w+):\s*\n\s*(.*)$", re.M)
_RESOURCE = re.compile(r"(REG|STACK|SHARED|LOCAL):(\d+)")
_WIDTHS = {"128": 128, "64": 64, "U16": 16, "S16": 16, "U8": 8, "S8": 8}
_BRANCHES = ("BRA", "BRX", "JMP")
#: Operations of a loop that does more than compute: accesses to memory, and what threads do together.
_WORK = (
    *("LD", "LDG", "LDS", "LDL", "ST", "STG", "STS", "STL", "ATOM", "ATOMG", "ATOMS", "RED"),
    *("BAR", "SHFL", "VOTE", "MATCH", "WARPSYNC", "MEMBAR", "NANOSLEEP"),
)
#: Operations on float64 numbers.
_DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP", "DMMA")


@frozen
class Instruction:
    """``at``: the address in its kernel, in bytes.  ``guard``: the predicate, or "".  ``opcode`` has its modifiers."""

    at: int
    guard: str
    opcode: str
    operands: str

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def bits(self) -> int:
        """The bits that each thread loads or stores: 32 without a modifier."""
        return next((_WIDTHS[m] for m in self.opcode.split(".")[1:] if m in _WIDTHS), 32)


@frozen
class MachineCode:
    """The machine code of a kernel.

    ``registers``: 32-bit registers of a thread.  ``stack_bytes``, ``shared_bytes``: of a thread, of a block.
    ``loops``: the addresses of the first and the last instruction of each loop, a backward branch.
    """

    kernel: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    instructions: tuple[Instruction, ...]
    loops: tuple[tuple[int, int], ...]

    def inner_loops(self) -> list[tuple[Instruction, ...]]:
        """The instructions of each loop that has no loop inside."""
        inner = [(a, b) for a, b in self.loops if not any(a <= c and d <= b for c, d in self.loops if (c, d) != (a, b))]
        return [tuple(i for i in self.instructions if a <= i.at <= b) for a, b in inner]

    @property
    def loads(self) -> Counter[int]:
        """The number of loads from global memory by their bits."""
        return widths(self.instructions, ("LDG", "LD"))

    @property
    def stores(self) -> Counter[int]:
        """The number of stores to global memory by their bits."""
        return widths(self.instructions, ("STG", "ST"))

    @property
    def spills(self) -> int:
        """The number of accesses to local memory: spilled registers, and arrays that no registers hold."""
        return named(self.instructions, ("LDL", "STL"))

    @property
    def barriers(self) -> int:
        """The number of barriers of a block."""
        return named(self.instructions, ("BAR",))

    @property
    def doubles(self) -> int:
        """The number of operations on float64 numbers."""
        return named(self.instructions, _DOUBLE)

    @property
    def wide_divisions(self) -> int:
        """The number of divisions of 64-bit integers: each begins with the divisor as a float, rounded up."""
        return sum(i.name == "I2F" and {"U64", "RP"} <= set(i.opcode.split(".")) for i in self.instructions)

    @property
    def idle_loops(self) -> int:
        """The number of inner loops without an access to memory, a barrier, or an exchange between threads."""
        return sum(named(loop, _WORK) == 0 for loop in self.inner_loops())

    def occupancy(self, threads: int, limits: Limits, dynamic_bytes: int = 0) -> float:
        """The share of the threads of a multiprocessor that blocks of so many threads fill.

        ``dynamic_bytes``: of dynamic shared memory, for each block.  Registers are given to warps in units of 256 (CUDA C++
        Programming Guide, technical specifications).
        """
        warps = -(-threads // 32)
        of_warp = -(-self.registers * 32 // 256) * 256
        shared = self.shared_bytes + dynamic_bytes + limits.reserved_bytes
        blocks = min(limits.blocks, limits.warps // warps, limits.registers // (of_warp * warps), limits.shared_bytes // shared)
        return blocks * warps / limits.warps


@frozen
class Limits:
    """The resources of a multiprocessor; ``reserved_bytes`` of shared memory are the system's, in each block."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_bytes: int = 1024


#: By architecture (CUDA C++ Programming Guide, technical specifications per compute capability).
LIMITS: Mapping[str, Limits] = {
    "sm_80": Limits(64, 32, 65_536, 164 << 10),
    "sm_86": Limits(48, 16, 65_536, 100 << 10),
    "sm_89": Limits(48, 24, 65_536, 100 << 10),
    "sm_90": Limits(64, 32, 65_536, 228 << 10),
}


def widths(instructions: Iterable[Instruction], names: tuple[str, ...]) -> Counter[int]:
    """The number of instructions with one of the names, by their bits."""
    return Counter(i.bits for i in instructions if i.name in names)


def named(instructions: Iterable[Instruction], names: tuple[str, ...]) -> int:
    """The number of instructions with one of the names."""
    return sum(i.name in names for i in instructions)


def machine_code(listing: str, resource_usage: str) -> list[MachineCode]:
    """The kernels of a cubin, from the texts of ``disassembler``, in the order of the listing."""
    resources = {name: dict(_RESOURCE.findall(line)) for name, line in _RESOURCES.findall(resource_usage)}
    return [_kernel(name, lines, resources[name]) for name, lines in _sections(listing)]


def _sections(listing: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of each kernel's code, by its name."""
    name, lines = "", list[str]()
    for line in listing.splitlines():
        if found := _SECTION.match(line):
            if name:
                yield name, lines
            name, lines = found[1], []
        lines.append(line)
    if name:
        yield name, lines


def _kernel(name: str, lines: list[str], resources: Mapping[str, str]) -> MachineCode:
    instructions, labels, waiting = list[Instruction](), dict[str, int](), list[str]()
    for line in lines:
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif found := _INSTRUCTION.match(line):
            at = int(found[1], 16)
            labels |= dict.fromkeys(waiting, at)
            waiting.clear()
            instructions.append(Instruction(at, (found[2] or "").strip(), found[3], found[4].strip()))
    return MachineCode(
        name, int(resources["REG"]), int(resources["STACK"]), int(resources["SHARED"]), tuple(instructions),
        tuple(sorted(_loops(instructions, labels))),
    )  # fmt: skip


def _loops(instructions: Iterable[Instruction], labels: Mapping[str, int]) -> set[tuple[int, int]]:
    """The first and last address of each loop; a branch to itself ends a kernel."""
    branches = [(i, target[1]) for i in instructions if i.name in _BRANCHES and (target := _TARGET.search(i.operands))]
    return {(labels[label], i.at) for i, label in branches if label in labels and labels[label] < i.at}
