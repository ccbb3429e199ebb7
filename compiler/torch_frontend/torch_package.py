"""The package torch, which is imported when it is needed."""

from __future__ import annotations

from typing import Any

from ...vm.diagnostics.source import ArgumentError


def torch_package() -> Any:
    """The module ``torch``.  Raises ArgumentError if it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise ArgumentError(
            "the import of torch programs needs the package torch", help="pip install 'relayvm[torch]'"
        ) from error
    return torch
