"""Convolution as machine code for processors whose vectors have 32 bytes and no masks, on a processor that has more."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

from relayvm.ops.kernels.conv import tiles
from relayvm.ops.native.code_parts import Part
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.compiled.function_fingerprint import fingerprint
from relayvm.ops.native.jit import native_compiler
from relayvm.ops.native.jit.convolution.data_taps import has_masks
from relayvm.ops.native.linking import linker
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE

from ..native.front_end.machine_code import compiled, python_function
from ..opaque.opaque_kernels import run
from .test_conv import check, numbers

#: Processors by name: bytes of a vector register.
MACHINES = {"haswell": 32, "nehalem": 16}
#: The parts of kernels that tests have compiled, by processor, name and levels.
PARTS: dict[tuple[Any, ...], bytes] = {}


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compile for a processor, whose name is the result, and store nothing on the disk."""
    import llvmlite.binding as llvm

    name: str = request.param
    if platform.machine() != "x86_64" or not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("needs AVX2")
    native_compiler._target_machine(0)  # initialises LLVM
    options = native_compiler._NEAR if native_compiler.has_near_constants() else {"codemodel": "jitdefault"}

    def machine(level: int) -> Any:
        target = llvm.Target.from_default_triple()
        return target.create_target_machine(cpu=name, features="", opt=level, jit=True, **options)

    addresses: dict[str, int] = {}

    def code_of_part(part: Part, levels: native_compiler.Levels) -> bytes:
        key = name, part.symbol, part.function, levels
        if key not in PARTS:
            PARTS[key] = native_compiler.compile_part(part, levels, code_of_part)
        return PARTS[key]

    def address_of(function: Any, signature: str, _: str, levels: Any) -> int:
        key = fingerprint(function)
        if key not in addresses:
            addresses[key] = linker.load(native_compiler.compile_object(function, signature, levels, code_of_part))
        return addresses[key]

    monkeypatch.setattr(native_compiler, "_target_machine", machine)
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (16, MACHINES[name]))
    monkeypatch.setattr(kernel_store, "address_of", address_of)
    return name


def test_vectors_of_avx_are_read_in_part(machine: str) -> None:
    has = compiled(python_function("def f():\n    return 1 if has_masks() else 0\n", has_masks=has_masks))()
    assert has == (machine == "haswell")


@pytest.mark.thinned(2)
@pytest.mark.split(3)
@pytest.mark.usefixtures("machine")
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("implementation", ["planes", "tiles", "shifts", "groups"])
def test_convolution_without_masks(implementation: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for kernel, attrs in [
        ((1, 1), {}),
        ((3, 3), {"padding": 1}),
        ((3, 3), {"padding": 1, "strides": 2}),
        ((2, 3), {"padding": (0, 2, 1, 1), "strides": (2, 1), "dilation": (1, 2)}),
    ]:
        groups = 5 if implementation == "planes" else 1
        weight = numbers(rng, (5, 5 // groups, *kernel), dtype)
        for height, width in [(1, 1), (7, 7), (9, 8), (14, 33), (70, 300)]:
            data = numbers(rng, (2, 5, height, width), dtype)
            given = {"groups": groups, "implementation": implementation, **attrs}
            check(data, weight, jit=True, tolerance=1e-4, **given)
    whole, in_parts = (
        run(
            "nn.conv2d", [data, weight], jit=True, portions=[np.array([(k, n, NO_LIMIT, 1, 1)], SHARE) for k in range(n)], **given
        )
        for n in (1, 3)
    )
    np.testing.assert_array_equal(whole.outputs[0], in_parts.outputs[0])


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("implementation", ["planes", "rows"])
def test_small_pictures(implementation: str) -> None:
    rng, groups = np.random.default_rng(0), 70 if implementation == "planes" else 1
    kernel, attrs = ((5, 5), {"padding": 2}) if groups > 1 else ((1, 1), {})
    for height, width in [(1, 1), (3, 3), (6, 6)]:
        data, weight = numbers(rng, (2, 70, height, width), "float32"), numbers(rng, (70, 70 // groups, *kernel), "float32")
        check(data, weight, jit=True, tolerance=1e-4, groups=groups, implementation=implementation, **attrs)


@pytest.mark.split(2)
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_weights_that_are_pages_apart(dtype: str) -> None:
    rng = np.random.default_rng(0)
    channels = 2 * tiles.PAGE_BYTES // np.dtype(dtype).itemsize
    for outputs, kernel, columns in [(13, (1, 1), 83), (5, (2, 1), 3)]:
        weight, data = numbers(rng, (outputs, channels, *kernel), dtype), numbers(rng, (1, channels, 2, columns), dtype)
        check(data, weight, jit=True, tolerance=1e-3, implementation="tiles")
