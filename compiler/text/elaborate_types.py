"""Elaborate types and attributes of a syntax tree; collect every error with its place."""

from __future__ import annotations

from typing import Any

from ...ops.core.dtype_words import DTypeProblem, read_dtype
from ...ops.core.op import Op
from ...ops.core.tensor_types import (
    DTYPES,
    MAX_DEPTH,
    MAX_RANK,
    FuncType,
    TensorType,
    TupleType,
    Type,
    TypeTooLarge,
    scalar,
)
from ...ops.defs.machine.machine_ops import DEVICE_COPY, ON_DEVICE
from ...shape_funcs.symbolic.dim import ANY, Dim, dim, sym
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics import codes
from ...vm.diagnostics.codes import Code
from ...vm.diagnostics.source import Diagnostic, SourceText, Span
from ..ir.expr import Constant, Expr, Tuple
from .attributes import AttributeProblem, make_attrs
from .literals import MAX_DIGITS, LiteralError, read_attribute_number, read_size
from .metadata import CONSTANTS, VIRTUAL_DEVICE, Metadata

#: A tree of ``grammar_tables``: ``data`` is the rule, ``children`` are trees and tokens; or a token.
Syntax = Any
#: Devices by DLPack's device types.
_DEVICE_TYPES = {1: "cpu", 2: "cuda"}
#: Relay's names of attributes that are devices.
_DEVICE_ATTRIBUTES = {
    ON_DEVICE.name: {"virtual_device": "device"},
    DEVICE_COPY.name: {"src_virtual_device": "src", "dst_virtual_device": "dst"},
}
#: Attributes of Relay's ``on_device`` about the planning of devices: here a mark always holds for the value.
_CONSTRAINTS = ("constrain_result", "constrain_body")
#: A placeholder for an expression with a recorded error; the module is not returned.
MISTAKE = Tuple(())


