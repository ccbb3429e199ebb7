"""Models where the package that reads them, or another optional package, is not installed: one diagnostic at each entry point."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..extras import environment_with, hidden, packages_of

ONNX = {
    "error": "models are read with the package onnx, which is not installed",
    "help": "pip install 'relayvm[onnx]'",
}

#: Runs each entry point that its standard input lists, and prints the message, the help and the class of its error.
PROGRAM = """
import contextlib, io, json, sys
import relayvm as relay
from relayvm.__main__ import main

def by_command(*arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main([*arguments, "--json"])
    return said.getvalue()

def by_python(expression):
    try:
        eval(expression)
    except relay.RelayError as error:
        return json.dumps({"errors": [d.as_data() for d in error.diagnostics]})
    return "no error"

print(json.dumps([by_python(words[0]) if len(words) == 1 else by_command(*words) for words in json.load(sys.stdin)]))
"""


def errors(entries: list[list[str]], folder: Path, extras: list[str], hide: set[str] = frozenset()) -> list[dict[str, Any]]:
    """The message and the help of the error of each entry point, in a process with these extras."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(entries), env=environment_with(extras, folder, hide), cwd=folder,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = []
    for entry, text in zip(entries, json.loads(done.stdout), strict=True):
        assert text.startswith("{"), (entry, text)
        first = json.loads(text)["errors"][0]
        found.append({"error": first["message"], "help": first["help"]})
    return found


def test_every_entry_point_names_the_extra_of_models(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"any")
    commands = [
        ["run", "m.onnx"], ["compile", "m.onnx", "-o", "m.rvm"], ["convert", "m.onnx", "-o", "m.relay"],
        ["dump", "m.onnx", "--stage", "parsed"],
        ["explain", "m.onnx"], ["profile", "m.onnx"], ["tune", "m.onnx"], ["serve", "m.onnx"],
        ["compare", "m.onnx", "--a", "fuse=on", "--b", "fuse=off"],
    ]  # fmt: skip
    calls = [
        ["relay.compile('m.onnx')"], ["relay.frontend.from_onnx('m.onnx')"], ["relay.frontend.from_onnx(b'any')"],
        ["relay.frontend.onnx_metadata('m.onnx')"],
        ["relay.serving.load(['m.onnx'])"], ["relay.frontend.OnnxBackend.prepare(None)"],
    ]  # fmt: skip
    assert errors([*commands, *calls], tmp_path, ["serve"], {"onnx"}) == [ONNX] * len([*commands, *calls])


def test_every_entry_point_names_the_extra_of_servers_clusters_and_gpus(tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32]) { exp(%x) }')
    missing = "starlette, uvicorn, httptools, grpc, google.protobuf, prometheus_client"
    serve = {
        "error": f"serving needs packages that are not installed: {missing}",
        "help": "pip install 'relayvm[serve]'",
    }
    ray = {"error": "relayvm.ray needs the package ray, which is not installed", "help": "pip install 'relayvm[ray]'"}
    entries = [["serve", "m.relay"], ["relay.serving.load(['m.relay'])"], ["relay.serving.app(['m.relay'])"]]
    assert errors(entries, tmp_path, []) == [serve] * 3
    assert errors([["relay.ray.deployment(['m.relay'])"], ["relay.ray.predictor('m.relay')"]], tmp_path, []) == [ray] * 2
    (found,) = errors([["dump", "m.relay", "--device", "cuda", "--stage", "sass"]], tmp_path, [])
    assert "cupy cannot be imported" in found["error"] and "install relayvm[cuda13] or relayvm[cuda12]" in found["error"]


def test_the_packages_of_an_extra_are_those_that_it_installs() -> None:
    assert {"numpy", "numba", "llvmlite", "relayvm"} <= packages_of([]) and not {"onnx", "protobuf", "pytest"} & packages_of([])
    assert {"starlette", "anyio", "protobuf"} <= packages_of(["serve"]) and "onnx" not in packages_of(["serve"])
    assert packages_of(["test"]) > packages_of(["serve", "sass"])
    modules, packages = hidden([])
    assert {"onnx", "google", "grpc", "pytest"} <= modules and "numpy" not in modules and "onnx" in packages
    with pytest.raises(KeyError):
        packages_of(["none"])
