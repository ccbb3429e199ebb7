"""Texts of the loop in the machine are those of a loop in Python over the same step: each token, any lengths and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import relayvm as relay

Make = Callable[..., Any]
PROMPTS = [[5, 40, 2, 2, 71], [9], [88, 3, 17]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("form", ["shared", "joined"])
@pytest.mark.extensive(dtype=["float32"])
def test_the_tokens_are_those_of_a_loop_in_python(decoder_of: Make, form: str, dtype: str) -> None:
    """One text and three of other lengths, past the growth of buffers; a text ends with the first token of ``stop``."""
    made = decoder_of(form, dtype)
    texts = [made.likely(prompt, 70) for prompt in PROMPTS]
    assert [t.tolist() for t in made.write(PROMPTS, 70)] == texts
    assert [t.tolist() for t in made.write(PROMPTS[1:2], 70)] == texts[1:2]
    assert [t.tolist() for t in made.write(PROMPTS, 1)] == [t[:1] for t in texts]
    first = texts[0][0]
    stopped = made.write(PROMPTS, 70, stop=[first, texts[2][5]])
    ends = [next((k + 1 for k, t in enumerate(text) if t in (first, texts[2][5])), 70) for text in texts]
    assert [t.tolist() for t in stopped] == [text[:end] for text, end in zip(texts, ends, strict=True)]
    assert ends[0] == 1
    assert [t.tolist() for t in made.write(PROMPTS, 0)] == [[], [], []] and made.write([], 3) == []


@pytest.mark.parametrize(("form", "dtype"), [("shared", "float32"), ("joined", "float32"), ("joined", "float16")])
def test_a_token_writes_the_new_rows_of_caches_only(decoder_of: Make, form: str, dtype: str) -> None:
    """A scatter counts the rows that it writes; no kernel joins, transposes or multiplies a whole cache, except attention.

    The softmax of the decoder in float16 is in float32, between casts.
    """
    made = decoder_of(form, dtype)
    sizes, prompt = made.sizes, [k % 90 for k in range(70)]
    made.write([prompt], 4)

    def profile(count: int) -> dict[str, int]:
        found = made.write.vm.profile(*made.write.arguments([prompt], count), repeat=1, warmup=0)
        return {row.name: row.nbytes for row in found.activities}

    few, more = profile(4), profile(44)
    each = {name: (nbytes - few.get(name, 0)) / 40 for name, nbytes in more.items()}
    rows = 2 * sizes.layers * sizes.shared * sizes.size * np.dtype(dtype).itemsize
    assert rows <= each["scatter_nd"] <= rows + 64  # and those of the text and of the columns
    assert any("attention" in name for name in each) and not any("batch_matmul" in name and n for name, n in each.items())
    assert not each.get("concatenate") and not any(name.removeprefix("fused_") == "slice_like_transpose" for name in each)


def test_draws_are_from_the_likely_tokens(decoder_of: Make) -> None:
    """Each drawn token is one of those that the logits allow; a seed gives one text, and seeds give several."""
    made = decoder_of("joined", top_k=8)
    assert [t.tolist() for t in made.write(PROMPTS, 5)] == [made.likely(prompt, 5) for prompt in PROMPTS]
    settings = {"temperature": 1.5, "top_k": 4, "top_p": 0.8}
    texts = {seed: [t.tolist() for t in made.write(PROMPTS, 6, seed=seed, **settings)] for seed in range(4)}
    assert texts[1] == [t.tolist() for t in made.write(PROMPTS, 6, seed=1, **settings)]
    assert len({str(t) for t in texts.values()}) > 1
    for prompt, text in zip(PROMPTS, texts[2], strict=True):
        rounds = made.logits(prompt)
        row = next(rounds)
        for token in text:
            best = np.argsort(-row, kind="stable")[:4]
            chances = np.exp((row[best] - row[best[0]]) / 1.5)
            chances /= chances.sum()
            assert token in best[np.cumsum(chances) - chances < 0.8 + 1e-6]
            row = rounds.send(token)


# ---- what is refused -----------------------------------------------------------------------------------------------------


def identity(*names: str) -> Any:
    """A model of inputs of one shape that are results, too."""
    infos = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "n"]) for n in names]
    nodes = [helper.make_node("Identity", [n], [f"{n}_out"]) for n in names]
    outputs = [helper.make_tensor_value_info(f"{n}_out", TensorProto.INT64, ["b", "n"]) for n in names]
    graph = helper.make_graph(nodes, "g", infos, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (("input_ids",), {}, "the step has no pair of past and present; its parameters are input_ids"),
        (("ids", "c"), {"caches": {"c": "c_out"}}, "the step has no parameter %input_ids"),
        (("input_ids", "c"), {"caches": {"d": "c_out"}}, "the step has no parameter 'd'"),
        (("input_ids", "c"), {"caches": {"c": "e"}}, "the step has no result 'e'"),
        (("input_ids", "c", "e"), {"caches": {"c": "c_out"}}, "the step has parameters of no known meaning: e"),
        (("input_ids", "c"), {"caches": {"c": "c_out"}}, "the logits are Tensor"),
        (("input_ids", "c"), {"caches": {"c": "c_out"}, "top_k": -1}, "loop: top_k must be a whole number of at least 0"),
    ],
)
def test_a_step_of_another_form_is_refused(names: tuple[str, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(relay.RelayError, match=message):
        relay.generation.loop(identity(*names), **options)


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([[]], {}, "a prompt must be at least one token"),
        ([[1.5]], {}, "a prompt must be at least one token"),
        (3, {}, "prompts must be a list or tuple"),
        ([[1]], {"temperature": 0.5}, "temperature: the program writes the most likely tokens only"),
        ([[1]], {"temperature": -1}, "temperature must be a number of at least 0"),
        ([[1]], {"top_p": 0}, "top_p must be a probability above 0"),
        ([[1]], {"stop": 2}, "stop must be a list or tuple"),
        ([[1]], {"max_new_tokens": -1}, "max_new_tokens must be a whole number of at least 0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(decoder_of: Make, prompts: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(relay.ArgumentError, match=message):
        decoder_of("shared").write(prompts, **{"max_new_tokens": 1, **options})
