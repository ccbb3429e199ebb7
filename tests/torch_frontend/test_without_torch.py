"""Import of torch programs where torch is not installed."""

from __future__ import annotations

import sys

import pytest

import relayvm as relay


def test_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(relay.ArgumentError) as caught:
        relay.frontend.from_torch(object())
    assert "the import of torch programs needs the package torch" in str(caught.value)
    assert "pip install 'relayvm[torch]'" in str(caught.value)
