"""The largest of elements at equal distances, for neighbouring results: maxima over windows, in vector registers."""

from __future__ import annotations

from typing import Any

from ..code_parts import is_declared_only
from ..memory import set_machine_form, twin
from .products.register_tile import registers_name, vector_bytes

#: The most elements of the data from one result to the next.
MOST_STEP = 2


@twin
def take_largest(data: Any, at: int, taps: int, tap_step: int, step: int, out: Any, to: int, count: int, more: int) -> None:
    """Compute ``out[to + i] = max(data[at + t * tap_step + i * step])`` over ``t`` below ``taps``; NaN if an element is.

    If ``more`` is not 0, the result before is one of the elements.  ``i`` below ``count``; ``step`` is at most MOST_STEP,
    ``taps`` at least 1.  Contiguous arrays of one dtype, which do not share memory.  With a step of 2 the element behind the
    last one is read, too.
    """
    data, out = data.reshape(-1), out.reshape(-1)
    for i in range(int(count)):
        first = int(at + i * step)
        largest = out[int(to + i)] if more else data[first]
        for t in range(int(taps)):
            value = data[int(first + t * tap_step)]
            largest = value if value > largest or value != value else largest
        out[int(to + i)] = largest


def _machine(
    emitter: Any, data: Any, at: Any, taps: Any, tap_step: Any, step: Any, out: Any, to: Any, count: Any, more: Any
) -> None:
    assert data.type.dtype == out.type.dtype, (data, out)
    b, word = emitter.builder, emitter.word
    pointers = [b.gep(array.parts[0], [word(index)]) for array, index in ((data, at), (out, to))]
    after = b.append_basic_block("end")
    of_step = b.switch(word(step), after)
    for n in range(1, MOST_STEP + 1):
        case = b.append_basic_block("step")
        of_step.add_case(word(step).type(n), case)
        b.position_at_end(case)
        function = _LargestFunction(b.module, out.parts[0].type.pointee, out.type.dtype, n).function()
        b.call(function, [pointers[0], word(taps), word(tap_step), pointers[1], word(count), word(more)])
        b.branch(after)
    b.position_at_end(after)


class _LargestFunction:
    """Generator of the LLVM function for elements of one dtype and one ``step``."""

    def __init__(self, module: Any, element: Any, dtype: str, step: int) -> None:
        from llvmlite import ir

        self.module, self.element, self.dtype, self.step, self.word = module, element, dtype, step, ir.IntType(64)
        self.itemsize = 8 if element == ir.DoubleType() else 4 if element == ir.FloatType() else element.width // 8
        self.name = f"relayvm.take_largest.{dtype}.{step}"

    def function(self) -> Any:
        """The function: pointers to data and result, and words."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        pointer, word = self.element.as_pointer(), self.word
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, pointer, word, word])
        function = ir.Function(self.module, kind, self.name)
        element, dtype, step = self.element, self.dtype, self.step

        def again(module: Any) -> Any:
            return _LargestFunction(module, element, dtype, step).function()

        if is_declared_only(function, f"{self.name} {registers_name()}", again):
            return function
        function.linkage = "internal"
        function.attributes.add("noinline")
        self._fill(function)
        return function

    def _fill(self, function: Any) -> None:
        """Emit a loop for each width of vectors, the widest first: all but the first loop run once at most."""
        from llvmlite import ir

        b = ir.IRBuilder(function.append_basic_block("entry"))
        done, width = self.word(0), vector_bytes() // self.itemsize
        while width:
            done = self._results(b, function, done, width)
            width //= 2
        b.ret_void()

    def _results(self, b: Any, function: Any, first: Any, width: int) -> Any:
        """Emit the loop over vectors of ``width`` results, from ``first`` on; the first result behind them."""
        from llvmlite import ir

        data, taps, tap_step, out, count, more = function.args
        before, (head, body, end) = b.block, (function.append_basic_block(name) for name in ("head", "body", "end"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(self.word)
        i.add_incoming(first, before)
        following = b.add(i, self.word(width))
        b.cbranch(b.icmp_signed("<=", following, count), body, end)
        b.position_at_end(body)
        vector = ir.VectorType(self.element, width)
        source = b.gep(data, [b.mul(i, self.word(self.step))])
        place = b.bitcast(b.gep(out, [i]), vector.as_pointer())
        here = self._load(b, source, width)
        with b.if_then(b.icmp_unsigned("!=", more, self.word(0))):
            former, inside = self._larger(b, b.load(place, align=self.itemsize), here, width), b.block
        joined = b.phi(vector)
        joined.add_incoming(here, body)
        joined.add_incoming(former, inside)
        b.store(self._over_taps(b, function, source, joined, width, taps, tap_step), place, align=self.itemsize)
        i.add_incoming(following, b.block)
        b.branch(head)
        b.position_at_end(end)
        return i

    def _over_taps(self, b: Any, function: Any, source: Any, first: Any, width: int, taps: Any, tap_step: Any) -> Any:
        """Emit the loop over the taps after the first; the largest elements."""
        before, (head, body, end) = b.block, (function.append_basic_block(name) for name in ("taps", "tap", "taps.end"))
        b.branch(head)
        b.position_at_end(head)
        t, place, largest = b.phi(self.word), b.phi(source.type), b.phi(first.type)
        for node, value in ((t, self.word(1)), (place, source), (largest, first)):
            node.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", t, taps), body, end)
        b.position_at_end(body)
        next_place = b.gep(place, [tap_step])
        taken = self._larger(b, largest, self._load(b, next_place, width), width)
        for node, value in ((t, b.add(t, self.word(1))), (place, next_place), (largest, taken)):
            node.add_incoming(value, body)
        b.branch(head)
        b.position_at_end(end)
        return largest

    def _load(self, b: Any, place: Any, width: int) -> Any:
        """A vector of elements that are ``step`` apart."""
        from llvmlite import ir

        read = ir.VectorType(self.element, width * self.step)
        loaded = b.load(b.bitcast(place, read.as_pointer()), align=self.itemsize)
        if self.step == 1:
            return loaded
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(0, width * self.step, self.step)))
        return b.shuffle_vector(loaded, ir.Constant(read, ir.Undefined), lanes)

    def _larger(self, b: Any, largest: Any, value: Any, width: int) -> Any:
        from llvmlite import ir

        if isinstance(self.element, ir.IntType):
            compare = b.icmp_unsigned if self.dtype.startswith("u") else b.icmp_signed
            return b.select(compare(">", value, largest), value, largest)
        larger = b.select(b.fcmp_ordered(">", value, largest), value, largest)  # one instruction of many machines
        return b.select(b.fcmp_unordered("uno", value, value), value, larger)


set_machine_form(take_largest, lambda: _machine)
