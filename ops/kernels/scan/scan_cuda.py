"""The parts that scans of rows and of columns on CUDA share: an element's summand, the combination of sums, the tensors."""

from __future__ import annotations

from dataclasses import dataclass

from ....shape_funcs.symbolic.dim import Dim
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, element, reads, size, writes
from ...codegen.cuda.cuda_program import Operand
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE, computed_in

#: Threads of a block.
THREADS = 256


@dataclass
class Scan:
    """A scan along the middle of three axes, ``outer``, ``length`` and ``inner``; its sums are of ``sum_type``."""

    assembly: Assembly
    data: Operand
    out: Operand
    sum_type: str
    exclusive: bool
    outer: Dim
    length: Dim
    inner: Dim

    def begin(self, join: str, start: int) -> None:
        """Add device code: an element's summand, the combination of sums, and the stored form of a sum."""
        data, out = self.data.dtype, self.out.dtype
        value = converted("number(element)", computed_in(data), computed_in(out))
        self.assembly.text(
            NUMBER,
            DIVISOR,
            element("data_at", self.data),
            f"typedef {self.sum_type} Sum;\ntypedef {join} Join;\nconst Sum START = {start};\n"
            f"DEVICE Sum summand({data} element) {{ return Sum({value}); }}\n"
            "template <int N, class F> DEVICE void each(F f) {\n#pragma unroll\n  for (int i = 0; i < N; ++i) f(i);\n}\n"
            f"DEVICE {out} stored(Sum sum) {{ return {converted('sum', self.sum_type, out)}; }}\n",
        )

    @property
    def width(self) -> int:
        """Elements of a pack: 16 bytes of the wider of both tensors."""
        return ACCESS // max(ITEMSIZE[self.data.dtype], ITEMSIZE[self.out.dtype])

    @property
    def is_loaded(self) -> bool:
        """Whether the data have an address; a literal has none."""
        return self.data.position is not None

    def add(self, name: str, body: str, parameters: tuple[Parameter, ...], grid: Dim) -> None:
        """Add a kernel with the tensors, their sizes and ``parameters``, and its launch."""
        sizes = (size("outer", self.outer), size("length", self.length), size("inner", self.inner))
        self.assembly.kernel(name, THREADS, (reads("data", self.data), writes("out", self.out), *sizes, *parameters), body)
        self.assembly.launch(name, grid)

    def texts(self) -> dict[str, object]:
        """The words of the kernels' texts that both scans have."""
        return {
            "threads": THREADS,
            "width": self.width,
            "dtype": self.data.dtype,
            "out": self.out.dtype,
            "exclusive": str(self.exclusive).lower(),
        }
