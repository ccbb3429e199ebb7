"""The programs in ``examples/``, and sizes with which each can be called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAMS = sorted(EXAMPLES.rglob("*.relay"))
#: What `?n` is, unless a program is named here.
_USUAL = {"n": 5}
_SIZES = {"mask_rcnn_tail": {"n": 5, "h": 8, "w": 6}, "transformer_encoder": {"b": 2, "s": 5}}


def sizes_of(program: Path) -> dict[str, int]:
    """A size for each named dimension of the program's ``@main``."""
    return _SIZES.get(program.stem, _USUAL)


@pytest.fixture(scope="module", autouse=True)
def example_modules() -> Iterator[None]:
    """Let the examples import the modules beside them, as any script does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        patch.syspath_prepend(str(EXAMPLES / "digits"))
        yield
