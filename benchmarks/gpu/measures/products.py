"""Matrix products and convolutions against torch, which calls the same libraries; attention against products and a softmax."""

from __future__ import annotations

import gc

import numpy as np

from relayvm.ops.core.tensor_types import numpy_dtype

from .. import rivals
from ..contest import Contestant, Samples, contest, ratio
from ..figures import Goal, Recorder, Spread
from ..machines import OURS, check, placed
from ..scale import Scale

LEVEL = Goal(at_least=0.97)
#: Relative errors of products of so many numbers from -1 to 1, against their sums in float64.
_TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}
#: Convolutions of ResNet-50: channels in and out, size of the picture, of the window, stride.
CONVOLUTIONS = ((3, 64, 224, 7, 2), (64, 64, 56, 3, 1), (128, 128, 28, 3, 1), (256, 1024, 14, 1, 1), (512, 512, 7, 3, 1))
#: Attention by heads: queries and keys, 12 heads of 64 elements.
ATTENTION = ((512, 512), (1, 4096))
PARTS = "products and softmax"


def measure(record: Recorder, scale: Scale) -> None:
    """TFLOP/s of matrix products in two dtypes, and of convolutions and attention, which have no goal."""
    for dtype in ("bfloat16", "float32"):
        name = f"matrix product {scale.product}^3 {dtype}"
        with record.task(name, f"{OURS} / torch", "times", LEVEL):
            _product(record, scale, name, dtype)
        gc.collect()
    for shape in CONVOLUTIONS:
        with record.task(f"convolution {_words(shape)}", OURS, "TFLOP/s"):
            _convolution(record, scale, shape)
        gc.collect()
    for queries, keys in ATTENTION:
        with record.task(f"attention {queries} x {keys} float32", OURS, "TFLOP/s"):
            _attention(record, scale, queries, keys)
        gc.collect()


def _numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32).astype(numpy_dtype(dtype))


def _product(record: Recorder, scale: Scale, name: str, dtype: str) -> None:
    n = scale.product
    a, b = (_numbers((n, n), dtype, seed) for seed in (0, 1))
    text = f"def @main(%a: Tensor[(?, ?), {dtype}], %b: Tensor[(?, ?), {dtype}]) {{ nn.matmul(%a, %b) }}"
    ready = placed(text, [a, b])
    few = slice(0, 48)
    want = a[few].astype(np.float64) @ b.astype(np.float64)
    check(ready.vm, [np.ascontiguousarray(a[few]), b], want, _TOLERANCE[dtype], atol=_TOLERANCE[dtype] * n**0.5)
    contestants = {OURS: ready.contestant()}
    with record.task(name, "torch", "TFLOP/s"):
        contestants["torch"] = rivals.torch_contestant(rivals.torch().matmul, rivals.tensor(a), rivals.tensor(b))
    _compare(record, name, contest(contestants, scale.rounds), 2 * n**3, LEVEL)


def _words(shape: tuple[int, int, int, int, int]) -> str:
    channels_in, channels_out, size, window, stride = shape
    return f"{channels_in}x{size}x{size} to {channels_out}, {window}x{window}, stride {stride}"


def _convolution(record: Recorder, scale: Scale, shape: tuple[int, int, int, int, int]) -> None:
    channels_in, channels_out, size, window, stride = shape
    padding, images = window // 2, scale.images
    size = size if images > 1 else min(size, 4)
    x = _numbers((images, channels_in, size, size), "float32", 0)
    w = _numbers((channels_out, channels_in, window, window), "float32", 1)
    text = f"""def @main(%x: Tensor[(?, ?, ?, ?), float32], %w: Tensor[(?, ?, ?, ?), float32]) {{
        nn.conv2d(%x, %w, strides=[{stride}, {stride}], padding=[{padding}, {padding}])
    }}"""
    ready = placed(text, [x, w])
    contestants: dict[str, Contestant] = {OURS: ready.contestant()}
    name = f"convolution {_words(shape)}"
    with record.task(name, "torch", "TFLOP/s"):
        torch = rivals.torch()
        convolve = torch.nn.functional.conv2d
        held = rivals.tensor(x), rivals.tensor(w)
        contestants["torch"] = rivals.torch_contestant(lambda x, w: convolve(x, w, None, stride, padding), *held)
        want = contestants["torch"].run().cpu().numpy()
        check(ready.vm, [x, w], want, 1e-3, atol=1e-3 * (channels_in * window**2) ** 0.5)
    placed_rows = (size + 2 * padding - window) // stride + 1
    operations = 2 * images * channels_out * placed_rows**2 * channels_in * window**2
    _compare(record, name, contest(contestants, scale.rounds), operations, None)


def _attention(record: Recorder, scale: Scale, queries: int, keys: int) -> None:
    batch, heads, size, name = scale.images, 12, 64, f"attention {queries} x {keys} float32"
    queries, keys = (n if batch > 1 else min(n, 8) for n in (queries, keys))
    arrays = [_numbers((batch, n, heads, size), "float32", seed) for seed, n in enumerate((queries, keys, keys))]
    params = ", ".join(f"%{name}: Tensor[(?b, ?{n}, ?h, {size}), float32]" for name, n in zip("qkv", "mnn", strict=True))
    ready = placed(f"def @main({params}) {{ nn.batch_attention(%q, %k, %v, scale=0.125) }}", arrays)
    by_heads = [np.ascontiguousarray(a.swapaxes(1, 2)).reshape(batch * heads, -1, size) for a in arrays]
    params = ", ".join(f"%{name}: Tensor[(?p, ?{n}, {size}), float32]" for name, n in zip("qkv", "mnn", strict=True))
    parts = placed(
        f"""def @main({params}) {{
        nn.batch_matmul(nn.softmax(nn.batch_matmul(%q, %k) * 0.125f), %v, transpose_b=False)
    }}""",
        by_heads,
    )
    want = parts.vm.run(*by_heads).numpy().reshape(batch, heads, queries, size).swapaxes(1, 2)
    check(ready.vm, arrays, want, 1e-3, atol=1e-4)
    contestants: dict[str, Contestant] = {OURS: ready.contestant(), PARTS: parts.contestant()}
    with record.task(name, "torch", "TFLOP/s"):
        attend = rivals.torch().nn.functional.scaled_dot_product_attention
        held = [rivals.tensor(a.reshape(batch, heads, -1, size)) for a in by_heads]
        contestants["torch"] = rivals.torch_contestant(attend, *held)
    _compare(record, name, contest(contestants, scale.rounds), 4 * batch * heads * queries * keys * size, None)


def _compare(record: Recorder, name: str, found: dict[str, Samples], operations: int, goal: Goal | None) -> None:
    for who, samples in found.items():
        record.figure(name, who, "TFLOP/s", Spread.of([operations / t / 1000 for t in samples.whole_ns]))
    if "torch" in found:
        record.figure(name, f"{OURS} / torch", "times", ratio(found["torch"].whole_ns, found[OURS].whole_ns), goal)
    elif goal:
        record.missing(name, f"{OURS} / torch", "times", "there is no torch", goal)
