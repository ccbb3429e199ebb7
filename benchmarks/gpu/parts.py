"""The parts, in the order in which they run."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from .figures import Recorder
from .scale import Scale


@dataclass(frozen=True)
class Part:
    """``module``: a file in ``measures``; its ``measure(record, scale[, seconds])`` does it.

    ``seconds``: the most it may take, of WHOLE_S; None: all that is not kept for the parts behind it.  ``least``: what the parts
    before it have to leave it.
    """

    name: str
    title: str
    module: str
    seconds: float | None
    least: float

    def measure(self, record: Recorder, scale: Scale, seconds: float) -> None:
        """Do it in this process.  Raises NotRun, and whatever else goes wrong."""
        function = importlib.import_module(f".measures.{self.module}", __package__).measure
        wants_time = "seconds" in inspect.signature(function).parameters
        function(record, scale, *([seconds] if wants_time else []))


#: Default seconds for all parts together: a command that may take ten minutes, and its start.
WHOLE_S = 540.0
#: Most parts take a fraction of their time; the tests get what is left of it.  What compiles for all others comes first.  The
#: tests come before the sanitizer, which is slow and should find their kernels compiled.
PARTS = (
    Part("doctor", "What is there, and what the GPU does at best.", "doctor", 30, 20),
    Part("warm", "The machine and the kernels of two whole programs are compiled, for every part behind this.", "warm", 90, 45),
    Part("launches", "What the host spends on a launch.", "launches", 60, 30),
    Part("early", "Kernels that start before the kernel in front has ended.", "early_kernels", 20, 10),
    Part("bandwidth", "Operators that move memory, against the copy rate of the GPU.", "bandwidth", 110, 50),
    Part("products", "Matrix products and convolutions against torch.", "products", 45, 20),
    Part("attention", "Attention in halves against torch.", "attention", 60, 15),
    Part("predicted", "The programs of docs/gpu-roofline.md, beside their predicted rates.", "predicted", 90, 20),
    Part("detection", "Operators of detectors, against copies and torch.", "detection", 60, 10),
    Part("models", "Two whole programs, by what the host has to read.", "models", 60, 20),
    Part("networks", "A text encoder, networks of convolutions and generated text, against torch.", "networks", 90, 20),
    Part("halves", "BERT-base and networks of convolutions in halves, against torch in halves.", "halves", 60, 10),
    Part("mask_rcnn", "Mask R-CNN of torchvision, whole, against torch.", "mask_rcnn", 90, 15),
    Part("cold", "The first process, and those after it.", "cold", 75, 30),
    Part("tests", "The tests of the suite, on the GPU.", "suite", None, 120),
    Part("sanitizer", "compute-sanitizer over tests.", "sanitizer", 120, 90),
)


def seconds_of(part: Part, following: Sequence[Part], left: float, whole: float) -> float:
    """The seconds that a part gets of the ``left`` ones: a part behind it that is short of time has its least."""
    scale = whole / WHOLE_S
    wanted = scale * part.seconds if part.seconds else left - scale * sum(p.seconds or 0 for p in following)
    return min(max(wanted, scale * part.least), left - scale * sum(p.least for p in following))
