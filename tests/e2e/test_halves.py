"""float16 and bfloat16 from text to results: compiled, folded, saved, exchanged with others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.comparison.result_check import ResultsDiffer, check_agreement
from relayvm.compiler.text.literals import literal_text, read_literal
from relayvm.compiler.text.parser import parse
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.disassembly import disassembly
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.values import dlpack

from ..arrays import wide
from ..devices import DEVICES

#: Both halves; one of them in `make test`.
BOTH = pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.extensive), "bfloat16"])
DEVICE = pytest.mark.parametrize("device", DEVICES)
SUFFIX = {"float16": "f16", "bfloat16": "bf16"}

NORM = """#[version = "0.0.5"]
def @main(%x: Tensor[({n}, 4), {dtype}], %w: Tensor[(3, 4), {dtype}]) {{
  let %c = %x - mean(%x, axis=1, keepdims=True);
  let %y = nn.relu(%c * 1.5{suffix}) + exp(%x) / 3{suffix};
  let %z = nn.softmax(nn.dense(%y, %w));
  let %t = topk(%z, k=2, axis=1);
  (%y, %z, %t.0, %t.1, cast(sum(%y, axis=0), dtype="float32"))
}}
"""


def text(program: str, dtype: str, **names: Any) -> str:
    return program.format(dtype=dtype, suffix=SUFFIX[dtype], **names)


def drawn(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(numpy_dtype(dtype))


def expected(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    """In float32, rounded where a tensor of the program's dtype is stored whatever is fused."""
    wide_x = wide(x)
    y = np.maximum((wide_x - wide_x.mean(1, keepdims=True)) * 1.5, 0) + np.exp(wide_x) / 3
    logits = wide(y.astype(x.dtype)) @ wide(w).T
    e = np.exp(logits - logits.max(1, keepdims=True))
    z = e / e.sum(1, keepdims=True)
    order = np.argsort(-z, 1, kind="stable")[:, :2]
    return [y, z, np.take_along_axis(z, order, 1), order, y.sum(0)]


@BOTH
@DEVICE
@pytest.mark.parametrize("fuse", ["on", "off"])
@pytest.mark.parametrize("n", ["?n", "5"])
@pytest.mark.extensive(fuse=["on"], n=["?n"])
@pytest.mark.spread("fuse", "n")
def test_a_small_network(dtype: str, device: str, fuse: str, n: str) -> None:
    vm = relay.VirtualMachine(relay.compile(text(NORM, dtype, n=n), target=device, fuse=fuse))
    x, w = drawn(dtype, 5, 4), drawn(dtype, 3, 4)
    got = [r.numpy() for r in vm.run(x, w)]
    assert [g.dtype.name for g in got] == [dtype] * 3 + ["int32", "float32"]
    eps = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    for ours, want in zip(got, expected(x, w), strict=True):
        if ours.dtype != np.int32:
            np.testing.assert_allclose(wide(ours), want, rtol=4 * eps, atol=4 * eps)
    if n == "?n":
        assert [r.shape for r in vm.run(x[:0], w)] == [(0, 4), (0, 3), (0, 2), (0, 2), (4,)]


@BOTH
@DEVICE
@settings(max_examples=10)
@given(values=st.lists(st.floats(-1e3, 1e3, width=16), min_size=1, max_size=9))
def test_fused_or_not_within_one_rounding(dtype: str, device: str, values: list[float]) -> None:
    source = text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), {dtype}]) {{ exp(-abs(%x)) + %x }}', dtype)
    x = np.array(values, numpy_dtype(dtype))
    fused, apart = (
        wide(relay.VirtualMachine(relay.compile(source, target=device, fuse=fuse)).run(x).numpy()) for fuse in (True, False)
    )
    exact = np.exp(-np.abs(wide(x))) + wide(x)
    # an exponential that is off in the last places of a float32 may round to the neighbour
    low, high = (wide((exact + off).astype(x.dtype)) for off in np.float32([-(2.0**-22), 2.0**-22]))
    assert ((low <= fused) & (fused <= high)).all()
    # the exponential, at most 1, is rounded by itself, and then the sum
    eps = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    assert (np.abs(apart - exact) <= 1.01 * eps * (np.abs(exact) + 1)).all()


