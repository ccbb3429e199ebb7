"""A process that a test starts gets the emulated GPU, unless it has plugged in a GPU itself."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from relayvm.vm.devices.cuda.driver_api import provider

from ...emulator import platform

SITE = Path(platform.__file__).parent / "children" / "sitecustomize.py"
SESSION = "relayvm.vm.devices.cuda.session"


@pytest.mark.parametrize("is_emulated", [True, False])
def test_the_gpu_of_a_process_is_kept_where_it_is_emulated(is_emulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own = platform.EmulatedProvider() if is_emulated else provider.CupyProvider()
    with platform.plugged_in(), monkeypatch.context() as patch:
        patch.setattr(provider, "provider", own)
        patch.setattr(sys, "meta_path", list(sys.meta_path))
        patch.setattr(sys, "path", list(sys.path))
        site = runpy.run_path(str(SITE))
        with site["_open"]:
            assert sys.meta_path[0].find_spec(SESSION, None) is None
            assert (provider.provider is own) == is_emulated
            assert isinstance(provider.provider, platform.EmulatedProvider)
