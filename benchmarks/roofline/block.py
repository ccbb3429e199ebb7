"""Execution of machine code (SASS, sm_90) for one block of threads, and the count of all it does.

Registers are arrays over the threads of a block, so one instruction of all threads is one operation of numpy.  Of the threads
that are not at a barrier, those with the least address go on: threads that diverged meet again.  Tests compare the results
with those of numpy: the counts are those of a correct run.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .decoded import Step
from .operations import OPERATIONS, SPECIAL

Words = np.ndarray
#: Global memory: the tensor of number k begins at (k + 1) << 36.
_BUFFER = 36
_PARAMETERS = 0x210


class Unknown(Exception):
    """An instruction that is not executed here; the text is the instruction."""


class Block:
    """One block: ``place`` in a grid of ``grid`` blocks, of ``threads`` threads.  ``memory``: the tensors, as bytes."""

    def __init__(self, steps: list[Step], threads: int, place: tuple[int, int], grid: tuple[int, int], words: list[int],
                 memory: list[Words]) -> None:  # fmt: skip
        self.steps, self.threads, self.place, self.memory = steps, threads, place, memory
        self.index = {step.at: k for k, step in enumerate(steps)}
        self.registers = {f"R{k}": np.zeros(threads, np.uint32) for k in range(256)}
        self.registers |= {f"UR{k}": np.zeros(threads, np.uint32) for k in range(64)}
        self.flags = {f"{u}P{k}": np.zeros(threads, bool) for u in ("", "U") for k in range(7)}
        # at the last barrier that asks a predicate: its values, the threads that came, whether it has to hold for all of them
        self.votes, self.has_voted, self.are_joined = np.ones(threads, bool), np.zeros(threads, bool), True
        self.local = dict[int, Words]()
        self.shared = np.zeros(256 << 10, np.uint8)
        self.constants = bytearray(0x1000)
        struct.pack_into("<6I", self.constants, 0, threads, 1, 1, *grid, 1)
        struct.pack_into(f"<{len(words)}q", self.constants, _PARAMETERS, *words)
        self.warps = Counter[int]()  # by instruction: the executions by warps
        self.sectors, self.touched = Counter[tuple[str, int]](), dict[tuple[str, int], list[Words]]()
        self.loaded = Counter[tuple[int, int]]()  # bytes, by tensor and bytes per access
        self.lines = Counter[int]()  # wavefronts of shared memory
        self.first_warp: list[tuple[int, bool]] = []  # the instructions of warp 0; whether memory is touched for the first time
        self.fresh = set[int]()

    def run(self) -> None:
        """Run all threads to their ends."""
        at = np.zeros(self.threads, np.int64)
        end = len(self.steps)
        waits = np.zeros(self.threads, bool)
        done = np.zeros(self.threads, bool)
        while not done.all():
            ready = ~done & ~waits
            if not ready.any():
                waits[:] = False
                continue
            here = int(at[ready].min())
            assert here < end
            mask = ready & (at == here)
            step = self.steps[here]
            mask_on = mask & self.flag(step.guard) if step.guard else mask
            at[mask] += 1
            on = int(mask_on.reshape(-1, 32).any(1).sum())
            self.warps[here] += max(on, 0) if step.guard else int(mask.reshape(-1, 32).any(1).sum())
            self.is_fresh = False
            if on:
                if step.name in ("BRA", "CALL") and "DIV" not in step.opcode:
                    conditions = [o for o in step.operands if o.lstrip("!").startswith(("P", "UP"))]
                    for c in conditions:
                        mask_on = mask_on & self.flag(c)
                    assert step.target is not None, step
                    at[mask_on] = self.index[step.target]
                elif step.name == "RET":
                    values = self.registers[step.operands[0]][mask_on]
                    at[mask_on] = [self.index[int(v)] for v in values]
                elif step.name == "EXIT":
                    done |= mask_on
                elif step.name == "BAR":
                    if "RED" in step.modifiers:  # a barrier that asks a predicate: whether it holds for all threads, or for any
                        self.has_voted = mask_on | (self.has_voted & waits)
                        self.votes[mask_on], self.are_joined = self.flag(step.operands[-1])[mask_on], "AND" in step.modifiers
                    waits |= mask_on
                else:
                    self.execute(step, mask_on)
            if mask[:32].any():
                self.first_warp.append((here, self.is_fresh))

    # ---- operands ---------------------------------------------------------------------------------------------------------

    def flag(self, text: str) -> Words:
        """The value of a predicate."""
        name = text.lstrip("!")
        value = np.ones(self.threads, bool) if name in ("PT", "UPT") else self.flags[name]
        return ~value if text.startswith("!") else value

    def word(self, text: str) -> Words:
        """The bits of an operand, without its sign."""
        name = text.lstrip("-~|").rstrip("|")
        if name in ("RZ", "URZ", "SRZ"):
            return np.zeros(self.threads, np.uint32)
        if name in self.registers:
            return self.registers[name]
        if name.startswith("c["):
            return np.full(self.threads, self.constant(name, 4), np.uint32)
        if name.startswith("0x"):
            return np.full(self.threads, int(name, 16), np.uint32)
        return np.full(self.threads, struct.unpack("<I", struct.pack("<f", number(name)))[0], np.uint32)

    def constant(self, text: str, nbytes: int) -> int:
        """A constant of a bank: the parameters, the sizes of blocks and of the grid."""
        bank, offset = text[2:-1].split("][")
        if bank != "0x0":
            raise Unknown(text)
        return int.from_bytes(self.constants[int(offset, 16) : int(offset, 16) + nbytes], "little")

    def integer(self, text: str) -> Words:
        """An operand as an integer: "~" inverts, "-" negates; not reduced to 32 bits, for the carry."""
        value = self.word(text).astype(np.uint64)
        if text[0] == "~":
            return value ^ np.uint64(0xFFFFFFFF)
        if text[0] == "-" and not text.startswith("-0x"):
            return (value ^ np.uint64(0xFFFFFFFF)) + np.uint64(1)
        if text.startswith("-0x"):
            return (np.uint64(1 << 32) - value) & np.uint64(0xFFFFFFFF)
        return value

    def signed(self, text: str) -> Words:
        """An operand as a signed integer."""
        return self.integer(text).astype(np.uint32).view(np.int32).astype(np.int64)

    def real(self, text: str) -> Words:
        """An operand as a float32."""
        value = self.word(text).view(np.float32)
        value = np.abs(value) if "|" in text else value
        return -value if text[0] == "-" else value

    def pair(self, text: str) -> Words:
        """An operand of 64 bits."""
        name = text.lstrip("-~|").rstrip("|")
        if name in ("RZ", "URZ"):
            return np.zeros(self.threads, np.uint64)
        if name.startswith("c["):
            return np.full(self.threads, self.constant(name, 8), np.uint64)
        kind = "UR" if name.startswith("UR") else "R"
        if not name.startswith(kind) or not name[len(kind) :].isdigit():
            if "." in name or "e" in name or not name.startswith("0x"):
                return np.full(self.threads, struct.unpack("<Q", struct.pack("<d", number(name)))[0], np.uint64)
            return np.full(self.threads, int(name, 16), np.uint64)
        high = self.registers[f"{kind}{int(name[len(kind) :]) + 1}"].astype(np.uint64)
        return self.registers[name].astype(np.uint64) | high << np.uint64(32)

    def double(self, text: str) -> Words:
        """An operand as a float64."""
        value = self.pair(text).view(np.float64)
        value = np.abs(value) if "|" in text else value
        return -value if text[0] == "-" else value

    def put(self, text: str, value: Any, mask: Words) -> None:
        """Write a register."""
        if text not in ("RZ", "URZ"):
            self.registers[text][mask] = np.asarray(value).astype(np.uint32)[mask] if np.ndim(value) else value

    def put_pair(self, text: str, value: Words, mask: Words) -> None:
        """Write two registers."""
        if text in ("RZ", "URZ"):
            return
        bits = value.view(np.uint64) if value.dtype != np.uint64 else value
        kind = "UR" if text.startswith("UR") else "R"
        self.put(text, bits & np.uint64(0xFFFFFFFF), mask)
        self.put(f"{kind}{int(text[len(kind) :]) + 1}", bits >> np.uint64(32), mask)

    def put_flag(self, text: str, value: Words, mask: Words) -> None:
        """Write a predicate."""
        if text not in ("PT", "UPT"):
            self.flags[text][mask] = value[mask]

    # ---- memory -----------------------------------------------------------------------------------------------------------

    def address(self, text: str) -> Words:
        """The address of an access: registers, and an offset."""
        inside = text[text.rindex("[") + 1 : text.rindex("]")]
        total = np.zeros(self.threads, np.int64)
        for part in inside.replace("+-", "-").replace("-0x", "+-0x").split("+"):
            if part.endswith(".64"):
                total += self.pair(part[:-3]).view(np.int64)
            elif part.startswith(("0x", "-0x")):
                total += int(part, 16)
            elif part:
                name, _, scale = part.partition(".X")
                total += self.word(name.removesuffix(".U32")).astype(np.int32).astype(np.int64) * int(scale or 1)
        return total

    def access(self, step: Step, mask: Words) -> list[tuple[Words, Words]]:
        """Per tensor (or shared memory): the threads that access it and the bytes they do."""
        where = self.address(next(o for o in step.operands if "[" in o))
        threads = np.flatnonzero(mask)
        place, kind = where[threads], step.name
        if kind in ("LDS", "STS", "ATOMS"):
            place &= 0xFFFFFF
            self.lines[0] += _wavefronts(threads, place, step.nbytes)
            return [(threads, place)]
        found = []
        number_of = place >> _BUFFER
        for tensor in np.unique(number_of):
            own = number_of == tensor
            offsets = place[own] & ((1 << _BUFFER) - 1)
            assert 1 <= tensor <= len(self.memory) and (offsets + step.nbytes <= self.memory[tensor - 1].size).all(), step
            key = (kind, int(tensor) - 1)
            if kind == "LDG":
                self.loaded[key[1], step.nbytes] += int(own.sum()) * step.nbytes
            of_warp = (threads[own] // 32).astype(np.int64) << 40
            last = offsets + step.nbytes - 1
            segments = np.unique(np.concatenate([of_warp | offsets >> 5, of_warp | last >> 5]))
            self.sectors[key] += len(segments)
            self.touched.setdefault(key, []).append(np.unique(segments & ((1 << 40) - 1)))
            sample = int(place[own][0] >> 5)
            self.is_fresh |= kind == "LDG" and sample not in self.fresh and self.memory[int(tensor) - 1].size > 1 << 20
            self.fresh.add(sample)
            found.append((threads[own], offsets))
        return found

    def load(self, step: Step, mask: Words) -> None:
        """Execute a load."""
        shared = step.name == "LDS"
        held: dict[str, list[tuple[Words, Words]]] = {}
        for threads, offsets in self.access(step, mask):
            memory = self.shared if shared else self.memory[int(self.tensor_of(step, threads[0]))]
            for word in range(max(1, step.nbytes // 4)):
                width = min(4, step.nbytes)
                view = memory[: memory.size // width * width].view({1: np.uint8, 2: np.uint16, 4: np.uint32}[width])
                name = step.operands[0]
                if name != "RZ":
                    held.setdefault(f"R{int(name[1:]) + word}", []).append((threads, view[(offsets + 4 * word) // width]))
        for name, values in held.items():
            for threads, value in values:
                self.registers[name][threads] = value

    def tensor_of(self, step: Step, thread: int) -> int:
        return (int(self.address(next(o for o in step.operands if "[" in o))[thread]) >> _BUFFER) - 1

    def store(self, step: Step, mask: Words) -> None:
        """Execute a store."""
        shared = step.name == "STS"
        source = step.operands[-1]
        for threads, offsets in self.access(step, mask):
            memory = self.shared if shared else self.memory[self.tensor_of(step, threads[0])]
            for word in range(max(1, step.nbytes // 4)):
                width = min(4, step.nbytes)
                view = memory[: memory.size // width * width].view({1: np.uint8, 2: np.uint16, 4: np.uint32}[width])
                name = source if source == "RZ" else f"R{int(source[1:]) + word}"
                view[(offsets + 4 * word) // width] = self.word(name)[threads]

    def add(self, step: Step, mask: Words) -> None:
        """Execute an atomic addition of 64-bit integers, thread after thread."""
        if not {"ADD", "64"} <= set(step.modifiers):
            raise Unknown(f"{step.opcode} {', '.join(step.operands)}")
        result, amount = [o for o in step.operands if "[" not in o and not o.startswith("P")]
        old, by = np.zeros(self.threads, np.uint64), self.pair(amount)
        for threads, offsets in self.access(step, mask):
            view = self.memory[self.tensor_of(step, threads[0])].view(np.uint64)
            for thread, offset in zip(threads, offsets, strict=True):
                old[thread] = view[offset // 8]
                view[offset // 8] += by[thread]
        self.put_pair(result, old, mask)

    def count(self, step: Step, mask: Words) -> None:
        """Execute an atomic addition of 32 bits, thread after thread: to shared memory, or without a result to global memory."""
        shared, registers = step.name == "ATOMS", [o for o in step.operands if "[" not in o]
        adds_one = {"POPC", "INC"} <= set(step.modifiers)
        if not adds_one and ("ADD" not in step.modifiers or step.nbytes != 4):
            raise Unknown(f"{step.opcode} {', '.join(step.operands)}")
        old, amount = np.zeros(self.threads, np.uint32), np.ones(self.threads, np.uint32)
        amount = amount if adds_one else self.word(registers[-1])
        for threads, offsets in self.access(step, mask):
            view = (self.shared if shared else self.memory[self.tensor_of(step, threads[0])]).view(np.uint32)
            for thread, place in zip(threads, offsets // 4, strict=True):
                old[thread] = view[place]
                view[place] += amount[thread]
        if shared:
            self.put(registers[0], old, mask)

    def spill(self, step: Step, mask: Words) -> None:
        """Execute an access to local memory, whose words are kept by their address."""
        place = int(self.address(next(o for o in step.operands if "[" in o))[0])
        name = next(o for o in step.operands if "[" not in o)
        for word in range(max(1, step.nbytes // 4)):
            register = name if name == "RZ" else f"R{int(name[1:]) + word}"
            kept = self.local.setdefault(place + 4 * word, np.zeros(self.threads, np.uint32))
            if step.name == "STL":
                kept[mask] = self.word(register)[mask]
            else:
                self.put(register, kept, mask)

    def execute(self, step: Step, mask: Words) -> None:
        """Execute one instruction for the threads of ``mask``."""
        if step.name in ("LDL", "STL"):
            self.spill(step, mask)
        elif step.name in ("LDG", "LDS"):
            self.load(step, mask)
        elif step.name in ("STG", "STS"):
            self.store(step, mask)
        elif step.name == "ATOMG":
            self.add(step, mask)
        elif step.name in ("ATOMS", "REDG"):
            self.count(step, mask)
        elif step.name == "LDC":
            text = step.operands[1]
            if step.nbytes == 8:
                self.put_pair(step.operands[0], np.full(self.threads, self.constant(text, 8), np.uint64), mask)
            else:
                self.put(step.operands[0], self.word(text.replace("[RZ]", "[0x0]")), mask)
        elif step.name in ("S2R", "S2UR"):
            self.put(step.operands[0], SPECIAL[step.operands[1]](self), mask)
        else:
            operation: Callable[..., None] | None = OPERATIONS.get(step.name)
            if operation is None:
                raise Unknown(f"{step.opcode} {', '.join(step.operands)}")
            operation(self, step, mask)


def _wavefronts(threads: Words, place: Words, nbytes: int) -> int:
    """The wavefronts of an access to shared memory: lanes with 128 bytes at a time, as often as a bank has different words."""
    words = place[:, None] // 4 + np.arange(max(1, nbytes // 4))
    at_once = threads // (128 // max(4, nbytes))
    keys = np.unique(at_once[:, None] << 32 | words)
    _, turn = np.unique(keys >> 32, return_inverse=True)
    return int(np.bincount(turn * 32 + (keys & 31), minlength=32 * (turn[-1] + 1)).reshape(-1, 32).max(1).sum())


def number(text: str) -> float:
    """A number as nvdisasm writes it."""
    return {"+INF": np.inf, "-INF": -np.inf, "INF": np.inf, "+QNAN": np.nan, "-QNAN": np.nan, "QNAN": np.nan}.get(text) or float(
        text
    )
