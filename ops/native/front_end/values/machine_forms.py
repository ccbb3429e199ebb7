"""Machine forms of twins: the LLVM code of the primitives that Python cannot express.

A machine form is a function ``form(emitter, *arguments)`` of values (see ``machine_types``): it emits its code through
``emitter.builder`` and returns a value, or None.  The forms of the twins of ``ops.native.memory`` are here, under the same names.
A twin that is declared elsewhere names its own form (``memory.set_machine_form``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ...given_literals import MARK
from ...memory import HAS_HUGE_PAGES, HUGE_PAGE_BYTES, MADV_HUGEPAGE, load_i64, native, set_machine_form, twin
from ..llvm import host
from ..llvm.instructions import annotate
from .machine_types import FLOAT32, FLOAT64, INT32, INT64, UINT8, WORD, Integer, Tuple, Type, Value, leaves
from .scalars import cast, known_integer, llvm_type

#: ``form(emitter, *arguments)``.
Form = Callable[..., Value | None]
_I32 = ir.IntType(32)
#: The name of the table of literals.
_LITERALS = "relayvm.literals"


def machine_form(function: Any) -> Form:
    """The machine form of a twin."""
    name = vars(function).get("__c_function__")
    if name is not None:
        return external(name, INT64) if name else by_address(INT64)
    provider = vars(function).get("__machine__")
    form: Form = provider() if provider else FORMS[function.__name__]
    return form


def _load(kind: Integer) -> Form:
    def load(emitter: Any, address: Value) -> Value:
        b = emitter.builder
        return Value(kind, (b.load(b.inttoptr(emitter.word(address), llvm_type(kind).as_pointer())),))

    return load


def _store(kind: Integer) -> Form:
    def store(emitter: Any, address: Value, value: Value) -> None:
        b = emitter.builder
        b.store(cast(b, value, kind).scalar, b.inttoptr(emitter.word(address), llvm_type(kind).as_pointer()))

    return store


def _bits(source: Type, to: Type) -> Form:
    """The bits of a number as those of another; float32 bits are in the low half of a word."""

    def bits(emitter: Any, value: Value) -> Value:
        b = emitter.builder
        given = cast(b, value, source).scalar
        if source == FLOAT32:
            return Value(to, (b.zext(b.bitcast(given, _I32), WORD),))
        if to == FLOAT32:
            given = b.trunc(given, _I32)
        return Value(to, (b.bitcast(given, llvm_type(to)),))

    return bits


def declared(emitter: Any, name: str, kind: ir.FunctionType) -> Any:
    """A function of the C library or of LLVM, declared in the module."""
    found = emitter.module.globals.get(name)
    return ir.Function(emitter.module, kind, name) if found is None else found


def external(name: str, result: Integer | None, widths: dict[int, int] | None = None) -> Form:
    """A C function by its symbol, with words as arguments, narrowed to the bits in ``widths``; without a result if None."""

    def call(emitter: Any, *arguments: Value) -> Value | None:
        b = emitter.builder
        words = [emitter.word(a) for a in arguments]
        narrow = [b.trunc(w, ir.IntType(widths[i])) if widths and i in widths else w for i, w in enumerate(words)]
        returned = ir.VoidType() if result is None else llvm_type(result)
        function = declared(emitter, name, ir.FunctionType(returned, [a.type for a in narrow]))
        out = b.call(function, narrow)
        return None if result is None else Value(result, (out,))

    return call


def by_address(result: Integer) -> Form:
    """A call of a C function of words by its address, the first argument; a tuple is passed as the address of its words."""

    def call(emitter: Any, function: Value, *arguments: Value) -> Value:
        b = emitter.builder
        words = [_address_of_words(emitter, a) if isinstance(a.type, Tuple) else emitter.word(a) for a in arguments]
        kind = ir.FunctionType(llvm_type(result), [WORD] * len(words))
        return Value(result, (b.call(b.inttoptr(emitter.word(function), kind.as_pointer()), words),))

    return call


def _address_of_words(emitter: Any, value: Value) -> Any:
    """The address of the words of a tuple, on the stack."""
    b, words = emitter.builder, [emitter.word(each) for each in leaves(value)]
    first = b.bitcast(emitter.stack(ir.ArrayType(WORD, len(words))), WORD.as_pointer())
    for n, word in enumerate(words):
        b.store(word, b.gep(first, [WORD(n)]))
    return b.ptrtoint(first, WORD)


class _Assumption(ir.Instruction):
    """An assumption about the alignment of a pointer, for which llvmlite has no builder."""

    def __init__(self, block: ir.Block, pointer: Any, nbytes: int) -> None:
        super().__init__(block, ir.VoidType(), "call", [pointer])
        self.nbytes = nbytes

    def descr(self, buf: list[str]) -> None:
        """Write the instruction."""
        buf.append(f'call void @llvm.assume(i1 true) ["align"(ptr {self.operands[0].get_reference()}, i64 {self.nbytes})]\n')


def assume_aligned(builder: Any, pointer: Any, nbytes: int) -> None:
    """Let LLVM know that an address is a multiple of ``nbytes``; the builder is at the end of its block."""
    builder.module.declare_intrinsic("llvm.assume", (), ir.FunctionType(ir.VoidType(), [ir.IntType(1)]))
    builder.block.instructions.append(_Assumption(builder.block, pointer, nbytes))
    builder.position_at_end(builder.block)


# ---- memory and time of the C library --------------------------------------------------------------------------------------


def _twin(form: Form) -> Callable[..., int]:
    """A primitive of machine code only: the twins that use it have forms of their own for Python."""

    @twin
    def call(*arguments: int) -> int:
        raise NotImplementedError

    set_machine_form(call, lambda: form)
    return call


def _two_words(emitter: Any) -> Value:
    """The address of two words on the stack."""
    return Value(INT64, (emitter.builder.ptrtoint(emitter.stack(ir.ArrayType(WORD, 2)), WORD),))


_aligned_alloc = _twin(external("aligned_alloc", INT64))
_madvise = _twin(external("madvise", INT32, {2: 32}))
_memcpy = _twin(external("memcpy", INT64))
_memset = _twin(external("memset", INT64, {1: 32}))
_clock_gettime = _twin(external("clock_gettime", INT32, {0: 32}))
_words_on_stack = _twin(_two_words)
_CLOCK_MONOTONIC = 1


@native
def _alloc(nbytes: int) -> int:
    if HAS_HUGE_PAGES and nbytes >= 2 * HUGE_PAGE_BYTES:
        rounded = (nbytes + 4095) // 4096 * 4096
        address = _aligned_alloc(HUGE_PAGE_BYTES, rounded)
        if address != 0:
            _madvise(address, rounded, MADV_HUGEPAGE)
        return address
    return _aligned_alloc(64, max(64, (nbytes + 63) // 64 * 64))


@native
def _copy_bytes(to: int, source: int, nbytes: int) -> None:
    if nbytes > 0:
        _memcpy(to, source, nbytes)


@native
def _fill_bytes(address: int, byte: int, nbytes: int) -> None:
    if nbytes > 0:
        _memset(address, byte, nbytes)


@native
def _clock_ns() -> int:
    spec = _words_on_stack()
    _clock_gettime(_CLOCK_MONOTONIC, spec)
    return load_i64(spec) * 1_000_000_000 + load_i64(spec + 8)


def _pause(emitter: Any) -> None:
    """The instruction of x86-64 or AArch64; nothing on other processors."""
    b = emitter.builder
    if host.architecture() == "x86_64":
        b.call(declared(emitter, "llvm.x86.sse2.pause", ir.FunctionType(ir.VoidType(), [])), [])
    elif host.architecture() == "aarch64":
        b.call(declared(emitter, "llvm.aarch64.hint", ir.FunctionType(ir.VoidType(), [_I32])), [_I32(1)])


# ---- literals that are given to machine code (see ``given_literals``) --------------------------------------------------------


def _given(kind: Type, is_size: bool = False) -> Form:
    """A literal of a type from the table; ``is_size``: whether it is not negative."""

    def load(emitter: Any, number: Value, count: Value) -> Value:
        at, size, b = known_integer(number), known_integer(count), emitter.builder
        assert at is not None and size is not None
        place = b.gep(_table(b.module, size), [_I32(0), _I32(at + 1)], inbounds=True)
        found = b.load(b.bitcast(place, llvm_type(kind).as_pointer()))
        if is_size:
            annotate(b.block, "load", "range", [WORD(0), WORD(1 << 62)])
        return Value(kind, (found,))

    return load


def _table(module: ir.Module, count: int) -> ir.GlobalVariable:
    """The table of a module.  LLVM may not assume its values, and that nothing writes to it."""
    if _LITERALS in module.globals:
        return module.globals[_LITERALS]
    kind = ir.ArrayType(WORD, count + 1)
    table = ir.GlobalVariable(module, kind, _LITERALS)
    table.linkage, table.storage_class, table.global_constant = "internal", "externally_initialized", True
    table.initializer = ir.Constant(kind, [WORD(MARK + k) for k in range(count + 1)])
    return table


def _native(function: Callable[..., Any]) -> Form:
    def call(emitter: Any, *arguments: Value) -> Value:
        result: Value = emitter.call_native(function, list(arguments))
        return result

    return call


FORMS: dict[str, Form] = {
    "load_i64": _load(INT64), "store_i64": _store(INT64),
    "load_i32": _load(INT32), "store_i32": _store(INT32),
    "load_u8": _load(UINT8), "store_u8": _store(UINT8),
    "float_bits": _bits(FLOAT64, INT64), "bits_float": _bits(INT64, FLOAT64),
    "float32_bits": _bits(FLOAT32, INT64), "bits_float32": _bits(INT64, FLOAT32),
    "alloc": _native(_alloc), "copy_bytes": _native(_copy_bytes), "fill_bytes": _native(_fill_bytes),
    "clock_ns": _native(_clock_ns), "free": external("free", None), "call_kernel": by_address(INT32),
    "pause": _pause, "given_float": _given(FLOAT64), "given_integer": _given(INT64), "given_size": _given(INT64, is_size=True),
}  # fmt: skip
