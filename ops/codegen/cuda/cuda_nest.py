"""Components of a CUDA C kernel: its parameters, its sizes, and elements as functions of an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....shape_funcs.symbolic.dim import ELEMENT, SYM, Dim, axis_size, const, postorder, product
from ....shape_funcs.symbolic.dim_operations import substitute
from ....shape_funcs.symbolic.int_operations import FLOORDIV, MOD
from ...core.group import Group
from ...core.tensor_types import computed_in, is_float
from ..loop_nest.expression_text import indented
from ..loop_nest.linear_index import Lowered
from ..loop_nest.size_prologue import Sizes
from ..loop_nest.statements import KernelContext, Writer
from .assembly import Assembly, Parameter, Parameters, divisor, in_memory, size
from .cuda_program import Data, Extent, Fault, Launch, Site
from .cuda_text import CudaC
from .vector_access import Packed

#: The parameters of a kernel that may fail.
_FAULT: Parameters = (Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site()))


class CudaKernel(Sizes):
    """The beginning of one kernel: parameters, sizes and divisors."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, CudaC())
        self.language: CudaC
        self.context = KernelContext(self.size, self.array, self.language)
        self._passed: dict[str, Parameter] = {}
        #: The tensors that may alias another tensor.
        self.shared = {k for param, result in group.in_place for k in (param, len(group.params) + result)}

    def parameters(self, body: str) -> Parameters:
        """The parameters that ``body`` needs."""
        return (*self._passed.values(), *(_FAULT if "fail(" in body else ()))

    def pass_(self, parameter: Parameter) -> str:
        """Add a parameter to the kernel; return its name."""
        return self._passed.setdefault(parameter.name, parameter).name

    def define(self, name: str, text: str) -> str:
        return f"const auto {name} = {text};"

    def array(self, position: int) -> str:
        """The elements of a parameter or of a result, which is written."""
        kind = in_memory(self.tensors[position].dtype)
        read = "const " if position < len(self.group.params) else ""
        alone = "" if position in self.shared else " __restrict__"
        return self.pass_(Parameter(f"{read}{kind}*{alone}", f"x{position}", Data(position)))

    def axis(self, position: int, axis: int) -> str:
        return self.pass_(size(f"n{position}_{axis}", self.launch_size(position, axis)))

    def launch_size(self, position: int, axis: int) -> Dim:
        """The size of an axis, as known at launch."""
        dim = self.tensors[position].shape[axis]
        if const(dim) is not None or (dim.op == SYM and position < len(self.group.params)):
            return dim
        return axis_size(position, axis)

    def launch_count(self, position: int) -> Dim:
        """The number of elements of a tensor, as known at launch."""
        return product(self.launch_size(position, axis) for axis in range(len(self.tensors[position].shape)))

    def known_at_launch(self, dims: Sequence[Dim]) -> Dim | None:
        """The product of ``dims``, as known at launch; None if the host does not know a value that a dim is computed from."""
        known = {d: self.launch_size(*place) for d, place in self._sizes.items()}
        parts = postorder(dims, stop=known)
        if any(d.op in (ELEMENT, SYM) and d not in known for d in parts):
            return None
        return product(substitute(d, known) for d in dims)

    def size(self, dim: Dim) -> str:
        """A size, or an expression over sizes and run-time values.  Divisions are the host's, where it knows their operands."""
        if dim not in self._names and any(d.op in (FLOORDIV, MOD) for d in postorder([dim], stop=self._sizes)):
            known = self.known_at_launch([dim])
            if known is not None:
                self._names[dim] = self.pass_(size(f"size{len(self._passed)}", known))
        return super().size(dim)

    def element(self, position: int, number: int) -> str:
        wide = "float64" if is_float(self.tensors[position].dtype) else "int64"
        return f"{wide}(value_of({self.array(position)}[{number}]))"

    def count(self, extents: Sequence[Dim]) -> str:
        """The product of extents, as a name or a number."""
        names = [self.size(d) for d in extents if const(d) != 1]
        if not names:
            return "1"
        return names[0] if len(names) == 1 else self.once(("count", *names), "c", " * ".join(f"int64({n})" for n in names))

    def quotient(self, number: str, extent: Dim, all_extents: Sequence[Dim]) -> str:
        """The quotient of a number below the product of ``all_extents`` by ``extent``."""
        by, total = self.known_at_launch([extent]), self.known_at_launch(all_extents)
        if by is None or total is None:
            return f"floor_quotient({number}, {self.size(extent)})"
        key = ("divisor", by, total)
        if key not in self._names:
            self._names[key] = f"q{sum(isinstance(what, tuple) and what[0] == 'divisor' for what in self._names)}"
            self.pass_(divisor(self._names[key], by, total))
        return f"{self._names[key]}.quotient({number})"

    def unravel_index(self, index: str, extents: Sequence[Dim], first: int = 0) -> list[str]:
        """Statements that split linear index ``index`` over ``extents`` into loop indices, numbered from ``first``."""
        lines, rest = list[str](), index
        real = [k for k, d in enumerate(extents) if const(d) != 1]
        for k in reversed(range(len(extents))):
            if k not in real:
                lines.append(f"const int64 i{first + k} = 0;")
            elif k == real[0]:
                lines.append(f"const int64 i{first + k} = {rest};")
            else:
                lines.append(f"const int64 r{first + k} = {self.quotient(rest, extents[k], extents)};")
                lines.append(f"const int64 i{first + k} = {rest} - r{first + k} * {self.size(extents[k])};")
                rest = f"r{first + k}"
        return lines


