"""Functions of onnxruntime's package beside its classes."""

from __future__ import annotations


def set_default_logger_severity(severity: int) -> None:
    """Nothing: the package logs by Python's ``logging``, under the name ``relayvm``."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing, as ``set_default_logger_severity``."""


def set_seed(seed: int) -> None:
    """Nothing: operators with random numbers take their seed from the model."""


def disable_telemetry_events() -> None:
    """Nothing: there is no telemetry."""


def enable_telemetry_events() -> None:
    """Nothing: there is no telemetry."""
