"""Keys of kernels: found without compiling the text of a kernel."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.codegen.cpu.kernel_source import KernelSource
from relayvm.ops.native.front_end.syntax import _definitions
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import generic
from relayvm.vm.runtime.kernels import kernel_addresses
from relayvm.vm.runtime.kernels.kernel_addresses import kernel_key

TEXT = "def kernel(argv, n):\n    return body(argv)\n"


def body(result: str, **names: Any) -> Any:
    return generic(define("test", f"def body(x):\n    return {result}\n", names)["body"])


def test_text_entry_and_bodies_decide_the_key() -> None:
    sources = [
        KernelSource(TEXT),
        KernelSource(TEXT + "\n"),
        KernelSource(TEXT, entry="other"),
        KernelSource(TEXT, bodies=(body("x"),)),
        KernelSource(TEXT, bodies=(body("x + 1"),)),
        KernelSource(TEXT, bodies=(body("x + K", K=1),)),
        KernelSource(TEXT, bodies=(body("x + K", K=2),)),
        KernelSource(TEXT, bodies=(body("x"), body("x"))),
    ]
    assert len({kernel_key(s).id for s in sources}) == len(sources)
    assert kernel_key(sources[3]) == kernel_key(KernelSource(TEXT, bodies=(body("x"),)))


def test_a_stored_kernel_is_not_defined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = '#[version = "0.0.5"] def @main(%x: Tensor[(?,), float32]) { tanh(exp(%x)) }'
    x = np.arange(3, dtype="float32")
    expected = relay.VirtualMachine(relay.compile(relay.parse(program))).run(x).numpy()

    def refuse(source: KernelSource) -> Any:
        raise AssertionError(f"defined again: {source.text}")

    monkeypatch.setattr(kernel_addresses, "kernel_function", refuse)
    found = relay.VirtualMachine(relay.compile(relay.parse(program))).run(x).numpy()
    np.testing.assert_array_equal(found, expected)


def test_functions_in_any_statement_are_found() -> None:
    text = """
if True:
    def a(): pass
else:
    def b(): pass
try:
    def c(): pass
except ValueError:
    def d(): pass
finally:
    def e(): pass
with open:
    class F:
        def f(self):
            def g(): pass
match 1:
    case 1:
        def h(): pass
"""
    tree = ast.parse(text)
    assert sorted(f.name for f in _definitions(tree)) == list("abcdefgh")
