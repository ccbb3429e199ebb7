"""ONNX models: the ONNX suite's and torch's, altered as bytes and as graphs; each is imported and compiled, or refused by a
diagnostic.  Half of them are read from a file with files beside it.

A diagnostic has a text of bounded length without control characters.  A model that compiles passes the verifier, and its
executable is written and read back.  No kernel is compiled.  The memory of the process is limited, so that a model that
promises a huge tensor shows.
"""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

import relayvm as relay
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.bytecode.verify import verify

from .models_drawn import graphs
from .part import Part

#: Characters of a message.
_MESSAGE = 64 << 10
#: Bytes of a model that is altered: a compile of a large one takes as long as a hundred others.
_MODEL = 6000
#: One in so many models is a larger one of torch's exporters.
_LARGE = 40
_TORCH = Path(__file__).parents[1] / "onnx" / "from_torch"


@dataclass(frozen=True)
class Model:
    """A model's file."""

    data: bytes


@functools.cache
def _bases() -> tuple[bytes, ...]:
    """The suite's node models, in a fixed order; a model of each operator at least."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes infinities
        cases = sorted(collect_testcases(None), key=lambda case: case.name)
    models = (case.model.SerializeToString() for case in cases if case.model is not None)
    return tuple(data for data in models if len(data) <= _MODEL)


@functools.cache
def _large() -> tuple[bytes, ...]:
    """The models of torch's exporters."""
    return tuple(path.read_bytes() for path in sorted(_TORCH.glob("*.onnx")))


@functools.cache
def _folder() -> Path:
    """A folder with a model's files."""
    folder = Path(tempfile.mkdtemp(prefix="relayvm_models_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "weights.bin").write_bytes(bytes(range(64)))
    (folder / "empty.bin").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "link.bin").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.bin")
    assert {p.name for p in folder.iterdir()} == set(graphs.BESIDE)
    return folder


class Models(Part[Model]):
    """Altered ONNX models."""

    name, unit, slice_trials, hang_seconds = "models", "models", 80, 60.0

    def prepare(self) -> None:
        """Build the suite's models and limit the memory."""
        import resource

        _bases()
        limit = 8 << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def draw(self, seed: int) -> Model:
        """A third as bytes, two thirds as graphs."""
        r = random.Random(seed)
        base = r.choice(_large() if r.randrange(_LARGE) == 0 else _bases())
        if r.randrange(3) == 0:
            return Model(graphs.altered_bytes(r, base, r.choice(_bases())))
        return Model(graphs.altered_graph(r, base, r.choice(_bases())))

    def check(self, case: Model) -> str | None:
        """A mistake in the diagnostic or the executable."""
        source: bytes | Path = case.data
        if len(case.data) % 2:
            source = _folder() / "m.onnx"
            source.write_bytes(case.data)
        try:
            module, params = relay.frontend.from_onnx(source)
        except relay.RelayError as error:
            return self._refused(error, "the importer")
        try:
            exe = relay.compile(module, target="cpu", params=params)
        except relay.RelayError as error:
            return self._refused(error, "the compiler")
        self.seen["compiled"] += 1
        verify(exe)
        data = to_bytes(exe)
        if to_bytes(from_bytes(data)) != data:
            return "what is written and read back is written otherwise"
        return None

    def _refused(self, error: relay.RelayError, stage: str) -> str | None:
        self.seen[f"refused by {stage}: {error.code.replace('/', ' ')}"] += 1
        text = str(error)
        if not text or not all(d.message for d in error.diagnostics):
            return "the message is empty"
        if len(text) > _MESSAGE:
            return f"a message of {len(text)} characters"
        if bad := next((c for c in text if not c.isprintable() and c != "\n"), None):
            return f"the message holds {bad!r}"
        return None

    def smaller(self, case: Model) -> Iterator[Model]:
        """The model without a node, an input, an initializer or a declared value."""
        model = onnx.ModelProto()
        try:
            model.ParseFromString(case.data)
        except Exception:  # protobuf's own error class differs between its implementations
            return
        for field in ("node", "input", "initializer", "value_info", "output"):
            for k in range(len(getattr(model.graph, field))):
                less = onnx.ModelProto()
                less.CopyFrom(model)
                del getattr(less.graph, field)[k]
                yield Model(less.SerializeToString())

    def write(self, case: Model) -> str:
        """Check the model again."""
        rows = "\n".join(f"    {case.data[i : i + 32]!r}" for i in range(0, len(case.data), 32))
        return f"from tests.campaign.models import PART, Model\n\ndata = (\n{rows}\n)\nassert PART.check(Model(data)) is None"


PART = Models()
