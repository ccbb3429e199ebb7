"""One text per rule of the grammar; the texts of the language's page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import relayvm as relay
from relayvm.compiler.text.grammar_tables import SyntaxTree, analysed, from_json, to_json
from relayvm.compiler.text.lalr import Driver
from relayvm.compiler.text.parser import parse, parse_expr

from ...programs import HEADER

ROOT = Path(__file__).resolve().parents[3]
GRAMMAR = (ROOT / "compiler/text/relay.lark").read_text("utf-8")
LIST = "type List[A] { Cons(A, List[A]), Nil }\n"
#: An expression per rule, or a whole text with functions.
SAMPLES: dict[str, str] = {
    "expression": "1",
    "free": "free_var %x: int32; %x",
    "annotation": "let %x: int32 = 1; %x",
    "let": "let %x = 1; %x",
    "graph": "%0 = 1; (%0, %0)",
    "sequence": "1; 2",
    "local": "fn (%x) { %x }",
    "global_var": "@f",
    "operator": "exp",
    "number": "1.5f",
    "bool": "True",
    "string": 'cast(1, dtype="int8")',
    "word": "cast(1, dtype=int8)",
    "list": "@f(1, a=[0, (1,), (), []])",
    "attribute": "fn (%x, Primitive=1) { %x }",
    "infix": "1 + 2 * 3 % 4 < 5 == True",
    "minus": "fn (%x) { -%x }",
    "call": "@f(1, 2,)(3)()",
    "project": "(1, 2).1",
    "index": "@f(1)[0]",
    "slice": "@f(1)[0:, 1:2:-1]",
    "bound": "@f(1)[:]",
    "ellipsis": "@f(1)[..., 0]",
    "tensor": "[[1, 2], [3, 4],]",
    "tuple": "((), (1,), (1, 2))",
    "if_": "if (True) { 1 } else { 2 }",
    "function": "fn [A](%x: A) -> A { %x }",
    "params": "fn (%x, %y,) { %x }",
    "param": "fn (%x) { %x }",
    "param_with_device": 'fn (%x {virtual_device="cpu"}: int32) { %x }',
    "result": "fn () -> int32 { 1 }",
    "type_params": "fn [A, B](%x: A) { %x }",
    "block": "({ let %x = 1; %x }, (let %y = 2; %y))",
    "instance": "@f[int32, (bool,)](1)",
    "tensor_type": "fn (%x: Tensor[(2, ?, ?n), int8]) { %x }",
    "dims": "fn (%x: Tensor[(), int8]) { %x }",
    "named_type": "fn (%x: float) { %x }",
    "tuple_type": "fn (%x: ((), (int8,), (int8, bool))) { %x }",
    "fn_type": "fn (%f: fn (int8, bool,) -> int8) { %f }",
    "fn_types": "fn (%f: fn () -> int8) { %f }",
    "ref_type": "fn (%r: ref(int8)) { ref_read(%r) }",
    "module": HEADER + "def @main() { 1 }",
    "definition": HEADER + "def @main[A](%x: A) -> A { %x }",
    "type_definition": HEADER + LIST,
    "constructors": HEADER + "type Bit { Off, On, }",
    "constructor": HEADER + LIST,
    "extern_type": HEADER + "extern type T\ndef @main(%x: T) { %x }",
    "type_call": HEADER + LIST + "def @main(%x: List[int32]) { %x }",
    "match": HEADER + LIST + "def @main(%x: List[int32]) { match? (%x) { Cons(%h, _) => %h, } }",
    "clause": HEADER + LIST + "def @main(%x: List[int32]) { match (%x) { Cons(%h, _) => { %h }, Nil => 0 } }",
    "bound_pattern": HEADER + LIST + "def @main(%x: List[int32]) { match (%x) { %y: List[int32] => %y } }",
    "named_pattern": HEADER + LIST + "def @main(%x: List[int32]) { match (%x) { Nil() => 0, _ => 1 } }",
    "tuple_pattern": HEADER + "def @main(%x: (int32, (int32,), ())) { match (%x) { (%a, (%b,), ()) => %a } }",
    "if_made_by": HEADER + LIST + "def @main(%x: List[int32]) { if (%x is Nil) { 0 } else { 1 } }",
    "meta": HEADER + "def @main() { meta[relay.Constant][0] }\n#[metadata]\n"
    '{"relay.Constant": [{"dtype": "uint8", "shape": [], "data": "AQ=="}]}',
}
#: The rule of a text that the parser skips, and the rule of ``parse_type``.
OTHERS = {"error", "whole_type"}


def _trees(value: Any) -> Iterator[SyntaxTree]:
    pending = [value]
    while pending:
        tree = pending.pop()
        if isinstance(tree, SyntaxTree):
            yield tree
            pending += tree.children


def _rules(text: str) -> set[str]:
    """The rules of the syntax tree of a text without comments."""
    is_module = text.startswith(HEADER)
    driver = Driver("module" if is_module else "expression")
    code = text.removeprefix(HEADER).partition("#[metadata]")[0]
    assert all(driver.feed(token) for token in driver.tables.tokens(code))
    return {tree.data for tree in _trees(driver.values[-1])}


@pytest.mark.parametrize("rule", SAMPLES)
def test_rule(rule: str) -> None:
    text = SAMPLES[rule]
    assert rule in _rules(text)
    if text.startswith(HEADER):
        mod = parse(text)
        assert relay.structural_equal(parse(relay.astext(mod)), mod)
    else:
        expr = parse_expr(text)
        assert relay.structural_equal(parse_expr(relay.astext(expr)), expr, map_free_vars=True)


def test_every_rule_has_a_text() -> None:
    aliases = set(re.findall(r"-> (\w+)$", GRAMMAR, re.MULTILINE))
    names = {name for name in re.findall(r"^(\w+):", GRAMMAR, re.MULTILINE) if name.islower() and not name.startswith("_")}
    only_aliases = {"sound_statement", "meta_dim"}
    assert aliases | names - only_aliases == SAMPLES.keys() | OTHERS


def test_texts_of_the_page() -> None:
    page = (ROOT / "docs/language.md").read_text("utf-8")
    texts = re.findall(r"```relay\n(.*?)```", page, re.DOTALL)
    assert texts
    for text in texts:
        mod = relay.transform.InferType()(parse(text))
        assert relay.structural_equal(parse(relay.astext(mod)), mod)


def test_a_grammar_is_kept_as_text() -> None:
    grammar = analysed(GRAMMAR)
    assert from_json(to_json(grammar)) == grammar
    assert len(grammar.rules) > 100 and len(grammar.actions) > 200


def test_a_grammar_is_read_from_the_cache(tmp_path: Path) -> None:
    """Lark is not imported where the tables are known; a damaged entry is made anew, with a warning."""
    program = "import relayvm, sys; print(relayvm.astext(relayvm.parse_expr('1 + 2')), 'lark' in sys.modules)"

    def run() -> tuple[bool, str]:
        env = os.environ | {"RELAYVM_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=env)
        assert "add(1, 2)" in done.stdout
        return done.stdout.split()[-1] == "True", done.stderr

    assert [run(), run()] == [(True, ""), (False, "")]
    [entry] = (tmp_path / "entries").glob("*/*")
    entry.write_bytes(entry.read_bytes()[:-9])
    analyses, warning = run()
    assert analyses and "cannot be used: its checksum is wrong" in warning and run() == (False, "")
