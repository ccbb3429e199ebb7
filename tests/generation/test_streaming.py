"""Tokens that a function gets while texts are written: each row at once, an end by its answer, and its exceptions."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.kernels.host_functions import numbered

from ..programs import machine_on

Make = Callable[..., Any]
PROMPTS = [[5, 40, 2, 2, 71], [9], [88, 3, 17]]


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_a_function_gets_each_token_before_the_next_is_computed(decoder_of: Make, target: str) -> None:
    """Rows of tokens are the columns of the texts; a text that has ended has the first token of ``stop``."""
    write = decoder_of("shared", target=target).write
    texts = [text.tolist() for text in write(PROMPTS, 9)]
    stop, rows, launches = texts[0][2], list[list[int]](), list[int]()

    def hear(tokens: np.ndarray) -> None:
        rows.append(tokens.tolist())
        launches.append(write.vm.counters["launches"])

    found = [text.tolist() for text in write(PROMPTS, 9, stop=[stop], on_tokens=hear)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    assert all(column[: len(text)] == text for column, text in zip(columns, found, strict=True))
    assert len(found[0]) <= 3 and set(columns[0][len(found[0]) :]) <= {stop}
    assert launches == sorted(set(launches))


@pytest.mark.parametrize(("answer", "length"), [(True, 2), (np.True_, 2), (np.False_, 6), (5, 6)])
def test_an_answer_ends_the_texts(decoder_of: Make, answer: Any, length: int) -> None:
    """True, of Python or numpy; other answers, such as the number of characters that a file has written, do not."""
    write = decoder_of("shared").write
    whole = [text.tolist() for text in write(PROMPTS, 6)]
    answers = iter([None, *[answer] * 5])
    ended = write(PROMPTS, 6, on_tokens=lambda tokens: next(answers))
    assert [text.tolist() for text in ended] == [text[:length] for text in whole]


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_an_exception_ends_the_run(decoder_of: Make, target: str) -> None:
    """The exception of the function itself, and that of Ctrl-C; the machine has freed its memory and writes again."""
    write = decoder_of("shared", target=target).write
    whole = [text.tolist() for text in write(PROMPTS, 6)]
    before = write.vm.memory["live_bytes"]

    def fails(tokens: np.ndarray) -> None:
        raise LookupError(f"no text for {tokens.tolist()}")

    with pytest.raises(LookupError, match=rf"^'?no text for \[{whole[0][0]}, "):
        write(PROMPTS, 6, on_tokens=fails)
    with pytest.raises(KeyboardInterrupt):
        write(PROMPTS, 6, on_tokens=lambda tokens: signal.raise_signal(signal.SIGINT))
    assert write.vm.memory["live_bytes"] == before
    with pytest.raises(relay.VMError, match="running already, and what it called"):
        write(PROMPTS, 6, on_tokens=lambda tokens: write(PROMPTS, 6))
    assert [text.tolist() for text in write(PROMPTS, 6)] == whole


def test_what_is_no_function_is_refused(decoder_of: Make) -> None:
    with pytest.raises(relay.ArgumentError, match="on_tokens must be a function of an array of tokens"):
        decoder_of("shared").write(PROMPTS, 6, on_tokens=[])


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize(
    ("call", "asked"), [("host_function(0i64, %x)", False), ("host_function(%n, 7i64)", True), ("host_function(%n, %n)", True)]
)
def test_operands_of_a_kernel_in_python_may_be_literals_or_the_same(call: str, asked: bool, target: str) -> None:
    heard: list[Any] = []
    machine = machine_on(target, f"def @main(%x: Tensor[(?n), float32], %n: int64) {{ {call} }}")
    with numbered(lambda data: heard.append(data.tolist()) or True) as number:
        assert machine.run(np.ones(2, "float32"), np.int64(number)).numpy() == asked
    assert heard == [[7, number]["%n, %n" in call]] * asked
