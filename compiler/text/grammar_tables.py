"""LALR tables of the text format, with the reductions that build syntax trees.

Lark reads the grammar and makes the tables, which takes 0.15 s: they are kept in the cache on disk, as numbers and names.
Tokens and trees are made here: texts may have millions of them.  No other file uses lark.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.native.cache import disk_cache
from ...ops.native.cache.cache_entry import Entry
from ...ops.native.cache.cache_key import CacheKey
from ...ops.native.cache.installed_version import installed_version

#: A value on the parser's stack: a token or a tree.
Value = Any
#: A reduction makes a value of the values of its symbols.
Build = Callable[[list[Value]], Value]
END, ERROR = "$END", "ERROR"
#: The kind of an entry of the cache.
GRAMMAR = "grammar"


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
class Rule:
    """A rule of the grammar, as far as its reduction depends on it.

    ``origin``: its name; ``data``: the name of its trees; ``size``: the number of its symbols; ``kept``: the symbols that are
    part of the tree; ``inlined``: those whose values are; ``is_single``: whether a tree with one value is that value.
    """

    origin: str
    data: str
    size: int
    kept: Sequence[int]
    inlined: Sequence[int]
    is_single: bool


@frozen
class Grammar:
    """A grammar as lark reads it: numbers and texts.

    ``actions``: per state, by terminal or rule: the next state, or -1 - the number of the rule to reduce.  ``start`` and ``end``:
    the first and the last state, by the rule of a whole text.  ``texts``: terminals that are a word or a sign; ``words``: the
    pattern of all tokens; ``keywords``: terminals that ``NAME`` would match, by their texts.
    """

    actions: Sequence[dict[str, int]]
    rules: Sequence[Rule]
    start: dict[str, int]
    end: dict[str, int]
    texts: dict[str, str]
    words: str
    keywords: dict[str, str]


@frozen
class Tables:
    """The tables of a grammar, for the parser.

    ``actions``: per state, by terminal or rule: to shift, the next state; to reduce, the number of symbols, the reduction and the
    rule.  For the other fields see ``Grammar``.
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
    grammar = _read(Path(__file__).with_name("relay.lark"))
    reductions = [(rule.size, _build(rule), rule.origin) for rule in grammar.rules]
    actions = [{name: to if to >= 0 else reductions[-1 - to] for name, to in row.items()} for row in grammar.actions]
    return Tables(actions, grammar.start, grammar.end, grammar.texts, re.compile(grammar.words), grammar.keywords)


def _read(path: Path) -> Grammar:
    """The grammar in a file, from the cache where it is known."""
    sources = path.read_bytes(), Path(__file__).read_bytes()
    digest = hashlib.sha256(b"\0".join(sources)).hexdigest()
    key = CacheKey.of(GRAMMAR, {"sources": digest, "lark": installed_version("lark")})
    entry = disk_cache.read(key)
    if entry is not None:
        return from_json(bytes(entry.payload))
    grammar = analysed(sources[0].decode())
    disk_cache.write(Entry(key, path.name, "", to_json(grammar)))
    return grammar


def to_json(grammar: Grammar) -> bytes:
    """The grammar as text."""
    fields = {name: getattr(grammar, name) for name in Grammar.__dataclass_fields__}
    rules = [[getattr(rule, name) for name in Rule.__dataclass_fields__] for rule in grammar.rules]
    return json.dumps(fields | {"rules": rules}).encode()


def from_json(data: bytes) -> Grammar:
    """The grammar of ``to_json``."""
    fields = json.loads(data)
    return Grammar(**fields | {"rules": [Rule(*rule) for rule in fields["rules"]]})


def analysed(text: str) -> Grammar:
    """The grammar that lark makes of a text."""
    from lark import Lark

    lark: Any = Lark(text, parser="lalr", lexer="basic", start=["module", "expression", "whole_type"])
    table = lark.parse_interactive("", start="module").parser_state.parse_conf.parse_table
    states = {state: number for number, state in enumerate(table.states)}
    rules = {rule: number for number, rule in enumerate(lark.rules)}
    actions: list[dict[str, int]] = []
    for row in table.states.values():
        actions.append({})
        for name, (action, argument) in row.items():
            if str(action) == "Shift":
                actions[-1][name] = states[argument]
            elif argument in rules:
                actions[-1][name] = -1 - rules[argument]
    start = {name: states[state] for name, state in table.start_states.items()}
    end = {name: states[state] for name, state in table.end_states.items()}
    texts = {t.name: t.pattern.value for t in lark.terminals if t.pattern.type == "str"}
    keywords = {text: name for name, text in texts.items() if text.isidentifier()}
    words = _words(lark.terminals, lark.ignore_tokens, keywords)
    return Grammar(actions, [_rule(rule) for rule in rules], start, end, texts, words, keywords)


def _rule(rule: Any) -> Rule:
    kept = [k for k, symbol in enumerate(rule.expansion) if not (symbol.is_term and symbol.filter_out)]
    inlined = [k for k, symbol in enumerate(rule.expansion) if symbol.name.startswith("_") and not symbol.is_term]
    is_single = bool(rule.options.expand1 and not rule.alias)
    return Rule(str(rule.origin.name), str(rule.alias or rule.origin.name), len(rule.expansion), kept, inlined, is_single)


def _words(terminals: Sequence[Any], ignored: Sequence[str], keywords: dict[str, str]) -> str:
    """The pattern of all tokens, by priority, then the longer first; blanks have no group."""
    own = [t for t in terminals if t.name not in ignored and t.name not in keywords.values()]
    own.sort(key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    blanks = [t.pattern.to_regexp() for t in terminals if t.name in ignored]
    return "|".join([*blanks, *(f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in own)])


def _build(rule: Rule) -> Build:
    """The reduction of a rule: rules named ``_x`` are part of the tree around them, ``?x`` with one value is that value."""
    inlined = frozenset(rule.inlined)
    kept, is_single, data = tuple((k, k in inlined) for k in rule.kept), rule.is_single, rule.data

    def build(values: list[Value]) -> Value:
        children: list[Value] = []
        for k, is_inlined in kept:
            if not is_inlined:
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
