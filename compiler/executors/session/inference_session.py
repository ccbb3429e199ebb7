"""``relay.InferenceSession``: a session with onnxruntime's interface, over a machine for each thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....ops.core.tensor_types import TensorType
from ....shape_funcs.symbolic.dim import Dim, name_of
from ....shape_funcs.symbolic.dim import const as known_size
from ....vm.api.machine import VirtualMachine
from ....vm.diagnostics.argument_errors import a_mapping, wrong
from ....vm.diagnostics.source import ConfigError, InputError
from ....vm.thread_count import set_num_threads
from ...compile import compile
from ...load_program import function_of
from ...onnx_frontend.importing.reading import read_proto
from ..result_arrays import array_of
from .options import LEVELS, PROFILE_HELP, RunOptions, SessionOptions
from .providers import PROVIDERS, chosen
from .values import IOBinding, OrtValue, type_text

_NO_PROFILE = "a session has no profile of its own"


@frozen
class NodeArg:
    """An input or an output: name, type such as ``tensor(float)``, and sizes: a number, a name, or None."""

    name: str
    type: str
    shape: list[Any]


@frozen
class ModelMetadata:
    """The facts that a model tells about itself."""

    producer_name: str
    graph_name: str
    graph_description: str
    domain: str
    description: str
    version: int
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A compiled model of ONNX.  Threads may call ``run`` at the same time: each has a machine of its own.

    ``path_or_bytes``: the path of a ``.onnx`` file, or a model's bytes.  ``providers``: the first that this computer has decides
    the device.  ``vm`` is the machine of the calling thread.  Raises as ``relay.compile``, and ConfigError for wrong options.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **others: Any,
    ) -> None:
        options = sess_options or SessionOptions()
        options.check()
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise wrong("path_or_bytes", "the path of a model, or its bytes", path_or_bytes)
        if options.intra_op_num_threads:
            set_num_threads(options.intra_op_num_threads)
        self._options, self._provider = options, chosen(providers)
        self._model = path_or_bytes if isinstance(path_or_bytes, bytes) else Path(path_or_bytes)
        level = LEVELS.get(options.graph_optimization_level)
        config: dict[str, Any] = {} if level is None else {"opt_level": level}
        self._exe = compile(self._source(), target=PROVIDERS[self._provider], **config)
        self._threads = threading.local()

    def _source(self) -> Any:
        """The model; with the sizes that the options fix."""
        if isinstance(self._model, Path) and not self._options.free_dimensions:
            return str(self._model)
        proto = read_proto(self._model if isinstance(self._model, bytes) else str(self._model), "InferenceSession")
        for given in proto.graph.input:
            for dim in given.type.tensor_type.shape.dim:
                if dim.dim_param in self._options.free_dimensions:
                    dim.dim_value = self._options.free_dimensions[dim.dim_param]
        return proto

    @property
    def vm(self) -> VirtualMachine:
        """The machine of the calling thread."""
        if not hasattr(self._threads, "vm"):
            self._threads.vm = VirtualMachine(self._exe)
        found: VirtualMachine = self._threads.vm
        return found

    # ---- facts ----------------------------------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """The inputs of the model that have no default."""
        return self._all_inputs()[: len(self._exe.inputs) - self._defaults]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs with a default, which a run may replace."""
        return self._all_inputs()[len(self._exe.inputs) - self._defaults :]

    def _all_inputs(self) -> list[NodeArg]:
        return [_node_arg(name, ty) for name, ty in self._exe.inputs]

    @property
    def _defaults(self) -> int:
        """The number of inputs with a default: they are the last."""
        return len(function_of(self._exe, "main").defaults)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs of the model."""
        return [_node_arg(name, ty) for name, ty in self._exe.outputs]

    def get_providers(self) -> list[str]:
        """The provider of the session."""
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the provider: none has any here."""
        return {self._provider: {}}

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None) -> None:
        """Raises ConfigError for another provider than the session's: a program is compiled for one device."""
        if chosen(providers) != self._provider:
            raise ConfigError("the provider of a session cannot be changed", help="make a session with providers=[...]")

    def enable_fallback(self) -> None:
        """Nothing: no run falls back to another provider."""

    def disable_fallback(self) -> None:
        """Nothing: no run falls back to another provider."""

    def end_profiling(self) -> str:
        """Raises ConfigError: profiles are made by ``session.vm.profile``."""
        raise ConfigError(_NO_PROFILE, help=PROFILE_HELP)

    def get_profiling_start_time_ns(self) -> int:
        """Raises ConfigError, as ``end_profiling``."""
        raise ConfigError(_NO_PROFILE, help=PROFILE_HELP)

    def get_session_options(self) -> SessionOptions:
        """The options of the session."""
        return self._options

    def get_modelmeta(self) -> ModelMetadata:
        """The facts that the model tells about itself."""
        proto = read_proto(self._model if isinstance(self._model, bytes) else str(self._model), "InferenceSession")
        return ModelMetadata(
            proto.producer_name, proto.graph.name, proto.graph.doc_string, proto.domain, proto.doc_string, proto.model_version,
            {entry.key: entry.value for entry in proto.metadata_props},
        )  # fmt: skip

    # ---- runs -----------------------------------------------------------------------------------------------------------

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """The outputs of these names, or all, as arrays; a sequence is a list.

        Raises InputError for inputs that do not fit, VMError for errors of the run.
        """
        return [array_of(value) for value in self._results(output_names, input_feed)]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:  # fmt: skip
        """The outputs as values, which stay on their device."""
        feed = {name: value.value for name, value in input_dict_ort_values.items()}
        return [OrtValue(value) for value in self._results(output_names, feed)]

    def run_async(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None], user_data: Any, run_options: RunOptions | None = None,
    ) -> None:  # fmt: skip
        """Run in another thread, and call ``callback(results, user_data, error)``; ``error`` is "" for a run without one."""

        def work() -> None:
            try:
                found, error = self.run(output_names, input_feed), ""
            except Exception as raised:  # the caller's thread has gone on: its function hears of every error
                found, error = [], str(raised)
            callback(found, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        """A binding of inputs and outputs to memory."""
        return IOBinding([output.name for output in self.get_outputs()])

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with bound inputs, and store the outputs in the binding."""
        iobinding.store(self._results(iobinding.wanted, iobinding.inputs))

    def _results(self, names: Sequence[str] | None, feed: Mapping[str, Any]) -> tuple[Any, ...]:
        given = a_mapping(feed, "InferenceSession.run: input_feed", "arrays by the names of inputs")
        self._check_names(names)
        wanted = list(names) if names is not None else [name for name, _ in self._exe.outputs]
        found: tuple[Any, ...] = self.vm.run(outputs=wanted, **given)
        return found

    def _check_names(self, names: Sequence[str] | None) -> None:
        if isinstance(names, str):
            raise wrong("InferenceSession.run: output_names", "a list of names, or None", names)
        if names is not None and not names:
            raise InputError("no output is asked for", help="None stands for all outputs")


def _node_arg(name: str, ty: Any) -> NodeArg:
    if not isinstance(ty, TensorType):
        return NodeArg(name, "seq(tensor)", [])
    return NodeArg(name, type_text(ty.dtype), list(map(_size, ty.shape)))


def _size(size: Dim) -> int | str | None:
    """A number, the name of an open size, or None."""
    known = known_size(size)
    return known if known is not None else name_of(size) or None
