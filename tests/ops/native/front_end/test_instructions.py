"""Instructions as text are those that llvmlite writes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from llvmlite import ir

from relayvm.ops.native.front_end.llvm.instructions import Builder, Function, annotate

_WORD, _FLOAT = ir.IntType(64), ir.FloatType()
_VECTOR, _PAIR = ir.VectorType(_FLOAT, 8), ir.LiteralStructType([_WORD, _FLOAT])


def _memory(b: Any, f: Any) -> None:
    place = b.alloca(_WORD)
    b.store(f.args[0], place)
    b.store(b.load(place), place, align=4)
    rows = b.gep(f.args[3], [f.args[0]])
    b.load(b.bitcast(rows, _VECTOR.as_pointer()), align=4)
    b.gep(b.alloca(ir.ArrayType(_WORD, 2)), [_WORD(0), _WORD(1)], inbounds=True)


def _numbers(b: Any, f: Any) -> None:
    x, y = f.args[0], f.args[1]
    for name in ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "and_", "or_", "xor"):
        getattr(b, name)(x, y)
    b.add(x, _WORD(1), flags=["nsw"])
    b.fdiv(b.fsub(b.fmul(b.fadd(f.args[2], f.args[2], flags=("reassoc",)), f.args[2]), _FLOAT(1.5)), f.args[2])
    b.select(b.icmp_signed("<", x, y), x, b.neg(b.not_(y)))


def _casts(b: Any, f: Any) -> None:
    small = b.trunc(f.args[0], ir.IntType(8))
    assert b.zext(small, small.type) is small
    b.sitofp(b.sext(small, _WORD), _FLOAT), b.uitofp(b.zext(small, _WORD), _FLOAT)
    b.fptrunc(b.fpext(f.args[2], ir.DoubleType()), _FLOAT)
    b.inttoptr(b.ptrtoint(f.args[3], _WORD), f.args[3].type)


def _calls(b: Any, f: Any) -> None:
    fma = ir.Function(f.module, ir.FunctionType(_FLOAT, [_FLOAT] * 3), "llvm.fma.f32")
    b.call(fma, [f.args[2]] * 3, fastmath=("reassoc", "nsz"))
    nothing = ir.Function(f.module, ir.FunctionType(ir.VoidType(), [_WORD]), "free")
    b.call(nothing, [b.ptrtoint(f.args[3], _WORD)])
    b.call(b.inttoptr(f.args[0], nothing.ftype.as_pointer()), [f.args[1]])


def _structures(b: Any, f: Any) -> None:
    whole = b.insert_value(b.insert_value(ir.Constant(_PAIR, ir.Undefined), f.args[0], 0), f.args[2], 1)
    b.extract_value(whole, 1), b.extract_value(whole, 0)


def _blocks(b: Any, f: Any) -> None:
    blocks = [f.append_basic_block(name) for name in ("body", "end", "body", "body")]
    b.cbranch(b.icmp_signed("==", f.args[0], f.args[1]), *blocks[:2])
    for block, following in pairwise(blocks):
        b.position_at_end(block)
        b.add(f.args[0], f.args[1])
        b.branch(following)
    b.position_at_end(blocks[-1])


def _text(made: Callable[..., Any], builder: Callable[..., Any], write: Callable[[Any, Any], None]) -> str:
    function = made(ir.Module("m"), ir.FunctionType(ir.VoidType(), [_WORD, _WORD, _FLOAT, _FLOAT.as_pointer()]), "f")
    b = builder(function.append_basic_block("entry"))
    write(b, function)
    b.ret_void()
    return str(function.module)


@pytest.mark.parametrize("write", [_memory, _numbers, _casts, _calls, _structures, _blocks])
def test_the_text_is_that_of_llvmlite(write: Callable[[Any, Any], None]) -> None:
    text = _text(Function, Builder, write)
    assert text == _text(ir.Function, ir.IRBuilder, write)
    assert _text(ir.Function, Builder, write) == text


def test_metadata_follow_the_last_access() -> None:
    def write(b: Any, f: Any) -> None:
        b.load(f.args[3])
        b.load(f.args[3])
        b.store(f.args[2], f.args[3])
        annotate(b.block, "load", "range", [_WORD(0), _WORD(9)])

    lines = [line.strip() for line in _text(Function, Builder, write).splitlines()]
    assert [line.endswith(", !range !0") for line in lines if " load " in line] == [False, True]
    assert not any("!" in line for line in lines if line.startswith("store"))


@pytest.mark.parametrize("wrong", ["store", "call", "add", "insert_value"])
def test_types_are_checked(wrong: str) -> None:
    def write(b: Any, f: Any) -> None:
        arguments = {
            "store": (f.args[0], f.args[3]),
            "call": (f, [f.args[0]] * 4),
            "add": (f.args[0], f.args[2]),
            "insert_value": (ir.Constant(_PAIR, ir.Undefined), f.args[2], 0),
        }
        getattr(b, wrong)(*arguments[wrong])

    with pytest.raises((TypeError, ValueError), match="float"):
        _text(Function, Builder, write)
