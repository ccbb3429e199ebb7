"""``relay.vm.compile`` and ``relay.vm.VMCompiler``: ``relay.compile`` under Relay's names, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.core.ndarray import NDArray
from ...vm.api.executable import Executable
from ...vm.device_table import DEVICES
from ...vm.diagnostics import codes
from ...vm.diagnostics.argument_errors import a_mapping
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, ConfigError, InputError
from ..ir.expr import IRModule
from ..lowered import Lowered, Program, as_module, lowered
from ..settings.config import Config
from ..settings.targets import device_of
from ..transform.pass_context import context_options
from ..tuning.settings import Tuning


class VMCompiler:
    """The compilation of one module: ``lower``, ``codegen``, ``get_exec``; ``optimize`` ends before ``codegen``.

    ``relay.compile`` has options besides.
    """

    def __init__(self) -> None:
        self._params: dict[str, NDArray] = {}
        self._lowered: Lowered | None = None
        self._executable: Executable | None = None

    def set_params(self, params: Mapping[str, Any] | None) -> None:
        """Values for parameters of ``main`` by name, which become constants.  Names of no parameter are ignored."""
        given = a_mapping(params, "VMCompiler.set_params: params", "parameters of @main by name")
        self._params = {name: _copied(name, value) for name, value in given.items()}

    def get_params(self) -> dict[str, NDArray]:
        """The values of ``set_params``."""
        return dict(self._params)

    def lower(self, mod: Program, target: str = DEVICES[0], target_host: str | None = None) -> None:
        """Run every pass.  Raises ParseError, TypeCheckError, ConfigError, and InputError for values that do not fit."""
        check_target_host(target_host)
        settings = Config.of(**context_options())
        module = as_module(mod, "VMCompiler.lower")
        params = known_params(module, self._params)
        self._executable = None
        self._lowered = lowered(module, target, params, settings, Tuning.of(True, settings.tune, None, None), "VMCompiler.lower")

    def codegen(self) -> None:
        """Emit the executable.  Raises ArgumentError before ``lower``."""
        if self._lowered is None:
            raise ArgumentError("VMCompiler.codegen: no module has been lowered", here(), help="call lower(mod, target) first")
        self._executable = self._lowered.emit()

    def get_exec(self) -> Executable:
        """The executable.  Raises ArgumentError before ``codegen``."""
        if self._executable is None:
            help = "call lower(mod, target) and codegen() first"
            raise ArgumentError("VMCompiler.get_exec: there is no executable yet", here(), help=help)
        return self._executable

    def optimize(
        self, mod: Program, target: str = DEVICES[0], target_host: str | None = None, params: Mapping[str, Any] | None = None
    ) -> tuple[IRModule, dict[str, NDArray]]:
        """The module after every pass, and the values of ``set_params`` or ``params``.  Raises as ``lower``."""
        if params is not None:
            self.set_params(params)
        self.lower(mod, target, target_host)
        assert self._lowered is not None
        return self._lowered.module, self.get_params()


def compile(
    mod: Program, target: str = DEVICES[0], target_host: str | None = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """The executable of ``mod``: Relay's form of ``relay.compile``.  Raises as ``VMCompiler.lower``."""
    compiler = VMCompiler()
    compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


def optimize(
    mod: Program, target: str = DEVICES[0], params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module after every pass, and the values of ``params``: ``relay.optimize``.  Raises as ``VMCompiler.lower``."""
    return VMCompiler().optimize(mod, target, params=params)


def _copied(name: str, value: Any) -> NDArray:
    try:
        return np.array(value, order="C").view(NDArray)
    except (TypeError, ValueError) as error:
        what = f"params: %{name} is no array: {type(value).__name__}"
        raise InputError(what, help=str(error), code=codes.Input.PARAMETERS) from None


def check_target_host(target_host: str | None) -> None:
    """Raises ConfigError for a target of host code other than the CPU."""
    if target_host is not None and device_of(target_host) != DEVICES[0]:
        raise ConfigError(f"target_host cannot be {target_host!r}", help=f"host code runs on {DEVICES[0]}; leave it out")


def known_params(module: IRModule, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``params`` that are parameters of ``main``: Relay ignores the others."""
    names = {p.name for p in module["main"].params} if "main" in module.functions else set()
    return {name: value for name, value in params.items() if name in names}
