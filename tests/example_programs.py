"""The programs in ``examples/``, and inputs with which each can be called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relayvm.compiler.inputs.given_inputs import Wanted

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAMS = sorted(EXAMPLES.rglob("*.relay"))
#: What `?n` is, unless a program is named here.
_USUAL = {"n": 5}
_SIZES = {
    "mask_rcnn_tail": {"n": 5, "h": 8, "w": 6},
    "transformer_encoder": {"b": 2, "s": 5},
    "text_generation": {"b": 2, "s": 5},
    "sentence_embedding": {"words": 5},
}
#: The inputs that cannot be any values of their types, by the program's name.
_VALUES: dict[str, dict[str, Any]] = {
    "text_generation": {
        "prompts": np.array([[9, 65, 2, 95, 1], [40, 41, 42, 0, 0]], np.int32),
        "lengths": np.array([5, 3], np.int64),
        "limit": np.array(4, np.int64),
        "stop": np.array(-1, np.int32),
        "temperature": np.array(1, np.float32),
        "top_k": np.array(20, np.int32),
        "top_p": np.array(0.9, np.float32),
    },
}


def inputs_of(program: Path) -> Wanted:
    """Inputs of the program's ``@main``; those that may have any value are drawn."""
    return Wanted(_VALUES.get(program.stem, {}), dims=_SIZES.get(program.stem, _USUAL))


@pytest.fixture(scope="module", autouse=True)
def example_modules() -> Iterator[None]:
    """Let the examples import the modules beside them, as any script does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        patch.syspath_prepend(str(EXAMPLES / "digits"))
        yield
