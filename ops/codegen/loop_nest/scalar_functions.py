"""The scalar functions that operators are composed of, each declared once, as text of Python and of CUDA C.

``{0} {1} {2}`` are the arguments (names of locals or literals, so they may occur more than once), ``{t}`` is the dtype of
the result, which is also a callable that converts to it.  Machine code computes integers of fewer than 64 bits in 64 bits,
so a value that may leave the dtype's range is wrapped (``wraps``).

In CUDA C ``{u}`` is the unsigned type in which signed arithmetic is done to avoid overflow, and ``{f}`` the suffix of the
functions of float32.
"""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ...core.dtype_rules import FLOATS, INTEGERS
from ...core.tensor_types import HALVES, ITEMSIZE, computed_in, is_float, is_integer
from . import vector_math


@frozen
class Texts:
    """``text`` for every dtype of the first argument, overridden per kind by ``real``, ``signed`` or ``unsigned``, for float32 by
    ``single``, and in CUDA C for the storage-only dtypes by ``half``."""

    text: str = ""
    real: str = ""
    single: str = ""
    signed: str = ""
    unsigned: str = ""
    half: str = ""

    def of(self, argument: str) -> str:
        """The text for a dtype of the first argument."""
        if argument == "float32" and self.single:
            return self.single
        kind = self.real if is_float(argument) else self.unsigned if argument.startswith("u") else self.signed
        template = kind or self.text
        assert template, f"no such function of {argument}"
        return template


@frozen
class Monotonic:
    """Order of the results, bit for bit: where an argument rises and the others stay, the result does not fall (1) or does not
    rise (-1), by the argument's entry of ``signs``.  The result is NaN where an argument is NaN, and nowhere else.

    ``dtypes``: of the arguments.  ``on_gpu``: whether the text of CUDA C is monotonic, too.
    """

    signs: tuple[int, ...] = (1,)
    dtypes: tuple[str, ...] = FLOATS
    on_gpu: bool = True


@frozen
class ScalarFunction(Texts):
    """The Python text, and the CUDA C text if it differs (``cuda``).

    ``wraps``: integer results must be wrapped to the range of their dtype.  ``total``: defined for all arguments, so it may be
    executed speculatively.  ``monotonic``: None for a function that is not, or is not known to be.  ``exact``: the result is a
    number of each format of floats that has all arguments, so it is not rounded there.
    """

    wraps: bool = False
    total: bool = True
    cuda: Texts | None = None
    monotonic: Monotonic | None = None
    exact: bool = False

    def python(self, args: list[str], argument: str, result: str) -> str:
        """The Python expression for arguments of the dtype ``argument``."""
        argument, result = computed_in(argument), computed_in(result)
        bits = 8 * ITEMSIZE[argument]
        body = self.of(argument).format(*args, t=result, bits=bits, **_constants(argument))
        return f"{result}({body})" if self.wraps and is_integer(result) and result != "int64" else body

    def cuda_c(self, args: list[str], argument: str, result: str) -> str:
        """The CUDA C expression, of type ``result``, for arguments of the dtype ``argument``."""
        half = self.cuda.half if self.cuda is not None and argument in HALVES else ""
        argument, result = computed_in(argument), computed_in(result)
        unsigned = "uint64" if ITEMSIZE[argument] == 8 else "uint32"
        suffix = "" if argument == "float64" else "f"
        template = half or (self.cuda or self).of(argument)
        return template.format(*args, t=result, u=unsigned, f=suffix, bits=8 * ITEMSIZE[argument], **_constants(argument))


def _constants(dtype: str) -> dict[str, str]:
    """The numbers of a dtype that texts name; "" for an integer."""
    return {"limit": _LIMIT.get(dtype, ""), "whole": _WHOLE.get(dtype, ""), "almost_half": _ALMOST_HALF.get(dtype, "")}


