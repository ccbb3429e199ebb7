"""Attention as one call: the same results for any sizes, with any number of threads; programs that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.fuse_attention import fuse_attention
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ...devices import DEVICES
from ...programs import HEADER

HEADS = "reshape(transpose({x}, axes=[0, 2, 1, 3]), newshape=[-3, -2])"
TRANSPOSED = "reshape(transpose({x}, axes=[0, 2, 3, 1]), newshape=[-3, -2])"
FOUND = "transpose(reshape(%found, newshape=[-4, -1, 3, -2]), axes=[0, 2, 1, 3])"
BY_ROWS = f"""
  let %scores = nn.batch_matmul({HEADS.format(x="%q")}, {HEADS.format(x="%k")});
  let %shares = nn.softmax(multiply(%scores, 0.25f));
  let %found = nn.batch_matmul(%shares, {HEADS.format(x="%v")}, transpose_b=False);
  {FOUND}
"""
#: As exporters write it: keys turned, the softmax over four axes.
TRANSPOSED_KEYS = f"""
  let %scores = nn.batch_matmul({HEADS.format(x="%q")}, {TRANSPOSED.format(x="%k")}, transpose_b=False);
  let %shares = nn.softmax(multiply(0.25f, reshape(%scores, newshape=[-4, -1, 3, -2])), axis=3);
  let %found = nn.batch_matmul(reshape(%shares, newshape=[-3, -2]), {HEADS.format(x="%v")}, transpose_b=False);
  {FOUND}
