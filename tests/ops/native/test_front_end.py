"""The parts of numba's front end that are left out do not change the generated code."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm
import pytest
from numba.core.compiler import Compiler

from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.core.type_relation import build_group
from relayvm.ops.native.jit import front_end
from relayvm.ops.native.jit import native_compiler as native_compile
from relayvm.shape_funcs.symbolic.dim import sym
from relayvm.vm.runtime.kernels.kernel_addresses import SIGNATURE, kernel_function

#: Replaced so that numba neither links nor runs the code; all else that is replaced is only faster.
NEEDED = ("_optimize_functions", "finalize", "get_executable")
MATRIX = Tensor("float32", (sym("d0"), sym("d1")))


def group(op: str, *params: Tensor, **attrs: object) -> Group:
    """One call of an operator."""
    operator = get(op)
    return build_group(list(params), [], [Node(op, operator.attrs(**attrs), tuple(range(len(params))), ())], [len(params)])


def text_of(kernel: Callable[[int, int], int]) -> bytes:
    """The machine code, compiled by a compiler that has seen nothing yet."""
    code = native_compile.compile_object(kernel, SIGNATURE).code
    text = b"".join(s.data() for s in llvm.ObjectFileRef.from_data(code).sections() if (s.name() or b"").endswith(b"text"))
    assert len(text) > 100
    return text


@pytest.mark.parametrize(
    "made",
    [
        group("add", MATRIX, Tensor("float32", (sym("d2"), sym("d3")))),
        group("add", Tensor("int8", (sym("d0"),)), Tensor("int8", (sym("d0"),))),
        group("nn.softmax", MATRIX),
        group("take", MATRIX, Tensor("int32", (sym("d2"),)), axis=0),
        group("sort", MATRIX),
        group("nn.dense", MATRIX, MATRIX),
    ],
    ids=lambda g: g.name,
)
def test_the_code_is_that_of_the_whole_front_end(made: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_compile, "_forms", native_compile._MachineForms())
    ours = text_of(kernel_function(kernel_source(made)))
    monkeypatch.setattr(native_compile, "_forms", native_compile._MachineForms())
    monkeypatch.setattr(front_end, "NativeCompiler", Compiler)
    monkeypatch.setattr(front_end, "_REPLACED", tuple(r for r in front_end._REPLACED if r[1] in NEEDED))
    assert text_of(kernel_function(kernel_source(made))) == ours


def test_what_is_replaced_is_put_back() -> None:
    before = [getattr(cls, name) for cls, name, _ in front_end._REPLACED]
    with pytest.raises(RuntimeError, match="stop"), front_end.front_end_only():
        assert [getattr(cls, name) for cls, name, _ in front_end._REPLACED] != before
        raise RuntimeError("stop")
    assert [getattr(cls, name) for cls, name, _ in front_end._REPLACED] == before
