"""The parts, in the order in which they run."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass

from .figures import Recorder
from .scale import Scale


@dataclass(frozen=True)
class Part:
    """``module``: its ``measure(record, scale[, seconds])`` does it.  ``seconds``: the most it may take; None: all that is not
    kept for the parts behind it."""

    name: str
    title: str
    module: str
    seconds: float | None

    def measure(self, record: Recorder, scale: Scale, seconds: float) -> None:
        """Do it in this process.  Raises NotRun, and whatever else goes wrong."""
        function = importlib.import_module(f".{self.module}", __package__).measure
        wants_time = "seconds" in inspect.signature(function).parameters
        function(record, scale, *([seconds] if wants_time else []))


#: Most parts take a fraction of their time; the tests get what is left of it.  They come before the sanitizer, which is slow and
#: should find their kernels compiled.
PARTS = (
    Part("doctor", "What is there, and what the card does at best.", "doctor", 30),
    Part("launches", "What the host spends on a launch.", "launches", 60),
    Part("bandwidth", "Operators that move memory, against the copy rate of the card.", "bandwidth", 120),
    Part("products", "Matrix products and convolutions against torch.", "products", 45),
    Part("models", "Two whole programs, by what the host has to read.", "models", 75),
    Part("cold", "The first process, and those after it.", "cold", 50),
    Part("tests", "The tests of the suite, on the card.", "suite", None),
    Part("sanitizer", "compute-sanitizer over tests.", "sanitizer", 70),
)
