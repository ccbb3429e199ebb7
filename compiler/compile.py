"""Compile a program to an executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ops.native.compiled.compile_reports import logged
from ..ops.native.gc_pause import collection_paused
from ..vm.api.executable import Executable
from ..vm.device_table import DEVICES
from ..vm.machine.machine_code import compile_ahead
from .inputs.model_files import is_model_file
from .settings.config import Config
from .settings.targets import device_of
from .transform.pass_context import context_options
from .tuning.settings import Tuning

if TYPE_CHECKING:
    from .ir.expr import IRModule
    from .lowered import Program


def compile(
    mod: Program,
    target: str = DEVICES[0],
    params: Mapping[str, Any] | None = None,
    *,
    optimize: bool = True,
    tune_seconds: float | None = None,
    tune_sizes: Mapping[str, int | Sequence[int]] | None = None,
    **config: Any,
) -> Executable:
    """The executable of ``mod`` for the device ``target``; Relay's ``llvm`` is ``cpu``.

    ``mod`` is a module, a function (it becomes ``main``), a program's text, the Path of a text, the path of a model (``.onnx``),
    a ``ModelProto`` of the package onnx, or a ``torch.export.ExportedProgram``.  ``params``: values for parameters of ``main``,
    by name; they become constants.  ``config``: see ``Config``; within a ``relay.transform.PassContext`` its ``opt_level`` is the
    default.

    For operators with several implementations, times measured on this machine choose (``tune="cached"``).  Nothing is measured
    unless ``tune`` is ``"budgeted"`` (for ``tune_seconds``, 60 if that is None) or ``"full"``.  ``tune_sizes``: the sizes to
    measure at, by the names of unknown dims.  With ``optimize=False`` no records are read or written.

    The executable of a file is stored in the folder of the kernel cache, and loaded from it as long as nothing that the
    compiler reads has changed (see docs/cache.md).

    A compilation of more than 2 s is reported to the logger ``relayvm``, at the level INFO.

    Raises ParseError, ModelError, TypeCheckError, ConfigError, and InputError for ``params`` and ``tune_sizes`` that do not fit.
    """
    with logged():
        return _compiled(mod, target, params, Config.of(**{**context_options(), **config}), optimize, tune_seconds, tune_sizes)


def _compiled(
    mod: Program,
    target: str,
    params: Mapping[str, Any] | None,
    settings: Config,
    optimize: bool,
    tune_seconds: float | None,
    tune_sizes: Mapping[str, int | Sequence[int]] | None,
) -> Executable:
    tuning = Tuning.of(optimize, settings.tune, tune_seconds, tune_sizes)
    if (isinstance(mod, Path) or is_model_file(mod)) and not params and not tuning.measures:
        return _compiled_file(Path(str(mod)), device_of(target), settings, tuning)
    from .lowered import lowered  # every pass, which an executable from the cache does without

    return lowered(mod, target, params, settings, tuning).emit()


@collection_paused()
def _compiled_file(path: Path, device: str, settings: Config, tuning: Tuning) -> Executable:
    """The executable of a text's or a model's file, from the cache if it is there."""
    from .executable_cache import cached

    def compiled() -> tuple[Executable, Mapping[str, Path]]:
        compile_ahead()
        from .lowered import lowered  # every pass, which an executable from the cache does without

        module: IRModule | Path = path
        files: Mapping[str, Path] = {}
        if is_model_file(path):
            from .onnx_frontend.importing.from_onnx import module_of_file  # many files, that texts do not need

            module, files = module_of_file(path)
        return lowered(module, device, None, settings, tuning).emit(), files

    return cached(path, device, settings, tuning, compiled)
