"""``relay.prelude.TensorArrayOps``, ``StaticTensorArrayOps``: types and functions of tensor arrays of one dtype, or one shape."""

from __future__ import annotations

from typing import Any

from ...ops.core.adt_types import GlobalTypeVar
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Constructor, GlobalVar
from .prelude import Prelude


class TensorArrayOps:
    """The tensor arrays of one dtype, whose elements have rank 0 to 6.  Raises ArgumentError."""

    def __init__(self, prelude: Prelude, dtype: str) -> None:
        if not isinstance(prelude, Prelude):
            raise wrong(f"{type(self).__name__}: the prelude", "a relay.prelude.Prelude", prelude)
        self.prelude, self.dtype = prelude, dtype
        self.get_name("tensor_t")  # raises

    def get_name(self, canonical: str) -> str:
        """The name in the module: ``tensor_array_read`` is ``tensor_array_read_float32``."""
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """A function, as ``tensor_array_read``.  Raises UnknownName."""
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """A type, as ``tensor_t``.  Raises UnknownName."""
        return self.prelude.get_type(canonical, self.dtype)

    def get_ctor(self, canonical: str) -> Constructor:
        """A constructor of ``tensor_t``, as ``tensor1``.  Raises UnknownName."""
        return self.prelude.get_tensor_ctor(canonical, self.dtype)

    def register(self) -> None:
        """Add the types and functions to the module; a program uses those that it names."""
        self.get_type("tensor_t")

    # each of Relay's methods for one of them adds all
    define_tensor_adt = define_tensor_array = define_tensor_take = define_tensor_expand_dims = register
    define_tensor_array_read = define_tensor_array_write = define_tensor_array_stack = define_tensor_array_gather = register
    define_tensor_array_concat = register


class StaticTensorArrayOps(TensorArrayOps):
    """The tensor arrays of one dtype whose elements have one shape; sizes may be ``relay.Any()``.

    ``batch_dim`` has no effect: the functions take any number of elements.  Raises ArgumentError.
    """

    def __init__(self, prelude: Prelude, dtype: str, shape: Any, batch_dim: int | None = None) -> None:
        self.shape, self.batch_dim = shape, batch_dim
        super().__init__(prelude, dtype)

    def get_name(self, canonical: str, extra_shapes: Any = None) -> str:
        """The name in the module: ``tensor_array_read`` is ``tensor_array_read_float32_2_3``; ``extra_shapes`` has no effect."""
        return self.prelude.get_name_static(canonical, self.dtype, self.shape)

    define_tensor_get_data = define_tensor_concatenate = define_tensor_array_unstack = TensorArrayOps.register

    def define_tensor_array_scatter(self, indices_shape: Any = None, force_update: bool = False) -> None:
        """Add the types and functions to the module; the function takes any number of indices."""
        self.register()

    def define_tensor_array_split(self, value_shape: Any = None, lengths_shape: Any = None, force_update: bool = False) -> None:
        """Add the types and functions; with ``force_update`` the function splits tensors of ``value_shape``.

        It takes any number of lengths.  Raises ArgumentError.
        """
        self.register()
        if value_shape is not None and force_update:
            self.prelude.split_values_of(self.dtype, self.shape, value_shape)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """A function, as ``tensor_array_read``.  Raises UnknownName."""
        return self.prelude.get_global_var_static(canonical, self.dtype, self.shape)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """A type, as ``tensor_t``.  Raises UnknownName."""
        return self.prelude.get_type_static(canonical, self.dtype, self.shape)

    def get_ctor(self, canonical: str) -> Constructor:
        """A constructor of ``tensor_t``: ``tensor_nil`` or ``tensor_constructor``.  Raises UnknownName."""
        return self.prelude.get_tensor_ctor_static(canonical, self.dtype, self.shape)
