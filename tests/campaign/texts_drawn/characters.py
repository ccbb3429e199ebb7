"""Texts altered at any character: most results are no programs."""

from __future__ import annotations

from random import Random

TOKENS = [
    *"(){}[],;:=<>-%@#\"\\/*.?", "let", "if", "else", "fn", "def", "->", "Tensor", "float32", "int64", "bool", "?n", "?",
    "0", "1", "-1", "1f", "2i64", "1e400f", "True", "nan", "9223372036854775808", "%x", "%0", "@main", "axis=[0]", "dtype=",
    "add", "nn.dense", "é", "\x1b[31m", "\0", "\n", "\t", "\u2028", "\u202e", "\ud800", "//", "/*", "*/", "meta[", "]",
    "(" * 200, "%x, " * 2000, "\x1b" * 3000,
]  # fmt: skip


def altered(r: Random, text: str, other: str) -> str:
    """The text with one to four places altered, by parts of ``other`` among them."""
    for _ in range(r.randint(1, 4)):
        a = r.randrange(len(text) + 1)
        b = min(len(text), a + r.choice([0, 1, 1, 2, 5, 40]))
        c = r.randrange(len(other) + 1)
        middle = r.choice(["", r.choice(TOKENS), other[c : c + r.randint(1, 60)], text[a:b] * r.randint(2, 5)])
        text = text[:a] + middle + text[b:]
    return text
