"""Products of bytes in programs: their dtypes, packed weights, and epilogues whose results have another dtype."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import relayvm as relay

from ..programs import HEADER

RNG = np.random.default_rng(4)
BYTES = ("uint8", "int8")


def of_bytes(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def whole(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def executable(text: str, **params: np.ndarray) -> Any:
    return relay.compile(relay.parse(HEADER + text), params=params)


def operators(exe: Any) -> list[list[str]]:
    return [[node.op for node in packed.group.nodes] for packed in exe.packed]


def test_products_of_any_two_dtypes() -> None:
    for first, second in itertools.product(BYTES, BYTES):
        inputs = f"%x: Tensor[(?b, ?m, 70), {first}], %w: Tensor[(20, 70), {second}], %y: Tensor[(?b, 70, ?n), {second}]"
        text = f"""def @main({inputs}) {{
          (nn.dense(%x, %w, out_dtype="int32"), nn.batch_matmul(%x, %y, out_dtype="int32", transpose_b=False),
           nn.matmul(%x, %w, out_dtype="int32", transpose_b=True))
        }}"""
        x, w, y = of_bytes(first, 2, 5, 70), of_bytes(second, 20, 70), of_bytes(second, 2, 70, 33)
        for exe, given in ((executable(text), (x, w, y)), (executable(text, w=w), (x, y))):
            dense, batched, product = (r.numpy() for r in relay.VirtualMachine(exe).run(*given))
            np.testing.assert_array_equal(dense, whole(x, w.T))
            np.testing.assert_array_equal(product, whole(x, w.T))
            np.testing.assert_array_equal(batched, whole(x, y))


def test_results_of_another_dtype_are_part_of_the_product() -> None:
    text = """def @main(%x: Tensor[(?m, 130), uint8], %w: Tensor[(300, 130), int8], %s: Tensor[(300), float32]) {
      let %p = multiply(cast(nn.dense(%x, %w, out_dtype="int32"), dtype="float32"), %s);
      cast(clip(rint(%p), a_min=-128f, a_max=127f), dtype="int8")
    }"""
    weight, scale = of_bytes("int8", 300, 130), RNG.random(300).astype(np.float32) / 5000
    packed, plain = executable(text, w=weight, s=scale), executable(text)
    assert ["nn.dense_byte_panels", "cast", "multiply", "rint", "clip", "cast"] in operators(packed)
    assert ["nn.dense", "cast", "multiply", "rint", "clip", "cast"] in operators(plain)
    by_loops = relay.VirtualMachine(relay.compile(relay.parse(HEADER + text), **{"impl.nn.dense": "loops"}))
    for rows in (0, 1, 5, 33, 100):
        x = of_bytes("uint8", rows, 130)
        wanted = np.clip(np.rint(whole(x, weight.T).astype(np.float32) * scale), -128, 127).astype(np.int8)
        np.testing.assert_array_equal(relay.VirtualMachine(packed).run(x).numpy(), wanted)
        np.testing.assert_array_equal(relay.VirtualMachine(plain).run(x, weight, scale).numpy(), wanted)
        np.testing.assert_array_equal(by_loops.run(x, weight, scale).numpy(), wanted)


def test_a_result_may_be_written_over_an_operand_of_its_dtype() -> None:
    text = """def @main(%x: Tensor[(?m, 64), int8], %w: Tensor[(80, 64), int8], %r: Tensor[(?m, 80), float32]) {
      let %e = exp(%r);
      add(%e, cast(nn.dense(%x, %w, out_dtype="int32"), dtype="float32"))
    }"""
    weight = of_bytes("int8", 80, 64)
    machine = relay.VirtualMachine(executable(text, w=weight))
    for rows in (1, 40):
        x, r = of_bytes("int8", rows, 64), RNG.random((rows, 80)).astype(np.float32)
        np.testing.assert_allclose(machine.run(x, r).numpy(), np.exp(r) + whole(x, weight.T), rtol=1e-6)
