"""The devices that programs are compiled for, as users name them."""

from __future__ import annotations

from ...ops.core.implementation import GPU, HOST
from ...ops.core.similar_names import nearest
from ...vm.device_table import DEVICES, machine_of
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ConfigError

#: Other names of the device ``cuda``.
_GPU_NAMES = ("gpu", "nvidia", "cuda:0", "nvptx", "cu")


def device_of(target: str) -> str:
    """The device that Python names as a target: ``llvm``, Relay's target for the CPU, is ``cpu``.  Raises ConfigError."""
    device = HOST if isinstance(target, str) and target == "llvm" else target
    check_target(device)
    return device


def check_target(target: str) -> None:
    """Raises ConfigError for an unknown device."""
    if isinstance(target, str) and target in DEVICES:
        return
    is_gpu = str(target).lower() in _GPU_NAMES
    is_processor = str(target).startswith("llvm")
    hint = f"; a GPU is called {GPU} here" if is_gpu else nearest(str(target), DEVICES)
    hint = f"; the CPU is called {HOST} here, and llvm takes no options" if is_processor else hint
    raise ConfigError(f"unknown target {target!r}{hint}", help=f"valid targets: {', '.join(DEVICES)}", code=codes.Config.DEVICE)


def check_weights(weights: str, device: str) -> None:
    """Raises ConfigError for rounded weights on a GPU: cuBLAS multiplies floats, and would read weights that are dequantised."""
    if weights != "float32" and machine_of(device) == GPU:
        help = f"compile for {HOST}, or leave weights=float32; precision=float16 halves the memory of weights on a GPU"
        raise ConfigError(f"configuration key 'weights' cannot be {weights!r} for the target {device}", help=help)
