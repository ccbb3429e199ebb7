"""Kernels and entry points are looked up once in a process: a trial is about what surrounds them, and takes a millisecond."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from relayvm.ops.native.compiled import kernel_store
from relayvm.vm.runtime.kernels import described_kernels, kernel_addresses


def _by(key: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    found: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembered(*args: Any) -> Any:
        k = key(*args)
        if k not in found:
            found[k] = function(*args)
        return found[k]

    return remembered


def remember() -> None:
    """From now on, in this process."""
    described_kernels.usable = _by(lambda packed: (packed.group.key(), packed.because), described_kernels.usable)  # type: ignore[assignment]
    kernel_addresses.kernel_source = _by(lambda group: group.key(), kernel_addresses.kernel_source)  # type: ignore[assignment]
    kernel_store.address_of = _by(lambda *args: args, kernel_store.address_of)  # type: ignore[assignment]
