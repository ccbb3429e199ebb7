"""One LLVM module of a native function and of all that it calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..code_parts import Part, share_parts
from ..inlining import is_shared
from ..user_function import is_kernel, is_users, no_status, not_compiled
from . import bodies_apart, kept_text, nests
from .llvm.instructions import Builder
from .numba_functions import c_arguments, compiled_by_numba, declared
from .statements import Again, Assumed, Statements
from .syntax import definition
from .values.machine_types import (
    BOOL,
    INT64,
    NOTHING,
    VOID,
    WORD,
    Boolean,
    Integer,
    Lent,
    Type,
    Value,
    frozen_list,
    has_vectors,
    llvm_parts,
)
from .values.scalars import Outside, cast

#: Result types by annotation: the type of a recursive call, and a guess for other functions.
_ANNOTATED: dict[str, Type] = {"int": INT64, "bool": BOOL, "None": NOTHING}
_SIGNATURE = re.compile(r"(\w+)\(([\w, ]*)\)")


#: A function, by its identity, and the types of its arguments.
_Key = tuple[int, tuple[Type, ...]]


class Compilation:
    """The module of one entry point.

    A ``@native`` function is emitted once, a ``@generic`` function once for each combination of argument types.
    ``with_parts``: whether functions of parts are declared only; else the module has them, too.
    """

    def __init__(self, module: ir.Module, with_parts: bool = False) -> None:
        self.module = module
        #: The parts to link (see ``code_parts``).
        self.parts = share_parts(self.module) if with_parts else None
        #: Texts of modules to link, from numba.
        self.texts: list[str] = []
        self._functions: dict[_Key, tuple[kept_text.Function, Type]] = {}
        self._pending: set[_Key] = set()
        self._recursive: set[_Key] = set()
        self._recordings: list[kept_text.Recording] = []
        self._count = 0

    def use_offset_table(self) -> None:
        """Let functions of libraries that LLVM calls by itself (such as memcpy) be called through the global offset table."""
        number, override = ir.IntType(32), 7
        self.module.add_named_metadata("llvm.module.flags", [number(override), "RtLibUseGOT", number(1)])

    def entry(self, function: Callable[..., Any], signature: str, symbol: str) -> None:
        """Emit ``function`` as ``symbol``, with a C signature such as ``"int32(int64, int64)"``."""
        match = _SIGNATURE.fullmatch(signature)
        assert match, signature
        kinds = [_c_type(name) for name in match[2].split(", ") if name]
        result = NOTHING if match[1] == "void" else _c_type(match[1])
        parts = llvm_parts(result)
        made = ir.Function(
            self.module, ir.FunctionType(parts[0] if parts else ir.VoidType(), [p for k in kinds for p in llvm_parts(k)]), symbol
        )
        inner, kind = self._function_for(function, tuple(kinds))
        b = Builder(made.append_basic_block("entry"))
        returned = b.call(inner, made.args)
        if result == NOTHING:
            b.ret_void()
        else:
            b.ret(cast(b, Value(kind, (returned,)), result).scalar)

    def body(self, body: bodies_apart.Body) -> ir.Function:
        """Emit a body as a function of the module, which other objects call."""
        made = body.declared(self.module)
        inner, kind = self._function_for(body.function, body.kinds)
        b = Builder(made.append_basic_block("entry"))
        returned = b.call(inner, [part for argument in body.arguments(made) for part in argument.parts])
        if body.returns:
            b.ret(cast(b, Value(kind, (returned,)), INT64).scalar)
        else:
            b.ret_void()
        return made

    def _call_apart(self, b: Any, function: Callable[..., Any], arguments: list[Value]) -> Value:
        """Emit a call of a body that is a part of object code."""
        assert self.parts is not None
        given = list[Value]()
        for argument in arguments:
            called = bodies_apart.native_function(argument.type)
            if called is not None:
                kind = bodies_apart.pointer_kind(called, function, arguments)
                inner, result = self._function_for(called, kind.kinds)
                assert result == NOTHING, called
                argument = Value(kind, (b.ptrtoint(inner, WORD),))
            given.append(argument)
        body = bodies_apart.body_for(function, given)
        self.parts.setdefault(body.name, _part_of(body))
        parts = zip([part for a in given for part in a.parts], body.constants, strict=True)
        returned = b.call(body.declared(self.module), [part for part, constant in parts if constant is None])
        for recording in self._recordings:
            recording.is_whole = False  # its text would not name the part
        return Value(INT64, (returned,)) if body.returns else VOID

    def _call(self, emitter: Statements, function: Callable[..., Any], arguments: list[Value]) -> Value:
        """Emit a call of a native function."""
        b = emitter.builder
        if function.__native__ == "function":  # type: ignore[attr-defined]
            arguments = [cast(b, a, INT64) for a in arguments]
        arguments = [frozen_list(a) for a in arguments]
        if self.parts is not None and bodies_apart.is_apart(function, arguments):
            return self._call_apart(b, function, arguments)
        kinds = tuple(a.type for a in arguments)
        inner, kind = self._called(function, kinds)
        if is_kernel(function) and not isinstance(kind, (Integer, Boolean)):
            raise no_status(function)
        self._recordings[-1].calls[f'@"{inner.name}"'] = (function, kinds), kind
        returned = b.call(inner, [part for a in arguments for part in a.parts])
        n = len(llvm_parts(kind))
        if n > 1:
            return Value(kind, tuple(b.extract_value(returned, i) for i in range(n)))
        return Value(kind, (returned,) if n else ())

    def _called(self, function: Callable[..., Any], kinds: tuple[Type, ...]) -> tuple[ir.Function, Type]:
        """The LLVM function to call, which is in a part if kernels share the function, and the type of its result."""
        if self.parts is None or not is_shared(function):
            return self._function_for(function, kinds)
        if " at 0x" in repr(kinds):  # a function, by its address
            raise Outside(f"an argument of {function.__name__}, which kernels share")
        body = bodies_apart.body_of_types(function, kinds)
        if body.returns:
            raise Outside(f"the result of {function.__name__}, which kernels share")
        self.parts.setdefault(body.name, _part_of(body))
        return body.declared(self.module), NOTHING

    def _function_for(self, function: Callable[..., Any], kinds: tuple[Type, ...]) -> tuple[ir.Function, Type]:
        """The LLVM function for arguments of these types, and the type of its result."""
        key = id(function), kinds
        if key in self._pending:
            self._recursive.add(key)
            for recording in self._recordings:
                recording.is_whole = False
        elif key not in self._functions and not self._insert(function, kinds, key):
            self._pending.add(key)
            try:
                self._emit(function, kinds, key)
            except Outside as error:
                self._functions.pop(key, None)
                self._use_numba(function, kinds, key, error)
            finally:
                self._pending.remove(key)
        return self._functions[key]

    def _insert(self, function: Callable[..., Any], kinds: tuple[Type, ...], key: _Key) -> bool:
        """Take a function from its kept text; whether there is one that fits.  The module is the same as without the text."""
        kept = kept_text.find(function, kinds)
        if kept is None:
            return False
        for calls in kept.failed:
            del self.module.globals[self._declared(function.__name__, kinds, kept.result).name]
            for called, types in calls:
                self._called(called, types)
        made = self._declared(function.__name__, kinds, kept.result)
        self._functions[key] = made, kept.result
        names = {kept.name: f'@"{made.name}"'}
        for name, ((called, types), result) in kept.calls.items():
            inner, kind = self._called(called, types)
            if kind != result:  # a global has changed that the called function names
                del self._functions[key], self.module.globals[made.name]
                return False
            names[name] = f'@"{inner.name}"'
        kept_text.declare(self.module, kept)
        made.text = kept.text(names)
        return True

    def _use_numba(self, function: Callable[..., Any], kinds: tuple[Type, ...], key: _Key, error: Outside) -> None:
        """Let numba compile a user's function.

        Raises Outside for a function of this package, UserFunctionError if numba fails too.
        """
        if not is_users(function):
            raise Outside(f"{error}, in {function.__module__}.{function.__name__}") from None
        try:
            made = compiled_by_numba(function, kinds)
        except Exception as other:  # of numba, and of what it calls
            raise not_compiled(function, other) from other
        self.texts.append(made.text)
        inner = declared(self.module, made, kinds)
        outer = self._declared(function.__name__, kinds, made.result)
        b, at, arguments = Builder(outer.append_basic_block("entry")), 0, []
        for kind in kinds:
            n = len(llvm_parts(kind))
            arguments += c_arguments(b, Value(kind, tuple(outer.args[at : at + n])))
            at += n
        returned = b.call(inner, arguments)
        b.ret_void() if made.result == NOTHING else b.ret(returned)
        self._functions[key] = outer, made.result

    def _forget_callers(self, key: _Key) -> None:
        """Emit anew all functions that were emitted since ``key``: they may call its former code."""
        if key in self._recursive:
            since = list(self._functions)
            for later in since[since.index(key) + 1 :]:
                del self.module.globals[self._functions.pop(later)[0].name]

    def _emit(self, function: Callable[..., Any], kinds: tuple[Type, ...], key: _Key) -> None:
        """Emit a function; again, as long as its code refutes what was assumed about it."""
        node, code = definition(function), function.__code__
        names = code.co_varnames[: code.co_argcount]
        if len(names) != len(kinds) or node.args.vararg or node.args.kwonlyargs or node.args.kwarg:
            raise Outside(f"the parameters of {function.__name__}")
        annotation = ast.unparse(node.returns) if node.returns else ""
        assumed, recording = Assumed(_ANNOTATED.get(annotation, INT64)), kept_text.Recording()
        while True:
            made = self._declared(function.__name__, kinds, assumed.result)
            self._functions[key] = made, assumed.result
            local, is_nest = frozenset((*code.co_varnames, *code.co_cellvars)), nests.is_nest(code)
            emitter = Statements(made, function.__globals__, local, self._call, assumed, is_nest)
            emitter.computed = recording.computed
            at = 0
            for name, kind in zip(names, kinds, strict=True):
                n = len(llvm_parts(kind))
                if isinstance(kind, Lent):
                    emitter.variables.borrow(name, kind.of, list(made.args[at : at + n]))
                else:
                    emitter.variables.set(emitter.builder, name, Value(kind, tuple(made.args[at : at + n])))
                at += n
            self._recordings.append(recording)
            try:
                emitter.body(node.body)
                emitter.finish()
                kept_text.keep(function, kinds, made, assumed.result, recording)
                return
            except Again:
                self._forget_callers(key)
                del self.module.globals[made.name]
                recording.begin_again()
            except Outside:
                del self.module.globals[made.name]
                raise
            finally:
                self._recordings.pop()

    def _declared(self, name: str, kinds: tuple[Type, ...], result: Type) -> kept_text.Function:
        parts = llvm_parts(result)
        returned = ir.VoidType() if not parts else parts[0] if len(parts) == 1 else ir.LiteralStructType(parts)
        self._count += 1
        made = kept_text.Function(
            self.module, ir.FunctionType(returned, [p for kind in kinds for p in llvm_parts(kind)]), f"{name}.{self._count}"
        )
        made.linkage = "internal"
        made.attributes.add("nounwind")
        if any(map(has_vectors, (*kinds, result))):
            made.attributes.add("alwaysinline")  # vectors stay in registers
        return made


def _part_of(body: bodies_apart.Body) -> Part:
    """The part that is a body."""

    def emit(module: ir.Module) -> ir.Function:
        compilation = Compilation(module, with_parts=True)
        compilation.use_offset_table()
        return compilation.body(body)

    return Part(body.name, body.function, emit, loops=not is_shared(body.function))


def _c_type(name: str) -> Integer:
    return Integer(int(name.removeprefix("int")), True)