"""
UNSCALED = BY_ROWS.replace("multiply(%scores, 0.25f)", "%scores")


def program(body: str, dtype: str = "float32", values: str = "(?b, ?n, 3, 20)") -> str:
    """A program of queries, keys and values by position and head."""
    kinds = {"q": "(?b, ?m, 3, 8)", "k": "(?b, ?n, 3, 8)", "v": values}
    params = ", ".join(f"%{name}: Tensor[{shape}, {dtype}]" for name, shape in kinds.items())
    suffix = {"float64": "f64", "float16": "f16"}.get(dtype, "f")
    return f"{HEADER}def @main({params}) {{ {body.replace('0.25f', '0.25' + suffix)} }}"


def operators(text: str, forced: tuple[str, ...] = ()) -> set[str]:
    """The operators of a program after the pass, but those whose values are dead."""
    mod = fuse_attention(infer_type(to_a_normal_form(relay.parse(text))), forced)
    found = relay.transform.DeadCodeElimination()(mod)
    return {value.op.name for value in values(found["main"].body) if isinstance(value, Call)}


#: Scores and operands as exporters write them, each beside the bias that a query, a key and a head have in numpy.
REPEATED = """let %c = nn.batch_matmul({q}, {k});
  let %found = nn.batch_matmul(nn.softmax({scores}), {v}, transpose_b=False); {out}"""
SHARED = (
    "reshape(reshape(broadcast_to(expand_dims({x}, axis=2), shape=[2, 2, 3, 5, 8]), newshape=[2, 6, 5, 8]), newshape=[-3, -2])"
)
FORMS = {
    "mask": "reshape(add(multiply(reshape(%c, newshape=[2, 6, 4, 5]), 0.25f), %mask), newshape=[-3, -2])",
    "where": "where(greater(%row, 0f), multiply(%c, 0.25f), -inff)",
    "nan": "where(greater(%row, 9f), multiply(%c, 0.25f), -inff)",
    "capped": "add(multiply(tanh(multiply(%c, 0.125f)), 2f), %row)",
    "plain": "multiply(%c, 0.25f)",
}


@pytest.mark.parametrize("form", FORMS)
def test_groups_of_heads_with_biases_are_one_call(form: str) -> None:
    # by repetition, as an import writes an `Expand` to a known number of heads, and by broadcasting
    key, value = SHARED.replace("broadcast_to(", "repeat(").replace("shape=[2, 2, 3, 5, 8]", "repeats=3, axis=2"), SHARED
    key, value = key.format(x="%k"), value.format(x="%v")
    weights = "nn.softmax({scores})" if form != "nan" else "where(isnan(%w), 0f, %w)"
    body = REPEATED.replace("nn.softmax({scores})", weights)
    body = body.format(
        q="reshape(%q, newshape=[-3, -2])", k=key, v=value, scores=FORMS[form], out=FOUND.replace("-1, 3", "-1, 6")
    )
    body = body.replace("let %found", f"let %w = nn.softmax({FORMS[form]}); let %found") if form == "nan" else body
    shapes = {"q": (2, 6, 4, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 8), "mask": (2, 1, 4, 5), "row": (5,)}
    text = HEADER + "def @main({}) {{ {} }}".format(", ".join(f"%{n}: Tensor[{s}, float32]" for n, s in shapes.items()), body)
    text = text.replace("(5,)", "(5)")
    assert "nn.grouped_attention" in operators(text) and not operators(text) & {"nn.softmax", "nn.batch_matmul"}
    rng = np.random.default_rng(4)
    q, k, v, mask, row = (rng.standard_normal(s).astype("float32") for s in shapes.values())
    scores = np.einsum("bhmd,bhnd->bhmn", q, np.repeat(k, 3, 1)) * 0.25
    scores = {
        "mask": scores + mask, "where": np.where(row > 0, scores, -np.inf), "nan": np.full_like(scores, -np.inf),
        "capped": 2 * np.tanh(scores / 2) + row, "plain": scores,
    }[form]  # fmt: skip
    powers = np.exp(scores - scores.max(-1, keepdims=True)) if form != "nan" else 0 * scores.clip(0)
    wanted = np.einsum("bhmn,bhne->bmhe", powers / powers.sum(-1, keepdims=True).clip(1e-9), np.repeat(v, 3, 1))
    found = relay.VirtualMachine(relay.compile(relay.parse(text))).run(q, k, v, mask, row).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("body", [BY_ROWS, TRANSPOSED_KEYS, UNSCALED], ids=["rows", "turned", "unscaled"])
@pytest.mark.extensive(dtype=["float32"])
def test_attention_is_one_call(body: str, dtype: str, target: str) -> None:
    text = program(body, dtype)
    assert operators(text) == {"nn.batch_attention"}
    machine, rng = relay.VirtualMachine(relay.compile(relay.parse(text), target=target)), np.random.default_rng(4)
    is_one = any("attention" in packed.group.name for packed in machine.exe.packed)
    assert is_one == (target != "cuda" or dtype == "float32")
    for b, m, n in [(1, 1, 1), (2, 3, 5), (1, 7, 7), (2, 50, 33), (0, 3, 3), (2, 0, 4), (2, 4, 0)]:
        q, k, v = (rng.standard_normal((b, rows, 3, width)).astype(dtype) for rows, width in ((m, 8), (n, 8), (n, 20)))
        scores = (1 if body is UNSCALED else 0.25) * np.einsum("bmhd,bnhd->bhmn", q, k)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        wanted = np.einsum("bhmn,bnhe->bmhe", powers / powers.sum(-1, keepdims=True), v)
        np.testing.assert_allclose(machine.run(q, k, v).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        program(BY_ROWS.replace("%scores, 0.25f)", "%scores, 0.25f), axis=1")),
        program(BY_ROWS.replace("%scores, 0.25f", "%scores, %scores")),
        program(BY_ROWS.replace(FOUND, f"({FOUND}, %shares)")),
        program(BY_ROWS.replace(FOUND, FOUND.replace("[0, 2, 1, 3]", "[0, 1, 3, 2]"))),
        program(BY_ROWS, values="(?b, ?other, 3, 20)"),
        program(BY_ROWS, values="(1, ?n, 3, 20)"),
    ],
    ids=["axis", "square", "used", "axes", "sizes", "broadcast"],
)
def test_other_programs_stay(text: str) -> None:
    assert "nn.batch_attention" not in operators(text)


@pytest.mark.parametrize(
    ("dtype", "values", "is_one"),
    [("float32", "(?b, ?n, 3, 128)", True), ("float32", "(?b, ?n, 3, 129)", False), ("float32", "(?b, ?n, 3, ?e)", False),
     ("float64", "(?b, ?n, 3, 20)", False), ("float16", "(?b, ?n, 3, 128)", True)],
)  # fmt: skip
def test_attention_is_one_call_on_gpus_where_the_kernel_is_faster(dtype: str, values: str, is_one: bool) -> None:
    exe = relay.compile(relay.parse(program(BY_ROWS, dtype, values)), target="cuda")
    assert any("attention" in packed.group.name for packed in exe.packed) == is_one


def test_attention_of_halves_is_one_call() -> None:
    text = program(BY_ROWS, "float16")
    assert operators(text) == {"nn.batch_attention"}
    machine, rng = relay.VirtualMachine(relay.compile(relay.parse(text))), np.random.default_rng(4)
    q, k, v = (rng.standard_normal((2, rows, 3, width)).astype("float16") for rows, width in ((5, 8), (7, 8), (7, 20)))
    scores = 0.25 * np.einsum("bmhd,bnhd->bhmn", *(x.astype("f") for x in (q, k)))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bhmn,bnhe->bmhe", powers / powers.sum(-1, keepdims=True), v.astype("f"))
    np.testing.assert_allclose(machine.run(q, k, v).numpy().astype("f"), wanted, rtol=0, atol=2e-3)


@pytest.mark.parametrize("form", ["added", "chosen"])
def test_a_mask_that_holds_everywhere_is_none(form: str) -> None:
    """Exporters write one for attention without a mask: positions of queries are 0 or more."""
    rows = 'expand_dims(arange(0i64, take(shape_of(%q, dtype="int64"), 1i64, axis=0), 1i64, dtype="int64"), axis=1)'
    mask, scores = f"greater_equal({rows}, 0i64)", "multiply(%scores, 0.25f)"
    masked = f"where({mask}, {scores}, -inff)" if form == "chosen" else f"add({scores}, where({mask}, 0f, -3e38f))"
    exe = relay.compile(relay.parse(program(BY_ROWS.replace(scores, masked))))
    names = {packed.group.name for packed in exe.packed}
    assert any("batch_attention" in name for name in names) and not any("arange" in name for name in names), names


def test_forced_operators_stay() -> None:
    assert "nn.batch_attention" not in operators(program(BY_ROWS), ("nn.batch_matmul",))


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("is_guarded", [False, True], ids=["plain", "guarded"])
def test_numbers_that_are_not_finite_spoil_their_queries_only(is_guarded: bool, target: str) -> None:
    """With the guard that torch's exporter to ONNX writes around a softmax, their results are 0."""
    guarded = UNSCALED.replace("let %found", "let %kept = where(isnan(%shares), 0f, %shares); let %found")
    text = program(guarded.replace("(%shares, reshape", "(%kept, reshape") if is_guarded else UNSCALED)
    assert operators(text) == {"nn.batch_attention"}
    machine = relay.VirtualMachine(relay.compile(relay.parse(text), target=target))
    q, k, v = np.ones((1, 5, 3, 8), "float32"), np.ones((1, 4, 3, 8), "float32"), np.ones((1, 4, 3, 20), "float32")
    q[0, 2, 1, 0], q[0, 3, 1, 0] = np.nan, np.inf
    found = machine.run(q, k, v).numpy()
    spoilt = found == 0 if is_guarded else np.isnan(found)
    assert spoilt[0, 2:4, 1].all() and spoilt.sum() == 2 * 20
    np.testing.assert_allclose(found[~spoilt], 1, rtol=1e-6)
