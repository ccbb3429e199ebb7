"""Tokens, syntax trees and LALR tables of the text format.

Lark reads the grammar and makes the tables.  Tokens and trees are made here: texts may have millions of them.
No other file uses lark.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...shape_funcs.frozen_dataclass import frozen

#: A value on the parser's stack: a token or a tree.
Value = Any
#: A reduction makes a value of the values of its symbols.
Build = Callable[[list[Value]], Value]
END, ERROR = "$END", "ERROR"


class Token(str):
    """A word of the text with its terminal and its place."""

    __slots__ = ("end_pos", "start_pos", "type")
    type: str
    start_pos: int
    end_pos: int


def token(type: str, text: str, start_pos: int, end_pos: int) -> Token:
    """The token of these parts."""
    made = Token(text)
    made.type, made.start_pos, made.end_pos = type, start_pos, end_pos
    return made


class SyntaxTree:
    """A rule with its values; the place is that of all its tokens, None without tokens."""

    __slots__ = ("children", "data", "end_pos", "start_pos")

    def __init__(self, data: str, children: list[Value], start_pos: int | None, end_pos: int | None) -> None:
        self.data, self.children, self.start_pos, self.end_pos = data, children, start_pos, end_pos


@frozen
class Tables:
    """The tables of a grammar.

    ``actions``: per state, by terminal or rule: to shift, the next state; to reduce, the number of symbols, the reduction and the
    rule.  ``start`` and ``end``: the first and the last state, by the rule of a whole text.  ``texts``: terminals that are a word
    or a sign; ``words``: the pattern of all tokens; ``keywords``: terminals that ``NAME`` would match, by their texts.
    """

    actions: Sequence[dict[str, Any]]
    start: dict[str, int]
    end: dict[str, int]
    texts: dict[str, str]
    words: re.Pattern[str]
    keywords: dict[str, str]

    def tokens(self, code: str) -> Iterator[Token]:
        """The tokens of a text; the last is ``$END``, behind the last character that is no blank."""
        keywords = self.keywords
        for match in self.words.finditer(code):
            kind, text = match.lastgroup, match[0]
            if kind is not None:
                if kind == "NAME" and text in keywords:
                    kind = keywords[text]
                yield token(kind, text, match.start(), match.end())
        end = len(code.rstrip())
        yield token(END, "", end, end)


@functools.cache
def tables() -> Tables:
    """The tables of the grammar ``relay.lark``."""
    from lark import Lark

    grammar = Path(__file__).with_name("relay.lark").read_text(encoding="utf-8")
    lark: Any = Lark(grammar, parser="lalr", lexer="basic", start=["module", "expression", "whole_type"])
    table = lark.parse_interactive("", start="module").parser_state.parse_conf.parse_table
    numbers = {state: number for number, state in enumerate(table.states)}
    builds = {rule: _build(rule) for rule in lark.rules}
    actions: list[dict[str, Any]] = []
    for row in table.states.values():
        actions.append({})
        for name, (action, argument) in row.items():
            if str(action) == "Shift":
                actions[-1][name] = numbers[argument]
            elif argument in builds:
                actions[-1][name] = (len(argument.expansion), builds[argument], argument.origin.name)
    start = {name: numbers[state] for name, state in table.start_states.items()}
    end = {name: numbers[state] for name, state in table.end_states.items()}
    texts = {t.name: t.pattern.value for t in lark.terminals if t.pattern.type == "str"}
    keywords = {text: name for name, text in texts.items() if text.isidentifier()}
    return Tables(actions, start, end, texts, _words(lark.terminals, lark.ignore_tokens, keywords), keywords)


def _words(terminals: Sequence[Any], ignored: Sequence[str], keywords: dict[str, str]) -> re.Pattern[str]:
    """The pattern of all tokens, by priority, then the longer first; blanks have no group."""
    own = [t for t in terminals if t.name not in ignored and t.name not in keywords.values()]
    own.sort(key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    blanks = [t.pattern.to_regexp() for t in terminals if t.name in ignored]
    return re.compile("|".join([*blanks, *(f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in own)]))


def _build(rule: Any) -> Build:
    """The reduction of a rule: rules named ``_x`` are part of the tree around them, ``?x`` with one value is that value."""
    inlined = [symbol.name.startswith("_") and not symbol.is_term for symbol in rule.expansion]
    kept = [k for k, symbol in enumerate(rule.expansion) if not (symbol.is_term and symbol.filter_out)]
    is_single = rule.options.expand1 and not rule.alias
    data = str(rule.alias or rule.origin.name)

    def build(values: list[Value]) -> Value:
        children: list[Value] = []
        for k in kept:
            if not inlined[k]:
                children.append(values[k])
            elif children:
                children += values[k].children
            else:  # a list that is left-recursive grows in place
                children = values[k].children
        if is_single and len(children) == 1:
            return children[0]
        start = next((v.start_pos for v in values if v.start_pos is not None), None)
        end = next((v.end_pos for v in reversed(values) if v.end_pos is not None), None)
        return SyntaxTree(data, children, start, end)

    return build


class Driver:
    """The stacks of a parser: the states, and the values between the states."""

    def __init__(self, start: str) -> None:
        self.tables = tables()
        self.states = [self.tables.start[start]]
        self.values: list[Value] = []
        self.end = self.tables.end[start]

    def feed(self, token: Token) -> bool:
        """Take a token; False if no text continues so: the stacks are then as before, but for reductions."""
        actions, states, values = self.tables.actions, self.states, self.values
        kind = token.type
        while True:
            action = actions[states[-1]].get(kind)
            if action is None:
                return False
            if type(action) is int:
                states.append(action)
                values.append(token)
                return True
            size, build, name = action
            if size:
                parts = values[-size:]
                del values[-size:], states[-size:]
            else:
                parts = []
            values.append(build(parts))
            states.append(actions[states[-1]][name])
            if kind == END and states[-1] == self.end:
                return True

    def accepts(self) -> set[str]:
        """The terminals that may come next."""
        kinds = self.tables.actions[self.states[-1]]
        return {kind for kind in kinds if kind.isupper() and self.would_take(len(self.states), kind)}

    def would_take(self, size: int, *kinds: str) -> bool:
        """Whether the parser takes these terminals once its stack of states is cut to ``size``.  The stacks stay as they are."""
        actions, below, above = self.tables.actions, size, list[int]()
        for kind in kinds:
            while True:
                action = actions[above[-1] if above else self.states[below - 1]].get(kind)
                if action is None:
                    return False
                if type(action) is int:
                    above.append(action)
                    break
                popped = min(action[0], len(above))
                del above[len(above) - popped :]
                below -= action[0] - popped
                above.append(actions[above[-1] if above else self.states[below - 1]][action[2]])
                if kind == END and above[-1] == self.end:
                    break
        return True

    def cut(self, size: int) -> None:
        """Drop the states beyond ``size`` and their values."""
        del self.states[size:], self.values[size - 1 :]
