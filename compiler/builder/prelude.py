"""``relay.Prelude``: the standard library's types and functions in a module, by name."""

from __future__ import annotations

from typing import Any

from ...ops.core.adt_types import GlobalTypeVar
from ...ops.core.similar_names import did_you_mean
from ...shape_funcs.symbolic.dim import ANY, const
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Constructor, GlobalVar, IRModule, replace
from ..std import tensor_array
from ..std.tensor_array import suffix
from .build import a_dtype, a_shape
from .module_methods import get_global_var
from .type_definitions import add_text, definition, get_constructor, get_type, import_from_std

#: The attributes that name types and constructors: each type with Relay's names for it and for its constructors.
_TYPES = {"List": ("rlist", "cons", "nil"), "Option": ("optional", "some", "none"), "Tree": ("tree", "rose")}


class Prelude:
    """``Prelude(mod)`` adds the standard library to ``mod``, by default a new module: ``prelude.mod``.

    ``prelude.map`` is the GlobalVar of a function; ``rlist``, ``cons``, ``nil``, ``optional``, ``some``, ``none``, ``tree`` and
    ``rose`` are types and constructors.  An unknown name raises AttributeError.

    Functions of tensor arrays are added when they are asked for: ``prelude.get_global_var("tensor_array_read", "float32")``.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        if not isinstance(mod, (IRModule, type(None))):
            raise wrong("Prelude: the module", "an IRModule", mod)
        self.mod = IRModule() if mod is None else mod
        import_from_std(self.mod, "prelude.rly")
        for name, attributes in _TYPES.items():
            for attribute, found in zip(attributes, get_type(self.mod, name), strict=True):
                setattr(self, attribute, found)

    # ---- tensor arrays -----------------------------------------------------------------------------------------------

    def get_name(self, canonical: str, dtype: str) -> str:
        """The name of a type or function of tensor arrays for a dtype: ``tensor_array_read_float32``."""
        dtype = a_dtype(dtype)
        return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_global_var(self, canonical: str, dtype: str) -> GlobalVar:
        """A function of tensor arrays, as ``tensor_array_read``.  Raises UnknownName."""
        self._add_dtype(dtype)
        return get_global_var(self.mod, self.get_name(canonical, dtype))

    def get_type(self, canonical: str, dtype: str) -> GlobalTypeVar:
        """The type ``tensor_t`` of the elements of tensor arrays.  Raises UnknownName."""
        self._add_dtype(dtype)
        return definition(self.mod, self.get_name(canonical, dtype)).header

    def get_ctor(self, ty_name: str, canonical: str, dtype: str) -> Constructor:
        """A constructor of a type, as ``get_ctor("tensor_float32_t", "tensor_nil", "float32")``.  Raises UnknownName."""
        self._add_dtype(dtype)
        return get_constructor(self.mod, ty_name, self.get_name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """A constructor of ``tensor_t``: ``tensor_nil``, ``tensor0`` to ``tensor6``.  Raises UnknownName."""
        return self.get_ctor(self.get_name("tensor_t", dtype), canonical, dtype)

    def _add_dtype(self, dtype: str) -> None:
        if self.get_name("tensor_t", dtype) not in self.mod.type_definitions:
            add_text(self.mod, tensor_array.text(dtype))

    def get_name_static(self, canonical: str, dtype: str, shape: Any) -> str:
        """The name of a type or function of tensor arrays of one shape: ``tensor_array_read_float32_2_3``."""
        dtype, sizes = a_dtype(dtype), _sizes(shape)
        return tensor_array.static_type(dtype, sizes) if canonical == "tensor_t" else f"{canonical}_{dtype}_{suffix(sizes)}"

    def get_global_var_static(self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None) -> GlobalVar:
        """A function of tensor arrays of one shape; ``batch_dim`` has no effect.  Raises UnknownName."""
        self.add_shape(dtype, shape)
        return get_global_var(self.mod, self.get_name_static(canonical, dtype, shape))

    def get_type_static(self, canonical: str, dtype: str, shape: Any) -> GlobalTypeVar:
        """The type ``tensor_t`` of the elements of tensor arrays of one shape.  Raises UnknownName."""
        self.add_shape(dtype, shape)
        return definition(self.mod, self.get_name_static(canonical, dtype, shape)).header

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Any) -> Constructor:
        """A constructor of the type ``ty_name``, as of ``tensor_t`` (see ``get_tensor_ctor_static``).  Raises UnknownName."""
        self.add_shape(dtype, shape)
        return get_constructor(self.mod, self.get_name_static(ty_name, dtype, shape), self.get_name_static(name, dtype, shape))

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Any) -> Constructor:
        """A constructor of ``tensor_t``: ``tensor_nil``, or ``tensor_constructor``, which takes a tensor of the shape.

        Raises UnknownName.
        """
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    def add_shape(self, dtype: str, shape: Any) -> None:
        """Add the types and functions of tensor arrays of one shape, if the module lacks them."""
        dtype, sizes = a_dtype(dtype), _sizes(shape)
        if self.get_name_static("tensor_array", dtype, shape) in self.mod.functions:
            return
        for each in dict.fromkeys(tensor_array.static_shapes(sizes)):
            if tensor_array.static_type(dtype, each) not in self.mod.type_definitions:
                add_text(self.mod, tensor_array.static_definition(dtype, each))
        add_text(self.mod, tensor_array.static_text(dtype, sizes))
        if sizes and sizes[0] is not None:  # whose functions split and concatenate
            self.add_shape(dtype, (ANY, *a_shape(shape, "Prelude")[1:]))

    def split_values_of(self, dtype: str, shape: Any, value_shape: Any) -> None:
        """Replace the function that splits tensors of ``shape`` by the function that splits those of ``value_shape``."""
        for each in (shape, value_shape):
            self.add_shape(dtype, each)
        name = self.get_name_static("tensor_array_split", dtype, shape)
        left = {n: f for n, f in self.mod.functions.items() if n not in (name, f"{name}_from")}
        changed = replace(self.mod, functions=left)
        add_text(changed, tensor_array.static_split(a_dtype(dtype), _sizes(shape), _sizes(value_shape)))
        self.mod.update(changed)

    def __getattr__(self, name: str) -> Any:
        functions = vars(self)["mod"].functions if "mod" in vars(self) else {}
        if name not in functions:
            raise AttributeError(f"the prelude has no {name}{did_you_mean(name, functions)}", name=name, obj=self)
        return GlobalVar(name)


def _sizes(shape: Any) -> tuple[int | None, ...]:
    """The sizes of a shape; None for each unknown size."""
    return tuple(map(const, a_shape(shape, "Prelude")))
