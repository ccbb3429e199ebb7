"""Tensors stored as halves: the laws of casts, numbers near float32, no more launches than in float32."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import uses, values
from relayvm.compiler.ir.expr import Call, GlobalVar, IRModule, Let
from relayvm.compiler.ir.visitor import post_order
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.lowered import bind_params
from relayvm.compiler.lowering.pipeline import lowering
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.operator_precision import Role, role_of
from relayvm.compiler.passes.precision.store_halves import largest, store_halves
from relayvm.compiler.settings.config import Config
from relayvm.compiler.transform.inlining import inline
from relayvm.ops.core.op import Op

from ....programs import HEADER
from ..generated_programs import MEANING, run, typed

ROOT = Path(__file__).parents[4]

# ---- random programs -------------------------------------------------------------------------------------------------


def _erf(x: Any, attrs: Any) -> Any:
    """Of the same kind as the error function, which numpy has not."""
    return np.tanh(x)


MEANING.setdefault("erf", _erf)
MEANING.setdefault("mean", lambda x, a: np.mean(x, axis=tuple(a.axis), keepdims=a.keepdims, dtype=x.dtype))
MEANING.setdefault(
    "nn.softmax",
    lambda x, a: np.exp(x - x.max(a.axis, keepdims=True)) / np.exp(x - x.max(a.axis, keepdims=True)).sum(a.axis, keepdims=True),
)
KINDS = {"m": "Tensor[(?n, 4), float32]", "t": "Tensor[(4, ?n), float32]", "w": "Tensor[(4, 4), float32]", "c": "bool"}
FORMS = [
    *[("m", text, "m") for text in (
        "nn.relu({})", "erf({})", "negative({})", "multiply({}, 0.5f)", "exp(clip({}, a_min=-2, a_max=2))", "copy({})",
        "reshape(reshape({}, newshape=[-1, 2]), newshape=[-1, 4])", "nn.softmax({})", "add({}, 0.25f)",
        "subtract({0}, mean({0}, axis=[1], keepdims=True))", "where(less({0}, 0f), {0}, multiply({0}, 0.5f))",
        "strided_slice(concatenate(({0}, {0}), axis=1), begin=[0, 2], end=[9223372036854775807, 6])",
    )],
    *[("m", text, "mm") for text in ("add({}, {})", "subtract({}, {})", "maximum({}, {})", "multiply(nn.softmax({}), {})")],
    *[("m", text, "mw") for text in ("nn.dense({}, {})", "nn.dense({}, multiply({}, 0.5f))")],
    ("t", "transpose({})", "m"), ("m", "transpose({})", "t"), ("t", "add({}, {})", "tt"),
]  # fmt: skip
TUPLES = [
    ("m", "if ({}) {{ let %a = nn.dense({}, {}); (%a, {}) }} else {{ ({}, {}) }}", "cmwmmm", 2),
    ("t", "split(concatenate(({}, {}), axis=0), indices_or_sections=2)", "tt", 2),
]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program over matrices and their transposes; its result holds the last of each."""
    pool = {kind: [f"%{kind}"] for kind in KINDS}
    lines = []
    for n in range(draw(st.integers(1, 10))):
        kind, text, kinds, count = draw(st.sampled_from([*((*form, 0) for form in FORMS), *TUPLES]))
        name = f"%v{n}.{draw(st.integers(0, count - 1))}" if count else f"%v{n}"
        args = [pool[k][-1] if draw(st.integers(0, 2)) else draw(st.sampled_from(pool[k])) for k in kinds]
        lines.append(f"let %v{n} = {text.format(*args)};")
        pool[kind].append(name)
    params = ", ".join(f"%{kind}: {ty}" for kind, ty in KINDS.items())
    return f"def @main({params}) {{ {' '.join(lines)} ({pool['m'][-1]}, {pool['t'][-1]}) }}"


