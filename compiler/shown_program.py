"""A program as a graph for people: text, data, or a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..vm.api.executable import Executable
from ..vm.api.machine import VirtualMachine
from ..vm.diagnostics.argument_errors import wrong
from ..vm.diagnostics.source import FileError, InputError
from ..vm.inspection.graph.graph_text import graph_data, graph_text
from ..vm.inspection.graph.node_times import NodeTime, node_times
from ..vm.inspection.graph.program_graph import program_graph
from ..vm.inspection.graph.scopes import scopes_of
from ..vm.report.graph.page import graph_page
from ..vm.report.profile_report import Profile
from .load_program import function_of
from .settings.config import describe


def show(program: Executable | VirtualMachine, path: str | Path, *, entry: str = "main", profile: Profile | None = None) -> None:
    """Write one page with a program as a graph: kernels, copies and calls, and the values between them, in scopes that fold.

    The page is HTML of one file, which needs no network.  ``entry``: the function to show.  ``profile``: a profile of the
    program, such as ``vm.profile(...)``, whose times the nodes have.  Raises ArgumentError, InputError for an unknown function
    and another function's profile, and FileError if the file cannot be written.
    """
    exe = program.exe if isinstance(program, VirtualMachine) else program
    if not isinstance(exe, Executable):
        raise wrong("show: program", "an Executable or a VirtualMachine", program)
    function_of(exe, entry)
    if profile is not None and (profile.entry, profile.device) != (entry, exe.target):
        raise InputError(f"the profile is of @{profile.entry} on {profile.device}, not of @{entry} on {exe.target}")
    try:
        Path(os.fspath(path)).write_text(ShownProgram(exe, entry, profile).page(f"@{entry}"), encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


class ShownProgram:
    """The graph of a function of an executable, with the times of a profile."""

    def __init__(self, exe: Executable, entry: str, profile: Profile | None) -> None:
        self.exe, self.entry, self.profile = exe, entry, profile
        self.graph = program_graph(exe, entry)
        self.root = scopes_of(self.graph)
        self.times: dict[int, NodeTime] = {}
        if profile is not None:
            self.times = dict(node_times(self.graph, profile.sites, profile.runs))

    def page(self, name: str) -> str:
        """The page; ``name``: that of the program."""
        defaults = {key: default for key, default, _, _ in describe()}
        settings = [f"{key}={value}" for key, value in sorted(self.exe.config.items()) if value != defaults.get(key)]
        p, function = self.profile, f"@{self.entry}"
        run = "" if p is None else f"median of {p.runs} runs: {p.median_ns / 1e6:.3g} ms; {', '.join(p.arguments)}"
        title = f"{name} on {self.exe.target}" if name == function else f"{name}: {function} on {self.exe.target}"
        return graph_page(self.graph, self.root, self.times, title, run, settings)

    def data(self) -> Any:
        """Plain data."""
        return graph_data(self.graph, self.root, self.times)

    def text(self) -> str:
        """The graph as text."""
        return graph_text(self.graph, self.root, self.times)
