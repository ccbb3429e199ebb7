"""Functions of real numbers on quantised integers: dequantised, computed in float32, quantised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...composition.composite import Term, call, composite, number
from ...core.dtype_rules import require
from ...core.op import DTypeRule, NoAttrs, get
from ..arithmetic.elementwise import CLIP, ClipAttrs
from ..products.nn import SoftmaxAttrs
from .quantisation import QUANTISED, as_quantised, as_real, check_parameters, parameters

_INPUTS = ("x", "scale", "zero_point", "output_scale", "output_zero_point")


def _hard_swish(x: Term) -> Term:
    product: Term = x * call(CLIP, x + 3.0, attrs=ClipAttrs(0.0, 6.0)) / number(6.0, "float32")
    return product


def _of(function: str) -> Callable[[Term, Any], Term]:
    def apply(x: Term, attrs: Any) -> Term:
        result: Term = _hard_swish(x) if function == "hardswish" else call(get(function), x, attrs=attrs)
        return result

    return apply


def _rule(op: str) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        require(op, dtypes[0], QUANTISED, 0, _INPUTS[0])
        check_parameters(op, _INPUTS, dtypes)
        return str(dtypes[0])

    return rule


def _declare(name: str, text: str, function: Callable[[Term, Any], Term], attrs: type, *more: str) -> None:
    def expand(inputs: tuple[Term, ...], attrs: Any) -> Term:
        x, scale, zero_point, *output = inputs
        return as_quantised(function(as_real(x, scale, zero_point), attrs), output[0], output[1], x.dtype)

    composite(
        name=name,
        doc=f"{text} of a quantised tensor, quantised.",
        inputs=_INPUTS,
        attrs=attrs,
        dtype=_rule(name),
        expand=expand,
        python=parameters(*_INPUTS, *more),
    )


for _name in ("abs", "erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh"):
    _declare(f"qnn.{_name}", f"`{_name}`", _of(_name), NoAttrs)
_declare("qnn.hardswish", "`x * clip(x + 3, 0, 6) / 6`", _of("hardswish"), NoAttrs)
_declare("qnn.softmax", "`nn.softmax` in float32", _of("nn.softmax"), SoftmaxAttrs, "axis")
