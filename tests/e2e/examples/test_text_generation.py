"""Text generation: the texts are those of numpy, prompts do not see each other, and the cache is not copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.copy_reason import CopyKind
from relayvm.ops.core.tensor_types import TensorType
from relayvm.vm.runtime.tracing.trace_events import DTOH

from ...example_programs import example_modules  # noqa: F401  a fixture

PROMPTS = ("The shape of", "A", "", "A kernel that")


@pytest.fixture(scope="module")
def executable() -> relay.Executable:
    from text_generation import compiled

    return compiled("sim")


@pytest.fixture(scope="module")
def vm(executable: relay.Executable) -> Iterator[relay.VirtualMachine]:
    with relay.VirtualMachine(executable) as machine:
        yield machine


def write(vm: relay.VirtualMachine, prompts: Sequence[str], limit: int, **how: Any) -> np.ndarray:
    from text_generation import arguments

    texts: np.ndarray = vm.run(**arguments(prompts, limit, **how)).numpy()
    return texts


def test_the_most_likely_tokens_are_those_of_numpy(vm: relay.VirtualMachine) -> None:
    from text_generation import as_tokens, difference, load

    weights, (rows, lengths) = load(), as_tokens(PROMPTS)
    texts = write(vm, PROMPTS, 30)
    assert texts.shape[0] == len(PROMPTS) and 0 < texts.shape[1] <= 30
    for row, length, text in zip(rows, lengths, texts, strict=True):
        assert difference(row[:length], text, weights) == ""


def test_a_text_does_not_depend_on_the_others(vm: relay.VirtualMachine) -> None:
    together = write(vm, PROMPTS, 12)
    for prompt, text in zip(PROMPTS, together, strict=True):
        alone = write(vm, [prompt], 12)[0]
        assert np.array_equal(alone, text[: len(alone)])


def test_draws(vm: relay.VirtualMachine) -> None:
    likely = write(vm, PROMPTS, 10, stop=-1)
    for only in ({"top_k": 1}, {"top_p": 0.0}):
        assert np.array_equal(write(vm, PROMPTS, 10, stop=-1, temperature=2.0, **only), likely), "the most likely token only"
    first, again, other = (write(vm, PROMPTS, 10, stop=-1, temperature=2.0, top_k=40, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_the_limit_and_the_end(vm: relay.VirtualMachine) -> None:
    assert write(vm, PROMPTS, 0).shape == (4, 0) and write(vm, [], 5).shape == (0, 0)
    assert write(vm, PROMPTS, 7, stop=-1).shape == (4, 7)
    texts = write(vm, PROMPTS, 40, temperature=3.0)
    assert (texts == 0).any(), "some text ends: the model is asked for unlikely tokens"
    for text in texts:
        ends = np.flatnonzero(text == 0)
        assert not len(ends) or not text[ends[0] :].any()


def test_a_step_copies_one_condition_and_allocates_no_cache(vm: relay.VirtualMachine) -> None:
    def spent(limit: int) -> dict[str, int]:
        before = dict(vm.counters)
        write(vm, PROMPTS[:1], limit, stop=-1)
        return {name: vm.counters[name] - before[name] for name in ("dtoh_copies", "dtoh_bytes", "alloc_bytes")}

    # from 70 to 120 tokens the caches have room: 128 rows of 512 bytes, for the keys and the values of 3 layers
    short, long = spent(70), spent(120)
    assert long["dtoh_copies"] - short["dtoh_copies"] == 50, "a condition for each token"
    assert long["dtoh_bytes"] - short["dtoh_bytes"] == 50 * (1 + 4), "the condition, and the token in the result"
    assert long["alloc_bytes"] - short["alloc_bytes"] < 50 * 128 * 512, "less than one cache for each token"


def test_the_host_reads_the_condition_and_the_result_only(executable: relay.Executable) -> None:
    to_host = [t for t in executable.explain().transfers if t.direction == DTOH]
    assert [(t.what, t.reason and t.reason.kind) for t in to_host] == [("copy", CopyKind.CONDITION), ("result", None)]
    assert to_host[0].type == TensorType((), "bool")
