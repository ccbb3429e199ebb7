"""Small decoders, and their texts by a loop in Python."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"layers": 2, "width": 64, "heads": 4, "shared": 2, "tokens": 97, "inner": 96, "most": 256}


class Decoder:
    """A model of a step, its writer in the machine, and the machine of the step alone."""

    def __init__(self, model: Any, sizes: Any, **options: Any) -> None:
        self.model, self.sizes = model, sizes
        self.write = relay.generation.loop(model, **options)
        self.step = relay.VirtualMachine(relay.compile(model))
        self.inputs = [name for name, _ in self.step["main"].function.params]

    def logits(self, prompt: Sequence[int]) -> Iterator[np.ndarray]:
        """The logits of each next token; ``send`` takes the token that is written.  One text, without padding."""
        empty = np.zeros((1, self.sizes.shared, 0, self.sizes.size), self.sizes.dtype)
        caches = {name: empty for name in self.inputs if name.startswith("past")}
        ids, total = np.array([prompt]), 0
        while True:
            total += ids.shape[1]
            given = {"input_ids": ids, "attention_mask": np.ones((1, total), np.int64)}
            if "position_ids" in self.inputs:
                given["position_ids"] = np.arange(total - ids.shape[1], total)[None]
            logits, *present = self.step.run(**given, **caches)
            caches = dict(zip(caches, [x.numpy() for x in present], strict=True))
            ids = np.array([[(yield logits.numpy()[0, -1])]])

    def likely(self, prompt: Sequence[int], count: int, stop: Sequence[int] = ()) -> list[int]:
        """The most likely tokens, by Python."""
        rounds, out = self.logits(prompt), list[int]()
        row = next(rounds)
        while len(out) < count:
            out.append(int(row.argmax()))
            if out[-1] in stop:
                break
            row = rounds.send(out[-1])  # type: ignore[attr-defined]
        return out


@pytest.fixture(scope="session")
def decoder_of() -> Callable[..., Decoder]:
    """A decoder by its form and dtype, made once."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        models = importlib.import_module("decoder_models")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    made: dict[Any, Decoder] = {}

    def of(form: str, dtype: str = "float32", **options: Any) -> Decoder:
        key = (form, dtype, *options.items())
        if key not in made:
            sizes = models.Sizes(**SMALL, dtype=dtype)
            made[key] = Decoder(models.decoder(form, sizes, 3), sizes, **options)
        return made[key]

    return of
