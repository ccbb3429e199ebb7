"""The parts that scans of rows and of columns on CUDA share: an element's summand, the combination of sums, the tensors."""

from __future__ import annotations

from dataclasses import dataclass

from ....shape_funcs.symbolic.dim import Dim
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, element, in_memory, reads, size, writes
from ...codegen.cuda.cuda_program import Operand
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE, computed_in

#: Threads of a block.
THREADS = 256

_HELD = """
// A pack in as few registers as its bytes take.  The compiler takes the pack for another one each time, and converts its elements
// again: it would hold their summands otherwise, in twice the registers or more.
template <class T, int N> struct Held {
  uint32 words[(sizeof(T) * N + 3) / 4];
  DEVICE void operator=(const Pack<T, N>& pack) {
    words[sizeof(words) / 4 - 1] = 0;
    memcpy(words, &pack, sizeof(pack));
#pragma unroll
    for (int i = 0; i < int(sizeof(words) / 4); ++i) asm volatile("" : "+r"(words[i]));
  }
  DEVICE operator Pack<T, N>() const {
    uint32 copies[sizeof(words) / 4];
#pragma unroll
    for (int i = 0; i < int(sizeof(words) / 4); ++i) {
      copies[i] = words[i];
      if (sizeof(T) < sizeof(Sum)) asm volatile("" : "+r"(copies[i]));
    }
    Pack<T, N> pack;
    memcpy(&pack, copies, sizeof(pack));
    return pack;
  }
};
"""


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
            "template <int N, class F> DEVICE void each(F f) {\n#pragma unroll\n  for (int i = 0; i < N; ++i) f(i);\n}\n",
            _HELD,
            f"DEVICE {out} stored(Sum sum) {{ return {converted('sum', self.sum_type, out)}; }}\n",
        )

    @property
    def width(self) -> int:
        """Elements of a pack: 16 bytes of the wider of both tensors, up to 8 elements, whose sums are in registers."""
        return ACCESS // max(ITEMSIZE[self.data.dtype], ITEMSIZE[self.out.dtype], 2)

    @property
    def posted_words(self) -> int:
        """The words of a sum that is posted (see ``look_back``)."""
        return 2 if ITEMSIZE[self.sum_type] == 8 else 1

    @property
    def is_loaded(self) -> bool:
        """Whether the data have an address; a literal has none."""
        return self.data.position is not None

    def add(self, name: str, body: str, parameters: tuple[Parameter, ...], grid: Dim, resident: int = 1) -> None:
        """Add a kernel with the tensors, their sizes and ``parameters``, and its launch."""
        sizes = (size("outer", self.outer), size("length", self.length), size("inner", self.inner))
        self.assembly.kernel(
            name, THREADS, (reads("data", self.data), writes("out", self.out), *sizes, *parameters), body, resident
        )
        self.assembly.launch(name, grid)

    def texts(self) -> dict[str, object]:
        """The words of the kernels' texts that both scans have."""
        return {
            "threads": THREADS,
            "width": self.width,
            "dtype": in_memory(self.data.dtype),
            "element": self.data.dtype,
            "out": self.out.dtype,
            "exclusive": str(self.exclusive).lower(),
        }
