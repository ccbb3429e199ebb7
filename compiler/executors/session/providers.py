"""Execution providers: the names that onnxruntime has for devices."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ....vm.device_table import DEVICES
from ....vm.diagnostics.argument_errors import wrong
from ....vm.diagnostics.source import ConfigError

#: The device of each provider.
PROVIDERS = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}


class ProviderWarning(UserWarning):
    """A provider that a session was asked for, and does not use."""


def get_all_providers() -> list[str]:
    """The providers that exist here."""
    return list(PROVIDERS)


def get_available_providers() -> list[str]:
    """The providers whose device this machine has."""
    return [name for name, device in PROVIDERS.items() if is_available(device)]


def get_device() -> str:
    """``GPU`` if there is one, else ``CPU``."""
    return "GPU" if is_available("cuda") else "CPU"


def is_available(device: str) -> bool:
    """Whether this machine has a device."""
    if device == DEVICES[0]:
        return True
    from ....vm.devices.cuda.driver_api.device import CudaError  # reads the driver
    from ....vm.devices.cuda.driver_api.device import device as gpu
    from ....vm.devices.cuda.driver_api.driver import NoCuda

    try:
        gpu(0)
    except (NoCuda, CudaError):
        return False
    return True


def chosen(providers: Sequence[Any] | None) -> str:
    """The first provider of a list that can be used: a name, or a pair of a name and options.

    Providers before it that cannot be used are a ProviderWarning.  Raises ConfigError if none can be.
    """
    if providers is None:
        return "CPUExecutionProvider"
    if isinstance(providers, str):
        raise wrong("providers", "a list of names", providers)
    names = [p[0] if isinstance(p, (tuple, list)) else p for p in providers]
    for name in names:
        if name in PROVIDERS and is_available(PROVIDERS[name]):
            return str(name)
        why = "this machine has no such device" if name in PROVIDERS else "there is no such provider"
        warnings.warn(f"the provider {name!r} is not used: {why}", ProviderWarning, stacklevel=3)
    raise ConfigError(
        f"none of the providers can be used: {', '.join(map(str, names))}",
        help=f"available: {', '.join(get_available_providers())}",
    )
