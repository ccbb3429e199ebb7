"""A compiled model as bytes: the driver compiles, other processes load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..compiler.compile import compile
from ..compiler.inputs.array_files import read_weights
from ..compiler.load_program import open_program
from ..serving.protocol.served_model import ServedModel
from ..vm.api.executable import Executable, load_bytes
from ..vm.bytecode.executable_file import to_bytes
from ..vm.device_table import DEVICES

#: The name of a model that has no file, in messages.
_UNNAMED = "model"


def compiled(
    model: Any, device: str | None, config: Mapping[str, str] | None, params: str | os.PathLike[str] | None
) -> ServedModel:
    """The model, compiled unless it is an executable.  Raises RelayError, as ``open_program`` and ``ServedModel.of``."""
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        return ServedModel.of(path.stem, "1", open_program(path, device, config, None if params is None else Path(params)))
    if isinstance(model, Executable):
        return ServedModel.of(_UNNAMED, "1", model)
    settings: dict[str, Any] = dict(config or {})
    weights = None if params is None else read_weights(Path(params))
    return ServedModel.of(_UNNAMED, "1", compile(model, device or DEVICES[0], weights, **settings))


def packed(model: ServedModel) -> np.ndarray:
    """The bytes of the model's executable.  As an array, which Ray maps into each process of a node instead of copying it."""
    return np.frombuffer(to_bytes(model.exe), np.uint8)


def unpacked(name: str, contents: np.ndarray) -> ServedModel:
    """The model of ``packed``.  Raises ExecutableFormatError."""
    return ServedModel.of(name, "1", load_bytes(memoryview(contents.data), name))
