"""Data-flow analysis of the verifier: the kind of object in each register at each instruction.

A register that is read must hold an object of the right kind on every path to the read.  The analysis is a forward data flow
to a fixed point: one state per join point.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from ...ops.core.tensor_types import DTYPES, ITEMSIZE
from . import isa
from .operand_kinds import Role

#: Most registers times join points of a function: states are bit masks, so this bounds their memory.
MAX_STATE_BITS = 1 << 29
#: Most visits of one join point; a join point needs one visit per level of loop nesting.
MAX_VISITS = 100

_KINDS = ("tensor", "storage", "pending", "record", "closure", "value")
#: The kinds that are not values.
_BARE = ("storage", "pending")
_A = {
    "tensor": "a tensor",
    "storage": "a storage",
    "pending": "a pending copy",
    "record": "a tuple",
    "closure": "a function",
    "value": "a value",
    "any": "a value or a storage",
}

Fail = Callable[[int, isa.Instruction, str], Exception]


class _State:
    """Registers by the kind of their object: one bit mask per kind; the masks are disjoint.

    ``own``: a mask of the tensors stored in storages of this frame; storages never leave their frame.  ``sizes``: bytes of
    storages, if known.
    """

    __slots__ = ("masks", "own", "sizes")

    def __init__(self, masks: Sequence[int], own: int = 0) -> None:
        self.masks, self.own = list(masks), own
        self.sizes: dict[int, int] = {}

    @property
    def assigned(self) -> int:
        out = 0
        for mask in self.masks:
            out |= mask
        return out

    def kind(self, register: int) -> str | None:
        for name, mask in zip(_KINDS, self.masks, strict=True):
            if mask >> register & 1:
                return name
        return None

    def empty(self, register: int) -> None:
        bit = 1 << register
        self.masks = [m & ~bit if m & bit else m for m in self.masks]
        self.own &= ~bit
        self.sizes.pop(register, None)

    def put(self, register: int, kind: str) -> None:
        self.empty(register)
        self.masks[_KINDS.index(kind)] |= 1 << register

    def joined(self, other: _State) -> _State:
        """The join of two states.

        A register with a storage or a pending copy in only one state becomes empty: a register with a value never holds either.
        """
        known = self.assigned & other.assigned
        for bare in map(_KINDS.index, _BARE):
            known &= ~(self.masks[bare] ^ other.masks[bare])
        masks = [a & b & known for a, b in zip(self.masks, other.masks, strict=True)]
        masks[-1] |= known & ~_State(masks).assigned
        return _State(masks, self.own & other.own)

    @property
    def facts(self) -> tuple[int, ...]:
        """The part of the state that is compared for the fixed point."""
        return (*self.masks, self.own)


def check_registers(code: Mapping[int, isa.Instruction], n_params: int, n_registers: int, fail: Fail) -> None:
    """Check the function ``code`` (instructions by pc, all jumps and operands valid).

    Raises the exception made by ``fail(pc, instruction, what)`` for a register that is read but empty on some path, for an
    object of another kind than the operand needs, and for a tensor that does not fit its storage.
    """
    meets = {0} | {t for pc, i in code.items() for t in jump_targets(pc, i)}
    first, last = min(code), max(code)
    if n_registers * len(meets) > MAX_STATE_BITS:
        raise fail(
            last, code[last], f"the function is too large: {n_registers} registers and {len(meets)} places where paths meet"
        )
    start = _State([0] * len(_KINDS))
    start.masks[_KINDS.index("value")] = (1 << n_params) - 1
    states, visits, waiting, queued = {first: start}, dict.fromkeys(meets, 0), [first], {first}
    while waiting:
        pc = heapq.heappop(waiting)
        queued.discard(pc)
        visits[pc] += 1
        if visits[pc] > MAX_VISITS:
            raise fail(pc, code[pc], "jumps are too tangled to follow")
        for target, state in _walk(code, pc, states[pc], meets, fail):
            before = states.get(target)
            after = state if before is None else before.joined(state)
            if before is None or after.facts != before.facts:
                states[target] = _State(after.masks, after.own)
                if target not in queued:
                    queued.add(target)
                    heapq.heappush(waiting, target)


def jump_targets(pc: int, instruction: isa.Instruction) -> tuple[int, ...]:
    """The jump targets of an instruction at ``pc``, in words."""
    return tuple([pc + getattr(instruction, name) for name in instruction.jumps])


def _walk(code: Mapping[int, isa.Instruction], pc: int, entered: _State, meets: set[int], fail: Fail) -> list[tuple[int, _State]]:
    """Apply the instructions from ``pc`` to the next join points; these with their entry states."""
    state = _State(entered.masks, entered.own)
    while True:
        instruction = code[pc]
        _step(state, pc, instruction, fail)
        if instruction.leaves():
            return [(target, state) for target in jump_targets(pc, instruction)]
        pc += instruction.length
        if pc in meets:
            return [(pc, state)]


def _step(state: _State, pc: int, instruction: isa.Instruction, fail: Fail) -> None:
    """Check the operands that the instruction reads, then apply its effect on the registers to the state."""
    operands = [
        (kind, getattr(instruction, name) if kind.many else (getattr(instruction, name),))
        for name, kind in instruction.operands.items()
        if kind.access is not None
    ]
    roles = instruction.roles
    for kind, registers in operands:
        if kind.access in ("read", "take"):
            for r in registers:
                _check_read(state, r, kind.holds, lambda what: fail(pc, instruction, what))
    if Role.KERNEL in roles:
        _check_outputs(state, instruction, lambda what: fail(pc, instruction, what))
    source = instruction.get(Role.ALIASED)
    aliased = None if source is None else state.kind(source)
    own = _is_own(state, instruction, source)
    # bytes of the storage that the instruction defines, if known
    size = instruction.get(Role.NBYTES) if source is None else state.sizes.get(source)
    if Role.STORAGE in roles and Role.DIMS in roles:
        _check_fit(state, instruction, lambda what: fail(pc, instruction, what))
    for kind, registers in operands:
        for r in registers if kind.access in ("kill", "take") else ():
            state.empty(r)
    for kind, registers in operands:
        for r in registers if kind.access == "write" else ():
            state.put(r, aliased if kind.holds == "any" and aliased else kind.holds)
            state.own |= own << r
            if size is not None:
                state.sizes[r] = size


def _check_read(state: _State, register: int, wanted: str, fail: Callable[[str], Exception]) -> None:
    actual = state.kind(register)
    if actual is None:
        either = "a storage or a pending copy"
        raise fail(f"${register} is read, but on some path to here it is empty, or holds {either} on one and not on another")
    if actual != wanted and not (_is_value(actual, wanted) or (wanted == "any" and actual != "pending")):
        raise fail(f"${register} holds {_A[actual]} here; {_A[wanted]} is needed")


def _is_value(actual: str, wanted: str) -> bool:
    """Whether one kind is ``value`` (any kind of value) and the other kind is a kind of value."""
    return "value" in (actual, wanted) and not {actual, wanted} & {*_BARE, "any"}


def _is_own(state: _State, instruction: isa.Instruction, source: int | None) -> bool:
    """Whether the instruction defines a tensor that is stored in a storage of this frame; ``source``: the aliased register."""
    if source is None:
        source = instruction.get(Role.WHOLE)
    return Role.STORAGE in instruction.roles if source is None else bool(state.own >> source & 1)


def _check_outputs(state: _State, instruction: isa.Instruction, fail: Callable[[str], Exception]) -> None:
    """Check that a kernel writes only tensors allocated by this frame.

    A kernel never writes an argument, a constant, a small vector or a tensor that a caller holds.
    """
    args, n_outputs = instruction.get(Role.ARGS), instruction.get(Role.N_OUTPUTS)
    for r in args[len(args) - n_outputs :]:
        if not state.own >> r & 1:
            raise fail(f"${r} is written, but on some path to here it holds a tensor that this function has not allocated")


def _check_fit(state: _State, instruction: isa.Instruction, fail: Callable[[str], Exception]) -> None:
    storage, offset = instruction.get(Role.STORAGE), instruction.get(Role.OFFSET)
    nbytes = state.sizes.get(storage)
    needed = ITEMSIZE[DTYPES[instruction.get(Role.DTYPE)]]
    for d in instruction.get(Role.DIMS):
        needed *= d
    if nbytes is not None and offset + needed > nbytes:
        raise fail(f"{offset} + {needed} bytes do not fit the {nbytes} bytes of the storage in ${storage}")
