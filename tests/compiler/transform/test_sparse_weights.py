"""Weights with many zeros as sparse weights: the same results, on generated weights; only convolutions that mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order
from relayvm.compiler.transform.sparse.block_matrix import BlockMatrix

transform, convert = relay.transform, relay.data_dep_optimization


def sparse_matrix(rng: np.random.Generator, rows: int, columns: int, block: tuple[int, int], share: float) -> np.ndarray:
    shape = (rows // block[0], columns // block[1])
    blocks = rng.permutation(np.arange(shape[0] * shape[1]) >= share * shape[0] * shape[1]).reshape(shape)
    return (np.kron(blocks, np.ones(block)) * rng.integers(1, 9, (rows, columns))).astype("float32")


def operators(function: relay.Function) -> list[str]:
    return [n.op.name for n in post_order(function) if isinstance(n, relay.Call)]


def evaluated(function: relay.Function, params: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    mod = relay.IRModule.from_expr(function)
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and relay.analysis.well_formed(mod)
    return relay.create_executor("debug", mod, params=params).evaluate()(x).numpy()


@pytest.mark.extensive(share=[0.6])
@pytest.mark.parametrize("block", [(1, 1), (2, 3), (4, 2), (8, 6)])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_blocks(block: tuple[int, int], share: float) -> None:
    matrix = sparse_matrix(np.random.default_rng(7), 8, 6, block, share)
    found = BlockMatrix.of(matrix, block)
    back = np.zeros_like(matrix).reshape(8 // block[0], block[0], 6 // block[1], block[1])
    for row in range(8 // block[0]):
        for k in range(found.indptr[row], found.indptr[row + 1]):
            back[row, :, found.indices[k], :] = found.data[k]
    assert np.array_equal(back.reshape(8, 6), matrix)
    assert found.sizes == (*found.data.shape, *found.indices.shape, *found.indptr.shape)


@pytest.mark.parametrize("block", [(1, 1), (2, 3)])
def test_dense(block: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    x, w, v, both = (relay.var(name, shape) for name, shape in zip("xwvb", ((5, 6), (4, 6), (4, 6), (4, 6)), strict=True))
    product = relay.add(relay.nn.dense(x, w), relay.nn.dense(relay.abs(x), w))
    rest = relay.add(relay.nn.dense(x, v), relay.add(relay.nn.dense(x, both), relay.sum(relay.abs(both))))
    function = relay.Function([x, w, v, both], relay.add(product, rest))
    params = {name: sparse_matrix(rng, 4, 6, block, share) for name, share in (("w", 0.8), ("v", 0.1), ("b", 0.8))}
    new, weights = convert.bsr_dense.convert(function, params, block, 0.5)
    assert operators(new).count("nn.sparse_dense") == 3 and operators(new).count("nn.dense") == 1
    assert [p.name_hint for p in new.params] == ["x", *(f"w.{part}" for part in ("data", "indices", "indptr")), "v",
        *(f"b.{part}" for part in ("data", "indices", "indptr")), "b"]  # fmt: skip
    assert set(weights) == {p.name_hint for p in new.params} - {"x"}
    data = rng.integers(-4, 5, (5, 6)).astype("float32")
    assert np.array_equal(evaluated(new, weights, data), evaluated(function, params, data))
    with relay.VirtualMachine(relay.vm.compile(relay.IRModule.from_expr(new), "llvm", params=weights)) as vm:
        assert np.array_equal(vm.run(data).numpy(), evaluated(function, params, data))


CONVOLUTIONS = {
    "NHWC 1": ("NHWC", "HWIO", 1, {}),
    "NHWC 3": ("NHWC", "HWIO", 3, {"padding": 1}),
    "NCHW 3": ("NCHW", "OIHW", 3, {"padding": (1, 1), "strides": (1, 1), "dilation": 1}),
}  # fmt: skip


def convolution(name: str, **other: object) -> tuple[relay.Var, relay.Var, relay.Expr, np.ndarray]:
    layout, kernel, size, named = CONVOLUTIONS[name]
    sizes = {"O": 8, "I": 4, "H": size, "W": size}
    matrix = sparse_matrix(np.random.default_rng(5), 8, 4 * size * size, (4, 2), 0.7)
    rows_first = matrix.reshape(8, size, size, 4)
    weight = np.ascontiguousarray(rows_first.transpose(["OHWI".index(axis) for axis in kernel]))
    x = relay.var("x", (2, *((4, relay.Any(), 5) if layout == "NCHW" else (relay.Any(), 5, 4))))
    w = relay.var("w", tuple(sizes[axis] for axis in kernel))
    return x, w, relay.nn.conv2d(x, w, data_layout=layout, kernel_layout=kernel, **{**named, **other}), weight


def image(name: str) -> np.ndarray:
    shape = (2, 4, 6, 5) if CONVOLUTIONS[name][0] == "NCHW" else (2, 6, 5, 4)
    return np.random.default_rng(8).integers(-4, 5, shape).astype("float32")


@pytest.mark.extensive(name=["NHWC 1"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    layout, _, size, _ = CONVOLUTIONS[name]
    x, w, y, weight = convolution(name)
    function, data = relay.Function([x, w], y), image(name)
    want = evaluated(function, {"w": weight}, data)
    new, weights = convert.bsr_conv2d.convert(function, {"w": weight}, (4, 2), 0.5, layout, size)
    assert operators(new) == ["nn.sparse_conv2d"] and len(weights) == 3
    assert np.array_equal(evaluated(new, weights, data), want)
    frozen = relay.IRModule.from_expr(relay.Function([x], relay.bind(y, {w: relay.const(weight)})))
    constants = transform.Conv2dToSparse2(layout, size, (4, 2), 0.5)(frozen)
    assert operators(constants["main"]) == ["nn.sparse_conv2d"]
    assert np.array_equal(evaluated(constants["main"], {}, data), want)
    for other in ((layout, size, (4, 2), 0.99), (layout, size, (3, 2), 0.5), (layout, size + 2, (4, 2), 0.5)):
        assert relay.structural_equal(transform.Conv2dToSparse2(*other)(frozen), frozen)


@pytest.mark.parametrize(
    "other", [{"strides": 2}, {"padding": 0}, {"dilation": (1, 2)}, {"out_layout": "NCHW"}, {"out_dtype": "float64"}]
)
def test_other_convolutions_stay(other: dict[str, object]) -> None:
    x, w, y, weight = convolution("NHWC 3", **other)
    new, weights = convert.bsr_conv2d.convert(relay.Function([x, w], y), {"w": weight}, (4, 2), 0.5, "NHWC", 3)
    assert operators(new) == ["nn.conv2d"] and list(weights) == ["w"]


def test_parameters_of_called_functions_stay() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
    def @f(%x: Tensor[(3, 4), float32], %w: Tensor[(2, 4), float32]) { nn.dense(%x, %w) }
    def @main(%x: Tensor[(3, 4), float32], %w: Tensor[(2, 4), float32]) { @f(%x, %w) }""")
    assert relay.structural_equal(transform.DenseToSparse(["w"], [[1, 1, 1, 1, 3]])(mod), mod)


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: transform.DenseToSparse(3, []), "DenseToSparse: weight_name must be a sequence"),
        (lambda: transform.DenseToSparse(["w"], []), "DenseToSparse: weight_shape must be 1 lists, one for each name"),
        (lambda: transform.DenseToSparse(["w"], [[1, 2]]), "must be 5 sizes: 3 of the values, of the indices, of indptr"),
        (lambda: transform.Conv2dToSparse(["w"], [[1, 1, 1, 1, 3]], "NHCW", 1), "the layout must be NHWC or NCHW"),
        (lambda: transform.Conv2dToSparse(["w"], [[1, 1, 1, 1, 3]], "NHWC", 0), "Conv2dToSparse: the kernel_size"),
        (lambda: transform.Conv2dToSparse2("NHWC", 3, (4,), 0.5), "the blocksize must be two numbers"),
        (lambda: transform.Conv2dToSparse2("NHWC", 3, (4, 0), 0.5), "Conv2dToSparse2: the blocksize"),
        (lambda: transform.Conv2dToSparse2("NHWC", 3, (4, 1), 2), "the sparsity_threshold must be a number from 0 to 1"),
        (lambda: convert.bsr_dense.convert(3, {}, (1, 1), 0.5), "bsr_dense.convert: the function must be a relay.Function"),
        (lambda: convert.bsr_conv2d.convert(relay.Function([], 1), 3, (1, 1), 0.5), "bsr_conv2d.convert: the params"),
    ],
)
def test_wrong_uses(fails, text: str) -> None:
    with pytest.raises(relay.RelayError) as error:
        fails()
    assert text in str(error.value)