@dataclass
class Elements:
    """The elements of a nest as functions: ``outer`` are statements before the loops, ``rows`` those of the kept loops;
    ``element`` and ``pack`` are function bodies over the indices of all loops; a pack has ``width`` elements.  ``fits``: the body
    of a function that returns whether packs are straight from its index on."""

    dtype: str
    outer: list[str]
    rows: list[str]
    element: list[str]
    pack: list[str] = field(default_factory=list)
    fits: list[str] = field(default_factory=list)
    width: int = 1


def elements(
    kernel: CudaKernel,
    lowered: Lowered,
    kept: int,
    packs: Packed | None,
    stored: str | None = None,
    is_straight: bool = False,
    given: Sequence[str] = (),
) -> Elements:
    """The text of a nest's elements.  The first ``kept`` loops are outside the functions.

    A pack holds computed values, or values converted by the template ``stored``.  ``is_straight``: a variable
    ``straight`` tells whether ``fits`` was true.  ``given``: statements before each element of a pack, whose
    loop index is the last.
    """
    depth, dtype = len(lowered.extents), lowered.table[lowered.element].dtype
    writer = Writer(lowered.table, depth, kernel.context)
    # A statement that may fail or read is placed inside all loops: it runs only for elements that exist.
    value = writer.value(lowered.element, floor=depth)
    first = max(min(kept + 1, depth), 0)  # the first region inside the functions
    rows = [line for region in writer.regions[1:first] for line in region]
    inside = [line for region in writer.regions[first:] for line in region]
    made = Elements(dtype, writer.regions[0] if depth else [], rows, [*inside, f"return {_as(stored, value)};"])
    if packs is not None:
        _pack(kernel, made, packs, depth, kept, stored, is_straight, given)
        if is_straight:
            _fits(kernel, made, packs, depth)
    return made


def _fits(kernel: CudaKernel, made: Elements, packs: Packed, depth: int) -> None:
    writer, terms = Writer(packs.table, depth + 1, kernel.context), list[str]()
    for cell in packs.loads if packs.is_plain else ():
        offset, distance = (writer.value(a, floor=depth) for a in cell.args)
        terms.append(f"is_straight<{packs.width}>({kernel.array(cell.what)} + {offset}, {distance})")
    made.fits = [line for region in writer.regions for line in region]
    made.fits.append(f"return {' && '.join(terms) or str(packs.is_plain).lower()};")


def _pack(
    kernel: CudaKernel,
    made: Elements,
    packs: Packed,
    depth: int,
    kept: int,
    stored: str | None,
    is_straight: bool,
    given: Sequence[str],
) -> None:
    writer = Writer(packs.table, depth + 1, kernel.context.with_language(CudaC(packs.width, is_straight)))
    value = writer.value(packs.element, floor=depth)
    made.outer += writer.regions[0]
    made.rows += [line for region in writer.regions[1 : kept + 1] for line in region]
    inside = [line for region in writer.regions[kept + 1 : depth + 1] for line in region]
    each = [*given, *writer.regions[depth + 1], f"pack.at[i{depth}] = {_as(stored, value)};"]
    kind = pack_type(made.dtype, packs.width, stored is not None)
    made.pack = [
        *inside,
        f"{kind} pack;",
        "#pragma unroll",
        f"for (int i{depth} = 0; i{depth} < {packs.width}; ++i{depth}) {{",
        *indented(each),
        "}",
        "return pack;",
    ]
    made.width = packs.width


def pack_type(dtype: str, width: int, stored: bool) -> str:
    """The type of a pack of elements: as stored in memory, or as computed."""
    return f"Pack<{in_memory(dtype) if stored else computed_in(dtype)}, {width}>"


def _as(stored: str | None, value: str) -> str:
    return stored.format(value) if stored else value


def launch(assembly: Assembly, name: str, blocks: Extent, parts: Extent = 1) -> None:
    """Add a launch of a kernel with its declared threads; nothing if it never has a block."""
    _, parameters, threads = assembly.kernels[name]
    if 0 not in (const(blocks), const(parts)):
        assembly.steps.append(Launch(name, (blocks, parts, 1), (threads, 1, 1), tuple(p.argument for p in parameters)))


def function(name: str, result: str, body: list[str], more: str = "") -> list[str]:
    """A local function of an int64 ``at``, and of ``more`` parameters."""
    return [f"auto {name} = [&](int64 at{more}) -> {result} {{", *indented(body), "};"]
