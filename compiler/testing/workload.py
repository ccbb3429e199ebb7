"""Random parameters of networks: ``create_workload``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.tensor_types import TensorType, numpy_dtype
from ...shape_funcs.symbolic.dim import const
from ...vm.diagnostics import codes
from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.source import TypeCheckError
from ..ir.expr import Function, IRModule
from ..transform.typed_form import typed_form

Workload = tuple[IRModule, dict[str, np.ndarray]]
#: Fills the array of the parameter of this name.
Initializer = Callable[[str, np.ndarray], None]


def create_workload(net: Function, initializer: Initializer | None = None, seed: int = 0) -> Workload:
    """The typed module of the network ``net``, and a value for each parameter without an annotation, by name.

    ``initializer(name, array)`` fills an array of zeros; None for ``random_weights(seed)``.  Raises TypeCheckError for a
    parameter with an unknown size.
    """
    if not isinstance(net, Function):
        raise wrong("create_workload: the network", "a relay.Function", net)
    module = typed_form(IRModule({"main": net}))
    fill = initializer or random_weights(seed)
    params: dict[str, np.ndarray] = {}
    for declared, param in zip(net.params, module["main"].params, strict=True):
        if declared.annotation is None:
            ty = param.ty
            sizes = [const(d) for d in ty.shape] if isinstance(ty, TensorType) else [None]
            if not isinstance(ty, TensorType) or None in sizes:
                help = "give the data a known size along the axis that decides it"
                raise TypeCheckError(f"%{param.name} is {ty}: no value can be drawn", param.span, help=help, code=codes.Type.SIZE)
            params[param.name] = np.zeros([n for n in sizes if n is not None], numpy_dtype(ty.dtype))
            fill(param.name, params[param.name])
    return module, params


def random_weights(seed: int = 0) -> Initializer:
    """The initializer of random weights; scales and variances are 1, other vectors stay 0.

    The standard deviation is ``n ** -0.5`` for ``n`` elements per index of the largest axis, so that the values of a layer are
    about as large as those of the layer before.
    """
    random = np.random.default_rng(seed)

    def fill(name: str, array: np.ndarray) -> None:
        if name.endswith(("gamma", "moving_var")):
            array[...] = 1
        elif array.ndim > 1:
            array[...] = random.normal(0, (array.size / max(array.shape)) ** -0.5, array.shape)

    return fill
