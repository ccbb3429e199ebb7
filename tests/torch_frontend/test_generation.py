"""Decoders of torch in a loop inside the machine: the texts are those of torch's own loop, and caches grow in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import relayvm as relay  # noqa: E402  torch may be missing

WORDS, WIDTH, HEADS = 61, 32, 4
PROMPTS = [[5, 40, 2, 2, 60], [9], [33, 3, 17]]
OPEN = torch.export.Dim.DYNAMIC


def in_place(write: Any) -> bool:
    """Whether a token writes new rows into buffers that attention reads as they lie."""

    def profile(count: int) -> dict[str, int]:
        found = write.vm.profile(*write.arguments([list(range(1, 41))], count), repeat=1, warmup=0)
        return {row.name: row.nbytes for row in found.activities}

    few, more = profile(3), profile(13)
    written = {name for name, nbytes in more.items() if nbytes > few.get(name, 0)}
    products = {name for name in written if "batch_matmul" in name or "transpose_concatenate" in name}
    return not products and {"nn_attention", "scatter_nd"} <= written


class Step(torch.nn.Module):
    """One layer of attention with a gate behind; its caches are a list of tensors, and positions count in the scores only."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.qkv, self.gate = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, ids: Any, past: list[Any]) -> tuple[Any, list[Any]]:
        x = self.words(ids)
        heads = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        keys, values = (torch.cat([before, new], 2) for before, new in zip(past, heads[1:], strict=True))
        queries, columns = torch.arange(x.shape[1])[:, None], torch.arange(x.shape[1] + past[0].shape[2])[None]
        seen = columns <= queries + past[0].shape[2]
        found = torch.nn.functional.scaled_dot_product_attention(heads[0], keys, values, attn_mask=seen)
        x = x + torch.tanh(self.gate(found.transpose(1, 2).reshape(x.shape)))
        return torch.nn.functional.linear(x, self.words.weight), [keys, values]


def test_a_module_whose_caches_are_a_list() -> None:
    """The caches follow the logits; the name of the tokens is said."""
    torch.manual_seed(1)
    step, past = Step().eval(), list(torch.zeros(2, 2, HEADS, 5, WIDTH // HEADS))
    shapes = {"ids": {0: OPEN, 1: OPEN}, "past": [{0: OPEN, 2: OPEN}] * 2}
    program = torch.export.export(step, (torch.ones(2, 3, dtype=torch.int64), past), dynamic_shapes=shapes, strict=False)
    write = relay.generation.loop(program, tokens="ids")
    for prompt in PROMPTS:
        ids, caches, text = torch.tensor([prompt]), [torch.zeros(1, HEADS, 0, WIDTH // HEADS)] * 2, list[int]()
        for _ in range(70):
            with torch.no_grad():
                logits, caches = step(ids, caches)
            ids = logits[:, -1:].argmax(-1)
            text.append(int(ids))
        assert write([prompt], 70)[0].tolist() == text
    assert in_place(write)


def _llama(transformers: Any) -> Any:
    config = transformers.LlamaConfig(
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=2, intermediate_size=48,
        vocab_size=WORDS, initializer_range=0.4, pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def _gpt2(transformers: Any) -> Any:
    config = transformers.GPT2Config(
        n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=128, vocab_size=WORDS, initializer_range=0.4, bos_token_id=1,
        eos_token_id=None,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def exported(model: Any, transformers: Any) -> Any:
    """The step of a model with a cache of transformers."""
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    with torch.no_grad():
        before = model(torch.ones(2, 5, dtype=torch.int64), use_cache=True).past_key_values
    given = {
        "input_ids": torch.ones(2, 3, dtype=torch.int64), "attention_mask": torch.ones(2, 8, dtype=torch.int64),
        "position_ids": torch.arange(5, 8)[None].repeat(2, 1), "past_key_values": before,
    }  # fmt: skip
    caches = [[{0: OPEN, 2: OPEN}] * model.config.num_hidden_layers] * 2
    shapes = {name: caches if name == "past_key_values" else {0: OPEN, 1: OPEN} for name in given}
    return torch.export.export(model, (), given, dynamic_shapes=shapes, strict=False)


def by_torch(model: Any, prompt: Sequence[int], count: int) -> list[int]:
    """The text by the model's own loop."""
    ids = torch.tensor([prompt])
    with torch.no_grad():
        found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0)
    return [int(token) for token in found[0, len(prompt) :]]


@pytest.mark.parametrize("make", [_llama, _gpt2])
def test_a_model_of_transformers(make: Any) -> None:
    """One text, and three of other lengths, whose masks hide the columns before them."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    model = make(transformers).eval()
    write = relay.generation.loop(exported(model, transformers))
    texts = [by_torch(model, prompt, 70) for prompt in PROMPTS]
    assert [text.tolist() for text in write(PROMPTS, 70)] == texts
    assert [text.tolist() for text in write(PROMPTS[1:2], 70)] == texts[1:2]
    assert len({token for text in texts for token in text}) > 5 and in_place(write)
    rows: list[np.ndarray] = []
    write([PROMPTS[0]], 5, on_tokens=rows.append)
    assert [int(row[0]) for row in rows] == texts[0][:5]
