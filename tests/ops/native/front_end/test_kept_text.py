"""A module with functions whose texts are kept is the module of functions that are emitted anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from llvmlite import ir

import relayvm as relay
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.front_end import kept_text
from relayvm.ops.native.front_end.compilation import Compilation
from relayvm.ops.native.jit.native_compiler import has_near_constants
from relayvm.ops.native.memory import generic, native

from .machine_code import compiled
from .programs import PROGRAMS

HEADER = '#[version = "0.0.5"]\n'
FACTOR = 3


@generic
def half(x: Any) -> Any:
    return x // 2


@native
def times(x: int) -> int:
    return x * FACTOR + half(x)


@native
def rooted(x: int) -> int:
    return int(math.sqrt(times(x) + times(x + 1)))


def text_of(function: Callable[..., Any], signature: str) -> str:
    """The text of a module with the function and all that it calls, declarations of libraries' functions in any order."""
    compilation = Compilation(ir.Module(), with_parts=has_near_constants())
    compilation.entry(function, signature, "entry")
    lines = filter(None, str(compilation.module).splitlines())
    return "\n".join(sorted(lines, key=lambda line: line if line.startswith("declare") else "|"))


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_text, "_texts", type(kept_text._texts)())


def test_the_text_is_the_same() -> None:
    anew = text_of(rooted, "int64(int64)")
    assert {f.__name__ for f in kept_text._texts} == {"half", "times", "rooted"}
    assert text_of(rooted, "int64(int64)") == anew


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_has_the_same_text(function: Callable[[int, int], int]) -> None:
    anew = text_of(function, "int64(int64, int64)")
    assert text_of(function, "int64(int64, int64)") == anew


#: Kernels with functions of which no text is kept, besides others: tiles of products, loops with properties, parts of objects.
KERNELS = (
    "def @main(%x: Tensor[(?, 4, ?, ?), float32], %w: Tensor[(8, 4, 3, 3), float32]) "
    "{ nn.relu(nn.conv2d(%x, %w, channels=8, kernel_size=[3, 3])) }",
    "def @main(%x: Tensor[(?, ?), float32], %w: Tensor[(8, ?), float32]) { nn.softmax(nn.dense(%x, %w)) }",
    "def @main(%x: Tensor[(?, ?), float16]) { (sum(%x, axis=[1]), argsort(%x), cumsum(%x, axis=0)) }",
)


@pytest.mark.extensive(program=KERNELS[1:])
@pytest.mark.parametrize("program", KERNELS, ids=["convolution", "product", "rows"])
def test_a_kernel_has_the_same_text(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Callable[[], Callable[..., Any]], str]] = []
    address_at = kernel_store.address_at

    def noted(key: Any, name: str, define: Any, signature: str, levels: Any, *shared: Any) -> int:
        asked.append((define, signature))
        return address_at(key, name, define, signature, levels, *shared)

    monkeypatch.setattr(kernel_store, "address_at", noted)
    relay.VirtualMachine(relay.compile(HEADER + program))
    assert asked
    for define, signature in asked:
        function = define()
        kept_text._texts.clear()
        anew = text_of(function, signature)
        assert kept_text._texts
        assert text_of(function, signature) == anew


def test_a_global_that_changes_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(times)(10) == 35
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert compiled(times)(10) == 55
    monkeypatch.setitem(globals(), "FACTOR", 0.5)  # times has a result of another type, and rooted has no other source
    assert compiled(rooted)(16) == 5


def test_a_callee_with_another_result_is_called_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(rooted)(16) == int(math.sqrt(56 + 59))
    monkeypatch.setitem(globals(), "FACTOR", 0.5)
    assert compiled(rooted)(16) == int(math.sqrt(16.0 + 16.5))
