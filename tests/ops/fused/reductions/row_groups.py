"""Groups that use the results of their reductions, compiled from text, with numpy's results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, expit, logsumexp, softmax

from relayvm.compiler.ir.expr import Call, GlobalVar, IRModule, let_chain
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.primitive import group_of
from relayvm.compiler.passes.expand_composites import expand_composites
from relayvm.compiler.passes.fuse_ops import fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.ops.core.group import Group
from relayvm.ops.core.op import OpPattern


def fused(text: str) -> IRModule:
    """The module after fusion."""
    return fuse_ops(expand_composites(infer_type(to_a_normal_form(parse('#[version = "0.0.5"]\n' + text)))), LoweringContext())


def kernels(text: str) -> list[tuple[Group, list[str]]]:
    """The groups of a program that have kernels, with the names of their arguments."""
    mod = fused(text)
    found = []
    for _, value in let_chain(mod["main"].body)[0]:
        if isinstance(value, Call) and isinstance(value.op, GlobalVar):
            group = group_of(mod[value.op.name])
            if group.nodes[0].operator.pattern is not OpPattern.RESHAPE:
                found.append((group, [getattr(a, "name", "") for a in value.args]))
    return found


def needs_elements(group: Group) -> bool:
    """Whether a row without elements is an error: it has no largest or smallest one."""
    return any(n.op in ("max", "min", "argmax") for n in group.nodes)


@dataclass(frozen=True)
class RowCase:
    """A program over ``x`` of two or three axes, vectors as long as its last one, and other tensors of its shape."""

    body: str
    expected: Callable[..., np.ndarray]
    vectors: int = 0
    others: int = 0
    rank: int = 2

    def text(self, apart: bool = False) -> str:
        """The program; ``apart``: no two parameters are known to have equal sizes."""
        letters = "abcd"[: self.rank]
        whole = [f"?{c}" for c in letters]

        def parameter(name: str, dims: list[str], k: int) -> str:
            shown = [d + str(k) for d in dims] if apart and k else dims
            return f"%{name}: Tensor[({', '.join(shown)}), float32]"

        parameters = [parameter("x", whole, 0)]
        parameters += [parameter(f"o{k}", whole, k + 1) for k in range(self.others)]
        parameters += [parameter(f"v{k}", whole[-1:], k + 10) for k in range(self.vectors)]
        return f"def @main({', '.join(parameters)}) {{ {self.body} }}"

    def group(self, apart: bool = False) -> tuple[Group, list[str]]:
        """The one kernel of the program, and the names of its arguments."""
        (found,) = kernels(self.text(apart=apart))
        return found

    def arrays(self, shape: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
        """Arguments by name, in the order in which ``expected`` takes them."""
        rng = np.random.default_rng(seed)
        shapes = {
            "x": shape,
            **{f"o{k}": shape for k in range(self.others)},
            **{f"v{k}": shape[-1:] for k in range(self.vectors)},
        }
        return {name: rng.standard_normal(s).astype("float32") for name, s in shapes.items()}

    def numpy(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """The result in float64."""
        with np.errstate(all="ignore"):
            return self.expected(*(a.astype("float64") for a in arrays.values()))


def _normalised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + erf(x * 0.70710678))


_NORM = "multiply(subtract({h}, mean({h}, axis=[-1], keepdims=True)), rsqrt(add(variance({h}, axis=[-1], keepdims=True), 1e-5f)))"
_GELU = "multiply(multiply({v}, 0.5f), add(erf(multiply({v}, 0.70710678f)), 1f))"

CASES = {
    "layer norm": RowCase(f"add(multiply({_NORM.format(h='%x')}, %v0), %v1)", lambda x, g, b: _normalised(x) * g + b, 2),
    "layer norm of gelu": RowCase(
        f"let %s = add(%x, %v0); let %h = add({_GELU.format(v='%s')}, %o0); {_NORM.format(h='%h')}",
        lambda x, r, b: _normalised(_gelu(x + b) + r),
        1,
        1,
    ),
    "softmax": RowCase(
        "let %e = exp(subtract(%x, max(%x, axis=[-1], keepdims=True))); divide(%e, sum(%e, axis=[-1], keepdims=True))",
        lambda x: softmax(x, -1),
    ),
    "squares of a softmax": RowCase(
        "let %e = exp(subtract(%x, max(%x, axis=[-1], keepdims=True))); let %p = divide(%e, sum(%e, axis=[-1], keepdims=True));"
        " sum(multiply(%p, %p), axis=[-1])",
        lambda x: (softmax(x, -1) ** 2).sum(-1),
    ),
    "root of the mean square": RowCase(
        "multiply(multiply(%x, rsqrt(add(mean(multiply(%x, %x), axis=[-1], keepdims=True), 1e-5f))), %v0)",
        lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g,
        1,
    ),
    "length one": RowCase(
        "divide(%x, sqrt(maximum(sum(multiply(%x, %x), axis=[-2, -1], keepdims=True), 1e-12f)))",
        lambda x: x / np.sqrt(np.maximum((x * x).sum((-2, -1), keepdims=True), 1e-12)),
        rank=3,
    ),
    "logsumexp": RowCase("logsumexp(%x, axis=[-1])", lambda x: logsumexp(x, -1, keepdims=True)),
    "far from the largest": RowCase(
        "let %m = argmax(%x, axis=[-1], keepdims=True); add(%x, cast(%m, dtype=\"float32\"))",
        lambda x: x + x.argmax(-1)[:, None].astype("float32"),
    ),
    "function of the largest": RowCase("sigmoid(max(%x, axis=[-1]))", lambda x: expit(x.max(-1))),
    "function of the largest in rows of two axes": RowCase("exp(min(%x, axis=[-1]))", lambda x: np.exp(x.min(-1)), rank=3),
    "function of a sum of several axes": RowCase(
        "exp(tanh(sum(%x, axis=[-2, -1])))", lambda x: np.exp(np.tanh(x.sum((-2, -1)))), rank=3
    ),
    "place of the largest value": RowCase('cast(argmax(sigmoid(%x), axis=[-1]), dtype="float32")', lambda x: expit(x).argmax(-1)),
    "two costly values": RowCase(
        "let %a = tanh(%x); let %b = exp(%a); let %s = sum(%b, axis=[-1], keepdims=True);"
        " let %t = sum(multiply(%a, %s), axis=[-1], keepdims=True); multiply(add(%a, %t), divide(%b, %s))",
        lambda x: (lambda a, b: (a + (a * b.sum(-1, keepdims=True)).sum(-1, keepdims=True)) * b / b.sum(-1, keepdims=True))(
            np.tanh(x), np.exp(np.tanh(x))
        ),
    ),
}  # fmt: skip
