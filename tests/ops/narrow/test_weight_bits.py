"""Products with weights of few bits: the ways of every machine, un-jitted too, against float64; any parts of the result."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest

from relayvm.ops.codegen.cpu.epilogue import keep
from relayvm.ops.kernels.weight_bits import cpu
from relayvm.ops.kernels.weight_bits.weight_layout import by_panel, in_panels
from relayvm.ops.native.front_end.llvm import host
from relayvm.ops.native.matrix_tiles import has_tiles
from relayvm.ops.native.static_values import static

from ..every_op.weights import in_bytes
from ..native.front_end.machine_code import compiled, python_function
from ..opaque.opaque_kernels import run

#: The number of vector registers, their bytes, and whether there are instructions for dot products of bytes.
MACHINES = {
    "sse": (16, 16, False),
    "avx": (16, 32, False),
    "avx-vnni": (16, 32, True),
    "avx512": (32, 64, True),
    "amx": (32, 64, True),
}
_DOTS, _TILES = {"avx512vnni", "avxvnni"}, {"amx-tile", "amx-int8"}

CALL = """
def f(
    a, m, k, weight, panels, blocks, scales, zeros, zero_panels, zero_blocks, out, n, low, high, words, reals, steps, config,
    codes, products, sums, space,
):
    numbers = array_uint8_3d(weight, (panels, blocks, {nbytes})), array_float32_3d(scales, (panels, blocks, 16))
    points = array_{zeros}_3d(zeros, (zero_panels, zero_blocks, 16))
    buffers = array_int32(words, space), array_float32(reals, space), array_float32(steps, space)
    return dense_bits_rows(
        array_float32_2d(a, (m, k)), numbers[0], numbers[1], points, array_float32_2d(out, (m, n)), low, high, buffers[0],
        buffers[1], buffers[2], array_uint8(config, 64), array_uint8(codes, 4096), array_int32(products, 1536),
        array_float32(sums, 4096), keep, 0, static({bits}), static({block}), static({digits}),
    )
