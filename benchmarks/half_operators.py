"""Programs of one call each, of tensors of a typical size, for ``format_halves.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from half_networks import words

#: Shapes: rows of a text, an image's channels, a matrix, a batch of matrices.
ROWS, IMAGE, SQUARE, BATCH = (800, 256), (1, 64, 56, 56), (512, 512), (8, 64, 64)
#: Stands for the dtype in a program.
_DTYPE = "DTYPE"


@dataclass(frozen=True)
class Operator:
    """A call over parameters %x0, %x1, ... of these shapes; ``others``: further parameters, by name, of other dtypes.

    ``low``: the least number, of which the largest is 3.  All numbers are halves of both dtypes.
    """

    call: str
    shapes: tuple[tuple[int, ...], ...] = (ROWS,)
    others: tuple[np.ndarray, ...] = ()
    low: float = -3.0

    @property
    def name(self) -> str:
        """The first line of the row."""
        return self.call.split("(")[0] + (f" {self.call}" if "," in self.call.split(")")[0] else "")

    def program(self, dtype: str) -> tuple[str, list[np.ndarray]]:
        """The text for a dtype, with open first axes, and the arguments."""
        random = np.random.default_rng(3)
        given = [words(random.uniform(self.low, 3, shape), "bfloat16").astype(np.float32) for shape in self.shapes]
        arguments = [x if dtype == "float32" else words(x, dtype) for x in given]
        arguments += self.others
        kinds = [
            f"%x{n}: Tensor[({', '.join(map(str, x.shape))}{',' if x.ndim == 1 else ''}), {x.dtype.name}]"
            for n, x in enumerate(arguments)
        ]
        call = self.call.replace(_DTYPE, dtype)
        return f'#[version = "0.0.5"]\ndef @main({", ".join(kinds)}) {{ {call} }}', arguments


def _named(names: str, template: str = "{}(%x0)", **options: object) -> list[Operator]:
    return [Operator(template.format(name), **options) for name in names.split()]  # type: ignore[arg-type]


_INDICES = np.random.default_rng(1).integers(0, 800, 800)
#: A list of operators, family by family.
OPERATORS = [
    *_named("ceil floor round rint trunc sign"),
    *_named("abs negative sigmoid tanh erf exp sin cos nn.relu isfinite copy"),
    *_named("log log2 sqrt rsqrt", low=0.1),
    *_named("add subtract multiply divide maximum minimum greater", "{}(%x0, %x1)", shapes=(ROWS, ROWS)),
    *_named("floor_mod", "{}(%x0, %x1)", shapes=(ROWS, ROWS)),
    *_named("power", "{}(%x0, %x1)", shapes=(ROWS, ROWS), low=0.1),
    Operator("nn.leaky_relu(%x0, alpha=0.1)"),
    Operator("clip(%x0, a_min=-1.0, a_max=1.0)"),
    Operator("where(greater(%x0, %x1), %x0, %x1)", (ROWS, ROWS)),
    Operator("nn.bias_add(%x0, %x1, axis=1)", (IMAGE, (64,))),
    Operator('cast(%x0, dtype="int32")'),
    *_named("sum mean max min argmax variance", "{}(%x0, axis=[1])"),
    *_named("sum max", "{}(%x0, axis=[0])"),
    Operator("nn.softmax(%x0)"),
    Operator("nn.softmax(%x0, axis=0)"),
    Operator("nn.log_softmax(%x0)"),
    Operator("nn.layer_norm(%x0, %x1, %x2)", (ROWS, (256,), (256,))),
    Operator("nn.batch_norm(%x0, %x1, %x2, %x3, %x4).0", (IMAGE, (64,), (64,), (64,), (64,)), low=0.1),
    Operator("nn.l2_normalize(%x0, eps=0.001, axis=[1])"),
    Operator("transpose(%x0, axes=[1, 0])"),
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
    *_named("nn.global_avg_pool2d nn.global_max_pool2d", shapes=(IMAGE,)),
    Operator("nn.adaptive_avg_pool2d(%x0, output_size=[7, 7])", (IMAGE,)),
    Operator("nn.conv2d(%x0, %x1, padding=[1, 1])", (IMAGE, (64, 64, 3, 3))),
    Operator("nn.conv2d(%x0, %x1)", (IMAGE, (64, 64, 1, 1))),
    Operator("nn.conv2d(%x0, %x1, padding=[1, 1], groups=64)", (IMAGE, (64, 1, 3, 3))),
    Operator("nn.conv2d(%x0, %x1, padding=[2, 2], strides=[2, 2], groups=64)", (IMAGE, (64, 1, 5, 5))),
    Operator("nn.conv2d_transpose(%x0, %x1, strides=[2, 2])", ((1, 32, 28, 28), (32, 32, 2, 2))),
    Operator("nn.conv1d(%x0, %x1, padding=[1])", ((1, 64, 800), (64, 64, 3))),
    Operator("nn.dense(%x0, %x1)", (SQUARE, SQUARE)),
    Operator("nn.dense(%x0, %x1)", ((1, 1024), (1024, 1024))),
    Operator("nn.matmul(%x0, %x1)", (SQUARE, SQUARE)),
    Operator("nn.batch_matmul(%x0, %x1)", (BATCH, BATCH)),
    Operator("nn.batch_matmul(%x0, %x1)", ((8, 1, 64), (8, 512, 64))),
    Operator("nn.batch_attention(%x0, %x1, %x2)", ((1, 64, 8, 64),) * 3),
    Operator("nn.batch_attention(%x0, %x1, %x2)", ((1, 1, 8, 64), (1, 512, 8, 64), (1, 512, 8, 64))),
    Operator("sort(%x0, axis=1)"),
    Operator("argsort(%x0, axis=1)"),
    Operator('topk(%x0, k=10, axis=1, ret_type="values")'),
    Operator("cumsum(%x0, axis=1)"),
    Operator("scatter_elements(%x0, %x1, %x0, axis=0)", others=(np.zeros((800, 256), np.int64) + np.arange(800)[:, None],)),
    Operator('nn.mirror_pad(%x0, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]], mode="REFLECT")', (IMAGE,)),
]
