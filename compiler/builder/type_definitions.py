"""Type definitions of a module under Relay's names, and modules of the standard library (see ``ir_methods``)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ...ops.core.adt_types import GlobalTypeVar, TypeCall
from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import DTYPES, Type
from ...vm.diagnostics.argument_errors import UnknownName, a_text
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.by_name import ByName
from ..ir.expr import Constructor, IRModule, TypeData, replace
from ..std import tensor_array
from ..text.header import VERSION_LINE
from ..text.parser import parse

#: The file that every other file of the library may use.
_PRELUDE = "prelude.rly"
_STD = Path(__file__).parents[1] / "std"
#: A function of the prelude, which is the library's own in a module to which the prelude was added.
_A_FUNCTION = "foldl"


def add_definitions(module: IRModule, definitions: dict[str, TypeData]) -> None:
    """Add type definitions.  Raises ArgumentError for a constructor that another type of the module has."""
    owners = {c.name_hint: name for name, data in module.type_definitions.items() for c in data.constructors}
    for name, data in definitions.items():
        for c in data.constructors:
            if owners.get(c.name_hint, name) != name:
                message = f"the constructor {c.name_hint} of {name} is one of {owners[c.name_hint]}, too"
                raise ArgumentError(message, here(), help="give one of them another name")
    object.__setattr__(module, "type_definitions", ByName({**module.type_definitions, **definitions}))


def definition(module: IRModule, name: str) -> TypeData:
    """The type definition of a name.  Raises UnknownName."""
    if a_text(name, "the type's name") not in module.type_definitions:
        add_tensor_arrays(module, name)
    if name not in module.type_definitions:
        message = f"the module has no type {name}{did_you_mean(name, module.type_definitions)}"
        raise UnknownName(message, here(), help=f"its types: {', '.join(module.type_definitions) or 'none'}")
    return module.type_definitions[name]


def get_type(self: IRModule, name: str) -> tuple[Any, ...]:
    """The GlobalTypeVar of a type definition, then its constructors.  Raises UnknownName."""
    data = definition(self, name)
    return (data.header, *data.constructors)


def get_global_type_var(self: IRModule, name: str) -> GlobalTypeVar:
    """The name of a type definition.  Raises UnknownName."""
    return definition(self, name).header


def get_global_type_vars(self: IRModule) -> list[GlobalTypeVar]:
    """The names of all type definitions."""
    return [data.header for data in self.type_definitions.values()]


def get_constructor(self: IRModule, adt: str, name: str) -> Constructor:
    """The constructor ``name`` of the type ``adt``.  Raises UnknownName."""
    data = definition(self, adt)
    for constructor in data.constructors:
        if constructor.name_hint == name:
            return constructor
    listed = ", ".join(c.name_hint for c in data.constructors) or "none"
    raise UnknownName(f"the type {adt} has no constructor {name}", here(), help=f"its constructors: {listed}")


def import_(self: IRModule, path: str | Path) -> None:
    """Add the functions and types of a text file; those that the module has already are kept."""
    add_missing(self, parse(Path(path)))


def import_from_std(self: IRModule, name: str) -> None:
    """Add ``prelude.rly``, ``nat.rly``, ``gradient.rly`` or ``core.rly``.

    Functions and types that the module has already are kept.  Raises ArgumentError for a name that is no file of the library.
    """
    known = sorted(path.name for path in _STD.glob("*.rly"))
    if a_text(name, "import_from_std: the name") not in known:
        message = f"the standard library has no {name}{did_you_mean(name, known)}"
        raise ArgumentError(message, here(), help=f"its files: {', '.join(known)}")
    add_missing(self, _std_module(name))


@functools.cache
def _std_module(name: str) -> IRModule:
    prelude = None if name == _PRELUDE else _std_module(_PRELUDE)
    return internal(parse(_STD / name, init_module=prelude))


def list_definition() -> TypeData:
    """The library's type of lists, with the constructors ``Cons`` and ``Nil``."""
    return _std_module(_PRELUDE).type_definitions["List"]


def internal(module: IRModule) -> IRModule:
    """The module with functions that are compiled only where a program uses them."""
    return replace(module, functions={n: f.with_attr("Internal", 1) for n, f in module.functions.items()})


def add_missing(module: IRModule, other: IRModule) -> None:
    """Add the functions and types of a module that ``module`` does not have."""
    add_definitions(module, {n: d for n, d in other.type_definitions.items() if n not in module.type_definitions})
    added = {n: f for n, f in other.functions.items() if n not in module.functions}
    object.__setattr__(module, "functions", ByName({**module.functions, **added}))


def add_tensor_arrays(module: IRModule, name: str) -> None:
    """Add the tensor arrays of a dtype to a module with the prelude, if they have a type or function of this name."""
    library = _std_module(_PRELUDE)
    if _A_FUNCTION not in module or module.functions[_A_FUNCTION] is not library.functions[_A_FUNCTION]:
        return
    dtype = next((d for d in DTYPES if name in (f"tensor_{d}_t", *(f"{each}_{d}" for each in tensor_array.FUNCTIONS))), None)
    if dtype is not None:
        add_text(module, tensor_array.text(dtype))


def add_text(module: IRModule, definitions: str) -> None:
    """Add the definitions of a text, without its version line, which the program need not use."""
    known = set(module.functions)
    parsed = parse(f"{VERSION_LINE}\n{definitions}\n", "tensor_array", init_module=module)
    made = {n: f.with_attr("Internal", 1) for n, f in parsed.functions.items() if n not in known}
    add_missing(module, replace(parsed, functions=made))


def apply(self: GlobalTypeVar, *args: Type) -> TypeCall:
    """The instance of the definition for type arguments: ``list_of(a)``."""
    return TypeCall(self, args)


#: The methods of modules by name; ``ir_methods`` binds them.
METHODS = {
    "get_type": get_type, "get_global_type_var": get_global_type_var, "get_global_type_vars": get_global_type_vars,
    "get_constructor": get_constructor, "import_": import_, "import_from_std": import_from_std,
}  # fmt: skip