"""


def plain(bits: int, block: int, digits: int, zeros: str) -> Any:
    text = CALL.format(bits=bits, block=block, digits=digits, zeros=zeros, nbytes=2 * block * bits)
    return python_function(text, dense_bits_rows=cpu.dense_bits_rows, keep=keep, static=static)


@functools.cache
def product(machine: str, *form: Any) -> Any:
    """The kernel compiled for a machine, which takes a second."""
    if machine == "avx-vnni" and "avxvnni" not in host.features():
        pytest.skip("this machine has no AVX-VNNI")
    if machine == "amx" and not has_tiles():
        pytest.skip("this machine has no tile registers")
    count, nbytes, has_dots = MACHINES[machine]
    own = host.features() - (set() if has_dots else _DOTS) - (set() if machine == "amx" else _TILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (count, nbytes))
        patch.setattr(host, "features", lambda: own)
        return compiled(plain(*form))


class Case:
    """A product, and its results by float64; ``magnitude``: the sums of the absolute products."""

    def __init__(self, m: int, k: int, n: int, bits: int, block: int, zeros: str, x: np.ndarray | None = None) -> None:
        rng = np.random.default_rng(m + 7 * k + n)
        blocks = -(-k // block)
        self.x = rng.standard_normal((m, k)).astype(np.float32) if x is None else x
        numbers = rng.integers(0, 2**bits, (n, blocks, block))
        numbers[:1], numbers[1:2] = 0, 2**bits - 1
        points = rng.integers(0, 2**bits, (n, blocks)).astype(zeros)
        scales = rng.uniform(0.1, 1, (n, blocks)).astype(np.float32)
        weight = ((numbers - points[..., None].astype(np.float64)) * scales[..., None].astype(np.float64)).reshape(n, -1)[:, :k]
        self.packed = in_panels(in_bytes(numbers, bits), bits), by_panel(scales), by_panel(points)
        self.weight, wide = self._rounded(numbers, points, scales)[:, :k], self.x.astype(np.float64)
        with np.errstate(invalid="ignore"):
            self.wanted, self.magnitude = wide @ weight.T, np.abs(wide) @ np.abs(weight).T
        self.steps = np.abs(weight).sum(1)

    @staticmethod
    def _rounded(numbers: np.ndarray, points: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """The weight in float32."""
        whole = numbers.astype(np.float32) - points[..., None].astype(np.float32)
        return (whole * scales[..., None]).reshape(len(scales), -1)

    def run(self, function: Any, *bounds: int) -> np.ndarray:
        """The result, computed in parts between bounds of blocks, the last part first; by default in one part."""
        (m, k), n = self.x.shape, self.wanted.shape[1]
        panels, blocks, nbytes = self.packed[0].shape
        out, space = np.full((m, n), np.nan, np.float32), max((m + 16) * blocks * nbytes, 4096)
        buffers = np.full((7, space), 0x7FFFFFFF, np.int32)  # NaN, as far as nothing is written
        weight, scales, zeros = self.packed
        count = -(-panels // cpu.GROUP_PANELS) * -(-m // cpu.BAND_ROWS)
        for low, high in reversed([*itertools.pairwise(bounds or (0, count))]):
            assert not function(
                self.x.ctypes.data, m, k, weight.ctypes.data, panels, blocks, scales.ctypes.data, zeros.ctypes.data,
                *zeros.shape[:2], out.ctypes.data, n, low, high, *(b.ctypes.data for b in buffers), space,
            )  # fmt: skip
        return out


FORMS = [(4, 32, 3, "uint8"), (2, 16, 3, "float32"), (8, 128, 1, "uint8"), (4, 256, 1, "float32")]


def in_digits(machine: str, bits: int) -> bool:
    """Whether a machine multiplies rows in digits: by dot products of bytes, or by sums of two products in 16 bits."""
    lanes = MACHINES[machine][1] // 4
    return (MACHINES[machine][2] and bool(host.features() & _DOTS)) or (bits <= 4 and host.multiplies_limited_bytes(lanes))


@pytest.mark.split(3)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_beside_float64(machine: str, form: tuple[int, int, int, str]) -> None:
    bits, block, digits, zeros = form
    function = product(machine, *form)
    for m, k, n in ((1, 100, 35), (0, 5, 3), (3, 1, 1), (5, 300, 16), (9, 33, 70), (130, 40, 66)):
        case = Case(m, k, n, bits, block, zeros)
        out = case.run(function)
        bound = 4e-7 * case.magnitude
        if digits == 1 and in_digits(machine, bits):  # half a step of each element
            bound = bound + np.abs(case.x).max(1, initial=0)[:, None] / 254 * case.steps
        assert (np.abs(out - case.wanted) <= bound).all(), (m, k, n)
        count = -(-case.packed[0].shape[0] // cpu.GROUP_PANELS) * -(-m // cpu.BAND_ROWS)
        np.testing.assert_array_equal(case.run(function, *range(count + 1)), out)  # no part needs another


@pytest.mark.parametrize("digits", [3, 1])
def test_un_jitted(digits: int) -> None:
    for shape, bits, block, zeros in (
        ((2, 20, 18), 4, 16, "uint8"),
        ((1, 33, 3), 8, 32, "float32"),
        ((5, 16, 1), 2, 16, "uint8"),
    ):
        case = Case(*shape, bits, block, zeros)
        form = bits, block, digits, zeros
        np.testing.assert_array_equal(case.run(plain(*form)), case.run(product("avx512" if cpu.adds_dots() else "avx", *form)))


#: The fewest and the most lines of a block, and sums that need not fit 16 bits for a whole block.
LIMITED = [(4, 16, 3, "float32"), (4, 32, 1, "uint8"), (4, 128, 3, "uint8"), (2, 64, 1, "float32")]


def extremes(rows: int, columns: int) -> np.ndarray:
    """Rows whose digits are all the largest, all the least, or -128 but for the highest: those of a row of ``write_digits``."""
    x = np.tile(np.float32([127, -127, -128 - 128 * 256])[:, None], (1, columns))[np.arange(rows) % 3]
    x[2::3, 0] = 8355700  # a step of 1
    return np.ascontiguousarray(x)


@pytest.mark.parametrize("form", LIMITED, ids=str)
def test_sums_in_16_bits_have_the_bits_of_dots_of_bytes(form: tuple[int, int, int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [name for name, (_, nbytes, _) in MACHINES.items() if nbytes < 64 and host.multiplies_limited_bytes(nbytes // 4)]
    functions = [product(name, *form) for name in machines if name != "avx-vnni"]
    with_dots = host.features() - _TILES | {"avx512vnni"}
    monkeypatch.setattr(host, "features", lambda: with_dots)
    for m, k, n in ((1, 40, 18), (0, 5, 3), (3, 1, 1), (5, 300, 35)):
        for x in (None, extremes(m, k)):
            case = Case(m, k, n, form[0], form[1], form[3], x)
            wanted = case.run(plain(*form))  # un-jitted, by sums of 32 bits alone
            for function in functions:
                np.testing.assert_array_equal(case.run(function), wanted)


#: Pairs of digits in a part of a register and in one; digits in a part of a register, in one and in two.
TILES = [(4, 16, 3, "uint8"), (4, 32, 3, "uint8"), (8, 32, 3, "uint8"), (2, 64, 3, "float32"), (8, 128, 1, "uint8")]


@pytest.mark.parametrize("form", TILES, ids=str)
def test_tile_registers_have_the_bits_of_vectors(form: tuple[int, int, int, str]) -> None:
    for m, k, n in ((15, 300, 35), (17, 33, 70), (130, 40, 66), (64, 1, 1)):
        case = Case(m, k, n, form[0], form[1], form[3])
        np.testing.assert_array_equal(case.run(product("amx", *form)), case.run(product("avx512", *form)))


@pytest.mark.parametrize("form", TILES[1:3], ids=str)
def test_un_jitted_tile_registers(form: tuple[int, int, int, str]) -> None:
    if not has_tiles():
        pytest.skip("this machine has no tile registers")
    case = Case(17, 33, 18, form[0], form[1], form[3])
    np.testing.assert_array_equal(case.run(plain(*form)), case.run(product("avx512", *form)))


def test_large_small_and_not_finite_data() -> None:
    x = np.random.default_rng(5).standard_normal((12, 96)).astype(np.float32)
    x[0], x[1], x[2], x[3] = 0, x[1] * 1e34, x[2] * 1e-34, np.float32(1e-42)
    x[4, ::2] *= 1e6  # of which 24 bits hold the small neighbours with errors in proportion to the large
    x[8, 40], x[9, 3], x[10, 95] = np.inf, np.nan, -np.inf
    case = Case(12, 96, 19, 4, 32, "uint8", x)
    for machine in ("avx", "avx512", *(["amx"] if has_tiles() else [])):
        out = case.run(product(machine, *FORMS[0]))
        finite = np.isfinite(case.wanted)
        largest = np.abs(x).max(1)[:, None] * case.steps
        with np.errstate(invalid="ignore"):
            error = np.abs(out - case.wanted) <= 4e-7 * case.magnitude + 1.2e-7 * largest + 1e-36 * case.steps
        assert error[finite].all()
        np.testing.assert_array_equal(out[~finite], case.wanted[~finite].astype(np.float32))


@pytest.mark.parametrize(("bits", "block", "zeros"), [(4, 32, "uint8"), (8, 16, "float32"), (2, 256, "uint8")])
def test_tiles_have_the_bits_of_the_product_with_the_weight_of_float32(bits: int, block: int, zeros: str) -> None:
    for m, k, n in ((1, 1, 1), (0, 5, 3), (7, 33, 70), (100, 1050, 17), (2, 20, 18)):
        case, jit = Case(m, k, n, bits, block, zeros), k != 20
        attributes = {"units": n, "bits": bits, "block": block}
        packed = run("nn.dense_bit_panels", [case.x, *case.packed], jit=jit, implementation="tiles", **attributes)
        plain = run("nn.dense", [case.x, case.weight], jit=True, implementation="tiles")
        np.testing.assert_array_equal(packed.outputs[0], plain.outputs[0])
