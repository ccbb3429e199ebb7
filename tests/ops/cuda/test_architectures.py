"""One in PART of the CUDA texts that ``make test`` compiled for one architecture compiles for the others, as in the product.

The compiler's front end found the mistakes of a text already, for no text says another thing for another architecture.  What an
architecture can lack are instructions, registers and shared memory: for these the code is optimized as in the product.
"""

from __future__ import annotations

from itertools import islice

import pytest

from relayvm.ops.native.jit import nvrtc

from ...emulator import proof

#: The texts are compiled in so many tests, for workers to share the work.
PARTS = 16
#: One text in so many is compiled.
PART = 4


@pytest.mark.extensive
@pytest.mark.parametrize("part", range(PARTS))
def test_kept_texts_compile_for_the_other_architectures(part: int) -> None:
    texts = list(islice(proof.kept_texts(), part * PART, None, PARTS * PART))
    if not texts:
        pytest.skip("no text was kept by `make test`: the tests of this run compile each text for every architecture")
    try:
        for text in texts:
            for arch in proof.ARCHITECTURES[:-1]:
                proof.check_image(text, arch, proof.COMPILER)
    except nvrtc.NoNvrtc as reason:
        pytest.skip(str(reason))