@BOTH
@DEVICE
@pytest.mark.parametrize("fuse", ["on", "off"])
def test_a_cast_rounds_though_nothing_is_stored(dtype: str, device: str, fuse: str) -> None:
    source = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), float32]) {{ cast(cast(%x, dtype="{dtype}"), dtype="float32") * 3f }}'
    )
    x = np.array([1 / 3, -1e-6, 70000.0, 1 + 2.0**-9, 0.0], np.float32)
    result = relay.VirtualMachine(relay.compile(text(source, dtype), target=device, fuse=fuse)).run(x).numpy()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, wide(x.astype(numpy_dtype(dtype))) * 3)


@BOTH
@DEVICE
def test_a_size_from_values(dtype: str, device: str) -> None:
    source = (
        '#[version = "0.0.5"]\ndef @main(%a: {dtype}, %b: {dtype}, %c: {dtype}) {{ arange(%a, %b, %c, dtype="{dtype}") * %c }}'
    )
    vm = relay.VirtualMachine(relay.compile(text(source, dtype), target=device))
    for start, stop, step in [(0, 5, 1), (0.5, 3, 0.25), (3, 3, 1), (4, -1, -1.5)]:
        three = [np.array(v, numpy_dtype(dtype)) for v in (start, stop, step)]
        np.testing.assert_array_equal(wide(vm.run(*three).numpy()), np.arange(start, stop, step, np.float32) * np.float32(step))


SUMS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?m, ?n), {dtype}]) {{
  let %wide = cast(%x, dtype="float32");
  (sum(%wide, axis=[0]), sum(%wide, axis=[1]), sum(%x, axis=[0]), sum(%x, axis=[1]))
}}
"""


@BOTH
def test_rows_of_any_length(dtype: str) -> None:
    """Elements behind whole vectors are computed, and no elements behind the result."""
    program = """#[version = "0.0.5"]
    def @main(%x: Tensor[(?m, ?n), {dtype}], %y: Tensor[(?m, 1), {dtype}]) {{ (floor(%x * 9{suffix}), nn.relu(%x + %y)) }}
    """
    vm = relay.VirtualMachine(relay.compile(text(program, dtype), target="cpu"))
    for m, n in [(0, 3), (3, 0), (1, 1), *((3, n) for n in (15, 16, 17, 31, 33, 100))]:
        x, y = drawn(dtype, m, n), drawn(dtype, m, 1)
        floors, sums = (found.numpy() for found in vm.run(x, y))
        np.testing.assert_array_equal(wide(floors), wide(np.floor(wide(x) * 9).astype(x.dtype)))
        np.testing.assert_array_equal(wide(sums), wide(np.maximum(wide(x) + wide(y), 0).astype(x.dtype)))


@BOTH
def test_sums_of_many_halves(dtype: str) -> None:
    """Sums of halves have the precision of float32, over runs of any length; those of halves are rounded once more."""
    vm = relay.VirtualMachine(relay.compile(text(SUMS, dtype), target="cpu"))
    unit = np.finfo(np.float16).eps if dtype == "float16" else 2.0**-7
    for shape in [(0, 3), (3, 0), (1, 1), (7, 9), (8, 17), (9, 8193), (8193, 3)]:
        x = drawn(dtype, *shape)
        exact = wide(x).astype(np.float64)
        for number, found in enumerate(vm.run(x)):
            axis = number % 2
            want, most = exact.sum(axis), np.abs(exact).sum(axis)
            apart = np.abs(wide(found.numpy()).astype(np.float64) - want)
            assert (apart <= 2.0**-18 * most + (unit * np.abs(want) if number > 1 else 0)).all(), (shape, number)


# ---- text, constants, files ------------------------------------------------------------------------------------------------


@BOTH
@settings(max_examples=200)
@given(bits=st.integers(0, 2**16 - 1))
def test_every_literal_reads_back(dtype: str, bits: int) -> None:
    value = np.array(bits, np.uint16).view(numpy_dtype(dtype))
    written = literal_text(value)
    if written is None:  # a NaN with a payload
        assert np.isnan(wide(value))
        return
    again = read_literal(written)
    assert (again.dtype, again.tobytes()) == (value.dtype, value.tobytes())


@pytest.mark.parametrize(
    ("written", "dtype", "value"),
    [
        ("1.5f16", "float16", 1.5), ("2bf16", "bfloat16", 2.0), ("-0.1f16", "float16", -0.0999755859375),
        ("1e-3bf16", "bfloat16", 0.00099945068359375), ("65504f16", "float16", 65504.0),
        ("inff16", "float16", np.inf), ("-infbf16", "bfloat16", -np.inf),
    ],
)  # fmt: skip
def test_literals_in_a_program(written: str, dtype: str, value: float) -> None:
    module = parse(f'#[version = "0.0.5"]\ndef @main() {{ {written} }}')
    assert str(parse(str(module))) == str(module)
    result = relay.VirtualMachine(relay.compile(module)).run()
    assert (result.dtype.name, result.item()) == (dtype, value)


@pytest.mark.parametrize(
    ("written", "largest"), [("65520f16", "largest float16 is 65504.0"), ("3.4e38bf16", "largest bfloat16 is 3.3895313892")]
)
def test_literals_out_of_range(written: str, largest: str) -> None:
    with pytest.raises(relay.ParseError, match=largest):
        parse(f'#[version = "0.0.5"]\ndef @main() {{ {written} }}')


CONSTANTS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), {dtype}], %c: Tensor[(3), {dtype}]) {{
  %x * sum(exp(%c)) + cast(2, dtype="{dtype}")
}}
"""


