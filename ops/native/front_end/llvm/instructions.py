"""LLVM instructions as text, written as soon as they are built.

llvmlite makes an object of each instruction, which writes its text later: twice the time for the frequent ones.  The text is the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir


class Register(ir.Value):
    """The result of an instruction, or a parameter."""

    def __init__(self, kind: ir.Type, reference: str) -> None:
        self.type, self._reference = kind, reference

    def get_reference(self) -> str:
        """The name, as instructions have it."""
        return self._reference

    def __str__(self) -> str:
        return f"{self.type} {self._reference}"

    @property
    def function_type(self) -> ir.FunctionType:
        """The type of a function that is called by its address."""
        kind = self.type.pointee
        assert isinstance(kind, ir.FunctionType), kind
        return kind


class Names:
    """The names of a function: numbers, besides those of its blocks."""

    def __init__(self) -> None:
        self._last = 0
        self._blocks: dict[str, int] = {}

    def register(self, name: str = "", deduplicate: bool = True) -> str:
        """A new name that begins with ``name``."""
        assert deduplicate
        if not name:
            self._last += 1
            return f".{self._last}"
        count = self._blocks.get(name, -1) + 1
        self._blocks[name] = count
        return f"{name}.{count}" if count else name


class Function(ir.Function):
    """A function whose parameters are registers."""

    def __init__(self, module: ir.Module, kind: ir.FunctionType, name: str) -> None:
        super().__init__(module, ir.FunctionType(kind.return_type, ()), name)
        self.type, self.ftype, self.scope = kind.as_pointer(), kind, Names()
        self.args = tuple([Register(each, f'%"{self.scope.register()}"') for each in kind.args])
        self.scope.register()  # the result has a number, too


def _same(kind: ir.Type, other: ir.Type) -> bool:
    return kind is other or bool(kind == other)


class Builder(ir.IRBuilder):
    """A builder of instructions in a ``Function``."""

    def _write(self, text: str) -> None:
        self._block.instructions.insert(self._anchor, text)
        self._anchor += 1

    def _register(self, kind: ir.Type, text: str) -> Register:
        reference = f'%"{self._block.scope.register("", True)}"'
        self._write(f"{reference} = {text}")
        return Register(kind, reference)

    def alloca(self, typ: ir.Type) -> Register:
        """A place on the stack."""
        return self._register(typ.as_pointer(), f"alloca {typ}")

    def load(self, ptr: Any, align: int | None = None) -> Register:
        """Read a value."""
        kind = ptr.type.pointee
        aligned = "" if align is None else f", align {align}"
        return self._register(kind, f"load {kind}, {ptr.type} {ptr.get_reference()}{aligned}")

    def store(self, value: Any, ptr: Any, align: int | None = None) -> None:
        """Write a value."""
        if not _same(ptr.type.pointee, value.type):
            raise TypeError(f"a value of {value.type} in a place of {ptr.type.pointee}")
        self._block.scope.register("", True)
        aligned = "" if align is None else f", align {align}"
        self._write(f"store {value.type} {value.get_reference()}, {ptr.type} {ptr.get_reference()}{aligned}")

    def gep(self, ptr: Any, indices: Sequence[Any], **more: Any) -> Any:
        """The pointer to an element."""
        of = ptr.type.pointee
        if more or len(indices) != 1 or isinstance(of, ir.PointerType):
            return super().gep(ptr, indices, **more)
        (index,) = indices
        return self._register(
            ptr.type, f"getelementptr {of}, {ptr.type} {ptr.get_reference()}, {index.type} {index.get_reference()}"
        )

    def call(self, fn: Any, args: Sequence[Any], name: str = "", fastmath: Sequence[str] = (), **more: Any) -> Any:
        """Call a function."""
        if more or not isinstance(fn, ir.Function) or fn.calling_convention or fn.ftype.var_arg:
            return super().call(fn, args, name, fastmath=fastmath, **more)
        kind = fn.ftype
        if not all(map(_same, (a.type for a in args), kind.args)) or len(args) != len(kind.args):
            raise TypeError(f"{fn.name} of {[str(a.type) for a in args]} instead of {[str(k) for k in kind.args]}")
        given = ", ".join([f"{a.type} {a.get_reference()}" for a in args])
        flags = "".join([f" {flag}" for flag in sorted(fastmath)])
        text = f"call{flags} {kind.return_type} {fn.get_reference()}({given})"
        if not isinstance(kind.return_type, ir.VoidType):
            return self._register(kind.return_type, text)
        self._block.scope.register("", True)
        self._write(text)
        return None

    def extract_value(self, agg: Any, idx: int) -> Register:
        """A member of a structure."""
        return self._register(agg.type.elements[idx], f"extractvalue {agg.type} {agg.get_reference()}, {idx}")

    def insert_value(self, agg: Any, value: Any, idx: int) -> Register:
        """A structure with another member."""
        if not _same(agg.type.elements[idx], value.type):
            raise TypeError(f"{value.type} as member {idx} of {agg.type}")
        return self._register(
            agg.type, f"insertvalue {agg.type} {agg.get_reference()}, {value.type} {value.get_reference()}, {idx}"
        )


def annotate(block: ir.Block, operation: str, name: str, values: Sequence[Any]) -> None:
    """Attach metadata to the last instruction of a block that is a ``load`` or a ``store``."""
    at = next(at for at in reversed(range(len(block.instructions))) if _name_of(block.instructions[at]) == operation)
    block.instructions[at] = f"{block.instructions[at]}, !{name} {block.module.add_metadata(values).get_reference()}"


def annotate_accesses(blocks: Iterable[ir.Block], name: str, node: Any) -> None:
    """Attach a node of metadata to each ``load`` and ``store`` of some blocks."""
    for block in blocks:
        for at, instruction in enumerate(block.instructions):
            if _name_of(instruction) in ("load", "store"):
                block.instructions[at] = f"{instruction}, !{name} {node.get_reference()}"


def _name_of(instruction: Any) -> str:
    words = str(instruction).split(" ", 3)
    return words[2] if words[1:2] == ["="] else words[0]


def _binary(operation: str) -> Callable[..., Register]:
    def build(self: Builder, lhs: Any, rhs: Any, name: str = "", flags: Sequence[str] = ()) -> Register:
        """The result of an operation on two numbers or vectors."""
        kind = lhs.type
        if not _same(kind, rhs.type):
            raise ValueError(f"{operation} of {kind} and {rhs.type}")
        words = " ".join([operation, *flags])
        return self._register(kind, f"{words} {kind} {lhs.get_reference()}, {rhs.get_reference()}")

    return build


def _cast(operation: str) -> Callable[..., Any]:
    def build(self: Builder, value: Any, typ: ir.Type) -> Any:
        """The value as one of another type."""
        kind = value.type
        if _same(kind, typ):
            return value
        return self._register(typ, f"{operation} {kind} {value.get_reference()} to {typ}")

    return build


for _operation in ("add", "sub", "mul", "fadd", "fsub", "fmul", "fdiv", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr"):
    setattr(Builder, _operation, _binary(_operation))
for _operation in ("and", "or"):
    setattr(Builder, f"{_operation}_", _binary(_operation))
Builder.xor = _binary("xor")
for _operation in ("zext", "sext", "trunc", "bitcast", "inttoptr", "ptrtoint", "sitofp", "uitofp", "fpext", "fptrunc"):
    setattr(Builder, _operation, _cast(_operation))