@settings(max_examples=80)
@given(programs(), st.sampled_from(["float16", "bfloat16"]), st.integers(0, 5), st.booleans())
def test_numbers_are_near_and_types_stay(text: str, dtype: str, rows: int, taken: bool) -> None:
    mod, random = typed(text), np.random.default_rng(rows)
    out = store_halves(mod, dtype)
    check(out, "store_halves", typed=True)
    assert str(out["main"].ty) == str(mod["main"].ty)
    assert str(infer_type(out)["main"].body.ty) == str(out["main"].body.ty)
    shapes = (rows, 4), (4, rows), (4, 4)
    given_ = [*(random.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes), np.bool_(taken)]
    for found, want in zip(run(out, *given_), run(mod, *given_), strict=True):
        assert found.dtype == want.dtype == np.float32
        most = (2.0**-8 if dtype == "float16" else 2.0**-5) * max(1.0, float(abs(want).max(initial=0)))
        np.testing.assert_allclose(found, want, rtol=0, atol=8 * most)


_UNREAD = """def @main(%m: Tensor[(?n, 4), float32], %t: Tensor[(4, ?n), float32], %w: Tensor[(4, 4), float32], %c: bool) {
  let %v0 = nn.dense(%m, %w); let %v1 = nn.relu(%v0); let %v2 = nn.softmax(%v0); (%v2, %t) }"""
_VIEWED = """def @main(%m: Tensor[(?n, 4), float32], %t: Tensor[(4, ?n), float32], %w: Tensor[(4, 4), float32], %c: bool) {
  let %v0 = nn.relu(%m); let %v1 = reshape(%v0, newshape=[-1, 2]); let %v2 = reshape(%v1, newshape=[-1, 4]);
  let %v3 = nn.relu(%m); let %v4 = multiply(nn.softmax(%v2), %v3); let %v5 = nn.dense(%v4, %w); (%v5, %t) }"""
_ENDING = """def @main(%m: Tensor[(?n, 4), float32], %t: Tensor[(4, ?n), float32], %w: Tensor[(4, 4), float32], %c: bool) {
  let %v0 = nn.dense(%m, %w); let %v1 = nn.dense(nn.relu(%v0), %w); let %v2 = nn.softmax(%v0); (%v2, transpose(%v1)) }"""


@settings(max_examples=80)
@example(_UNREAD)
@example(_VIEWED)
@example(_ENDING)
@given(programs())
def test_casts_stand_beside_operators_of_fused_kernels(text: str) -> None:
    """Else the operand, the result, or all that reads it is a parameter or a result of the program, of float32, or a view."""
    assume("if (" not in text)  # a value may be a result by one of two ways
    out = store_halves(typed(text))["main"]
    assert_casts_are_fused(out)


def assert_casts_are_fused(function: relay.Function) -> None:
    made = {node.var: node.value for node in post_order(function) if isinstance(node, Let)}
    readers: dict[Any, list[Any]] = {}
    for value in values(function.body):
        for arg in getattr(value, "args", ()):
            readers.setdefault(arg, []).append(value)
    kept = Counter(uses(function.body))

    def enters(atom: Any) -> bool:
        """Whether a tensor has elements of a parameter."""
        value = made.get(atom)
        return not isinstance(value, Call) or (moves(value) and any(map(enters, value.args)))

    def leaves(var: Any) -> bool:
        """Whether the elements of a tensor are in the program's result, or in a tuple."""
        return len(readers.get(var, [])) < kept[var] or any(moves(reader) for reader in readers.get(var, []))

    names = {id(value): var for var, value in made.items()}

    def is_result(var: Any) -> bool:
        """Whether the elements of a tensor are in the program's result, or in a tuple, perhaps moved."""
        own = readers.get(var, [])
        return len(own) < kept[var] or any(moves(reader) and is_result(names[id(reader)]) for reader in own)

    for var, value in made.items():
        if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "cast":
            producer, consumers = made.get(value.args[0]), readers.get(var, [])
            beside = fuses(producer) or all(map(fuses, consumers))
            # a view of a value that is stored in float32 for others may be cast alone: the pass gives no value two dtypes
            is_view = isinstance(producer, Call) and moves(producer)
            known = beside or is_view or enters(value.args[0]) or leaves(var) or is_result(value.args[0])
            # an operator that gives a result of the program computes with float32
            known = known or all(is_result(names[id(reader)]) for reader in consumers)
            assert known, (value, producer, consumers)


