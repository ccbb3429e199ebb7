"""einsum against numpy's, through the compiler: every size unknown, and every size known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.products.einsum import EinsumAttrs, parse_equation
from relayvm.shape_funcs.symbolic.dim import sym


def compiled(equation, arrays, known):
    params = ", ".join(
        f"%x{k}: Tensor[({', '.join(str(d) if known else '?' for d in a.shape)}), {a.dtype}]" if a.ndim else f"%x{k}: {a.dtype}"
        for k, a in enumerate(arrays)
    )
    names = "".join(f"%x{k}, " for k in range(len(arrays)))
    return relayvm.compile(f'#[version = "0.0.5"]\ndef @main({params}) {{ einsum(({names}), equation="{equation}") }}')


def einsum(equation, *arrays, known=False):
    return np.asarray(relayvm.VirtualMachine(compiled(equation, arrays, known)).run(*arrays))


def array(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)


CASES = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij , kj", [(2, 3), (4, 3)]),
    ("ji,jk->ki", [(2, 3), (2, 4)]),
    ("ij->ji", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("i->i", [(3,)]),
    ("ij->", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("iii->i", [(2, 2, 2)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("abcd,cdef->abef", [(2, 3, 4, 5), (4, 5, 2, 3)]),
    ("abcde,bcdf->aef", [(2, 3, 4, 2, 3), (3, 4, 2, 5)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("...ij,...jk", [(2, 3, 4), (2, 4, 2)]),
    ("...,...->...", [(2, 3), (3,)]),
    ("i...->...i", [(2, 3, 4)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i->", [(3,), (3,)]),
    (",i->i", [(), (3,)]),
    ("ijk,k->", [(2, 3, 4), (4,)]),
    ("ij,kj,lk->il", [(2, 3), (4, 3), (5, 4)]),
    ("i,i,i->i", [(3,), (3,), (3,)]),
    ("ij,j->i", [(0, 3), (3,)]),
    ("ij,j->i", [(2, 0), (0,)]),
    ("abcde,efghi->abcdfghi", [(2, 1, 2, 1, 3), (3, 1, 2, 1, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES)
@pytest.mark.parametrize("known", [False, True])
def test_einsum_is_numpys(equation, shapes, known):
    arrays = [array(*shape) for shape in shapes]
    np.testing.assert_array_equal(einsum(equation, *arrays, known=known), np.einsum(equation, *arrays), strict=True)


@pytest.mark.parametrize("dtype", ["float64", "int8", "uint32", "float16"])
def test_dtypes(dtype):
    a, b = array(2, 3, dtype=dtype), array(3, 4, dtype=dtype)
    for equation in ("ij,jk->ik", "ij,jk->i", "ij,jk->ijk"):
        np.testing.assert_array_equal(einsum(equation, a, b), np.einsum(equation, a, b), strict=True)


def test_halves_round_once():
    # 2048 + 1 + 1 + ...: one by one, each addition would be lost
    a, ones = np.array([[2048, *[1] * 9]], "float16"), np.ones(10, "float16")
    for equation, arrays in [("ij,j->i", [a, ones]), ("ij->i", [a]), ("ij,j,j->i", [a, ones, ones])]:
        assert einsum(equation, *arrays) == np.float16(2057)


def test_a_product_of_matrices_is_one():
    exe = compiled("bhqd,bhkd->bhqk", [array(2, 3, 4, 5), array(2, 3, 6, 5)], False)
    groups = [p.group for p in exe.packed]
    products = {replace(g, implementation="") for g in groups if g.name == "nn_batch_matmul"}  # whatever its sizes choose
    assert len(products) == 1 and not [g for g in groups if "sum" in g.name]


@st.composite
def equations(draw):
    letters = {letter: draw(st.integers(0, 3)) for letter in "abcde"}
    parts = draw(st.lists(st.lists(st.sampled_from(sorted(letters)), max_size=3), min_size=1, max_size=3))
    used = sorted({letter for part in parts for letter in part})
    result = draw(st.permutations(used))[: draw(st.integers(0, len(used)))] if used else []
    equation = ",".join(map("".join, parts)) + "->" + "".join(result)
    return equation, [tuple(letters[letter] for letter in part) for part in parts]


@settings(max_examples=60, deadline=None)
@given(equations())
def test_any_equation_has_numpys_shape(case):
    """The shape equals the shape of the expansion, and is known without a run."""
    equation, shapes = case
    wanted = np.einsum(equation, *(np.zeros(s) for s in shapes)).shape
    op = get("einsum")
    ty, _ = relate(op, [tuple(TensorType.of(s) for s in shapes)], EinsumAttrs(equation))
    assert ty == TensorType.of(wanted)
    named = [tuple(sym(letter) for letter in part) for part in equation.partition("->")[0].split(",")]
    ty, checks = relate(op, [tuple(map(TensorType, named))], EinsumAttrs(equation))
    assert ty.shape == tuple(sym(letter) for letter in equation.partition("->")[2]) and not checks


def test_names_of_axes():
    assert parse_equation("...ij,j...", [3, 3]) == ((("...0", "i", "j"), ("j", "...1", "...0")), ("...1", "...0", "i"))
    assert parse_equation("ba", [2]) == ((("b", "a"),), ("a", "b"))
    assert parse_equation("...->...", [0]) == (((),), ())


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk", [(2, 3)], "equation 'ij,jk' is for 2 tensors, 1 are given"),
        ("ij->i", [(2,)], "tensor 0 has 1 dimension, but 'ij' is for 2"),
        ("i->i", [(2, 3)], "tensor 0 has 2 dimensions, but 'i' is for 1"),
        ("ij...->i...", [(2,)], "tensor 0 has 1 dimension, but 'ij...' is for 2"),
        ("i.j->i", [(2, 3)], "equation: tensor 0 is 'i.j'; it takes letters and one ellipsis"),
        ("......", [(2, 3)], "equation: tensor 0 is '......'; it takes letters and one ellipsis"),
        ("ij->ik", [(2, 3)], "equation 'ij->ik' has k in the result, but in no tensor"),
        ("ij->ii", [(2, 3)], "equation 'ij->ii' has i twice in the result"),
        ("...j->j", [(2, 3)], "equation '...j->j' has no ellipsis in the result, so it would lose axes"),
        ("ij,jk", [(2, 3), (4, 2)], "the sizes of j differ: 4 and 3"),
        ("ii", [(2, 3)], "the sizes of i differ: 3 and 2"),
        ("abcde,fghij", [(1,) * 5] * 2, "a product of two tensors would have 10 dimensions; at most 8 are possible"),
        ("...i,...i->...", [(2, 3), (3, 3)], "sizes 2 and 3 do not broadcast"),
    ],
)
def test_wrong_equations(equation, shapes, message):
    with pytest.raises(TypeRelError) as error:
        relate(get("einsum"), [tuple(map(TensorType.of, shapes))], EinsumAttrs(equation))
    assert message in error.value.message and error.value.message.startswith("einsum: ")


def test_wrong_sizes_at_run_time():
    exe = compiled("ij,jk", [array(2, 3), array(3, 4)], False)
    with pytest.raises(relayvm.VMError, match="einsum: the sizes of j differ: 4 and 3"):
        relayvm.VirtualMachine(exe).run(array(2, 3), array(4, 4))


def test_wrong_dtypes():
    with pytest.raises(TypeRelError, match="einsum: data is bool"):
        relate(get("einsum"), [(TensorType.of((2,), "bool"),)], EinsumAttrs("i"))
    with pytest.raises(TypeRelError, match="einsum: field 0 is float32 but field 1 is int8"):
        relate(get("einsum"), [(TensorType.of((2,)), TensorType.of((2,), "int8"))], EinsumAttrs("i,i"))
