"""Models as the command line names them, and their loading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..compiler.load_program import open_program
from ..declarations.frozen_dataclass import frozen
from ..vm.diagnostics import codes
from ..vm.diagnostics.source import ConfigError, FileError
from .protocol.served_model import ServedModel

#: Names and versions of models: they occur in addresses.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_VERSION = re.compile(r"[0-9]{1,18}")
_FIRST = "1"
_HELP = "NAME=PATH or NAME:VERSION=PATH; a name has letters, digits, _, . and -, a version is a number"


@frozen(eq=False)
class Source:
    """A model's file: the name and version it is served under, and the arguments of its compilation."""

    name: str
    version: str
    path: Path
    device: str | None
    config: Mapping[str, str]
    params: Path | None
    batch: tuple[str, ...]

    def load(self) -> ServedModel:
        """The model.  Raises RelayError for a file that is no program, and for one that cannot be served."""
        exe = open_program(self.path, self.device, self.config, self.params)
        return ServedModel.of(self.name, self.version, exe)

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """The identity of the model's files, different after a replacement.  Raises FileError."""
        try:
            found = [path.stat() for path in (self.path, self.params) if path is not None]
        except OSError as error:
            raise FileError(f"cannot read {self.path}: {error.strerror or error}") from error
        return tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in found)


def sources(
    models: Sequence[str | Path],
    *,
    device: str | None = None,
    config: Mapping[str, str] | None = None,
    params: Sequence[str] = (),
    batch: Sequence[str] = (),
) -> list[Source]:
    """The models of a command line.

    ``params``: files of weights, ``NAME=PATH`` each; ``batch``: batch dims, ``NAME=DIM`` each.  A server of one model needs no
    ``NAME=``.  Raises ConfigError for names that are invalid, repeated or of no model.
    """
    named = [_named(str(model)) for model in models]
    if not named:
        raise ConfigError("no model is given", help=_HELP)
    for i, (name, version, _) in enumerate(named):
        if (name, version) in [(n, v) for n, v, _ in named[:i]]:
            raise ConfigError(f"the model {name}, version {version}, is given twice", help=_HELP)
    names = list(dict.fromkeys(name for name, _, _ in named))
    weights = {name: Path(value) for name, value in _of_models("params", params, names)}
    dims: dict[str, tuple[str, ...]] = {}
    for name, value in _of_models("batch", batch, names):
        dims[name] = (*dims.get(name, ()), value.removeprefix("?"))
    return [
        Source(name, version, path, device, dict(config or {}), weights.get(name), dims.get(name, ()))
        for name, version, path in named
    ]


def _named(text: str) -> tuple[str, str, Path]:
    name, equals, rest = text.partition("=")
    path = Path(rest if equals else text)
    name, _, version = name.partition(":") if equals else (path.stem, "", "")
    version = str(int(version)) if _VERSION.fullmatch(version) else version or _FIRST
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        raise ConfigError(f"the model {text!r} has no valid name and version", help=_HELP)
    return name, version, path


def _of_models(option: str, values: Sequence[str], names: Sequence[str]) -> list[tuple[str, str]]:
    """The values of an option with their models."""
    found = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals and len(names) == 1:
            name, rest = names[0], value
        if name not in names or not rest:
            message = f"--{option} {value!r} names no model"
            raise ConfigError(message, help=f"--{option} NAME=...; the models: {', '.join(names)}", code=codes.Config.VALUE)
        found.append((name, rest))
    return found