def moves(value: Call) -> bool:
    return isinstance(value.op, Op) and role_of(value.op, value.attrs) is Role.MOVE


def fuses(value: Any) -> bool:
    is_call = isinstance(value, Call) and isinstance(value.op, Op)
    return is_call and (role_of(value.op, value.attrs) is Role.ELEMENTS or value.op.pattern <= 3)


def test_numbers_beyond_the_range_are_its_largest() -> None:
    assert largest("float16") == 65504.0 and largest("bfloat16") == 3.3895313892515355e38
    product = 'nn.dense(%x, ones(shape=[3, 3], dtype="float32"))'
    text = (
        "def @main(%x: Tensor[(2, 3), float32], %m: Tensor[(3), bool]) "
        f"{{ let %f = where(%m, 0f, -1e9f); nn.softmax(add({product}, %f)) }}"
    )
    out = relay.VirtualMachine(relay.compile(HEADER + text, precision="float16"))
    hidden = np.zeros(3, bool)
    np.testing.assert_allclose(out.run(np.ones((2, 3), np.float32), hidden).numpy(), np.full((2, 3), 1 / 3), rtol=1e-3)


# ---- launches --------------------------------------------------------------------------------------------------------


def benchmark(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


def encoder() -> tuple[IRModule, dict[str, Any]]:
    made = benchmark("encoder")
    return relay.frontend.from_onnx(made.encoder(made.Size(2, 768, 12, 3072, 50)))


def network(make: Callable[[], bytes]) -> tuple[IRModule, dict[str, Any]]:
    return relay.frontend.from_onnx(make())


def generation() -> tuple[IRModule, dict[str, Any]]:
    folder = ROOT / "examples"
    with np.load(folder / "text_generation" / "weights.npz") as stored:
        weights = {name: stored[name].astype(np.float32) for name in stored}
    return relay.parse((folder / "text_generation.relay").read_text()), weights


#: Programs, each with the parameters that convolutions read: a cast for each stands alone.
NETWORKS: dict[str, tuple[Callable[[], tuple[IRModule, dict[str, Any]]], int]] = {
    "encoder": (encoder, 0),
    "generation": (generation, 0),
    "ResNet-50": (lambda: network(benchmark("convolutions").resnet50), 1),
    "MobileNetV2": (lambda: network(benchmark("convolutions").mobilenet_v2), 1),
    "U-Net": (lambda: network(lambda: benchmark("vision_networks").u_net("Relu", "nearest")), 1),
}


def primitives(mod: IRModule, target: str, precision: str) -> list[str]:
    """The names of the primitives that are launched: views are not."""
    found = dict(lowering(mod, Config.of(precision=precision), target))["select_implementations"]
    calls = [n for f in found.functions.values() if not f.is_primitive for n in post_order(f.body) if isinstance(n, Call)]
    names = [c.op.name for c in calls if isinstance(c.op, GlobalVar) and found[c.op.name].is_primitive]
    return [name for name in names if not name.startswith(("reshape", "nn_batch_flatten", "squeeze", "expand_dims"))]


@pytest.mark.lengthy
@pytest.mark.split(2)
@pytest.mark.spread("target")
@pytest.mark.parametrize("target", ["cuda", "cpu"])
@pytest.mark.parametrize("name", NETWORKS)
def test_halves_take_no_more_launches(name: str, target: str) -> None:
    pytest.importorskip("onnx")
    made, entries = NETWORKS[name]
    mod = inline(bind_params(*made()))
    wide, narrow = (primitives(mod, target, precision) for precision in ("float32", "float16"))
    assert len(narrow) <= len(wide) + (entries if target == "cuda" else 0), Counter(narrow) - Counter(wide)
    if name == "encoder" and target == "cuda":
        assert len(narrow) == 3 + 2 * 9  # a size, a shape and the embeddings; the layers
        assert sum("attention" in p for p in narrow) == 2
