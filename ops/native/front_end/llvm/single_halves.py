"""Conversions of single float16s that wait for no other one, once the loops have vectors.

The instruction by which LLVM loads a float16 keeps the other lanes of its register.  So it waits for what the register had
before, such as the product of the element before: a loop takes up to four times as long.  An instruction that loads an element
into all lanes waits for nothing, and takes as long.

LLVM vectorises no loop with vectors, and reduces a vector of which one lane is read to that lane while it optimizes.  So the
text of the optimized module is completed, as ``ops.native.jit.marked_accesses`` does: the conversion of a number becomes that of
a vector.
"""

from __future__ import annotations

import re

from . import host

_CONVERSION = re.compile(r"^  (%\S+) = fpext half (\S+) to float", re.M)
#: The code of a conversion; ``name``: the first part of the names of its values.
_OF_ALL_LANES = """  %"{name}.bits" = bitcast half {half} to i16
  %"{name}.lane" = insertelement <8 x i16> poison, i16 %"{name}.bits", i64 0
  %"{name}.lanes" = shufflevector <8 x i16> %"{name}.lane", <8 x i16> poison, <8 x i32> zeroinitializer
  %"{name}.halves" = bitcast <8 x i16> %"{name}.lanes" to <8 x half>
  %"{name}.floats" = fpext <8 x half> %"{name}.halves" to <8 x float>
  {value} = extractelement <8 x float> %"{name}.floats", i64 0"""


def is_needed(text: str) -> bool:
    """Whether a module, as text, converts single halves, and this CPU has the instructions for all lanes and none for one."""
    features = host.features()
    return "fpext half" in text and {"f16c", "avx2"} <= features and "avx512fp16" not in features


def complete(text: str) -> str:
    """The text of an optimized module in which single halves are converted in all lanes of a register."""
    number = 0

    def in_all_lanes(found: re.Match[str]) -> str:
        nonlocal number
        number += 1
        return _OF_ALL_LANES.format(name=f"relayvm.half.{number}", value=found[1], half=found[2])

    return _CONVERSION.sub(in_all_lanes, text)
