"""Machine code of the CUDA texts that ``make test`` kept, for one architecture in turn; of some with the product's options.

The compiler's front end, which finds the mistakes of a text, has compiled the other texts in ``make test``.
"""

from __future__ import annotations

from itertools import islice

import pytest

from relayvm.ops.codegen.cuda.device_code import nvrtc

from ... import tiers
from ...emulator import kept_texts, proof

#: The texts are compiled in so many tests, for workers to share the work.
PARTS = 16
#: One text in so many is compiled with the options of the product, the others with few optimizations.  Those find the same
#: mistakes in a text; optimized code can, besides, need too much of what a GPU has.
OPTIMIZED = 8


@pytest.mark.thinned(2)
@pytest.mark.extensive
@pytest.mark.parametrize("part", range(PARTS))
def test_machine_code_of_kept_texts(part: int) -> None:
    texts = tiers.some(list(islice(kept_texts.texts(), part, None, PARTS)), "kept texts", 2)
    if not texts:
        pytest.skip("no text was kept by `make test`: the tests of this run compile each text for every architecture")
    try:
        for number, text in enumerate(texts):
            arch = proof.ARCHITECTURES[number // OPTIMIZED % len(proof.ARCHITECTURES)]
            proof.check_image(text, arch, proof.QUICK if number % OPTIMIZED else proof.COMPILER)
    except nvrtc.NoNvrtc as reason:
        pytest.skip(str(reason))
