"""A decoder of the Llama family in a file of GGUF: its numbers, its tokens, and its step as a text of Relay.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.  Read are tensors of float32, float16, Q8_0 (blocks of 32
numbers of 8 bits with a scale) and Q4_0 and Q4_1 (of 4 bits, with a scale and, in Q4_1, a least number).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, BinaryIO

import numpy as np

#: The kinds of single values, by their numbers in the format, as ``struct`` names them.
_KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9

# ---- the file --------------------------------------------------------------------------------------------------------------


class Gguf:
    """``facts``: the metadata by key.  ``tensors``: the tensors as float32, by name."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as self._file:
            if self._file.read(4) != b"GGUF" or self._number("I") not in (2, 3):
                raise SystemExit(f"{path} is no file of GGUF 2 or 3")
            tensors, facts = self._number("Q"), self._number("Q")
            self.facts: dict[str, Any] = {self._text(): self._value(self._number("I")) for _ in range(facts)}
            listed = [self._entry() for _ in range(tensors)]
            step = self.facts.get("general.alignment", 32)
            begin = -(-self._file.tell() // step) * step
            self.tensors = {name: self._tensor(begin + offset, shape, kind) for name, shape, kind, offset in listed}

    _file: BinaryIO

    def _number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self._file.read(struct.calcsize(kind)))[0]

    def _text(self) -> str:
        return self._file.read(self._number("Q")).decode()

    def _value(self, kind: int) -> Any:
        if kind == _LIST:
            inner, count = self._number("I"), self._number("Q")
            return [self._value(inner) for _ in range(count)]
        return self._text() if kind == _TEXT else self._number(_KINDS[kind])

    def _entry(self) -> tuple[str, tuple[int, ...], int, int]:
        """The name of a tensor, its shape (the fastest axis last), the number of its format, its offset."""
        name = self._text()
        sizes = [self._number("Q") for _ in range(self._number("I"))]
        return name, tuple(sizes[::-1]), self._number("I"), self._number("Q")

    def _tensor(self, at: int, shape: tuple[int, ...], kind: int) -> np.ndarray:
        if kind not in FORMATS:
            raise SystemExit(f"the tensor format {kind} of GGUF is not read; {', '.join(map(str, FORMATS))} are")
        of_block, block, numbers = FORMATS[kind]
        count = int(np.prod(shape)) // block
        self._file.seek(at)
        blocks = np.frombuffer(self._file.read(count * of_block.itemsize), of_block)
        return numbers(blocks).astype(np.float32).reshape(shape)


def _nibbles(blocks: np.ndarray) -> np.ndarray:
    """The low halves of 16 bytes, then their high halves."""
    return np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], 1).astype(np.float32)


def _scaled(blocks: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return np.asarray(blocks["d"].astype(np.float32)[:, None] * numbers)


_Q4_0 = np.dtype([("d", "<f2"), ("q", "u1", 16)])
_Q4_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)])
_Q8_0 = np.dtype([("d", "<f2"), ("q", "i1", 32)])
#: By the number of a tensor format: its block, the numbers in a block, and the numbers of blocks.
FORMATS: dict[int, tuple[np.dtype, int, Callable[[np.ndarray], np.ndarray]]] = {
    0: (np.dtype("<f4"), 1, lambda blocks: blocks),
    1: (np.dtype("<f2"), 1, lambda blocks: blocks),
    2: (_Q4_0, 32, lambda blocks: _scaled(blocks, _nibbles(blocks) - 8)),
    3: (_Q4_1, 32, lambda blocks: _scaled(blocks, _nibbles(blocks)) + blocks["m"].astype(np.float32)[:, None]),
    8: (_Q8_0, 32, lambda blocks: _scaled(blocks, blocks["q"].astype(np.float32))),
}

# ---- the step --------------------------------------------------------------------------------------------------------------

