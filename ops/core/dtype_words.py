"""Dtypes as Relay writes them: words without a width, and dtypes that no tensor here has, each with the reason."""

from __future__ import annotations

import re

from .similar_names import did_you_mean
from .tensor_types import DTYPES

#: The dtype of each word without a width.
DEFAULT_WIDTHS = {"int": "int32", "uint": "uint32", "float": "float32", "bfloat": "bfloat16"}

_LANES = re.compile(r"(u?int|b?float|bool)(\d*)x(\d+)")
_WIDTH = re.compile(r"(u?int|b?float)(\d+)")


class DTypeProblem(ValueError):
    """A word that is no dtype here.  ``help``: the remedy."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


def read_dtype(word: str) -> str:
    """The dtype of a word: ``float`` is float32.  Raises DTypeProblem with the reason for any other word."""
    word = str(word)
    if word in DTYPES:
        return word
    if word in DEFAULT_WIDTHS:
        return DEFAULT_WIDTHS[word]
    listed = f"the dtypes are {', '.join(DTYPES)}"
    if (lanes := _LANES.fullmatch(word)) is not None:
        message = f"{word} is a vector of {lanes[3]} lanes; an element is one number"
        raise DTypeProblem(message, "write the lanes as one more axis of the tensor")
    if word == "uint1":
        raise DTypeProblem("uint1 has 1 bit; an element takes whole bytes", "write bool, which takes a byte")
    if (width := _WIDTH.fullmatch(word)) is not None:
        raise DTypeProblem(f"there is no {width[1]} of {width[2]} bits", listed)
    raise DTypeProblem(f"unknown dtype {word}{did_you_mean(word, DTYPES)}", listed)
