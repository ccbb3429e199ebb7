"""The operations of registers and predicates in machine code (SASS), by the names of their opcodes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

Words = np.ndarray
OPERATIONS: dict[str, Callable[..., None]] = {}
_LOW = np.uint64(0xFFFFFFFF)
_COMPARE = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne}
_BITWISE = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}

SPECIAL: dict[str, Callable[[Any], Any]] = {
    "SR_TID.X": lambda b: np.arange(b.threads, dtype=np.uint32),
    "SR_LANEID": lambda b: np.arange(b.threads, dtype=np.uint32) % 32,
    "SR_CTAID.X": lambda b: b.place[0],
    "SR_CTAID.Y": lambda b: b.place[1],
    "SR_CTAID.Z": lambda b: 0,
    "SR_TID.Y": lambda b: 0,
    "SR_TID.Z": lambda b: 0,
    "SR_CgaCtaId": lambda b: 0,
    "SR_LTMASK": lambda b: (np.uint32(1) << (np.arange(b.threads, dtype=np.uint32) % 32)) - 1,
}


def _named(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def keep(function: Callable[..., None]) -> Callable[..., None]:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return keep


@functools.cache
def _is_flag(text: str) -> bool:
    return text.lstrip("!")[:2] in ("PT", "UP") or (text.lstrip("!")[:1] == "P" and text.lstrip("!")[1:].isdigit())


def _split(step: Any) -> tuple[str, list[str], list[str], list[str]]:
    """The result, the predicates written, the operands, and the predicates read."""
    result, rest = step.operands[0], list(step.operands[1:])
    written, read = [], []
    while rest and _is_flag(rest[0]):
        written.append(rest.pop(0))
    while rest and _is_flag(rest[-1]):
        read.insert(0, rest.pop())
    return result, written, rest, read


@_named(
    "NOP",
    "BSSY",
    "BSYNC",
    "BREAK",
    "WARPSYNC",
    "ENDCOLLECTIVE",
    "BRA",
    "YIELD",
    "BMOV",
    "MEMBAR",
    "ERRBAR",
    "CGAERRBAR",
    "CCTL",
    "DEPBAR",
    "NANOSLEEP",
)
def _nothing(b: Any, step: Any, mask: Words) -> None:
    pass


@_named("MOV", "R2UR")
def _mov(b: Any, step: Any, mask: Words) -> None:
    b.put(step.operands[0], b.integer(step.operands[-1]), mask)


@_named("CS2R")
def _cs2r(b: Any, step: Any, mask: Words) -> None:
    b.put_pair(step.operands[0], np.zeros(b.threads, np.uint64), mask)


@_named("HFMA2")
def _hfma2(b: Any, step: Any, mask: Words) -> None:
    assert step.operands[1:3] == ("-RZ", "RZ"), step
    high, low = (int(np.float16(float(x)).view(np.uint16)) for x in step.operands[3:5])
    b.put(step.operands[0], high << 16 | low, mask)


@_named("IADD3", "VIADD")
def _iadd3(b: Any, step: Any, mask: Words) -> None:
    result, written, rest, read = _split(step)
    total = sum((b.integer(x) for x in rest), np.uint64(0)) + sum((b.flag(p).astype(np.uint64) for p in read), np.uint64(0))
    carry = total >> np.uint64(32)
    for k, p in enumerate(written):
        b.put_flag(p, carry > k, mask)
    b.put(result, total & _LOW, mask)


@_named("IMAD")
def _imad(b: Any, step: Any, mask: Words) -> None:
    result, written, (x, y, z), read = _split(step)
    modifiers = step.modifiers
    if "WIDE" not in modifiers and "HI" not in modifiers:
        total = b.integer(x) * b.integer(y) + b.integer(z) + (b.flag(read[0]).astype(np.uint64) if read else np.uint64(0))
        b.put(result, total & _LOW, mask)
        return
    product = (b.integer(x) & _LOW) * (b.integer(y) & _LOW) if "U32" in modifiers else (b.signed(x) * b.signed(y)).view(np.uint64)
    total = product + b.pair(z)
    carried = total < product
    if read and "X" in modifiers:
        more = b.flag(read[0]).astype(np.uint64)
        carried |= total + more < total
        total = total + more
    for p in written:
        b.put_flag(p, carried, mask)
    if "HI" in modifiers:
        b.put(result, total >> np.uint64(32), mask)
    else:
        b.put_pair(result, total, mask)


@_named("LEA")
def _lea(b: Any, step: Any, mask: Words) -> None:
    result, written, rest, read = _split(step)
    amount = int(rest[-1], 16)
    if "HI" in step.modifiers:
        high = np.where(b.signed(rest[0]) < 0, _LOW, np.uint64(0)) if "SX32" in step.modifiers else b.integer(rest[2])
        first = ((high & _LOW) << np.uint64(32) | b.integer(rest[0]) & _LOW) >> np.uint64(32 - amount)
    else:
        first = b.word(rest[0]).astype(np.uint64) << np.uint64(amount)
    # the carry of a difference says that nothing was borrowed
    total = ((first & _LOW ^ _LOW) + np.uint64(1) if rest[0][0] == "-" else first & _LOW) + b.integer(rest[1])
    if "X" in step.modifiers:
        total = total + b.flag(read[0]).astype(np.uint64)
    for p in written:
        b.put_flag(p, total >> np.uint64(32) != 0, mask)
    b.put(result, total & _LOW, mask)


@_named("SHF")
def _shf(b: Any, step: Any, mask: Words) -> None:
    result, low, by, high = step.operands[:4]
    m, lo, hi, amount = step.modifiers, b.integer(low) & _LOW, b.integer(high) & _LOW, b.integer(by) & _LOW
    whole = hi << np.uint64(32) | lo
    if "W" in m:  # only the low bits of the amount count
        amount &= np.uint64(63 if {"U64", "S64"} & set(m) else 31)
    amount = np.minimum(amount, np.uint64(63))
    if "L" in m:
        found = whole << amount >> np.uint64(32) if "HI" in m else np.where(amount > 31, 0, lo << amount)
    elif "HI" in m:
        found = hi.astype(np.uint32).view(np.int32) >> np.minimum(amount, 31).astype(np.int32) if "S32" in m else hi >> amount
    else:
        found = whole.view(np.int64) >> amount.astype(np.int64) if "S64" in m else whole >> amount
    b.put(result, found.astype(np.int64) & 0xFFFFFFFF, mask)


@_named("LOP3")
def _lop3(b: Any, step: Any, mask: Words) -> None:
    operands = list(step.operands)
    flag = operands.pop(0) if _is_flag(operands[0]) else None
    x, y, z = (b.integer(o) & _LOW for o in operands[1:4])
    found = _lut(int(operands[4], 16), x, y, z, _LOW)
    b.put(operands[0], found, mask)
    if flag:
        b.put_flag(flag, found != 0, mask)


def _lut(table: int, x: Words, y: Words, z: Words, ones: Any) -> Words:
    found = x ^ x
    for k in range(8):
        if table >> k & 1:
            found = found | (x if k & 4 else x ^ ones) & (y if k & 2 else y ^ ones) & (z if k & 1 else z ^ ones)
    return found


@_named("PLOP3")
def _plop3(b: Any, step: Any, mask: Words) -> None:
    x, y, z = (b.flag(p) for p in step.operands[2:5])
    for p, table in zip(step.operands[:2], step.operands[5:7], strict=True):
        b.put_flag(p, _lut(int(table, 16), x, y, z, True), mask)


def _compared(step: Any, x: Words, y: Words) -> Words:
    kind = step.modifiers[0]
    if kind == "NAN":
        return np.isnan(x) | np.isnan(y)
    if kind == "NUM":
        return ~(np.isnan(x) | np.isnan(y))
    found = _COMPARE[kind[:2]](x, y)
    if x.dtype.kind == "f":
        unordered = np.isnan(x) | np.isnan(y)
        return found | unordered if kind.endswith("U") and len(kind) == 3 else found & ~unordered
    return found


@_named("ISETP", "FSETP", "DSETP")
def _setp(b: Any, step: Any, mask: Words) -> None:
    one, two, first, second, given, *low = step.operands
    read = b.double if step.name == "DSETP" else b.real if step.name == "FSETP" else None
    if read is None:
        read = (lambda t: b.integer(t) & _LOW) if "U32" in step.modifiers else b.signed
    x, y = read(first), read(second)
    found = _compared(step, x, y)
    if "EX" in step.modifiers:
        kind = step.modifiers[0]
        tail = b.flag(low[0])
        strict = x < y if kind[0] == "L" else x > y
        found = (x == y) & tail if kind == "EQ" else (x != y) | tail if kind == "NE" else strict | (x == y) & tail
    join = _BITWISE[next(m for m in step.modifiers if m in _BITWISE)]
    extra = b.flag(given)
    b.put_flag(one, join(found, extra), mask)
    b.put_flag(two, join(~found, extra), mask)


@_named("SEL", "FSEL")
def _sel(b: Any, step: Any, mask: Words) -> None:
    result, x, y, p = step.operands
    if step.name == "FSEL":
        value = np.where(b.flag(p), b.real(x), b.real(y)).astype(np.float32).view(np.uint32)
    else:
        value = np.where(b.flag(p), b.integer(x), b.integer(y)) & _LOW
    b.put(result, value, mask)


@_named("VIMNMX", "VIADDMNMX", "IMNMX", "FMNMX")
def _minmax(b: Any, step: Any, mask: Words) -> None:
    result, *rest, p = step.operands
    if step.name == "FMNMX":
        x, y = b.real(rest[0]), b.real(rest[1])
        b.put(result, np.where(b.flag(p), np.fmin(x, y), np.fmax(x, y)).astype(np.float32).view(np.uint32), mask)
        return
    read = (lambda t: (b.integer(t) & _LOW).astype(np.int64)) if "U32" in step.modifiers else b.signed
    x, y = read(rest[0]), read(rest[-1])
    if len(rest) == 3:
        x = (x + read(rest[1])).astype(np.int32).astype(np.int64)
    b.put(result, np.where(b.flag(p), np.minimum(x, y), np.maximum(x, y)) & 0xFFFFFFFF, mask)


@_named("IABS")
def _iabs(b: Any, step: Any, mask: Words) -> None:
    b.put(step.operands[0], np.abs(b.signed(step.operands[1])), mask)


@_named("POPC")
def _popc(b: Any, step: Any, mask: Words) -> None:
    b.put(step.operands[0], np.bitwise_count(b.integer(step.operands[1]) & _LOW), mask)


@_named("FLO")
def _flo(b: Any, step: Any, mask: Words) -> None:
    value = (b.integer(step.operands[1]) & _LOW).astype(np.int64)
    top = np.where(value > 0, np.floor(np.log2(np.maximum(value, 1))), -1).astype(np.int64)
    b.put(step.operands[0], (31 - top if "SH" in step.modifiers else top) & 0xFFFFFFFF, mask)


@_named("BREV")
def _brev(b: Any, step: Any, mask: Words) -> None:
    b.put(step.operands[0], np.array([int(f"{int(v):032b}"[::-1], 2) for v in b.word(step.operands[1])], np.uint64), mask)


@_named("PRMT")
def _prmt(b: Any, step: Any, mask: Words) -> None:
    result, low, selector, high = step.operands
    whole = (b.integer(high) & _LOW) << np.uint64(32) | b.integer(low) & _LOW
    select, found = b.integer(selector) & _LOW, np.zeros(b.threads, np.uint64)
    for k in range(4):
        nibble = select >> np.uint64(4 * k) & np.uint64(15)
        byte = whole >> (nibble & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        byte = np.where(nibble & np.uint64(8), np.where(byte & np.uint64(128), 255, 0).astype(np.uint64), byte)
        found |= byte << np.uint64(8 * k)
    b.put(result, found, mask)


@_named("P2R")
def _p2r(b: Any, step: Any, mask: Words) -> None:
    bits = sum(b.flags[f"P{k}"].astype(np.uint64) << np.uint64(k) for k in range(7))
    place = np.uint64(next((8 * int(m[1:]) for m in step.modifiers if m in ("B1", "B2", "B3")), 0))
    chosen = np.uint64(int(step.operands[3], 16)) << place
    b.put(step.operands[0], b.integer(step.operands[2]) & ~chosen | bits << place & chosen, mask)


@_named("R2P")
def _r2p(b: Any, step: Any, mask: Words) -> None:
    register, _, byte = step.operands[1].partition(".B")
    bits = b.word(register) >> np.uint32(8 * int(byte or 0))
    for k in range(7):
        if int(step.operands[2], 16) >> k & 1:
            b.put_flag(f"P{k}", bits >> np.uint32(k) & np.uint32(1) != 0, mask)


@_named("FADD", "FMUL", "FFMA")
def _float(b: Any, step: Any, mask: Words) -> None:
    result, *rest = (o for o in step.operands if not _is_flag(o))
    with np.errstate(all="ignore"):
        x, y, *z = (b.real(o) for o in rest)
        if step.name == "FFMA":
            value = (x.astype(np.float64) * y + z[0]).astype(np.float32)
        else:
            value = x + y if step.name == "FADD" else x * y
        if "SAT" in step.modifiers:
            value = np.clip(np.nan_to_num(value), 0, 1)
    b.put(result, value.astype(np.float32).view(np.uint32), mask)


@_named("DADD", "DMUL", "DFMA")
def _double(b: Any, step: Any, mask: Words) -> None:
    result, *rest = step.operands
    with np.errstate(all="ignore"):
        x, y, *z = (b.double(o) for o in rest)
        if step.name == "DFMA":
            value = (x.astype(np.longdouble) * y + z[0]).astype(np.float64)
        else:
            value = x + y if step.name == "DADD" else x * y
    b.put_pair(result, value, mask)


@_named("FCHK")
def _fchk(b: Any, step: Any, mask: Words) -> None:
    b.put_flag(step.operands[0], np.zeros(b.threads, bool), mask)


@_named("MUFU")
def _mufu(b: Any, step: Any, mask: Words) -> None:
    kind, x = step.modifiers[0], b.real(step.operands[1])
    with np.errstate(all="ignore"):
        if kind in ("RCP64H", "RSQ64H"):
            value = (b.word(step.operands[1]).astype(np.uint64) << np.uint64(32)).view(np.float64)
            value = 1 / value if kind == "RCP64H" else 1 / np.sqrt(value)
            b.put(step.operands[0], value.view(np.uint64) >> np.uint64(32), mask)
            return
        function = {"EX2": np.exp2, "RCP": lambda v: 1 / v, "RSQ": lambda v: 1 / np.sqrt(v), "LG2": np.log2, "SQRT": np.sqrt,
                    "TANH": np.tanh}[kind]  # fmt: skip
        b.put(step.operands[0], function(x).astype(np.float32).view(np.uint32), mask)


@_named("I2F", "I2FP")
def _i2f(b: Any, step: Any, mask: Words) -> None:
    m, text = step.modifiers, step.operands[1]
    value = (
        b.pair(text)
        if "U64" in m
        else b.pair(text).view(np.int64)
        if "S64" in m
        else b.integer(text) & _LOW
        if "U32" in m
        else b.signed(text)
    )
    if "F64" in m:
        b.put_pair(step.operands[0], value.astype(np.float64), mask)
        return
    found = value.astype(np.float32)
    if "RP" in m:
        found = np.where(found.astype(np.float64) < value.astype(np.float64), np.nextafter(found, np.float32(np.inf)), found)
    b.put(step.operands[0], found.astype(np.float32).view(np.uint32), mask)


@_named("F2I")
def _f2i(b: Any, step: Any, mask: Words) -> None:
    m, value = step.modifiers, np.trunc(b.real(step.operands[1]).astype(np.float64))
    if "U64" in m:
        b.put_pair(step.operands[0], np.clip(value, 0, 1.8e19).astype(np.uint64), mask)
    else:
        b.put(step.operands[0], np.clip(value, 0 if "U32" in m else -(2.0**31), 2.0**32 - 1).astype(np.int64) & 0xFFFFFFFF, mask)


_HALVES = {"F16": np.dtype(np.float16), "BF16": np.dtype(bfloat16)}


@_named("F2F")
def _f2f(b: Any, step: Any, mask: Words) -> None:
    with np.errstate(all="ignore"):
        if step.modifiers[-2:] == ["F64", "F32"]:
            b.put_pair(step.operands[0], b.real(step.operands[1]).astype(np.float64), mask)
        elif step.modifiers[0] in _HALVES:
            b.put(step.operands[0], b.real(step.operands[1]).astype(_HALVES[step.modifiers[0]]).view(np.uint16), mask)
        else:
            assert step.modifiers[-2:] == ["F32", "F64"], step
            b.put(step.operands[0], b.double(step.operands[1]).astype(np.float32).view(np.uint32), mask)


@_named("HADD2")
def _hadd2(b: Any, step: Any, mask: Words) -> None:
    """A float16 in one half of a register, as a float32."""
    result, nothing, source = step.operands
    register, half = source.split(".")
    assert "F32" in step.modifiers and nothing == "-RZ" and half in ("H0_H0", "H1_H1"), step
    bits = (b.word(register) >> np.uint32(16 * (half == "H1_H1"))).astype(np.uint16)
    b.put(result, bits.view(np.float16).astype(np.float32).view(np.uint32), mask)


@_named("F2FP")
def _f2fp(b: Any, step: Any, mask: Words) -> None:
    """Two float32 as the halves of a register."""
    assert "PACK_AB" in step.modifiers, step
    kind = _HALVES[step.modifiers[0]]
    with np.errstate(all="ignore"):
        high, low = (b.real(o).astype(kind).view(np.uint16).astype(np.uint32) for o in step.operands[1:])
    b.put(step.operands[0], high << np.uint32(16) | low, mask)


@_named("SHFL")
def _shfl(b: Any, step: Any, mask: Words) -> None:
    ok, result, source, by, bounds = step.operands
    lane = np.arange(b.threads, dtype=np.int64) % 32
    amount, limit = b.signed(by), int(b.integer(bounds)[0])
    segment, clamp = limit >> 8 & 31, limit & 31
    low, top = lane & segment, lane & segment | clamp & (31 ^ segment)
    other = {"BFLY": lane ^ amount, "UP": lane - amount, "DOWN": lane + amount, "IDX": low | amount & (31 ^ segment)}[
        step.modifiers[0]
    ]
    inside = other >= top if step.modifiers[0] == "UP" else other <= top
    other = np.where(inside, other, lane) + np.arange(b.threads) // 32 * 32
    b.put(result, b.word(source)[other], mask)
    b.put_flag(ok, inside, mask)


@_named("B2R")
def _b2r(b: Any, step: Any, mask: Words) -> None:
    votes = b.votes[b.has_voted]
    b.put_flag(step.operands[-1], np.full(b.threads, votes.all() if b.are_joined else votes.any()), mask)


@_named("VOTE", "VOTEU")
def _vote(b: Any, step: Any, mask: Words) -> None:
    *first, given = step.operands
    on = (b.flag(given) & mask).reshape(-1, 32)
    bits = (on.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1)
    for text in first:
        if _is_flag(text):
            found = on.any(1) if "ANY" in step.modifiers else (on | ~mask.reshape(-1, 32)).all(1)
            b.put_flag(text, np.repeat(found, 32), mask)
        else:
            b.put(text, np.repeat(bits, 32), mask)