#: The functions of float32 in ``vector_math`` that never fall; the other dtypes have the functions of a library.
_NEVER_FALLS = Monotonic(dtypes=("float32", *HALVES), on_gpu=False)
#: The number below 0.5.
_ALMOST_HALF = {"float32": "0.49999997", "float64": "0.49999999999999994"}
#: The least magnitude from which every float is an integer; and an integer dtype that holds all smaller integers.
_LIMIT = {"float32": "8388608.0", "float64": "4503599627370496.0"}
_WHOLE = {"float32": "int32", "float64": "int64"}
#: Truncation that keeps -0.0, infinities and NaN.
_TRUNC = "({t}(math.copysign({t}({whole}({0})), {0})) if abs({0}) < {t}({limit}) else {0})"
# adding the limit leaves no bits for a fraction, so the addition rounds, halves to even
_ROUND = "({t}(math.copysign(abs({0}) + {t}({limit}) - {t}({limit}), {0})) if abs({0}) < {t}({limit}) else {0})"


def _math(name: str) -> ScalarFunction:
    own = f"{name}_float32"
    single = f"{own}({{0}})" if own in vars(vector_math) else ""
    half = "erf_of_half({0})" if name == "erf" else ""
    return ScalarFunction(
        real=f"math.{name}({{0}})",
        single=single,
        cuda=Texts(real=f"{name}{{f}}({{0}})", half=half),
        monotonic=_NEVER_FALLS if name == "exp" else None,
    )


def _operator(sign: str) -> ScalarFunction:
    return ScalarFunction(f"({{0}} {sign} {{1}})")


def _arithmetic(sign: str) -> ScalarFunction:
    # signed overflow is undefined in C
    cuda = Texts("{t}({u}({0}) " + sign + " {u}({1}))", real=f"({{0}} {sign} {{1}})")
    return ScalarFunction(f"({{0}} {sign} {{1}})", wraps=True, cuda=cuda)


def _bitwise(sign: str) -> ScalarFunction:
    return ScalarFunction(f"({{0}} {sign} {{1}})", wraps=True, cuda=Texts(f"{{t}}({{0}} {sign} {{1}})"))


def _division(signed: str, unsigned: str, cuda: Texts, real: str = "") -> ScalarFunction:
    return ScalarFunction(real=real, signed=signed, unsigned=unsigned, wraps=True, total=False, cuda=cuda)


def _choice(sign: str, other: str) -> ScalarFunction:
    # a comparison with NaN is false, so NaN is tested for: in the second argument, which most often is a literal
    return ScalarFunction(
        f"({{0}} if {{0}} {sign} {{1}} else {{1}})",
        real=f"({{1}} if ({{0}} {other} {{1}}) | ({{1}} != {{1}}) else {{0}})",
        wraps=True,
        cuda=Texts(f"({{0}} {sign} {{1}} ? {{0}} : {{1}})", real=f"(({{0}} {sign} {{1}}) | ({{0}} != {{0}}) ? {{0}} : {{1}})"),
        monotonic=Monotonic((1, 1), FLOATS + INTEGERS),
        exact=True,
    )


#: The square root of 0.5 in 11 bits, and in 8 bits.
ROOT_OF_HALF = 0.70703125
_NEGATED = "{t}({u}(0) - {u}({0}))"