class TypeElaborator:
    """The types and attributes of one source; errors are appended to ``problems``."""

    def __init__(self, source: SourceText, problems: list[Diagnostic], metadata: Metadata | None) -> None:
        self.source, self.problems = source, problems
        #: None if it could not be read.
        self.metadata = metadata
        #: The metadata's constants; None if it could not be read.
        self.constants = None if metadata is None else [Constant(data) for data in metadata.constants]

    # ---- places and mistakes ------------------------------------------------------------------------------------

    def span(self, syntax: Syntax) -> Span:
        """The place of a tree or token."""
        return Span(self.source, syntax.start_pos, syntax.end_pos)

    def mistake(
        self, message: str, at: Syntax, help: str | None = None, note: tuple[str, Span | None] | None = None, *, code: Code
    ) -> Expr:
        """Record an error; returns the placeholder expression."""
        self.problems.append(Diagnostic(message, self.span(at), (note,) if note else (), help, code))
        return MISTAKE

    # ---- metadata ------------------------------------------------------------------------------------------------

    def constant(self, tree: Syntax) -> Constant | None:
        """The constant that ``meta[relay.Constant][0]`` names; None after a recorded error."""
        key, number = tree.children
        if key != CONSTANTS:
            message, help = f"the metadata has no {key}", f"there is {CONSTANTS}"
            if self.metadata is not None and str(key) in self.metadata.unread:
                message, help = f"the metadata's {key} is not read", f"{CONSTANTS} is read, and {VIRTUAL_DEVICE} as a device"
            self.mistake(message, key, help, code=codes.Syntax.METADATA)
            return None
        if self.constants is None:
            return None
        if not number.isdigit() or len(number) > MAX_DIGITS or int(number) >= len(self.constants):
            has = f"it has {len(self.constants)}"
            self.mistake(f"the metadata has no constant {number}", number, has, code=codes.Syntax.METADATA)
            return None
        return self.constants[int(number)]

    def device(self, tree: Syntax) -> Any:
        """The name of the device that ``meta[VirtualDevice][0]`` names; MISTAKE after a recorded error."""
        if self.metadata is None:
            return MISTAKE
        devices = self.metadata.devices
        number = tree.children[1]
        if not number.isdigit() or len(number) > MAX_DIGITS or int(number) >= len(devices):
            has = f"it has {len(devices)}"
            return self.mistake(f"the metadata has no {VIRTUAL_DEVICE} {number}", number, has, code=codes.Syntax.METADATA)
        kind = devices[int(number)]
        if kind not in _DEVICE_TYPES:
            known = ", ".join(f"{n} is {name}" for n, name in _DEVICE_TYPES.items())
            return self.mistake(f"there is no device of type {kind}", tree, known, code=codes.Syntax.METADATA)
        return _DEVICE_TYPES[kind]

    # ---- attributes ----------------------------------------------------------------------------------------------

    def attribute_values(self, attributes: list[Syntax]) -> tuple[dict[str, Any], dict[str, Syntax]]:
        """The values of attributes, and their places, by name; a value may be MISTAKE."""
        values: dict[str, Any] = {}
        positions: dict[str, Syntax] = {}
        for item in attributes:
            name = item.children[0]
            if name in positions:
                note = ("first here", self.span(positions[name].children[0]))
                self.mistake(f"a second attribute {name}", name, note=note, code=codes.Syntax.DUPLICATE)
            values[str(name)], positions[str(name)] = self.value(item.children[1]), item
        return values, positions

    def attrs(self, op: Op, call: Syntax, attributes: list[Syntax]) -> Any:
        """The attributes of an operator's call; None after a recorded error."""
        values, positions = self.attribute_values(attributes)
        for theirs, ours in _DEVICE_ATTRIBUTES.get(op.name, {}).items():
            if theirs in values and ours not in values:
                values[ours], positions[ours] = values.pop(theirs), positions.pop(theirs)
        for name in _CONSTRAINTS if op is ON_DEVICE else ():
            values.pop(name, None)
        if any(value is MISTAKE for value in values.values()):
            return None
        try:
            return make_attrs(op, values)
        except AttributeProblem as problem:
            at = call if problem.name is None else positions[problem.name].children[0 if problem.help else 1]
            self.mistake(problem.message, at, problem.help, code=codes.Syntax.ATTRIBUTE)
            return None

    def value(self, tree: Syntax, depth: int = 0) -> Any:
        """The Python value of an attribute, ``depth`` deep in lists."""
        match tree.data:
            case "number":
                text = "".join(tree.children)
                try:
                    return read_attribute_number(text)
                except LiteralError as error:
                    return self.mistake(str(error), tree, error.help, code=codes.Syntax.NUMBER)
            case "bool":
                return tree.children[0] == "True"
            case "string":
                return _unescape(tree.children[0][1:-1])
            case "word":
                return None if tree.children[0] in _NOTHING else str(tree.children[0])
            case "meta" if tree.children[0] == VIRTUAL_DEVICE:
                return self.device(tree)
            case "meta":
                constant = self.constant(tree)
                return MISTAKE if constant is None else constant.data.tolist()
        if depth == MAX_DEPTH:
            return self.mistake(f"lists are nested more than {MAX_DEPTH} deep", tree, code=codes.Syntax.ATTRIBUTE)
        items = [self.value(item, depth + 1) for item in tree.children]
        return MISTAKE if any(item is MISTAKE for item in items) else items

    # ---- types ---------------------------------------------------------------------------------------------------

    def annotation(self, tree: Syntax) -> Type | None:
        return self.type(tree.children[0]) if tree.children else None

    def type(self, tree: Syntax, depth: int = 1) -> Type | None:
        """The type, ``depth`` deep in other types; None for ``_``, which is left to type inference."""
        if depth > MAX_DEPTH and tree.data not in ("tensor_type", "named_type"):
            self.mistake(f"types are nested more than {MAX_DEPTH} deep", tree, code=codes.Syntax.TYPE)
            return scalar(DTYPES[0])
        try:
            return self.shallow_type(tree, depth)
        except TypeTooLarge as error:
            self.mistake(str(error), tree, error.help, code=codes.Syntax.TYPE)
            return TupleType(())

    def shallow_type(self, tree: Syntax, depth: int) -> Type | None:
        """As ``type``.  Raises TypeTooLarge."""
        match tree.data:
            case "tensor_type":
                dims, dtype = tree.children
                if len(dims.children) > MAX_RANK:
                    self.mistake(
                        f"a tensor has at most {MAX_RANK} dimensions, not {len(dims.children)}", dims, code=codes.Syntax.TYPE
                    )
                return TensorType(tuple(self.dim(token) for token in dims.children), self.dtype(dtype))
            case "named_type" | "type_call" if tree.children[0] == "Storage":
                help = "the compiler allocates: a program has tensors only"
                self.mistake("a Storage is memory of the machine, no value of a program", tree, help, code=codes.Syntax.TYPE)
                return TupleType(())
            case "named_type":
                (name,) = tree.children
                return None if name == "_" else scalar(self.dtype(name))
            case "tuple_type":
                return TupleType(tuple(self.inner(item, depth) for item in tree.children))
        params, result = tree.children
        return FuncType(tuple(self.inner(item, depth) for item in params.children), self.inner(result, depth))

    def inner(self, tree: Syntax, depth: int) -> Type:
        ty = self.type(tree, depth + 1)
        if ty is None:
            self.mistake("`_` inside a type", tree, "leave out the whole annotation to have it inferred", code=codes.Syntax.TYPE)
            return TupleType(())
        return ty

    def dtype(self, name: Syntax) -> str:
        try:
            return read_dtype(name)
        except DTypeProblem as problem:
            self.mistake(str(problem), name, problem.help, code=codes.Syntax.TYPE)
            return DTYPES[0]

    def dim(self, token: Syntax) -> Dim:
        """The dim of a number, a ``?``, or a constant of the metadata."""
        if hasattr(token, "data"):
            return self.dim_of_metadata(token)
        if token.startswith("?"):
            return sym(token[1:]) if token != "?" else ANY
        try:
            return dim(read_size(str(token)))
        except LiteralError as error:
            self.mistake(str(error), token, error.help, code=codes.Syntax.TYPE)
            return ANY

    def dim_of_metadata(self, tree: Syntax) -> Dim:
        constant = self.constant(tree)
        if constant is None:
            return ANY
        data = constant.data
        if data.ndim or data.dtype.kind not in "iu" or not 0 <= int(data) <= INT64_MAX:
            help = "a dimension is one integer, 0 or greater"
            self.mistake("this constant of the metadata is no dimension", tree, help, code=codes.Syntax.METADATA)
            return ANY
        return dim(int(data))


#: The words of attribute values that are None.
_NOTHING = ("None", "nullptr")


def tuples(value: Any) -> Any:
    """``value`` with tuples instead of lists."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def _unescape(text: str) -> str:
    return text.replace("\\\\", "\0").replace("\\n", "\n").replace('\\"', '"').replace("\0", "\\")