@BOTH
@DEVICE
def test_constants_are_folded_saved_and_loaded(dtype: str, device: str) -> None:
    c, x = drawn(dtype, 3), drawn(dtype, 7)
    exe = relay.compile(text(CONSTANTS, dtype), target=device, params={"c": c})
    assert "exp(" not in disassembly(exe) and not any("exp" in packed.name for packed in exe.packed)
    loaded = from_bytes(to_bytes(exe))
    assert {a.dtype.name for a in loaded.constants} <= {dtype} and to_bytes(loaded) == to_bytes(exe)
    summed = wide(np.exp(wide(c)).astype(c.dtype)).sum().astype(c.dtype)
    want = (wide(x) * wide(summed) + 2).astype(c.dtype)
    for program in (exe, loaded):
        np.testing.assert_array_equal(relay.VirtualMachine(program).run(x).numpy().view(np.uint16), want.view(np.uint16))


@BOTH
def test_constants_in_the_metadata_of_a_text(dtype: str) -> None:
    x = relay.var("x", (3,), dtype)
    data = np.array([0x7FC1, 0x0001, 0xFF80], np.uint16).view(numpy_dtype(dtype))  # NaN with a payload, subnormal, infinity
    function = relay.Function([x], relay.where(x > relay.const(0.5, dtype), relay.const(data), x * 2))
    again = parse(relay.astext(relay.IRModule({"main": function})))
    result = relay.VirtualMachine(relay.compile(again)).run(np.ones(3, numpy_dtype(dtype)))
    np.testing.assert_array_equal(result.numpy().view(np.uint16), data.view(np.uint16))


_WITHOUT_RUNNING = """
import sys, relayvm
from relayvm.compiler.text.parser import parse
assert "ml_dtypes" not in sys.modules
module = parse(open(sys.argv[1]).read())
assert str(parse(str(module))) == str(module)
exe = relayvm.compile(module, target="sim")
exe.save(sys.argv[2])
print(relayvm.Executable.load(sys.argv[2]).disassembly)
"""


def test_nothing_depends_on_who_imported_ml_dtypes(tmp_path: Path) -> None:
    """Reading, compiling, printing and saving, in a process where nobody did."""
    path = tmp_path / "x.relay"
    path.write_text(text(NORM, "bfloat16", n="?n"))
    command = [sys.executable, "-c", _WITHOUT_RUNNING, str(path), str(tmp_path / "x.rvm")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "bfloat16" in done.stdout


# ---- arguments and results ---------------------------------------------------------------------------------------------------

DOUBLE = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), {dtype}]) {{ %x + %x }}'


