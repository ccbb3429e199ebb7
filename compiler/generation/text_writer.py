"""A machine that writes texts: prompts as numbers of tokens in, the tokens after them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.core.tensor_types import numpy_dtype
from ...ops.kernels.host_functions import numbered
from ...vm.api.executable import Executable
from ...vm.api.machine import VirtualMachine
from ...vm.diagnostics.argument_errors import a_count, a_sequence, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, VMError

#: The number of the argument that is the number of the function for tokens.
_LISTENER = 5


class TextWriter:
    """A decoder in a loop inside the machine: a call writes texts.

    ``exe``: the executable.  ``vm``: its machine.  ``candidates``: the most tokens that a draw chooses from, 0: none is drawn.
    """

    def __init__(self, exe: Executable, dtype: str, candidates: int) -> None:
        self.exe, self.vm, self.candidates = exe, VirtualMachine(exe), candidates
        self.dtype = numpy_dtype(dtype)

    def __call__(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, *, stop: Sequence[int] = (), temperature: float = 0.0,
        top_k: int | None = None, top_p: float = 1.0, seed: int = 0,
        on_tokens: Callable[[np.ndarray], object] | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """The tokens after each prompt, 1-D arrays of the dtype of the step's tokens, each up to the first token of ``stop``.

        ``prompts``: numbers of tokens, at least one for each text; lengths may differ.  ``temperature``: 0 writes the most likely
        tokens; otherwise the logits are divided by it, and a token is drawn from the ``top_k`` most likely ones (None: all
        candidates), of these from those that make up ``top_p`` of their probability.  The same ``seed``, the same texts.

        ``on_tokens``: a function that is given the next token of each text, ``[texts]``, as soon as it is chosen; of a text that
        has ended, the first token of ``stop``.  The texts end if it returns True.  ``put`` of a streamer of transformers is one.

        Raises ArgumentError for arguments that do not fit, and what ``on_tokens`` raises; the machine can then be called again.
        """
        if on_tokens is not None and not callable(on_tokens):
            raise wrong("on_tokens", "a function of an array of tokens", on_tokens, "on_tokens=print")
        given = self.arguments(prompts, max_new_tokens, stop, temperature, top_k, top_p, seed)
        if max_new_tokens == 0 or not len(given[0]):
            return [np.zeros(0, self.dtype) for _ in given[0]]
        texts = self.vm.run(*given).numpy() if on_tokens is None else self._heard(given, on_tokens)
        return [_until(column, given[3]) for column in texts.T]

    def _heard(self, given: list[Any], on_tokens: Callable[[np.ndarray], object]) -> np.ndarray:
        """The texts of a run that gives each row of tokens to a function."""
        raised: list[Exception] = []

        def hear(tokens: np.ndarray) -> bool:
            try:
                answer = on_tokens(tokens)
                return isinstance(answer, (bool, np.bool_)) and bool(answer)  # `write` of a file returns a number
            except Exception as error:
                raised.append(error)
                raise

        with numbered(hear) as given[_LISTENER]:
            try:
                texts: np.ndarray = self.vm.run(*given).numpy()
                return texts
            except VMError:
                if not raised:
                    raise
        raise raised[0]

    def arguments(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, stop: Sequence[int] = (), temperature: float = 0.0,
        top_k: int | None = None, top_p: float = 1.0, seed: int = 0,
    ) -> list[Any]:  # fmt: skip
        """The arguments of ``main`` for a call: for ``vm.run`` and ``vm.profile``, whose result is ``[tokens, texts]``."""
        tokens, lengths = self._prompts(prompts)
        limit = np.int64(a_count(max_new_tokens, "max_new_tokens"))
        stops = np.array([a_count(t, "stop: a token") for t in a_sequence(stop, "stop", "[2]")], self.dtype)
        pad = stops[0] if stops.size else self.dtype.type(0)
        return [tokens, lengths, limit, stops, pad, np.int64(0), *self._draws(temperature, top_k, top_p, seed)]

    def _prompts(self, prompts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """The prompts as rows of one array that end in its last column, and their lengths."""
        rows = [np.asarray(row) for row in a_sequence(prompts, "prompts", "a list of tokens for each text: [[1, 15, 7]]")]
        for row in rows:
            if row.ndim != 1 or not row.size or row.dtype.kind not in "iu":
                raise wrong("a prompt", "at least one token, a list of whole numbers", row.tolist(), "prompts=[[1, 15, 7]]")
        lengths = np.array([len(row) for row in rows], np.int64)
        tokens = np.zeros((len(rows), int(lengths.max(initial=0))), self.dtype)
        for to, row in zip(tokens, rows, strict=True):
            to[len(to) - len(row) :] = row
        return tokens, lengths

    def _draws(self, temperature: float, top_k: int | None, top_p: float, seed: int) -> list[Any]:
        """The arguments of the program for draws."""
        if not np.isfinite(temperature) or temperature < 0:
            raise wrong("temperature", "a number of at least 0", temperature)
        if not 0 < top_p <= 1:
            raise wrong("top_p", "a probability above 0, up to 1", top_p)
        most = self.candidates if top_k is None else a_count(top_k, "top_k", 1)
        if not self.candidates and temperature > 0:
            help = "loop(step, top_k=50) draws from at most 50 tokens"
            raise ArgumentError("temperature: the program writes the most likely tokens only", here(), help=help)
        if not self.candidates:
            return []
        if most > self.candidates:
            help = f"loop(step, top_k={most}) draws from as many"
            raise ArgumentError(f"top_k: the program draws from at most {self.candidates} tokens, not {most}", here(), help=help)
        return [np.float32(temperature), np.int32(most), np.float32(top_p), np.uint64(a_count(seed, "seed"))]


def _until(tokens: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """The tokens up to the first that ends a text."""
    ends = np.flatnonzero(np.isin(tokens, stops))
    return np.array(tokens[: ends[0] + 1] if len(ends) else tokens)
