"""Options of sessions and of runs, with onnxruntime's names."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from ....vm.diagnostics.source import ConfigError


class GraphOptimizationLevel(enum.IntEnum):
    """Levels of optimisation."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether independent operators run side by side: they do not, here; kernels use the threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


#: The way to a profile.
PROFILE_HELP = "session.vm.profile(...), or relayvm profile"
#: ``opt_level`` for each level of optimisation; the others have the default.
LEVELS = {GraphOptimizationLevel.ORT_DISABLE_ALL: 0, GraphOptimizationLevel.ORT_ENABLE_BASIC: 1}


@dataclass
class SessionOptions:
    """Options of a session.

    ``intra_op_num_threads`` sets the threads of the process (``relay.set_num_threads``); 0: as it is.  Options that only change
    onnxruntime's memory, logs and scheduling are accepted and change nothing.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    use_deterministic_compute: bool = False
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    enable_profiling: bool = False
    profile_file_prefix: str = ""
    execution_order: int = 0
    optimized_model_filepath: str = ""
    #: Sizes by the names of open dimensions; entries of ``add_session_config_entry``.
    free_dimensions: dict[str, int] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Fix the size of an open dimension."""
        self.free_dimensions[dim_name] = int(dim_value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Store an entry; none changes anything here."""
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """An entry.  Raises KeyError."""
        return self.entries[key]

    def has_providers(self) -> bool:
        """False: ``InferenceSession`` takes the providers."""
        return False

    def add_free_dimension_override_by_denotation(self, denotation: str, dim_value: int) -> None:
        """Raises ConfigError: sizes are told apart by their names here."""
        raise ConfigError(
            f"the size {denotation!r} is named by what it denotes", help="add_free_dimension_override_by_name(name, value)"
        )

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Raises ConfigError: a program is compiled with its weights."""
        raise ConfigError(f"the weight {name!r} cannot be replaced by an option", help=_WEIGHTS_HELP)

    def add_external_initializers(self, names: Any, ort_values: Any) -> None:
        """Raises ConfigError, as ``add_initializer``."""
        raise ConfigError("weights cannot be replaced by an option", help=_WEIGHTS_HELP)

    def register_custom_ops_library(self, path: Any) -> None:
        """Raises ConfigError: operators of users are Python here."""
        raise ConfigError(
            "a library of custom operators cannot be loaded", help="register the operator in Python: relay.register_op"
        )

    def check(self) -> None:
        """Raise ConfigError for options whose effect a caller would miss."""
        if self.enable_profiling:
            raise ConfigError("enable_profiling has no effect on a session", help=PROFILE_HELP)
        if self.optimized_model_filepath:
            raise ConfigError("there is no optimised model of ONNX", help='session.vm.exe.save("model.rvm")')


#: The way to other weights.
_WEIGHTS_HELP = 'relay.compile(relay.frontend.from_onnx(path)[0], params={"name": array})'


@dataclass
class RunOptions:
    """Options of a run, which change nothing here; Ctrl-C ends a run."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    terminate: bool = False
    only_execute_path_to_fetches: bool = False
    training_mode: bool = False
    entries: dict[str, str] = field(default_factory=dict)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Store an entry; none changes anything here."""
        self.entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """An entry.  Raises KeyError."""
        return self.entries[key]