#: By the name that ``compute.apply`` uses.
SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "add": _arithmetic("+"),
    "subtract": _arithmetic("-"),
    "multiply": _arithmetic("*"),
    "divide": ScalarFunction(real="({0} / {1})"),
    # -1 is a special case: the smallest integer divided by -1 traps on most CPUs
    "truncdiv": _division(
        "(-{0} if {1} == -1 else {0} // {1} + (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))))",
        "({0} // {1})",
        Texts(signed="({1} == -1 ? " + _NEGATED + " : {t}({0} / {1}))", unsigned="{t}({0} / {1})"),
    ),
    "floordiv": _division(
        "(-{0} if {1} == -1 else {0} // {1})",
        "({0} // {1})",
        Texts(signed="({1} == -1 ? " + _NEGATED + " : {t}(floor_quotient({0}, {1})))", unsigned="{t}({0} / {1})"),
    ),
    "truncmod": _division(
        "(0 if {1} == -1 else {0} % {1} - {1} * (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))))",
        "({0} % {1})",
        Texts(real="fmod{f}({0}, {1})", signed="({1} == -1 ? {t}(0) : {t}({0} % {1}))", unsigned="{t}({0} % {1})"),
        # Python's remainder of positive numbers equals C's
        real="{t}(math.copysign(abs({0}) % abs({1}), {0}))",
    ),
    "floormod": _division(
        "(0 if {1} == -1 else {0} % {1})",
        "({0} % {1})",
        Texts(signed="({1} == -1 ? {t}(0) : {t}(floor_remainder({0}, {1})))", unsigned="{t}({0} % {1})"),
    ),
    "floormod_of_truncmod": ScalarFunction(
        # zeros, too, have the sign of the divisor
        real="{t}(math.copysign({2} + {1} if ({2} != 0) & (({2} < 0) != ({1} < 0)) else {2}, {1}))",
        cuda=Texts(real="copysign{f}(({2} != 0) & (({2} < 0) != ({1} < 0)) ? {2} + {1} : {2}, {1})"),
    ),
    "negative": ScalarFunction(
        "(-{0})", wraps=True, cuda=Texts(_NEGATED, real="(-{0})"), monotonic=Monotonic((-1,)), exact=True
    ),
    "abs": ScalarFunction(
        real="math.fabs({0})",
        signed="({0} if {0} >= 0 else -{0})",
        wraps=True,
        cuda=Texts(real="fabs{f}({0})", signed="({0} >= 0 ? {0} : " + _NEGATED + ")"),
        exact=True,
    ),
    "sigmoid": ScalarFunction(
        real="({t}(1.0) / ({t}(1.0) + math.exp(-{0})))",
        single="sigmoid_float32({0})",
        cuda=Texts(real="({t}(1) / ({t}(1) + exp{f}(-{0})))"),
        monotonic=_NEVER_FALLS,
    ),
    # parts of an expression that are recognized when the expression is made; of float32, and of float16 and bfloat16
    "silu": ScalarFunction(single="silu_float32({0})", cuda=Texts(real="({0} * ({t}(1) / ({t}(1) + exp{f}(-{0}))))")),
    # of float32 only, and of float16 and bfloat16 only
    "gelu": ScalarFunction(single="gelu_float32({0})"),
    "gelu_of_half": ScalarFunction(
        single="({0} * {t}(0.5) * ({t}(1.0) + erf_float32({0} * {t}(" + f"{ROOT_OF_HALF}))))",
        cuda=Texts(half="gelu_of_half({0})"),
    ),
    "power": ScalarFunction(real="math.pow({0}, {1})", single="pow_float32({0}, {1})", cuda=Texts(real="pow{f}({0}, {1})")),
    "maximum": _choice(">", "<="),
    "minimum": _choice("<", ">="),
    "where": ScalarFunction("({1} if {0} else {2})", cuda=Texts("({0} ? {1} : {2})"), exact=True),
    "equal": _operator("=="),
    "not_equal": _operator("!="),
    "less": _operator("<"),
    "less_equal": _operator("<="),
    "greater": _operator(">"),
    "greater_equal": _operator(">="),
    "and": _bitwise("&"),
    "or": _bitwise("|"),
    "xor": _bitwise("^"),
    "logical_not": ScalarFunction("(not {0})", cuda=Texts("(!{0})")),
    "bitwise_not": ScalarFunction("(~{0})", wraps=True, cuda=Texts("{t}(~{0})")),
    "left_shift": ScalarFunction(
        signed="({0} << {1} if ({1} >= 0) & ({1} < {bits}) else 0)",
        unsigned="({0} << {1} if {1} < {bits} else {t}(0))",
        wraps=True,
        cuda=Texts(
            signed="(({1} >= 0) & ({1} < {bits}) ? {t}({u}({0}) << {1}) : {t}(0))",
            unsigned="({1} < {bits} ? {t}({u}({0}) << {1}) : {t}(0))",
        ),
    ),
    "right_shift": ScalarFunction(
        signed="({0} >> {1} if ({1} >= 0) & ({1} < {bits}) else -1 if {0} < 0 else 0)",
        unsigned="({0} >> {1} if {1} < {bits} else {t}(0))",
        wraps=True,
        cuda=Texts(
            signed="(({1} >= 0) & ({1} < {bits}) ? {t}({0} >> {1}) : {t}({0} < 0 ? -1 : 0))",
            unsigned="({1} < {bits} ? {t}({0} >> {1}) : {t}(0))",
        ),
    ),
    # x - x is not 0 only for infinities and NaN
    "isinf": ScalarFunction(real="math.isinf({0})", cuda=Texts(real="(({0} == {0}) & ({0} - {0} != 0))")),
    "isfinite": ScalarFunction(real="math.isfinite({0})", cuda=Texts(real="({0} - {0} == 0)")),
    "trunc": ScalarFunction(
        real=_TRUNC, single="trunc_float32({0})", cuda=Texts(real="trunc{f}({0})"), monotonic=Monotonic(), exact=True
    ),
    "round": ScalarFunction(
        real=_ROUND, single="round_float32({0})", cuda=Texts(real="rint{f}({0})"), monotonic=Monotonic(), exact=True
    ),
    # whose truncation is the nearest whole number, halves away from 0: with 0.5 the number below 0.5 would become 1
    "away_by_almost_half": ScalarFunction(
        real="({0} + math.copysign({t}({almost_half}), {0}))",
        cuda=Texts(real="({0} + copysign{f}({t}({almost_half}), {0}))"),
        monotonic=Monotonic(),
    ),
    # monotonic and exact, for the second argument is the whole part of the first
    "floor_of_trunc": ScalarFunction(
        real="({1} - {t}(1.0) if {1} > {0} else {1})",
        single="floor_float32({0}, {1})",
        cuda=Texts(real="({1} > {0} ? {1} - {t}(1.0) : {1})"),
        monotonic=Monotonic((1, 1)),
        exact=True,
    ),
    "ceil_of_trunc": ScalarFunction(
        real="({1} + {t}(1.0) if {1} < {0} else {1})",
        single="ceil_float32({0}, {1})",
        cuda=Texts(real="({1} < {0} ? copysign{f}({1} + {t}(1.0), {0}) : {1})"),
        monotonic=Monotonic((1, 1)),
        exact=True,
    ),
    **{
        name: _math(name)
        for name in (
            "exp", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
            "asinh", "acosh", "atanh", "erf",
        )
    },
}  # fmt: skip


def cast_text(value: str, source: str, result: str) -> str:
    """``value`` of dtype ``source`` as ``result``: C's conversion, but a value outside an integer's range wraps.

    A cast to float16 or bfloat16 rounds and yields a float32 (``native.halves``).
    """
    if result == "bool":
        return f"({value} != 0)"
    if is_float(source) and is_integer(result) and result != "int64":
        # through int64, because converting a value out of a narrow integer's range is undefined
        if result == "uint64":
            return f"(uint64({value}) if {value} >= 0 else uint64(int64({value})))"
        return f"{result}(int64({value}))"
    return f"{result}({value})"


def literal_text(value: float | int | bool, dtype: str) -> str:
    """A constant of ``dtype``."""
    if dtype == "bool":
        return str(bool(value))
    if is_float(dtype):
        number = float(value)
        special = {"inf": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}.get(repr(number), repr(number))
        return f"{computed_in(dtype)}({special})"
    return str(int(value)) if dtype == "int64" else f"{dtype}({int(value)})"
