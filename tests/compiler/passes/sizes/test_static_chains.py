"""Chains of ``dyn.*`` operators over shapes: the static forms, the programs that stay dynamic, equal results with and without."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes.infer_type import infer_sizes, infer_type
from relayvm.compiler.passes.sizes.dynamic_to_static import dynamic_to_static
from relayvm.ops.core.op import Op

from ..generated_programs import run, same, typed

pytestmark = pytest.mark.many


def operators(mod: IRModule, name: str = "main") -> list[str]:
    """The operators of a function's calls, in order, without those of the shapes' arithmetic."""
    found = [v.op.name for v in values(mod[name].body) if isinstance(v, Call) and isinstance(v.op, Op)]
    return [n for n in found if n.startswith("dyn.") or n in STATIC]


STATIC = ("reshape", "zeros", "ones", "broadcast_to", "strided_slice", "tile", "squeeze", "full")


def static(text: str) -> IRModule:
    mod = dynamic_to_static(typed(text))
    check(mod, "dynamic_to_static", typed=True)
    assert dynamic_to_static(mod) is mod, "a second run changes it again"
    return mod


def newshape(params: str, shape: str) -> Any:
    """``newshape`` of the static form of a reshape of ``%x`` to sizes ``%d0``, ``%d1`` ...; None if it stays dynamic."""
    rank = params.split("]")[0].count(",")
    sizes = "".join(f"let %d{k} = strided_slice(%s, begin=[{k}], end=[{k + 1}]);" for k in range(rank))
    mod = static(f'def @main({params}) {{ let %s = shape_of(%x, dtype="int64"); {sizes} dyn.reshape(%x, {shape}) }}')
    calls = [v for v in values(mod["main"].body) if isinstance(v, Call) and isinstance(v.op, Op)]
    return getattr(next(c for c in calls if c.op.name.endswith("reshape")).attrs, "newshape", None)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 40])
@pytest.mark.parametrize("shapes", [("2, 3", "1, 6"), ("?n, 4", "?n, 2, 2"), ("?n, ?m, 8", "?n, ?m, 2, 4")])
def test_chains_of_any_length(shapes: tuple[str, str], length: int) -> None:
    lines = ['let %a0 = dyn.reshape(%x, shape_of(%y, dtype="int64"));']
    for k in range(1, length):
        lines.append(f'let %a{k} = dyn.reshape({("%y", "%x")[k % 2]}, shape_of(%a{k - 1}, dtype="int64"));')
    params = ", ".join(f"%{v}: Tensor[({s}), float32]" for v, s in zip("xy", shapes, strict=True))
    mod = static(f"def @main({params}) {{ {' '.join(lines)} %a{length - 1} }}")
    assert operators(mod) == ["reshape"] * length
    assert str(mod["main"].body.ty) == str(mod["main"].params[1].ty)


B, N, F = "%x: Tensor[(?b, ?s, ?d), float32]", "%x: Tensor[(?n, 4, ?m), float32]", "%x: Tensor[(?n, 4), float32]"


@pytest.mark.parametrize(
    ("params", "shape", "expected"),
    [
        ("%x: Tensor[(?b, ?s, 768), float32]", "concatenate((multiply(%d0, %d1), %d2), axis=0)", (-3, 0)),
        ("%x: Tensor[(?b, 8, 12, 64), float32]", "concatenate((%d0, %d1, multiply(%d2, %d3)), axis=0)", (0, 0, 768)),
        ("%x: Tensor[(?b, 8, ?h, 64), float32]", "concatenate((%d0, %d1, multiply(%d2, %d3)), axis=0)", (0, 0, -3)),
        ("%x: Tensor[(?n, ?m), float32]", "prod(%s, axis=[0], keepdims=True)", (-3,)),
        ("%x: Tensor[(?n, ?m, 5), float32]", "prod(%s, axis=[0], keepdims=True)", (-1,)),
        (F, "subtract(add(%s, %s), %s)", (0, 0)),
        (F, "multiply(%d0, %d1)", (-3,)),
        (F, "concatenate((%d0, %d1, %d1), axis=0)", (0, 0, 4)),  # both forms fail
        (f"{F}, %y: Tensor[(2, 2), float32]", 'concatenate((%d0, shape_of(%y, dtype="int64")), axis=0)', (0, 2, 2)),
        ("%x: Tensor[(6, ?n), float32]", "reverse(%s, axis=0)", (-1, 6)),
        (B, "reverse(%s, axis=0)", None),  # two sizes of other places
        (B, "concatenate((multiply(%d0, %d1), %d2), axis=0)", None),  # s = d = 0: (b, 0)
        (N, "concatenate((multiply(%d0, %d1), %d2), axis=0)", None),  # n = m = 0: as it is; m = 0 only: (4 * n, 4)
        (N, "concatenate((%d0, multiply(%d1, %d2)), axis=0)", None),  # n = m = 0: (0, 4)
        (f"{F}, %k: Tensor[(1), int64]", "concatenate((%k, %d1), axis=0)", None),
        (F, "subtract(%s, %d1)", None),  # n - 4 may be -1
    ],
)
def test_sizes_of_named_dims(params: str, shape: str, expected: Any) -> None:
    assert newshape(params, shape) == expected


LAST = 2**63 - 1
ZERO, ONE = (f'{name}(shape=[2], dtype="int64")' for name in ("zeros", "ones"))


@pytest.mark.parametrize(
    ("begin", "end", "strides", "expected"),
    [
        (ZERO, "%s", ONE, ((0, 0), (LAST, 3), (1, 1))),
        (ONE, f"subtract(%s, {ONE})", f"add({ONE}, {ONE})", ((1, 1), (-1, 2), (2, 2))),
        (f"subtract(%s, {ONE})", "%s", ONE, ((-1, 2), (LAST, 3), (1, 1))),
        (ZERO, f"subtract(%s, add({ONE}, {ONE}))", ONE, None),  # n - 2 is -1 where n is 1
        ("%s", ZERO, f"negative({ONE})", None),
        (ZERO, "%k", ONE, None),
    ],
)
def test_bounds_of_slices(begin: str, end: str, strides: str, expected: Any) -> None:
    params = "%x: Tensor[(?n, 3), float32], %k: Tensor[(2), int64]"
    mod = static(
        f'def @main({params}) {{ let %s = shape_of(%x, dtype="int64"); dyn.strided_slice(%x, {begin}, {end}, {strides}) }}'
    )
    (call,) = [v for v in values(mod["main"].body) if isinstance(v, Call) and "strided_slice" in str(v.op)]
    found = (call.attrs.begin, call.attrs.end, call.attrs.strides) if operators(mod)[-1] == "strided_slice" else None
    assert found == expected


@pytest.mark.parametrize(
    ("begin", "size", "expected"),
    [
        ("[0, 1]", "[-1, 2]", ((0, 1), (-1, 2))),
        ("[0, 0]", "%s", ((0, 0), (2**63 - 1, 3))),
        ("[0, 0]", "subtract(%s, 1i64)", None),  # not -1, which is the size up to the end
        ("[0, 0]", "%k", None),
    ],
)
def test_sizes_of_slices(begin: str, size: str, expected: Any) -> None:
    params = "%x: Tensor[(?n, 3), float32], %k: Tensor[(2), int64]"
    text = f'{{ let %s = shape_of(%x, dtype="int64"); dyn.strided_slice(%x, {begin}, {size}, [1, 1], slice_mode="size") }}'
    mod = static(f"def @main({params}) {text}")
    (call,) = [v for v in values(mod["main"].body) if isinstance(v, Call) and "strided_slice" in str(v.op)]
    assert call.attrs.slice_mode == "size"
    assert ((call.attrs.begin, call.attrs.end) if operators(mod)[-1] == "strided_slice" else None) == expected


def test_every_operator_of_known_sizes() -> None:
    mod = static("""def @main(%x: Tensor[(2, 3), float32]) {
        let %a = dyn.zeros(shape_of(%x, dtype="int64"), dtype="float32");
        let %b = dyn.tile(%a, shape_of(%a, dtype="int64"));
        let %c = dyn.broadcast_to(1f, shape_of(%b, dtype="int64"));
        let %d = dyn.full(2f, shape_of(%c, dtype="int64"));
        let %e = dyn.ones(shape_of(%d, dtype="int64"));
        dyn.reshape(%e, prod(shape_of(%e, dtype="int64"), axis=[0], keepdims=True))
    }""")
    assert operators(mod) == ["zeros", "tile", "broadcast_to", "full", "ones", "reshape"]
    assert str(mod["main"].body.ty) == "Tensor[(36), float32]"


# ---- function types --------------------------------------------------------------------------------------------------


def test_results_of_functions_and_their_declared_types() -> None:
    mod = static("""
        def @inner(%x: Tensor[(2, 3), float32], %y: Tensor[(6), float32]) -> Tensor[(?), float32] {
          dyn.reshape(%x, shape_of(%y, dtype="int64"))
        }
        def @middle(%x: Tensor[(2, 3), float32]) -> (Tensor[(?, ?), float32], Tensor[(?), float32]) {
          let %a = @inner(%x, zeros(shape=[6], dtype="float32"));
          (dyn.reshape(%x, concatenate((shape_of(%a, dtype="int64"), ones(shape=[1], dtype="int64")), axis=0)), %a)
        }
        def @main(%x: Tensor[(2, 3), float32], %z: Tensor[(?n, 4), float32])
            -> (Tensor[(?, ?), float32], Tensor[(?, ?, ?), float32]) {
          (dyn.zeros(shape_of(@middle(%x).0, dtype="int64")), dyn.reshape(%z, shape_of(expand_dims(%z, axis=1), dtype="int64")))
        }""")
    assert [str(mod[name].ret_type) for name in ("inner", "middle", "main")] == [
        "Tensor[(6), float32]",
        "(Tensor[(6, 1), float32], Tensor[(6), float32])",
        "(Tensor[(6, 1), float32], Tensor[(?n, 1, 4), float32])",
    ]
    assert relay.transform.InferType()(relay.parse(mod.astext()))["main"].ret_type == mod["main"].ret_type


def test_declared_types_stay_where_no_size_is_found() -> None:
    text = "def @main(%x: Tensor[(2, 3), float32], %s: Tensor[(2), int64]) -> Tensor[(?, 3), float32] { dyn.reshape(%x, %s) }"
    assert str(static(text)["main"].ret_type) == "Tensor[(?, 3), float32]"


def test_branches_with_static_forms_of_one_size() -> None:
    mod = static("""def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(6), float32], %c: bool) {
        let %a = if (%c) { dyn.reshape(%x, shape_of(%y, dtype="int64")) } else { %y };
        dyn.zeros(shape_of(%a, dtype="int64"))
    }""")
    assert operators(mod) == ["zeros", "reshape"]


def test_a_static_size_that_a_use_refuses_stays_dynamic() -> None:
    mod = static("""
        def @refused(%x: Tensor[(2, 3), float32], %y: Tensor[(6), float32], %c: bool) {
          if (%c) { add(dyn.reshape(%x, shape_of(%y, dtype="int64")), zeros(shape=[5], dtype="float32")) }
          else { zeros(shape=[5]) }
        }
        def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(6), float32]) {
          (@refused(%x, %y, False), dyn.reshape(%x, shape_of(%y, dtype="int64")))
        }
    """)
    assert "dyn.reshape" in operators(mod, "refused") and operators(mod) == ["reshape"]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_shapes_of_both_dtypes(dtype: str) -> None:
    mod = static(f"""def @main(%x: Tensor[(?n, 4), float32], %y: Tensor[(?n, 2, 2), float32]) {{
        let %a = dyn.reshape(%x, shape_of(%y, dtype="{dtype}"));
        let %b = dyn.reshape(%y, shape_of(%a, dtype="{dtype}"));
        let %s = cast(shape_of(%b, dtype="{dtype}"), dtype="int64");
        dyn.reshape(%b, prod(%s, axis=[0], keepdims=True))
    }}""")
    assert operators(mod) == ["reshape", "reshape", "reshape"]


def test_a_shape_of_int8_is_known_only_where_its_sizes_are_numbers() -> None:
    text = 'def @main(%x: Tensor[({}), float32]) {{ dyn.reshape(%x, cast(shape_of(%x, dtype="int64"), dtype="int8")) }}'
    with_numbers, with_names = text.format("2, 3"), text.format("?n, 3")
    assert operators(static(with_numbers)) == ["reshape"]
    assert operators(static(with_names)) == ["dyn.reshape"]  # 256 + 3 is 3


# ---- equal results ---------------------------------------------------------------------------------------------------

SHAPES = ("?n, ?m", "?n, 4", "4, ?n", "?n, 2, ?m", "?n, ?m, 3", "?m, ?n, ?n")


@st.composite
def chains(draw: st.DrawFn) -> str:
    """A program that reshapes values of two shapes again and again, to sizes of each other and their products."""
    shapes = [draw(st.sampled_from(SHAPES)) for _ in "xy"]
    lines, pool, sizes = [], ["%x", "%y"], ["%one"]
    for v, shape in zip("xy", shapes, strict=True):
        lines.append(f'let %s{v} = shape_of(%{v}, dtype="int64");')
        for k in range(shape.count(",") + 1):
            lines.append(f"let %{v}{k} = strided_slice(%s{v}, begin=[{k}], end=[{k + 1}]);")
            sizes.append(f"%{v}{k}")
    whole = [f"%s{v}" for v in "xy"]
    for n in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            parts = draw(st.lists(st.lists(st.sampled_from(sizes), min_size=1, max_size=2), min_size=1, max_size=4))
            products = [p[0] if len(p) == 1 else f"multiply({p[0]}, {p[1]})" for p in parts]
            shape = f"concatenate(({', '.join(products)},), axis=0)"
        else:
            shape = draw(st.sampled_from(whole))
        lines.append(
            f'let %v{n} = dyn.reshape({draw(st.sampled_from(pool))}, {shape}); let %w{n} = shape_of(%v{n}, dtype="int64");'
        )
        pool.append(f"%v{n}")
        whole.append(f"%w{n}")
    params = ", ".join(f"%{v}: Tensor[({shape}), float32]" for v, shape in zip("xy", shapes, strict=True))
    return f'def @main({params}) {{ let %one = ones(shape=[1], dtype="int64"); {" ".join(lines)} ({", ".join(pool)}) }}'


#: A vector takes the shape of the matrix that it was: one size becomes two.
SPLIT = """def @main(%x: Tensor[(?n, 4), float32]) { let %s = shape_of(%x, dtype="int64");
let %v = dyn.reshape(%x, multiply(strided_slice(%s, begin=[0], end=[1]), strided_slice(%s, begin=[1], end=[2])));
let %w = dyn.reshape(%v, %s); (%x, %w) }"""


@settings(max_examples=100)
@given(chains(), st.integers(0, 3), st.integers(0, 3))
@example(SPLIT, 2, 0)
def test_a_result_of_the_dynamic_form_is_the_result_of_the_static_form(text: str, n: int, m: int) -> None:
    _agree(text, n, m)


@pytest.mark.parametrize("shape", [*SHAPES, "?n, 4, ?m", "2, ?n, ?m, 3"])
def test_merged_axes_at_all_small_sizes(shape: str) -> None:
    rank = shape.count(",") + 1
    for cuts in itertools.product((False, True), repeat=rank - 1):
        groups = [[0]]
        for axis, cut in enumerate(cuts, 1):
            groups.append([axis]) if cut else groups[-1].append(axis)
        sizes = "".join(
            f'let %d{k} = strided_slice(shape_of(%x, dtype="int64"), begin=[{k}], end=[{k + 1}]);' for k in range(rank)
        )
        parts = ", ".join(functools.reduce(lambda a, b: f"multiply({a}, {b})", (f"%d{k}" for k in g)) for g in groups)
        text = f"def @main(%x: Tensor[({shape}), float32]) {{ {sizes} dyn.reshape(%x, concatenate(({parts},), axis=0)) }}"
        for n, m in itertools.product(range(3), repeat=2):
            _agree(text, n, m)


#: Sizes as exporters take them from shapes.
SIZES = """let %s = shape_of(%x, dtype="int64"); let %one = ones(shape=[1], dtype="int64");
let %infer = subtract(%one, add(%one, %one));
let %n = strided_slice(%s, begin=[0], end=[1]); let %m = strided_slice(%s, begin=[2], end=[3]);
let %front = strided_slice(%s, begin=[0], end=[2]); let %four = strided_slice(%s, begin=[3], end=[4]);"""


@pytest.mark.parametrize(
    ("result", "operator"),
    [
        # a transpose of a known rank, between reshapes
        ("""let %t = transpose(dyn.reshape(%x, concatenate((%infer, %m, %four), axis=0)), axes=[0, 2, 1]);
            dyn.reshape(%t, concatenate((%front, %four, %m), axis=0))""", "transpose(%x, axes=[0, 1, 3, 2])"),
        # -1 where a size of 0 stays 0
        ("dyn.reshape(%x, concatenate((%n, %m, %infer), axis=0), allowzero=True)", "reshape(%x, newshape=[0, -1, 24])"),
    ],
)  # fmt: skip
def test_chains_of_exporters_are_static(result: str, operator: str) -> None:
    text = f"def @main(%x: Tensor[(?n, 6, ?m, 4), float32]) {{ {SIZES} {result} }}"
    assert operator in str(dynamic_to_static(infer_sizes(typed(text)))["main"])
    # numpy has no reshape that takes a -1 beside 0
    for n, m in itertools.product(range("allowzero" in result, 3), repeat=2):
        _agree(text, n, m)


def test_sizes_of_operators_without_a_static_form() -> None:
    text = f"""def @main(%x: Tensor[(?n, 1, ?m, 4), float32]) {{ {SIZES} let %ones = ones(shape=[4], dtype="int64");
        let %wanted = concatenate((%n, %m, %m, %four), axis=0);
        dyn.broadcast_to(%x, where(equal(%wanted, %ones), %ones, %wanted)) }}"""
    assert str(infer_type(typed(text))["main"].body.ty) == "Tensor[(?, ?, ?, ?), float32]"
    assert str(infer_sizes(typed(text))["main"].body.ty) == "Tensor[(?n, ?m, ?m, 4), float32]"
    same_shape = f"def @main(%x: Tensor[(?n, 1, ?m, 4), float32]) {{ {SIZES} dyn.broadcast_to(%x, %s) }}"
    assert "reshape(%x, newshape=[0, 0, 0, 0])" in str(dynamic_to_static(infer_sizes(typed(same_shape)))["main"])


def _agree(text: str, n: int, m: int) -> None:
    """Check that the program has equal results with and without the pass, unless it fails without the pass."""
    mod = infer_sizes(typed(text))
    rng = np.random.default_rng(0)
    sizes = {"n": n, "m": m}
    given_ = [
        rng.normal(size=[sizes[str(d)] if str(d) in sizes else int(str(d)) for d in p.ty.shape]) for p in mod["main"].params
    ]
    try:
        expected = run(mod, *given_)
    except (ValueError, IndexError, ZeroDivisionError):
        return  # the dynamic form fails
    out = dynamic_to_static(mod)
    check(out, "dynamic_to_static", typed=True)
    assert same(run(out, *given_), expected)
    assert str(infer_sizes(out)["main"].body.ty) == str(out["main"].body.ty)
