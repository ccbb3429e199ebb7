"""``relay.Prelude``: the standard library's types and functions in a module, by name."""

from __future__ import annotations

from typing import Any

from ...ops.core.similar_names import did_you_mean
from ...vm.api.argument_errors import wrong
from ..ir.expr import GlobalVar, IRModule
from .type_definitions import get_type, import_from_std

#: The attributes that name types and constructors: each type with Relay's names for it and for its constructors.
_TYPES = {"List": ("rlist", "cons", "nil"), "Option": ("optional", "some", "none"), "Tree": ("tree", "rose")}


class Prelude:
    """``Prelude(mod)`` adds the standard library to ``mod``, by default a new module: ``prelude.mod``.

    ``prelude.map`` is the GlobalVar of a function; ``rlist``, ``cons``, ``nil``, ``optional``, ``some``, ``none``, ``tree`` and
    ``rose`` are types and constructors.  An unknown name raises AttributeError.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        if not isinstance(mod, (IRModule, type(None))):
            raise wrong("Prelude: the module", "an IRModule", mod)
        self.mod = IRModule() if mod is None else mod
        import_from_std(self.mod, "prelude.rly")
        for name, attributes in _TYPES.items():
            for attribute, found in zip(attributes, get_type(self.mod, name), strict=True):
                setattr(self, attribute, found)

    def __getattr__(self, name: str) -> Any:
        functions = vars(self)["mod"].functions if "mod" in vars(self) else {}
        if name not in functions:
            raise AttributeError(f"the prelude has no {name}{did_you_mean(name, functions)}", name=name, obj=self)
        return GlobalVar(name)
