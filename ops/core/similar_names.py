"""Suggestions of similar names, for messages about unknown names."""

from __future__ import annotations

from collections.abc import Iterable


def similar(name: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names most similar to ``name``, at most ``most`` of them; ``cutoff``: the least similarity, between 0 and 1."""
    import difflib  # for messages only

    return difflib.get_close_matches(name, list(names), most, cutoff)


def question(near: Iterable[str], joint: str = " or ") -> str:
    """``did you mean x or y?``; empty without names."""
    listed = joint.join(near)
    return listed and f"did you mean {listed}?"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``; did you mean x or y?`` for very similar names, else nothing."""
    asked = question(similar(name, names, 2, 0.7))
    return asked and f"; {asked}"


def nearest(name: str, names: Iterable[str], form: str = "{}") -> str:
    """``; did you mean x?`` for the most similar name, else nothing; ``form``: the format of the name."""
    asked = question(map(form.format, similar(name, names)))
    return asked and f"; {asked}"


def alternatives(given: str, valid: Iterable[str], title: str = "valid") -> str:
    """``did you mean 'x'? valid: x, y``, for the help of a message."""
    valid = list(valid)
    asked = question(map(repr, similar(given, valid)))
    return f"{asked} {title}: {', '.join(valid)}".lstrip()
