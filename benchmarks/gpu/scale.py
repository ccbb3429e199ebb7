"""Sizes of all measurements: as the goals demand, or so small that the emulated GPU needs seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """``rounds``: samples of each figure.  ``copied_bytes``: of the arrays whose bandwidth is measured, at most.

    ``columns``: of these arrays.  ``chain``: operators of the program of tiny ones; ``burst``: its calls in a burst, so few that
    the driver's queue (some thousand launches) has room for all.  ``product``: rows of the matrices.  ``candidates`` and
    ``anchors``: of the two models; ``repeat``: rounds of comparing them.  ``starts``: processes with a filled cache.  ``words``:
    of the encoder's texts.  ``texts``: of a call of BERT-base, ``lengths``: their words.  ``batches``: of a network's batches.
    ``written``: tokens of a text, of which half are the prompt.  ``drawn``: lengths of the encoder's texts that are drawn.
    """

    rounds: int
    copied_bytes: int
    columns: int
    chain: int
    burst: int
    product: int
    images: int
    candidates: int
    anchors: tuple[int, int, int]
    repeat: int
    starts: int
    words: tuple[int, ...]
    batches: tuple[int, ...]
    written: int
    texts: tuple[int, ...]
    lengths: tuple[int, ...]
    drawn: int


FULL = Scale(
    rounds=15,
    copied_bytes=1 << 30,
    columns=1024,
    chain=200,
    burst=4,
    product=4096,
    images=32,
    candidates=8400,
    anchors=(3000, 50, 68),
    repeat=10,
    starts=3,
    words=(7, 33, 100, 200, 512),
    batches=(1, 4, 32),
    written=512,
    texts=(1, 8),
    lengths=(1, 16, 128, 512),
    drawn=600,
)
TINY = Scale(
    rounds=2,
    copied_bytes=1 << 13,
    columns=64,
    chain=6,
    burst=2,
    product=24,
    images=1,
    candidates=20,
    anchors=(6, 4, 5),
    repeat=1,
    starts=1,
    words=(3,),
    batches=(),
    written=8,
    texts=(1,),
    lengths=(3,),
    drawn=2,
)