_STEP = Template("""#[version = "0.0.5"]
def @normed(%x: Tensor[(?b, ?m, $width), float32], %w: Tensor[($width), float32], Inline=1) {
  %x * rsqrt(mean(%x * %x, axis=[2], keepdims=True) + ${epsilon}f) * %w
}
def @heads(%x: Tensor[(?b, ?m, ?w), float32], Inline=1) {
  transpose(reshape(%x, newshape=[0, 0, -1, $size]), axes=[0, 2, 1, 3])
}
def @turned(
  %x: Tensor[(?b, ?h, ?m, $size), float32], %cos: Tensor[(?b, 1, ?m, $size), float32],
  %sin: Tensor[(?b, 1, ?m, $size), float32], Inline=1
) {
  let %halves = split(%x, indices_or_sections=2, axis=3);
  %x * %cos + concatenate((negative(%halves.1), %halves.0), axis=3) * %sin
}
def @main(
  %input_ids: Tensor[(?b, ?m), int32], %attention_mask: Tensor[(?b, ?t), int32], %position_ids: Tensor[(?b, ?m), int32],
  $params
) {
  let %angles = cast(expand_dims(%position_ids, axis=2), dtype="float32") * %frequencies;
  let %both = expand_dims(concatenate((%angles, %angles), axis=2), axis=1);
  let %cos = cos(%both);
  let %sin = sin(%both);
  let %columns = arange(0i64, take(shape_of(%attention_mask, dtype="int64"), 1), 1i64, dtype="int64");
  let %m = take(shape_of(%input_ids, dtype="int64"), 1);
  let %t = take(shape_of(%attention_mask, dtype="int64"), 1);
  let %own = expand_dims(arange(%t - %m, %t, 1i64, dtype="int64"), axis=1);
  let %is_text = greater(expand_dims(%attention_mask, axis=1, num_newaxis=2), 0);
  let %hidden = where(logical_and(less_equal(%columns, %own), %is_text), 0f, -1e9f);
  let %x0 = take(%token_embd_weight, %input_ids, axis=0);
  $layers
  (nn.dense(@normed(%x$count, %output_norm_weight), %token_embd_weight), $presents)
}
""")
_LAYER = Template("""
  let %n$k = @normed(%x$k, %blk_${k}_attn_norm_weight);
  let %q$k = @turned(@heads(nn.dense(%n$k, %blk_${k}_attn_q_weight)), %cos, %sin);
  let %keys$k = concatenate((%past_key_$k, @turned(@heads(nn.dense(%n$k, %blk_${k}_attn_k_weight)), %cos, %sin)), axis=2);
  let %values$k = concatenate((%past_value_$k, @heads(nn.dense(%n$k, %blk_${k}_attn_v_weight))), axis=2);
  let %rows$k = reshape(repeat(%keys$k, repeats=$groups, axis=1), newshape=[-3, -2]);
  let %products$k = nn.batch_matmul(reshape(%q$k, newshape=[-3, -2]), %rows$k) * ${scale}f;
  let %weights$k = nn.softmax(reshape(%products$k, newshape=[-4, -1, $heads, -2]) + %hidden);
  let %wide$k = reshape(repeat(%values$k, repeats=$groups, axis=1), newshape=[-3, -2]);
  let %found$k = nn.batch_matmul(reshape(%weights$k, newshape=[-3, -2]), %wide$k, transpose_b=False);
  let %sum$k = reshape(transpose(reshape(%found$k, newshape=[-4, -1, $heads, -2]), axes=[0, 2, 1, 3]), newshape=[0, 0, -3]);
  let %y$k = %x$k + nn.dense(%sum$k, %blk_${k}_attn_output_weight);
  let %h$k = @normed(%y$k, %blk_${k}_ffn_norm_weight);
  let %gate$k = nn.dense(%h$k, %blk_${k}_ffn_gate_weight);
  let %inner$k = %gate$k * sigmoid(%gate$k) * nn.dense(%h$k, %blk_${k}_ffn_up_weight);
  let %x$next = %y$k + nn.dense(%inner$k, %blk_${k}_ffn_down_weight);""")


def step(file: Gguf) -> tuple[str, dict[str, np.ndarray]]:
    """The text of the step, for ``relay.generation.loop``, and its weights."""
    facts = {key.removeprefix("llama."): value for key, value in file.facts.items()}
    if facts["general.architecture"] != "llama" or "output.weight" in file.tensors:
        raise SystemExit("only decoders of the architecture llama are read, whose last weight is that of the words")
    count, heads, shared = facts["block_count"], facts["attention.head_count"], facts["attention.head_count_kv"]
    size = facts["embedding_length"] // heads
    weights = {name.replace(".", "_"): x for name, x in file.tensors.items()}
    for name in weights:
        if name.endswith(("attn_q_weight", "attn_k_weight")):  # pairs of neighbours are turned there, halves here
            rows = weights[name].reshape(-1, size // 2, 2, weights[name].shape[1])
            weights[name] = np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(weights[name].shape)
    weights["frequencies"] = (facts["rope.freq_base"] ** -(np.arange(size // 2) / (size // 2))).astype(np.float32)
    caches = [f"%past_{what}_{k}: Tensor[(?b, {shared}, ?n, {size}), float32]" for k in range(count) for what in ("key", "value")]
    params = [f"%{name}: Tensor[({', '.join(map(str, x.shape))}), float32]" for name, x in weights.items()]
    known = {"heads": heads, "groups": heads // shared, "scale": size**-0.5}
    text = _STEP.substitute(
        width=facts["embedding_length"], size=size, epsilon=f"{facts['attention.layer_norm_rms_epsilon']:.9g}", count=count,
        params=",\n  ".join(caches + params), layers="".join(_LAYER.substitute(known, k=k, next=k + 1) for k in range(count)),
        presents=", ".join(f"%keys{k}, %values{k}" for k in range(count)),
    )  # fmt: skip
    return text, weights


# ---- tokens ----------------------------------------------------------------------------------------------------------------


def tokenizer(file: Gguf) -> Any:
    """The file's tokenizer, a ``tokenizers.Tokenizer``."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds = file.facts["tokenizer.ggml.tokens"], file.facts["tokenizer.ggml.token_type"]
    pairs = [tuple(pair.split(" ")) for pair in file.facts["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={token: k for k, token in enumerate(tokens)}, merges=pairs))
    made.add_special_tokens([AddedToken(token, special=True) for token, kind in zip(tokens, kinds, strict=True) if kind == 3])
    split = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    made.pre_tokenizer, made.decoder = pre_tokenizers.Sequence(split), decoders.ByteLevel()
    return made
