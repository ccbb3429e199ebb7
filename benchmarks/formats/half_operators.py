"""Programs of one call each, in float16 and bfloat16: every operator of the registry that takes floats.

Listed are calls of a typical size, and of some operators also of the size of the first cache.  An operator that the list lacks is
called as the recipe of its tests says (``recipes``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import relayvm as relay
from relayvm import ops  # noqa: F401 - registers
from relayvm.ops.core.op import REGISTRY, Op, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import is_float
from relayvm.ops.kernels.host_functions import numbered

from .case import HALVES, Case, halves_of, unit

#: Shapes: rows of a text, few of them, an image's channels, a matrix, a batch of matrices, channels of a signal and of a film.
ROWS, FEW, IMAGE, SQUARE, BATCH = (800, 256), (20, 256), (1, 64, 56, 56), (512, 512), (8, 64, 64)
SIGNAL, FILM = (1, 64, 800), (1, 16, 8, 28, 28)
#: Stands for the dtype in a program.
_DTYPE = "DTYPE"
#: Operators whose results are bits, which formats have of their own.
_OF_BITS = ("reinterpret",)
#: The most that results differ, in roundings of the largest, and the most time that halves take, in times of float32's.
ERROR, GOAL = 60, 1.5


@dataclass(frozen=True)
class Operator:
    """A call over parameters %x0, %x1, ... of these shapes; ``others``: further parameters, by name, of other dtypes.

    Numbers are between ``low`` and ``high``, and halves of both dtypes.
    """

    call: str
    shapes: tuple[tuple[int, ...], ...] = (ROWS,)
    others: tuple[np.ndarray, ...] = ()
    low: float = -3.0
    high: float = 3.0

    @property
    def name(self) -> str:
        """The first words of the row."""
        return f"{self.call} {'x'.join(map(str, self.shapes[0]))}"

    def program(self, dtype: str) -> tuple[relay.IRModule, dict[str, np.ndarray]]:
        """The program for a dtype, and the arguments."""
        random = np.random.default_rng(3)
        given = [halves_of(random.uniform(self.low, self.high, shape), "bfloat16").astype(np.float32) for shape in self.shapes]
        arguments = [x if dtype == "float32" else halves_of(x, dtype) for x in given]
        arguments += self.others
        kinds = [
            f"%x{n}: Tensor[({', '.join(map(str, x.shape))}{',' if x.ndim == 1 else ''}), {x.dtype.name}]"
            for n, x in enumerate(arguments)
        ]
        call = self.call.replace(_DTYPE, dtype)
        text = f'#[version = "0.0.5"]\ndef @main({", ".join(kinds)}) {{ {call} }}'
        return relay.parse(text), {f"x{n}": x for n, x in enumerate(arguments)}


#: The ranges of functions that are not defined everywhere, or leave the range of float16.
_RANGES = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "power"), (0.1, 3)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.9, 0.9)),
    **dict.fromkeys(("acosh",), (1.1, 3)),
    **dict.fromkeys(("prod", "cumprod"), (0.99, 1.01)),
    **dict.fromkeys(("tan",), (-1, 1)),
}


def _named(names: str, template: str = "{}(%x0)", **options: object) -> list[Operator]:
    return [_ranged(name, Operator(template.format(name), **options)) for name in names.split()]  # type: ignore[arg-type]


def _ranged(name: str, operator: Operator) -> Operator:
    low, high = _RANGES.get(name, (operator.low, operator.high))
    return replace(operator, low=low, high=high)


def _takes_floats(op: Op, inputs: int) -> bool:
    """Whether a call of so many tensors of float32, without attributes, has a result that depends on them."""
    try:
        return len(op.inputs) == inputs and is_float(str(np.atleast_1d(op.dtype(("float32",) * inputs, op.attrs()))[0]))
    except (TypeRelError, TypeError, AttributeError):
        return False


def _registered() -> list[Operator]:
    """A row of each size for elementwise operators and reductions of the registry."""
    found = []
    for name, op in sorted(REGISTRY.items()):
        for shape in (ROWS, FEW) if op.in_language and not name.startswith(("test.", "user.")) else ():
            if op.pattern is OpPattern.ELEMWISE and _takes_floats(op, 1):
                found += _named(name, shapes=(shape,))
            elif op.shape_func is get("add").shape_func and _takes_floats(op, 2):
                found += _named(name, "{}(%x0, %x1)", shapes=(shape, shape))
            elif op.pattern is OpPattern.COMM_REDUCE and name not in ("all", "any"):
                found += [each for axis in (0, 1) for each in _named(name, f"{{}}(%x0, axis=[{axis}])", shapes=(shape,))]
    return found


#: A function of the host that does not read its data: what numpy takes for halves is not a run's time.
_CALLED = numbered(len)
_UNREAD = np.array(_CALLED.__enter__())
_INDICES = np.random.default_rng(1).integers(0, 800, 800)
#: A list of operators, family by family.
OPERATORS = [
    *_registered(),
    *_named("greater equal", "{}(%x0, %x1)", shapes=(ROWS, ROWS)),
    *_named("isfinite isnan"),
    Operator("nn.leaky_relu(%x0, alpha=0.1)"),
    Operator("clip(%x0, a_min=-1.0, a_max=1.0)"),
    Operator("where(greater(%x0, %x1), %x0, %x1)", (ROWS, ROWS)),
    Operator("nn.bias_add(%x0, %x1, axis=1)", (IMAGE, (64,))),
    Operator("nn.prelu(%x0, %x1, axis=1)", (IMAGE, (64,))),
    Operator('cast(%x0, dtype="int32")'),
    Operator("std(%x0, axis=[1])"),
    Operator("logsumexp(%x0, axis=[1])"),
    Operator("nn.softmax(%x0)"),
    Operator("nn.softmax(%x0, axis=0)"),
    Operator("nn.log_softmax(%x0)"),
    *(Operator("nn.layer_norm(%x0, %x1, %x2)", (shape, (256,), (256,))) for shape in (ROWS, FEW)),
    Operator("nn.instance_norm(%x0, %x1, %x2)", (IMAGE, (64,), (64,))),
    Operator("nn.group_norm(%x0, %x1, %x2, num_groups=8)", (IMAGE, (64,), (64,))),
    Operator("nn.lrn(%x0, size=5)", (IMAGE,)),
    Operator("nn.cross_entropy_with_logits(%x0, %x1)", (ROWS, ROWS)),
    Operator("nn.batch_norm(%x0, %x1, %x2, %x3, %x4).0", (IMAGE, (64,), (64,), (64,), (64,)), low=0.1),
    Operator("nn.l2_normalize(%x0, eps=0.001, axis=[1])"),
    Operator("transpose(%x0, axes=[1, 0])"),
    Operator("stack((%x0, %x1), axis=1)", (ROWS, ROWS)),
    Operator("split(%x0, indices_or_sections=2, axis=1).1"),
    Operator("repeat(%x0, repeats=2, axis=1)"),
    Operator("expand_dims(%x0, axis=1)"),
    Operator("reshape(%x0, newshape=[256, 800])"),
    Operator("broadcast_to(%x0, shape=[4, 800, 256])"),
    Operator("gather(%x0, %x1, axis=0)", others=(np.zeros((800, 256), np.int64) + np.arange(800)[:, None],)),
    Operator("trilu(%x0, 0)"),
    Operator("sequence_mask(%x0, %x1)", others=(np.arange(256, dtype=np.int64),)),
    Operator('layout_transform(%x0, src_layout="NCHW", dst_layout="NHWC")', (IMAGE,)),
    *_named("nn.space_to_depth nn.depth_to_space", "{}(%x0, block_size=2)", shapes=(IMAGE,)),
    Operator("nn.dilate(%x0, strides=[1, 1, 2, 2])", (IMAGE,)),
    Operator("transpose(%x0, axes=[0, 2, 3, 1])", (IMAGE,)),
    Operator("concatenate((%x0, %x1), axis=1)", (ROWS, ROWS)),
    Operator("strided_slice(%x0, begin=[0, 1], end=[800, 256], strides=[2, 2])"),
    Operator("take(%x0, %x1, axis=0)", others=(_INDICES,)),
    Operator("gather_nd(%x0, %x1)", others=(_INDICES[None],)),
    Operator('nn.pad(%x0, cast(0f, dtype="DTYPE"), pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]])', (IMAGE,)),
    Operator("tile(%x0, reps=[2, 2])"),
    Operator("reverse(%x0, axis=1)"),
    Operator("image.resize2d(%x0, size=[112, 112])", (IMAGE,)),
    Operator('image.resize2d(%x0, size=[112, 112], method="cubic")', (IMAGE,)),
    Operator("nn.upsampling(%x0, scale_h=2, scale_w=2)", (IMAGE,)),
    *_named("nn.max_pool2d nn.avg_pool2d", "{}(%x0, pool_size=[3, 3], strides=[2, 2], padding=[1, 1])", shapes=(IMAGE,)),
    *_named("nn.max_pool1d nn.avg_pool1d", "{}(%x0, pool_size=[2], strides=[2])", shapes=(SIGNAL,)),
    *_named("nn.max_pool3d nn.avg_pool3d", "{}(%x0, pool_size=[2, 2, 2], strides=[2, 2, 2])", shapes=(FILM,)),
    Operator("image.grid_sample(%x0, %x1)", (IMAGE, (1, 2, 56, 56)), low=-1, high=1),
    Operator(
        "vision.roi_align(%x0, %x1, pooled_size=[7, 7], spatial_scale=50.0, sample_ratio=2)", (IMAGE, (100, 5)), low=0, high=0.9
    ),
    *_named("nn.global_avg_pool2d nn.global_max_pool2d", shapes=(IMAGE,)),
    Operator("nn.adaptive_avg_pool2d(%x0, output_size=[7, 7])", (IMAGE,)),
    Operator("nn.conv2d(%x0, %x1, padding=[1, 1])", (IMAGE, (64, 64, 3, 3))),
    Operator("nn.conv2d(%x0, %x1)", (IMAGE, (64, 64, 1, 1))),
    Operator("nn.conv2d(%x0, %x1, padding=[1, 1], groups=64)", (IMAGE, (64, 1, 3, 3))),
    Operator("nn.conv2d(%x0, %x1, padding=[2, 2], strides=[2, 2], groups=64)", (IMAGE, (64, 1, 5, 5))),
    Operator("nn.conv2d(%x0, %x1, padding=[1, 1], groups=384)", ((1, 384, 14, 14), (384, 1, 3, 3))),
    Operator("nn.conv2d(%x0, %x1, padding=[3, 3], strides=[2, 2])", ((1, 3, 224, 224), (64, 3, 7, 7))),
    Operator("nn.conv2d(%x0, %x1, strides=[2, 2])", (IMAGE, (128, 64, 1, 1))),
    *(Operator("nn.conv2d(%x0, %x1)", ((1, c, n, n), (o, c, 1, 1))) for c, o, n in ((256, 64, 14), (384, 64, 14), (512, 512, 7))),
    Operator("nn.conv2d_transpose(%x0, %x1, strides=[2, 2])", ((1, 32, 28, 28), (32, 32, 2, 2))),
    Operator("nn.conv2d_transpose(%x0, %x1, strides=[2, 2], padding=[1, 1])", ((1, 64, 28, 28), (64, 64, 4, 4))),
    Operator("nn.conv1d(%x0, %x1, padding=[1])", (SIGNAL, (64, 64, 3))),
    Operator("nn.conv1d_transpose(%x0, %x1, strides=[2])", (SIGNAL, (64, 64, 4))),
    Operator("nn.conv3d(%x0, %x1, padding=[1, 1, 1])", (FILM, (16, 16, 3, 3, 3))),
    Operator("nn.conv3d_transpose(%x0, %x1, strides=[2, 2, 2])", (FILM, (16, 16, 2, 2, 2))),
    Operator("nn.dense(%x0, %x1)", (SQUARE, SQUARE)),
    *(Operator("nn.dense(%x0, %x1)", ((rows, 1024), (1024, 1024))) for rows in (1, 8, 33)),
    *(Operator("nn.matmul(%x0, %x1)", ((rows, 1024), (1024, 1024))) for rows in (1, 8, 33)),
    Operator("nn.matmul(%x0, %x1, transpose_a=True)", ((512, 64), (512, 512))),
    Operator("nn.matmul(%x0, %x1)", (SQUARE, SQUARE)),
    Operator("nn.batch_matmul(%x0, %x1)", (BATCH, BATCH)),
    Operator("nn.batch_matmul(%x0, %x1)", ((8, 1, 64), (8, 512, 64))),
    Operator("nn.batch_attention(%x0, %x1, %x2)", ((1, 64, 8, 64),) * 3),
    Operator("nn.batch_attention(%x0, %x1, %x2)", ((1, 1, 8, 64), (1, 512, 8, 64), (1, 512, 8, 64))),
    Operator("vision.multibox_prior(%x0, sizes=[0.5, 0.25], ratios=[1.0, 2.0, 0.5])", (IMAGE,)),
    Operator("host_function(%x1, %x0)", others=(_UNREAD,)),
    Operator("sort(%x0, axis=1)"),
    Operator("argsort(%x0, axis=1)"),
    Operator('topk(%x0, k=10, axis=1, ret_type="values")'),
    *(each for axis in (0, 1) for each in _named("cumsum cumprod", f"{{}}(%x0, axis={axis})")),
    Operator("scatter_elements(%x0, %x1, %x0, axis=0)", others=(np.zeros((800, 256), np.int64) + np.arange(800)[:, None],)),
    Operator('nn.mirror_pad(%x0, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]], mode="REFLECT")', (IMAGE,)),
]


def _listed() -> set[str]:
    """The names of the operators that are called in the list."""
    return {name for operator in OPERATORS for name in re.findall(r"[\w.]+(?=\()", operator.call)}


def operators(rows: Sequence[int]) -> Iterator[Case]:
    """Each operator in both formats; ``rows`` is not read."""
    for operator in OPERATORS:
        real, real_inputs = operator.program("float32")
        for dtype in HALVES:
            program, inputs = operator.program(dtype)
            yield _case(f"{operator.name}, {dtype}", program, real, inputs, real_inputs, dtype)
    from . import recipes

    listed = _listed()
    for op in recipes.of_floats():
        for dtype in HALVES if op.name not in listed else ():
            made, of_real = recipes.drawn(op, dtype), recipes.drawn(op, recipes.REAL)
            widened = [x.astype(recipes.REAL) if x.dtype.name in HALVES else x for x in made.flat]
            program, inputs = recipes.program(op, made, made.flat)
            real, real_inputs = recipes.program(op, of_real, widened)
            sizes = " ".join("x".join(map(str, x.shape)) for x in made.flat[:1])
            case = _case(f"{op.name} {sizes}, {dtype}", program, real, inputs, real_inputs, dtype)
            yield replace(case, error=math.inf) if op.name in _OF_BITS else case


def _case(
    name: str, program: relay.IRModule, real: relay.IRModule, inputs: dict[str, np.ndarray], real_inputs: dict[str, np.ndarray],
    dtype: str,
) -> Case:  # fmt: skip
    return Case(name, program, real, inputs, real_inputs, ERROR * unit(dtype), own_goal=GOAL, peer=False)
