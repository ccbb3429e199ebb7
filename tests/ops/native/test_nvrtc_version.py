"""NVRTC's version from the store: as long as no file that a process loads has changed, and without cupy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relayvm.ops.codegen.cuda.device_code.nvrtc import NoNvrtc, Nvrtc
from relayvm.ops.native.cache import disk_cache, nvrtc_version

from .fresh import fresh_cache


class Installed:
    """Files that stand for NVRTC and the packages that find it, and the questions that NVRTC was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.asked = 0
        self.library, self.finder = folder / "libnvrtc.so.13", folder / "cupy.py"
        self.loaded = self.library
        for file in (self.library, self.finder):
            file.write_text("first")
        for name in ("LD_PRELOAD", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        monkeypatch.setattr(nvrtc_version, "_spec_file", lambda package: str(self.finder))
        self.maps = folder / "maps"
        monkeypatch.setattr(nvrtc_version, "_MAPPINGS", self.maps)

    def version(self) -> str:
        self.maps.write_text(f"7f00-7f01 r--p 00000000 fe:00 1   {self.loaded}\n7f01-7f02 rw-p 00000000 00:00 0\n")
        return nvrtc_version.nvrtc_version(self._ask)

    def _ask(self) -> str:
        self.asked += 1
        return f"NVRTC 13.{self.asked}; build"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installed:
    fresh_cache(monkeypatch, tmp_path)
    return Installed(monkeypatch, tmp_path)


def test_nvrtc_is_asked_once(installed: Installed) -> None:
    assert [installed.version() for _ in range(3)] == ["NVRTC 13.1; build"] * 3


@pytest.mark.parametrize("changed", ["library", "finder"])
def test_a_changed_file_is_asked_anew(installed: Installed, changed: str) -> None:
    installed.version()
    file: Path = getattr(installed, changed)
    file.write_text("other")  # as many bytes
    os.utime(file, ns=(1, 1))
    assert [installed.version() for _ in range(2)] == ["NVRTC 13.2; build"] * 2


@pytest.mark.parametrize("name", ["CUDA_PATH", "LD_PRELOAD"])
def test_a_variable_that_chooses_the_file_is_part_of_the_key(
    installed: Installed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    installed.version()
    monkeypatch.setenv(name, "/elsewhere")
    assert installed.version() == "NVRTC 13.2; build"


def test_an_answer_of_a_file_that_is_not_in_the_key_is_not_stored(installed: Installed, tmp_path: Path) -> None:
    installed.loaded = tmp_path / "elsewhere" / "libnvrtc.so.13"
    assert [installed.version() for _ in range(2)] == ["NVRTC 13.1; build", "NVRTC 13.2; build"]
    installed.maps.unlink()
    assert not list(disk_cache.entry_files())


def test_without_a_package_nothing_is_stored(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc_version, "_spec_file", lambda package: None)
    assert [installed.version() for _ in range(2)] == ["NVRTC 13.1; build", "NVRTC 13.2; build"]


def test_a_process_that_finds_the_version_imports_no_cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = fresh_cache(monkeypatch, tmp_path)
    try:
        version = Nvrtc().version
    except NoNvrtc as error:
        pytest.skip(str(error))
    if not list(disk_cache.entry_files()):
        pytest.skip("NVRTC is none of NVIDIA's packages")
    program = (
        "import sys; from relayvm.ops.codegen.cuda.device_code import nvrtc; print(nvrtc.compiler.version, 'cupy' in sys.modules)"
    )
    environment = {**os.environ, disk_cache.FOLDER_VARIABLE: str(cache)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{version} False"