@BOTH
@DEVICE
def test_exchange_by_dlpack(dtype: str, device: str) -> None:
    vm = relay.VirtualMachine(relay.compile(text(DOUBLE, dtype), target=device))
    other = relay.VirtualMachine(relay.compile(text(DOUBLE, dtype)))
    x = drawn(dtype, 3, 4)
    result = vm.run(x)
    for copy in (None, True):
        if copy and device == "cuda":  # the consumer would take the host's copy for memory of the GPU
            with pytest.raises(BufferError, match="a copy on the GPU is the consumer's to make"):
                result.__dlpack__(max_version=(1, 0), copy=copy)
            continue
        capsule = result.__dlpack__(max_version=(1, 0), copy=copy)
        assert dlpack._kind(capsule).value == {"float16": 2, "bfloat16": 4}[dtype]

    class Foreign:
        """Someone else's tensor."""

        def __dlpack__(self, **options: Any) -> Any:
            return dlpack.capsule(x, options.get("max_version"))

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    for given_x in (x, Foreign()):
        np.testing.assert_array_equal(wide(other.run(given_x).numpy()), wide(x) * 2)
    np.testing.assert_array_equal(wide(other.run(result).numpy()), wide(x) * 4)
    assert dlpack.as_array(result).dtype == x.dtype


@BOTH
def test_arguments_as_people_give_them(dtype: str) -> None:
    vm = relay.VirtualMachine(relay.compile(text(DOUBLE, dtype)))
    element = numpy_dtype(dtype)
    x = drawn(dtype, 4, 6)
    for given_x in (x, x.T, x[::2, 1:], np.asfortranarray(x), x[:0]):
        np.testing.assert_array_equal(wide(vm.run(given_x).numpy()), wide(given_x) * 2)
    for given_list in ([[1, 2.5]], [[1, 2]], ((0.1,),)):
        want = wide(np.array(given_list, element)) * 2
        np.testing.assert_array_equal(wide(vm.run(given_list).numpy()), want)
    scalar = relay.VirtualMachine(relay.compile(text('#[version = "0.0.5"]\ndef @main(%x: {dtype}) {{ %x + %x }}', dtype)))
    for one in (1.5, element.type(1.5), np.array(1.5, element)):
        assert scalar.run(one).item() == 3.0
    assert float(scalar.run(2)) == 4.0


@BOTH
def test_what_does_not_fit_is_said(dtype: str) -> None:
    vm = relay.VirtualMachine(relay.compile(text(DOUBLE, dtype)))
    other = next(d for d in HALVES if d != dtype)
    for wrong in (other, "float32", "uint16"):
        with pytest.raises(relay.InputError, match=f"%x has dtype {wrong}, not {dtype}"):
            vm.run(np.zeros((2, 2), numpy_dtype(wrong)))
    with pytest.raises(relay.InputError, match=f"%x has dtype int64, not {dtype}"):
        vm.run([[2**20 + 1, 1]])
    with pytest.raises(relay.TypeCheckError, match=f"add: lhs is {dtype} but rhs is float32"):
        relay.compile(text('#[version = "0.0.5"]\ndef @main(%x: {dtype}) {{ %x + 1f }}', dtype))
    with pytest.raises(relay.TypeCheckError, match=f"bitwise_not: data is {dtype}; supported: int8"):
        relay.compile(text('#[version = "0.0.5"]\ndef @main(%x: {dtype}) {{ bitwise_not(%x) }}', dtype))


@BOTH
def test_results_agree_up_to_their_own_rounding(dtype: str) -> None:
    one, next_one = (np.array([bits], np.uint16).view(numpy_dtype(dtype)) for bits in (0x3C00, 0x3C01))
    check_agreement(one, next_one)
    check_agreement(np.array([np.nan, np.inf], numpy_dtype(dtype)), np.array([np.nan, np.inf], numpy_dtype(dtype)))
    with pytest.raises(ResultsDiffer):
        check_agreement(one, (wide(one) * 1.25).astype(one.dtype))


@BOTH
def test_inputs_of_the_command_line(dtype: str, tmp_path: Path) -> None:
    from relayvm.compiler.inputs.given_inputs import draw, parse_input

    assert parse_input(f"x={dtype}[2]=0.1")[1].tolist() == np.full(2, 0.1, numpy_dtype(dtype)).tolist()
    assert draw("x", dtype, (3,), 0).dtype == numpy_dtype(dtype)
    x = drawn(dtype, 3)
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(parse_input(f"x=@{tmp_path}/x.npy")[1].view(np.uint16), x.view(np.uint16))
