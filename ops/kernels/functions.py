"""The scalar functions that operators are made of, each said once, as text.

``{0} {1} {2}`` are the arguments (names of locals or literals, so they may occur more than once), ``{t}`` is the dtype of
the result, which is also a callable that converts to it.  Machine code computes with integers of fewer than 64 bits in
64, hence what could leave the dtype's range is brought back (``wraps``).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ty import ITEMSIZE, is_float, is_integer


@dataclass(frozen=True)
class ScalarFunction:
    """``text`` for every dtype of the first argument, unless ``real``, ``signed`` or ``unsigned`` says it for a kind.

    ``wraps``: integer results must be brought back into the range of their dtype.  ``total``: it may be computed for any
    arguments, also where nobody asked for it.
    """

    text: str = ""
    real: str = ""
    signed: str = ""
    unsigned: str = ""
    wraps: bool = False
    total: bool = True

    def python(self, args: list[str], argument: str, result: str) -> str:
        """The expression for arguments of the dtype ``argument``."""
        kind = self.real if is_float(argument) else self.unsigned if argument.startswith("u") else self.signed
        template = kind or self.text
        assert template, f"no such function of {argument}"
        bits = 8 * ITEMSIZE[argument]
        body = template.format(*args, t=result, bits=bits, whole=_WHOLE.get(argument, ""), limit=_LIMIT.get(argument, ""))
        return f"{result}({body})" if self.wraps and is_integer(result) and result != "int64" else body


#: From here on every float is a whole number; and an integer dtype that holds all whole numbers below.
_LIMIT = {"float32": "8388608.0", "float64": "4503599627370496.0"}
_WHOLE = {"float32": "int32", "float64": "int64"}
#: Truncation that keeps -0.0, infinities and NaN.
_TRUNC = "({t}(math.copysign({t}({whole}({0})), {0})) if abs({0}) < {t}({limit}) else {0})"
# adding the limit leaves no room for a fraction, so the addition itself rounds, halves to even
_ROUND = "({t}(math.copysign(abs({0}) + {t}({limit}) - {t}({limit}), {0})) if abs({0}) < {t}({limit}) else {0})"


def _math(name: str) -> ScalarFunction:
    return ScalarFunction(real=f"math.{name}({{0}})")


def _operator(sign: str, *, wraps: bool = False, total: bool = True) -> ScalarFunction:
    return ScalarFunction(f"({{0}} {sign} {{1}})", wraps=wraps, total=total)


#: By the name that ``compute.apply`` gives.
SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "add": _operator("+", wraps=True),
    "subtract": _operator("-", wraps=True),
    "multiply": _operator("*", wraps=True),
    "divide": ScalarFunction(real="({0} / {1})"),
    # dividing by -1 apart: the smallest integer over -1 is a trap on most processors
    "truncdiv": ScalarFunction(
        signed="(-{0} if {1} == -1 else {0} // {1} + (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))))",
        unsigned="({0} // {1})",
        wraps=True,
        total=False,
    ),
    "floordiv": ScalarFunction(signed="(-{0} if {1} == -1 else {0} // {1})", unsigned="({0} // {1})", wraps=True, total=False),
    "truncmod": ScalarFunction(
        # of positive numbers Python's remainder is C's
        real="{t}(math.copysign(abs({0}) % abs({1}), {0}))",
        signed="(0 if {1} == -1 else {0} % {1} - {1} * (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))))",
        unsigned="({0} % {1})",
        wraps=True,
        total=False,
    ),
    "floormod": ScalarFunction(signed="(0 if {1} == -1 else {0} % {1})", unsigned="({0} % {1})", wraps=True, total=False),
    "floormod_of_truncmod": ScalarFunction(real="({2} + {1} if ({2} != 0) & (({2} < 0) != ({1} < 0)) else {2})"),
    "negative": ScalarFunction("(-{0})", wraps=True),
    "abs": ScalarFunction(real="math.fabs({0})", signed="({0} if {0} >= 0 else -{0})", wraps=True),
    "power": ScalarFunction(real="math.pow({0}, {1})"),
    # a comparison with NaN is false, so NaN is asked for
    "maximum": ScalarFunction(
        "({0} if {0} > {1} else {1})", real="({0} if ({0} > {1}) | ({0} != {0}) else {1})", wraps=True
    ),
    "minimum": ScalarFunction(
        "({0} if {0} < {1} else {1})", real="({0} if ({0} < {1}) | ({0} != {0}) else {1})", wraps=True
    ),
    "where": ScalarFunction("({1} if {0} else {2})"),
    "equal": _operator("=="),
    "not_equal": _operator("!="),
    "less": _operator("<"),
    "less_equal": _operator("<="),
    "greater": _operator(">"),
    "greater_equal": _operator(">="),
    "and": _operator("&", wraps=True),
    "or": _operator("|", wraps=True),
    "xor": _operator("^", wraps=True),
    "logical_not": ScalarFunction("(not {0})"),
    "bitwise_not": ScalarFunction("(~{0})", wraps=True),
    "left_shift": ScalarFunction(
        signed="({0} << {1} if ({1} >= 0) & ({1} < {bits}) else 0)",
        unsigned="({0} << {1} if {1} < {bits} else {t}(0))", wraps=True
    ),
    "right_shift": ScalarFunction(
        signed="({0} >> {1} if ({1} >= 0) & ({1} < {bits}) else -1 if {0} < 0 else 0)",
        unsigned="({0} >> {1} if {1} < {bits} else {t}(0))",
        wraps=True,
    ),
    "isinf": _math("isinf"),
    "isfinite": _math("isfinite"),
    "trunc": ScalarFunction(real=_TRUNC),
    "round": ScalarFunction(real=_ROUND),
    "floor_of_trunc": ScalarFunction(real="({1} - {t}(1.0) if {1} > {0} else {1})"),
    "ceil_of_trunc": ScalarFunction(real="({t}(math.copysign({1} + {t}(1.0), {0})) if {1} < {0} else {1})"),
    **{
        name: _math(name)
        for name in (
            "exp", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "erf",
        )
    },
}  # fmt: skip


def cast_text(value: str, source: str, result: str) -> str:
    """``value`` of dtype ``source`` as ``result``: as C converts, but what leaves an integer's range wraps."""
    if result == "bool":
        return f"({value} != 0)"
    if is_float(source) and is_integer(result) and result != "int64":
        # through int64, because converting out of the range of a narrow integer is undefined
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
        return f"{dtype}({special})"
    return str(int(value)) if dtype == "int64" else f"{dtype}({int(value)})"
