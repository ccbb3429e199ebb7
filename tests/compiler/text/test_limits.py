"""Programs that are deep, wide, or of numbers without end: they compile, or are refused by a limit that is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.tensor_types import MAX_DEPTH, MAX_FIELDS, MAX_PARTS, FuncType, Type, TypeTooLarge

from ...programs import HEADER

LARGE = 1 << 62


def _main(body: str, params: str = "%x: float32") -> str:
    return f"{HEADER}def @main({params}) {{ {body} }}"


def _nested(n: int, inner: str = "%x") -> str:
    return "(" * n + inner + ",)" * n


def _doubled(n: int) -> str:
    lines = ["let %t0 = (%x, %x);", *(f"let %t{i} = (%t{i - 1}, %t{i - 1});" for i in range(1, n))]
    return " ".join([*lines, f"%t{n - 1}"])


def _list(text: str, n: int) -> str:
    return ", ".join([text] * n)


_FAR = "9" * 5000
REFUSED: dict[str, tuple[str, str]] = {
    "deep_tuple": (_main(_nested(1000)), "a tuple is nested 65 deep; at most 64 is possible"),
    "deep_tuple_type": (_main("%x", f"%x: {_nested(5000, 'float32')}"), "types are nested more than 64 deep"),
    "deep_function_type": (_main("0f", f"%x: {'fn (float32) -> ' * 500} float32"), "types are nested more than 64 deep"),
    "doubled_tuples": (_main(_doubled(40)), "a tuple is made of 32767 types; at most 16384 are possible"),
    "wide_tuple": (_main(f"({_list('%x', 3000)})"), "a tuple has 3000 fields; at most 1024 are possible"),
    "wide_concatenation": (
        _main(f"concatenate(({_list('%x', 1000)}), axis=0)", "%x: Tensor[(2), float32]"),
        "concatenate has 1000 inputs; at most 256 are possible",
    ),
    "parameters": (
        _main("%x0", ", ".join(f"%x{i}: float32" for i in range(1025))),
        "@main has 1025 parameters; at most 1024 are possible",
    ),
    "type_of_a_function": (
        _main("%x", f"%x: {_nested(MAX_DEPTH, 'float32')}"),
        "the type of @main is too large: a function type is nested 65 deep; at most 64 is possible",
    ),
    "deep_attribute": (
        _main("reshape(%x, newshape=" + "[" * 10_000 + "]" * 10_000 + ")"),
        "lists are nested more than 64 deep",
    ),
    "deep_metadata": (_main("%x") + "\n#[metadata]\n" + "[" * 100_000 + "]" * 100_000, "the metadata is nested too deeply"),
    "long_number_of_metadata": (_main("%x") + f"\n#[metadata]\n[{_FAR}]", "the metadata cannot be read"),
    "long_literal": (_main(_FAR), "this number has 5000 digits; at most 400 are read"),
    "long_literal_with_suffix": (_main(f"{_FAR}i64"), "this number has 5000 digits; at most 400 are read"),
    "long_attribute": (_main(f"reshape(%x, newshape=[{_FAR}])"), "this number has 5000 digits; at most 400 are read"),
    "long_size": (_main("%x", f"%x: Tensor[({_FAR}), int8]"), "a number of 5000 digits is out of range"),
    "long_field": (_main(f"(%x,).{_FAR}"), "a number of 5000 digits is out of range"),
    "long_constant_number": (_main(f"meta[relay.Constant][{_FAR}]"), "the metadata has no constant"),
    "size_beyond_int64": (_main("%x", f"%x: Tensor[({2**63}), int8]"), "9223372036854775808 is out of range"),
    "attribute_beyond_int64": (
        _main(f"reshape(%x, newshape=[{2**63}])"),
        "reshape: attribute newshape: 9223372036854775808 is out of range: int64 holds",
    ),
    "elements_of_a_parameter": (
        _main("sum(%x)", f"%x: Tensor[({LARGE}, 4), float32]"),
        "parameter %x of @main would take 18446744073709551616 elements",
    ),
    "bytes_of_a_parameter": (
        _main("%x", f"%x: Tensor[(0, {LARGE}), float32]"),
        "parameter %x of @main would take 18446744073709551616 bytes",
    ),
    "bytes_of_a_result": (
        _main(f'zeros(shape=[0, {LARGE}], dtype="float32")', ""),
        "zeros: the known sizes of the result already make 18446744073709551616 bytes",
    ),
    "bytes_of_a_workspace": (
        _main(f'sort(zeros(shape=[{LARGE}], dtype="int8"))', ""),
        "bytes of memory, more than can be addressed",
    ),
    "sum_of_sizes": (
        _main("concatenate((%x, %x), axis=0)", f"%x: Tensor[({LARGE}), int8]"),
        "concatenate: axis 0 of the result would have the size 9223372036854775808",
    ),
    "product_of_a_size": (
        _main(f"tile(tile(%x, reps=[{LARGE}]), reps=[4])", "%x: Tensor[(?n), int8]"),
        "tile: its shapes are computed with 18446744073709551616, which does not fit into 64 bits",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_at_its_place(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises((relay.ParseError, relay.TypeCheckError)) as caught:
        relay.compile(text)
    first = caught.value.diagnostics[0]
    assert message in first.message, first.message
    assert first.span is not None and len(str(caught.value)) < 4000


TAKEN: dict[str, tuple[str, Any]] = {
    "parentheses": (_main("(" * 10_000 + "%x" + ")" * 10_000), 1.0),
    "tuples": (_main(f"{_nested(MAX_DEPTH)}{'.0' * MAX_DEPTH}"), 1.0),
    "tuple_types": (_main(f"%x{'.0' * (MAX_DEPTH - 1)}", f"%x: {_nested(MAX_DEPTH - 1, 'float32')}"), 1.0),
    "fields": (_main(f"let %t = ({_list('%x', MAX_FIELDS)}); %t.{MAX_FIELDS - 1}"), 1.0),
    "doubled": (_main(f"let %t = {{ {_doubled(12)} }}; %t{'.0' * 12}"), 1.0),
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    text, wanted = TAKEN[name]
    given: Any = np.float32(1)
    if name == "tuple_types":
        for _ in range(MAX_DEPTH - 1):
            given = (given,)
    mod = relay.parse(text)
    assert relay.structural_equal(mod, relay.parse(relay.astext(mod)))
    assert float(relay.VirtualMachine(relay.compile(mod)).run(given).numpy()) == wanted


def test_all_parameters_that_there_may_be() -> None:
    text = _main(f"add(%x0, %x{MAX_FIELDS - 1})", ", ".join(f"%x{i}: float32" for i in range(MAX_FIELDS)))
    given = [np.float32(i) for i in range(MAX_FIELDS)]
    assert float(relay.VirtualMachine(relay.compile(text)).run(*given).numpy()) == MAX_FIELDS - 1


def test_what_a_closure_captures_is_counted() -> None:
    """The closure has few parameters; its captured values count, too."""
    params = [relay.var(f"x{i}", shape=()) for i in range(MAX_FIELDS)]
    y = relay.var("y", shape=())
    inner = relay.Function([y], relay.Tuple([y, relay.Tuple(params)]))
    body = relay.Call(relay.If(relay.var("c", shape=(), dtype="bool"), inner, inner), [params[0]])
    condition = body.op.cond
    with pytest.raises(relay.TypeCheckError, match=r"at most 1024 are possible|more than 1024 arguments"):
        relay.compile(relay.Function([condition, *params], body))


def test_types_name_their_limits() -> None:
    ty: Type = relay.TensorType.of((), "float32")
    for _ in range(MAX_DEPTH):
        ty = relay.TupleType((ty,))
    with pytest.raises(TypeTooLarge, match="a tuple is nested 65 deep; at most 64 is possible"):
        relay.TupleType((ty,))
    with pytest.raises(TypeTooLarge, match="a function type is nested 65 deep"):
        FuncType((), ty)
    wide = relay.TupleType((relay.TensorType.of(()),) * MAX_FIELDS)
    with pytest.raises(TypeTooLarge, match=f"a tuple is made of .* types; at most {MAX_PARTS} are possible"):
        relay.TupleType((wide,) * 16)
    with pytest.raises(TypeTooLarge, match="a function has 1025 parameters"):
        FuncType((relay.TensorType.of(()),) * (MAX_FIELDS + 1), wide)


SIZES: dict[str, tuple[str, Any]] = {
    "product_of_data": ('dyn.zeros(%s, dtype="int8")', (LARGE, 4)),
    "bytes": ('dyn.zeros(%s, dtype="float32")', (1 << 31, 1 << 33)),
    "sum": ('let %z = dyn.zeros(%s, dtype="int8"); concatenate((%z, %z, %z), axis=0)', (LARGE, 0)),
    "broadcast": ("dyn.broadcast_to(1f, %s)", (1 << 40, 1 << 40)),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_overflow_at_run_time(name: str) -> None:
    body, sizes = SIZES[name]
    machine = relay.VirtualMachine(relay.compile(_main(body, "%s: Tensor[(2), int64]")))
    with pytest.raises(relay.VMError, match="a size is negative or too large"):
        machine.run(np.array(sizes))


def test_a_shape_put_together_of_parts_of_unknown_length() -> None:
    """The elements of one are known, its length is a ``?``."""
    text = _main('stack((%ix, dyn.full(7i64, shape_of(%ix, dtype="int64"))), axis=0)', "%ix: Tensor[(2), int64]")
    found = relay.VirtualMachine(relay.compile(text)).run(np.arange(2))
    assert found.numpy().tolist() == [[0, 1], [7, 7]]


@pytest.mark.parametrize("limit", ["memory_limit_bytes", "stack_limit_bytes", "link_bytes_per_s"])
def test_a_limit_beyond_int64_is_none(limit: str) -> None:
    exe = relay.compile(_main("add(%x, 1f)"))
    assert float(relay.VirtualMachine(exe, **{limit: 1 << 70}).run(1.0).numpy()) == 2.0


def test_elements_beside_an_empty_axis_are_not_counted_out() -> None:
    text = '#[version = "0.0.5"]\ndef @main() { ones(shape=[1099511627776, 0], dtype="uint64") }'
    assert relay.VirtualMachine(relay.compile(text)).run().shape == (1 << 40, 0)


@pytest.mark.parametrize("begin", [1 << 62, (1 << 63) - 1])
def test_an_empty_slice_that_begins_beyond_every_address(begin: int) -> None:
    text = _main(f"nn.fast_softmax(strided_slice(%x, begin=[{begin}], end=[1]))", "%x: Tensor[(3, 4), float32]")
    assert relay.VirtualMachine(relay.compile(text)).run(np.ones((3, 4), "float32")).shape == (0, 4)
