"""Train the model of `text_generation.relay` with torch and write `weights.npz`.

    python examples/text_generation/train.py [--steps 500]        # pip install torch; some minutes

The text is this project's own prose: the paragraphs of README.md and docs/, and the docstrings of its modules.  A token is a
printable ASCII character; token 0 ends a paragraph.  Each paragraph is one text to learn.  The weights are stored as float16.
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: The layers that the project consists of: the folders whose docstrings are read.
FOLDERS = ("shape_funcs", "ops", "vm", "compiler", "examples", "benchmarks", "tests")
VOCABULARY, WIDTH, HIDDEN, HEADS, LAYERS = 96, 128, 512, 4, 3
SEED, WINDOW, BATCH, RATE, WARM, DECAY = 7, 128, 16, 4e-3, 60, 0.05

Weights = dict[str, torch.Tensor]


# ---- the text ----------------------------------------------------------------------------------------------------------


def paragraphs() -> Iterator[str]:
    """Every paragraph of prose, on one line."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        yield from _prose(text)
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
                    yield from _prose(text)


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of a text, without tables, headings and indented programs."""
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r"\s{4}|[|#=]", paragraph) and "|" not in paragraph:
            line = " ".join(paragraph.split())
            yield "".join(c for c in line if " " <= c <= "~")


def tokens() -> np.ndarray:
    """All paragraphs as tokens, each with token 0 after it; equal paragraphs once."""
    text = [paragraph for paragraph in dict.fromkeys(paragraphs()) if paragraph]
    np.random.default_rng(SEED).shuffle(text)
    return np.concatenate([np.array([0, *(ord(c) - 31 for c in paragraph)]) for paragraph in text])


# ---- the model ---------------------------------------------------------------------------------------------------------


def initial() -> Weights:
    """Weights before training; matrices in the layout of `nn.dense`: (units, inputs)."""
    torch.manual_seed(SEED)
    out: Weights = {"meanings": torch.randn(VOCABULARY, WIDTH) * 0.05, "g": torch.ones(WIDTH), "c": torch.zeros(WIDTH)}
    for n in range(LAYERS):
        for name, units, inputs in (("qkv", 3 * WIDTH, WIDTH), ("o", WIDTH, WIDTH), ("1", HIDDEN, WIDTH), ("2", WIDTH, HIDDEN)):
            out[f"w{name}_{n}"] = torch.randn(units, inputs) / math.sqrt(inputs * (2 * LAYERS if name in "o2" else 1))
            out[f"b{name}_{n}"] = torch.zeros(units)
        for k in (1, 2):
            out[f"g{k}_{n}"], out[f"c{k}_{n}"] = torch.ones(WIDTH), torch.zeros(WIDTH)
    return {name: value.requires_grad_() for name, value in out.items()}


def bias(length: int) -> torch.Tensor:
    """The summand of the scores: less the further back, by a slope per head; -inf for the future."""
    slopes = torch.tensor([4.0 ** -(h + 1) for h in range(HEADS)])
    back = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    return torch.where(back <= 0, slopes[:, None, None] * back, -math.inf)


def logits(w: Weights, x: torch.Tensor) -> torch.Tensor:
    """The logits of each next token: (texts, length, VOCABULARY)."""
    texts, length = x.shape
    y, seen = w["meanings"][x], bias(length)
    for n in range(LAYERS):
        h = F.layer_norm(y, (WIDTH,), w[f"g1_{n}"], w[f"c1_{n}"])
        q, k, v = F.linear(h, w[f"wqkv_{n}"], w[f"bqkv_{n}"]).view(texts, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        y = y + F.linear(found.transpose(1, 2).reshape(texts, length, WIDTH), w[f"wo_{n}"], w[f"bo_{n}"])
        h = F.gelu(F.linear(F.layer_norm(y, (WIDTH,), w[f"g2_{n}"], w[f"c2_{n}"]), w[f"w1_{n}"], w[f"b1_{n}"]))
        y = y + F.linear(h, w[f"w2_{n}"], w[f"b2_{n}"])
    return F.linear(F.layer_norm(y, (WIDTH,), w["g"], w["c"]), w["meanings"])


# ---- training ----------------------------------------------------------------------------------------------------------


def loss_of(w: Weights, batch: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of the next tokens, in nats."""
    return F.cross_entropy(logits(w, batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def windows(text: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """A batch of windows at random positions."""
    starts = rng.integers(0, len(text) - WINDOW - 1, BATCH)
    return torch.from_numpy(np.stack([text[s : s + WINDOW + 1] for s in starts]))


def train(text: np.ndarray, steps: int) -> Weights:
    """Weights after ``steps`` of AdamW; the rate rises, then falls as a cosine."""
    w, rng = initial(), np.random.default_rng(SEED)
    optimizer = torch.optim.AdamW(w.values(), lr=RATE, betas=(0.9, 0.98), weight_decay=DECAY)
    began = time.perf_counter()
    for step in range(steps):
        rate = RATE * min((step + 1) / WARM, 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_of(w, windows(text, rng))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.perf_counter() - began:.0f} s", flush=True)
            save(w)
    return w


def save(w: Weights) -> None:
    """Write the weights."""
    np.savez(HERE / "weights.npz", **{name: value.detach().numpy().astype(np.float16) for name, value in w.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    text = tokens()
    held = len(text) // 20
    w = train(text[held:], parser.parse_args().steps)
    save(w)
    rng = np.random.default_rng(SEED)
    with torch.no_grad():
        loss = sum(loss_of(w, windows(text[:held], rng)).item() for _ in range(8)) / 8
    print(f"{len(text)} characters; on the twentieth that was not trained on: {loss / math.log(2):.2f} bits per character")


if __name__ == "__main__":
    main()
