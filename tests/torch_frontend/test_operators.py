"""Operators of torch beside torch, at open sizes of 0, 1 and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from .beside_torch import check  # noqa: E402  torch may be missing

F = torch.nn.functional
torch.manual_seed(7)

ROWS = (3, 1, 0)


def _numbers(n: int, dtype: str) -> Any:
    if dtype == "bool":
        return torch.rand(n, 4) > 0.5
    return torch.randn(n, 4).mul(3).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "bool"])
def test_promotion_is_that_of_torch(dtype: str) -> None:
    def mixed(x: Any, y: Any) -> Any:
        return x + y, x * 2, x * 2.5, x / 2, x.to(torch.float32) - y, x < y, x == 1, torch.where(x > 0, x, 0), x.sum(1)

    check(mixed, *[(_numbers(n, dtype), _numbers(n, "float32")) for n in ROWS], tolerance=1e-2 if dtype == "float16" else 1e-5)


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "functions": lambda x: (x.abs().sqrt(), x.exp(), x.tanh(), x.sigmoid(), x.expm1(), x.abs().log1p(), x.round(), x.floor()),
    "activations": lambda x: (F.gelu(x), F.silu(x), F.elu(x), F.softplus(x), F.hardswish(x), F.leaky_relu(x), F.relu6(x)),
    "division": lambda x: (x // 2, x % 3, torch.fmod(x, 3), torch.div(x, 2, rounding_mode="trunc")),
    "bounds": lambda x: (x.clamp(-1, 1), x.clamp(min=0), torch.maximum(x, -x), x.pow(2), x.masked_fill(x > 0, 5.0)),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "views": lambda x: (x.view(-1, 2), x.reshape(x.shape[0], 2, 2), x.t(), x.unsqueeze(1), x[:, None].expand(-1, 3, -1)),
    "parts": lambda x: (x[:, 1:3], x[:, ::2], x[:, -1], *x.split(2, 1), *x.unbind(1), *x.chunk(2, 1)),
    "joints": lambda x: (
        torch.cat([x, x * 2]),
        torch.stack([x, x], 1),
        x.repeat(2, 1),
        x.flip(0),
        x.roll(1, 1),
        F.pad(x, (1, 2)),
    ),
    "sizes": lambda x: (torch.zeros(x.shape[0] * 2 + 1, 3), torch.arange(x.shape[0]), x.new_ones(x.shape[0])),
}
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: (x.sum(), x.sum(0), x.mean(1), x.prod(1), x.cumsum(0), x.var(1), x.logsumexp(1), x.norm(dim=1)),
    "orders": lambda x: (x.amax(1), x.max(1)[0], x.argmax(1), x.topk(2, 1)[0], x.sort(1)[0], (x > 0).any(1), (x > 0).all()),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(1), F.layer_norm(x, (4,))),
}
RUN_TIME: dict[str, Callable[[Any], Any]] = {
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: (x[x > 0], x[x[:, 0] > 0]),
    "unique": lambda x: torch.unique(x.round()),
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *VIEWS, *REDUCTIONS, *RUN_TIME])
def test_functions_of_one_tensor(name: str) -> None:
    function = {**ELEMENTWISE, **VIEWS, **REDUCTIONS, **RUN_TIME}[name]
    check(function, *[(_numbers(n, "float32"),) for n in ROWS if n or name != "unique"])


def test_indices() -> None:
    table = torch.randn(6, 4)

    def chosen(i: Any) -> Any:
        return (
            table[i],
            table.index_select(0, i),
            F.embedding(i, table),
            table.gather(0, i[:, None].expand(-1, 4)),
            table[i, i % 4],
        )

    check(chosen, *[(torch.randint(0, 6, (n,)),) for n in ROWS])


@pytest.mark.parametrize("kind", ["mask", "hidden", "causal", "groups"])
def test_attention(kind: str) -> None:
    def attended(q: Any, k: Any, v: Any) -> Any:
        masks = {
            "mask": torch.ones(5, 5).tril(1).bool(),
            "hidden": torch.ones(5, 5).tril(-1).bool(),
        }  # the first query sees no key
        mask = masks.get(kind)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "causal", enable_gqa=kind == "groups")

    heads = 2 if kind == "groups" else 4
    check(attended, *[(torch.randn(n, 4, 5, 8), torch.randn(n, heads, 5, 8), torch.randn(n, heads, 5, 8)) for n in (3, 1)])


@pytest.mark.parametrize("ends", [(0, 4), (-1.5, 2.5), (0, 0)])
def test_values_counted_by_intervals(ends: tuple[float, float]) -> None:
    low, high = ends
    values = [torch.tensor([0.0, 4, -1, 2.5, 0.5, 1, 1, 9][:n]) for n in (8, 1)]
    check(lambda x: x.histc(5, low, high), *[(x,) for x in values])


def _ends(*sizes: int) -> Any:
    return torch.tensor(sizes, dtype=torch.int32).cumsum(0, dtype=torch.int32)


@pytest.mark.parametrize("groups", ["rows", "columns", "sums", "batches"])
def test_products_of_groups(groups: str) -> None:
    a, b = {
        "rows": ((7, 8), (3, 8, 16)), "columns": ((3, 5, 8), (8, 16)), "sums": ((8, 16), (16, 8)),
        "batches": ((3, 5, 8), (3, 8, 16)),
    }[groups]  # fmt: skip
    total = 7 if groups == "rows" else 16

    def product(x: Any, y: Any, ends: Any) -> Any:
        return torch._grouped_mm(x.bfloat16(), y.bfloat16(), offs=None if groups == "batches" else ends).float()

    runs = [_ends(*sizes) for sizes in ((2, total - 3, 1), (0, total, 0), (total, 0, 0))]
    check(product, *[(torch.randn(a), torch.randn(b), ends) for ends in runs], shapes=({}, {}, {}), tolerance=2e-2)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrences(kind: str) -> None:
    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(torch.nn, kind)(4, 3, num_layers=2, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    check(First(), *[(torch.randn(n, 5, 4),) for n in (3, 1)])


def test_networks_of_images() -> None:
    layers = torch.nn
    network = layers.Sequential(
        layers.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), layers.BatchNorm2d(8), layers.ReLU(), layers.MaxPool2d(2),
        layers.Conv2d(8, 8, 3, padding=1, groups=8), layers.GroupNorm(2, 8), layers.AvgPool2d(2), layers.Upsample(scale_factor=2),
        layers.ConvTranspose2d(8, 4, 2, stride=2), layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(4, 2),
    )  # fmt: skip
    check(network, *[(torch.randn(n, 3, 32, 32),) for n in (3, 1)], tolerance=1e-4)


def test_boxes() -> None:
    torchvision = pytest.importorskip("torchvision")
    corners = torch.rand(20, 2)
    boxes, scores = torch.cat([corners, corners + torch.rand(20, 2)], 1), torch.rand(20)
    check(lambda b, s: torchvision.ops.nms(b, s, 0.3), (boxes, scores), (boxes[:3], scores[:3]))
    rois = torch.cat([torch.zeros(5, 1), boxes[:5] * 8], 1)
    fixed = ({}, {0: torch.export.Dim.AUTO})
    check(lambda x, r: torchvision.ops.roi_align(x, r, (3, 3), 0.5, 2, True), (torch.randn(2, 3, 16, 16), rois), shapes=fixed)


@pytest.mark.parametrize("reduction", ["amax", "amin"])
def test_places_that_take_only_given_truths(reduction: str) -> None:
    def reduced(x: Any, at: Any, given: Any) -> Any:
        return x.scatter_reduce(0, at, given, reduction, include_self=False)

    truths, at = torch.tensor([[True], [False], [True]]), torch.tensor([[0], [1], [0]])
    check(reduced, *[(truths, at, torch.full((3, 1), value)) for value in (True, False)])


def test_parts_of_sizes_known_at_run_time() -> None:
    """The last ones as optical flow takes the features of two images apart."""

    def parts(x: Any) -> Any:
        rows, both = x.shape[0], torch.cat([x, x * 2])
        return *x.split([1, rows - 1]), *torch.cat([both, x]).split(rows), *both.split([rows, rows]), *both.chunk(2)

    check(parts, *[(torch.randn(n, 4),) for n in (3, 1, 6)], shapes=({0: torch.export.Dim.AUTO},))


def test_one_of_two_branches() -> None:
    x = torch.rand(3, 4)
    check(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), (x,), (-x,), (x[:1],))


@pytest.mark.parametrize("options", [{}, {"affine": True}, {"affine": True, "track_running_stats": True}], ids=str)
def test_instance_norm(options: dict[str, bool]) -> None:
    norm = torch.nn.InstanceNorm2d(3, **options)
    if norm.running_mean is not None:
        norm.running_mean.uniform_()
        norm.running_var.uniform_(1, 2)
    shapes = ({0: torch.export.Dim("n"), 2: torch.export.Dim("h"), 3: torch.export.Dim("w")},)
    check(norm.eval(), *([torch.randn(n, 3, h, w)] for n, h, w in ((2, 4, 5), (1, 7, 3), (3, 2, 9))), shapes=shapes)
