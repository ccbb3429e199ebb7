"""The examples over algebraic data types against references in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm as relay

from ...devices import DEVICES

EXAMPLES = Path(__file__).parents[3] / "examples"
MOST_TOKENS, KEPT = 20, 3


def machine(name: str, target: str) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(relay.parse(EXAMPLES / f"{name}.relay"), target=target))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def tree_state(words, leaf_weight, leaf_bias, node_weight, node_bias):
    """The state (h, c) of the balanced tree over the rows of ``words``."""
    if len(words) == 1:
        i, u, o = np.split(words @ leaf_weight.T + leaf_bias, 3, 1)
        c = sigmoid(i) * np.tanh(u)
        return sigmoid(o) * np.tanh(c), c
    half = len(words) // 2
    (h1, c1), (h2, c2) = (
        tree_state(part, leaf_weight, leaf_bias, node_weight, node_bias) for part in (words[:half], words[half:])
    )
    i, u, f1, f2, o = np.split(np.concatenate([h1, h2], 1) @ node_weight.T + node_bias, 5, 1)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f1) * c1 + sigmoid(f2) * c2
    return sigmoid(o) * np.tanh(c), c


@pytest.mark.parametrize("target", DEVICES)
def test_tree_lstm(target: str) -> None:
    vm, rng = machine("treelstm", target), np.random.default_rng(0)
    for n in (1, 2, 7, 30) if target != "cuda" else (1, 3):
        args = [rng.standard_normal(s).astype("float32") for s in ((n, 8), (24, 8), (24,), (40, 16), (40,))]
        np.testing.assert_allclose(vm.run(*args).numpy(), tree_state(*args)[0], rtol=1e-4, atol=1e-5)


def best_sequence(table: np.ndarray) -> tuple[tuple[int, ...], np.float32]:
    """The result of the beam search, by sorting."""
    shifted = table - table.max(1, keepdims=True)
    chances = (shifted - np.log(np.exp(shifted).sum(1, keepdims=True))).astype("float32")
    beams = [((), np.float32(0))]
    for _ in range(MOST_TOKENS):
        if all(tokens[-1:] == (0,) for tokens, _ in beams):
            break
        found = []
        for tokens, score in beams:
            if tokens[-1:] == (0,):
                found.append((tokens, score))
                continue
            row = chances[tokens[-1] if tokens else 0]
            found += [((*tokens, int(k)), score + row[k]) for k in np.argsort(-row, kind="stable")[:KEPT]]
        beams = sorted(found, key=lambda beam: -beam[1])[:KEPT]
    return beams[0]


@pytest.mark.parametrize("target", DEVICES)
def test_beam_search(target: str) -> None:
    vm, rng = machine("beam_search", target), np.random.default_rng(1)
    lengths = set()
    for size in range(3, 15) if target != "cuda" else (3, 5):
        table = (2 * rng.standard_normal((size, size))).astype("float32")
        tokens, score = vm.run(table)
        wanted = best_sequence(table)
        assert tuple(tokens.numpy().tolist()) == wanted[0]
        np.testing.assert_allclose(score.numpy(), wanted[1], rtol=1e-4, atol=1e-5)
        lengths.add(len(wanted[0]))
    assert len(lengths) > 3 or target == "cuda"


FIELDS = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
def @until(%l: List[(int32, Tensor[(2), float32])], %limit: int32) -> int32 {
  match (%l) { Cons(%x, %rest) => if (%x.0 > %limit) { %x.0 } else { @until(%rest, %limit) + 1 }, Nil => 0 }
}
def @count(%n: int32, %v: Tensor[(2), float32]) -> List[(int32, Tensor[(2), float32])] {
  if (%n == 0) { Nil } else { Cons((%n, %v), @count(%n - 1, %v + 1f)) }
}
def @main(%l: List[(int32, Tensor[(2), float32])], %n: int32, %x: Tensor[(2), float32]) {
  let %r = ref(%n);
  ref_write(%r, ref_read(%r) + 1);
  let %more = if (ref_read(%r) > 3) { 1 } else { 2 };
  (@until(%l, %n) + %more, @count(%n, %x))
}"""


@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
def test_fields_on_the_host(target: str, tmp_path: Path) -> None:
    """Arguments, results and files have each field on its device; a result is an argument again."""
    exe = relay.compile(relay.parse(FIELDS), target=target)
    exe.save(tmp_path / "x.rvm")
    on_host = {("List[(int32, Tensor[(?), float32])]", "Cons"): (0,), ("ref(int32)", ""): (0,)}
    assert exe.host_fields == (on_host if target != "cpu" else {})
    vm = relay.VirtualMachine(relay.Executable.load(tmp_path / "x.rvm"))
    given = relay.ADT("Nil")
    for k in reversed(range(5)):
        given = relay.ADT("Cons", ((np.int32(k), np.full(2, k, "float32")), given))
    for wanted in (9, 4):
        number, made = vm.run(given, np.int32(3), np.array([1, 2], "float32"))
        found, rest = [], made
        while rest.constructor == "Cons":
            (k, v), rest = rest.fields
            assert (k.device, v.device) == ("cpu", target)
            found.append((int(k.numpy()), v.numpy().tolist()))
        assert found == [(3, [1, 2]), (2, [2, 3]), (1, [3, 4])]
        assert int(number.numpy()) == wanted
        given = made
    assert vm.counters["dtoh_copies"] == (0 if target == "cpu" else 8)  # results that this test reads
    text = str(exe.explain())
    assert ("fields of Cons of List[(int32, Tensor[(?), float32])]: the host reads them" in text) == (target != "cpu")


def test_named_sizes_in_type_arguments() -> None:
    """A named size in the type of a list is `?`; an annotated `let` compares an element with the other tensors of the name."""
    text = """#[version = "0.0.5"]
    type List[A] { Cons(A, List[A]), Nil, }
    def @main(%l: List[Tensor[(?n), float32]], %x: Tensor[(?n), float32]) {
      match? (%l) { Cons(%y, _) => BODY }
    }"""
    given = relay.ADT("Cons", (np.ones(3, "float32"), relay.ADT("Nil")))
    free, checked = (
        relay.VirtualMachine(relay.compile(relay.parse(text.replace("BODY", body))))
        for body in ("(%y, %x)", "{ let %z: Tensor[(?n), float32] = %y; (%z, %x) }")
    )
    assert [t.shape for t in free.run(given, np.ones(2, "float32"))] == [(3,), (2,)]
    assert [t.shape for t in checked.run(given, np.ones(3, "float32"))] == [(3,), (3,)]
    with pytest.raises(relay.VMError, match="must be equal"):
        checked.run(given, np.ones(2, "float32"))
