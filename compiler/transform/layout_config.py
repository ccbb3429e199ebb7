"""``LayoutConfig``: the convolutions whose layouts ``ConvertLayout`` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from types import TracebackType

from ...vm.diagnostics.argument_errors import a_count, a_sequence


class LayoutConfig:
    """``with LayoutConfig(skip_layers=[0]):`` within the block, ``ConvertLayout`` keeps the layouts of the first ``nn.conv2d``.

    ``skip_layers``: numbers of the calls of ``nn.conv2d`` of a module, from 0, in order of their evaluation.
    Raises ArgumentError.
    """

    def __init__(self, skip_layers: Sequence[int] | None = None) -> None:
        given = a_sequence(skip_layers if skip_layers is not None else (), "LayoutConfig: skip_layers", "[0, 2]")
        self.skip_layers = frozenset(a_count(number, "LayoutConfig: a layer") for number in given)

    def __enter__(self) -> LayoutConfig:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _CURRENT.reset(self._token)


_CURRENT: ContextVar[LayoutConfig | None] = ContextVar("relayvm_layout_config", default=None)


def skipped_layers() -> frozenset[int]:
    """The numbers of the convolutions to keep in the current context."""
    current = _CURRENT.get()
    return frozenset() if current is None else current.skip_layers
