"""The source distribution and the wheel: built, installed alone, run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import relayvm

from ...test_packaging import LAYERS, ROOT, alone, package_folders


@pytest.mark.extensive
def test_the_distributions_install_and_run(tmp_path: Path) -> None:
    """A wheel made from the source distribution has every file, and a program runs with it alone."""

    def run(*words: str, cwd: Path = tmp_path, **more: Any) -> str:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=cwd, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = [
        f for f in ROOT.iterdir() if f.name in {*LAYERS, "relay_modules"} or f.suffix in (".py", ".pyi", ".cfg", ".toml", ".md")
    ]
    source = tmp_path / "source"
    source.mkdir()
    for found in [*listed, ROOT / "py.typed", ROOT / "LICENSE"]:
        (shutil.copytree if found.is_dir() else shutil.copy)(found, source / found.name)
    run("-c", 'import setuptools; exec(open("setup.py").read())', "--quiet", "sdist", "--dist-dir", str(tmp_path), cwd=source)
    (sdist,) = tmp_path.glob("relayvm-*.tar.gz")
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(sdist))
    (wheel,) = tmp_path.glob("relayvm-*.whl")
    assert wheel.name == f"relayvm-{relayvm.__version__}-py3-none-any.whl"
    folder = tmp_path / "installed"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel))
    installed = {f.relative_to(folder / "relayvm").as_posix() for f in (folder / "relayvm").rglob("*.*")}
    data = {f.relative_to(ROOT).as_posix() for folder in package_folders() - {ROOT} for f in folder.iterdir() if f.is_file()}
    assert {name for name in data if not name.endswith(".pyc")} <= installed
    with_it = alone(folder) | {"RELAYVM_CACHE_DIR": str(tmp_path / "cache")}
    assert run("-m", "relayvm", "--version", env=with_it).strip() == f"relayvm, version {relayvm.__version__}"
    text = '#[version = "0.0.5"] def @main() { 1f + 2f }'
    program = f"import relayvm as r; print(r.VirtualMachine(r.compile(r.parse({text!r}))).run().item())"
    assert run("-c", program, env=with_it).strip() == "3.0"
