"""Families of transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers

from .family import Families, Family, Part, Sizes

#: Batch and length.
TEXTS = ((2, 8), (1, 1), (3, 7), (1, 13))
TIMED = ((1, 64), (3, 33))
_WORDS = 99

FAMILIES = Families()
_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": _WORDS}


#: Options that are widths of layers.
_WIDTHS = (
    "hidden_size", "intermediate_size", "embedding_size", "dim", "hidden_dim", "head_dim", "n_embd", "ffn_dim",
    "word_embed_proj_dim", "d_model", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "d_kv", "embed_dim", "hidden_sizes",
    "conv_dim",
)  # fmt: skip


def _wide(options: dict[str, Any], factor: int) -> dict[str, Any]:
    """Options of a configuration with widths times a factor."""
    times = {name: options[name] for name in options if name in _WIDTHS}
    return options | {n: [w * factor for w in v] if isinstance(v, list) else v * factor for n, v in times.items()}


def _network(kind: str, names: Sequence[str], result: str, fixed: dict[str, Any], **options: Any) -> Callable[..., Any]:
    def make(factor: int = 1) -> torch.nn.Module:
        config = transformers.AutoConfig.for_model(kind, **_wide(options, factor))
        return Part(transformers.AutoModel.from_config(config), names, result, fixed)

    return make


def _words(sizes: Sizes) -> torch.Tensor:
    return torch.randint(3, _WORDS, sizes)


def _words_and_mask(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    mask = torch.ones(sizes, dtype=torch.int64)
    mask[-1, sizes[1] // 2 + 1 :] = 0
    return _words(sizes), mask


def _encoder(kind: str, **options: Any) -> None:
    """With a mask: the last text of a batch is shorter."""
    make = _network(kind, ("input_ids", "attention_mask"), "last_hidden_state", {}, **{**_SMALL, **options})
    FAMILIES.add(Family(kind, make, _words_and_mask, TEXTS, ((0, 1), (0, 1)), TIMED, wider=make))


def _decoder(kind: str, timed: Sequence[Sizes] = TIMED, **options: Any) -> None:
    """Without a cache."""
    make = _network(kind, ("input_ids",), "last_hidden_state", {"use_cache": False}, **{**_SMALL, **options})
    FAMILIES.add(Family(kind, make, lambda sizes: (_words(sizes),), TEXTS, ((0, 1),), timed, wider=make))


for _kind in ("bert", "roberta", "mpnet", "electra"):
    _encoder(_kind)
_encoder("albert", embedding_size=16)
_encoder("deberta-v2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_biased_input=False)
_encoder("distilbert", dim=32, n_layers=2, n_heads=4, hidden_dim=64)
_KEYS = {"num_key_value_heads": 2, "head_dim": 8}
for _kind in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3"):
    _decoder(_kind, **_KEYS, pad_token_id=0)
_decoder("phi")
_decoder("gpt_neox")
_decoder("gpt2", n_embd=32, n_layer=2, n_head=4)
_decoder("opt", ffn_dim=64, word_embed_proj_dim=32)
_decoder("bloom", n_layer=2, n_head=4)
_decoder("falcon")
_decoder("mixtral", **_KEYS, num_local_experts=4)
_decoder("mamba", timed=((1, 8), (3, 8)), state_size=4)  # torch fixes the length of the export


_HEADS = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
_BOTH = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": _WORDS, **_HEADS}


def _t5(factor: int = 1) -> torch.nn.Module:
    widths = _wide({"d_model": 32, "d_kv": 8, "d_ff": 64}, factor)
    config = transformers.T5Config(**widths, num_layers=2, num_heads=4, vocab_size=_WORDS)
    return Part(transformers.T5EncoderModel(config), ("input_ids", "attention_mask"), "last_hidden_state", {})


FAMILIES.add(Family("t5", _t5, _words_and_mask, TEXTS, ((0, 1), (0, 1)), TIMED, wider=_t5))


def _bart(factor: int = 1) -> torch.nn.Module:
    config = transformers.BartConfig(**_wide(_BOTH, factor), max_position_embeddings=64)
    return Part(transformers.BartModel(config), ("input_ids", "decoder_input_ids"), "last_hidden_state", {"use_cache": False})


FAMILIES.add(Family("bart", _bart, lambda sizes: (_words(sizes), _words(sizes)), TEXTS, ((0, 1), (0, 1)), TIMED, wider=_bart))


def _whisper(factor: int = 1) -> torch.nn.Module:
    config = transformers.WhisperConfig(
        **_wide(_BOTH, factor), max_source_positions=20, max_target_positions=64,
        num_mel_bins=8, pad_token_id=0, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    names = ("input_features", "decoder_input_ids")
    return Part(transformers.WhisperModel(config), names, "last_hidden_state", {"use_cache": False})


def _sound_and_words(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return torch.randn(sizes[0], 8, 40), _words(sizes)


FAMILIES.add(Family("whisper", _whisper, _sound_and_words, TEXTS, ((0,), (0, 1)), TIMED, wider=_whisper))

#: Batch and samples of sound.
_SOUNDS = ((2, 800), (1, 600), (3, 801), (1, 1000))


def _wav2vec2(factor: int = 1) -> torch.nn.Module:
    config = transformers.Wav2Vec2Config(
        **_wide({**_SMALL, "conv_dim": [8, 8]}, factor), conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2, num_feat_extract_layers=2,
    )  # fmt: skip
    return Part(transformers.Wav2Vec2Model(config), ("input_values",), "last_hidden_state", {})


FAMILIES.add(
    Family(
        "wav2vec2", _wav2vec2, lambda sizes: (torch.randn(sizes),), _SOUNDS, ((0, 1),), ((1, 1600), (2, 1000)), wider=_wav2vec2
    )
)

_IMAGES = ((2, 32), (1, 32), (3, 32), (5, 32))


def _images(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return (torch.randn(sizes[0], 3, sizes[1], sizes[1]),)


def _vision(kind: str, **options: Any) -> None:
    make = _network(kind, ("pixel_values",), "last_hidden_state", {}, **options)
    FAMILIES.add(Family(f"hf-{kind}", make, _images, _IMAGES, ((0,),), ((1, 32), (3, 32)), wider=make))


_BLOCKS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_vision("vit", **_BLOCKS, image_size=32, patch_size=8)
_vision("dinov2", **_BLOCKS, image_size=32, patch_size=8)
_vision("swin", image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)
_vision("convnext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
_vision("segformer", hidden_sizes=[8, 16], depths=[1, 1], num_encoder_blocks=2, sr_ratios=[2, 1], patch_sizes=[7, 3],
        strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2])  # fmt: skip
