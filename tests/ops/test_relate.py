"""Type relations: result types and their errors, shape programs of groups, and groups read from a file."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm import ops  # noqa: F401  (registers)
from relayvm.ops.analysis.untrusted_group import group_from_json
from relayvm.ops.core.copy_reason import CopyKind, CopyReason
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, NoAttrs, Op, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import Tensor, TensorType, TupleType
from relayvm.ops.core.type_relation import Need, build_group, host_reads, relate, shape_program
from relayvm.shape_funcs.symbolic.dim import RESULT, Dim, dim, is_nonneg, postorder, sym
from relayvm.shape_funcs.symbolic.registry import (
    SHAPE_FUNCS,
    InputFlags,
    ShapeFunc,
    register_shape_func,
    replace_shape_func,
    restore_shape_func,
)


@pytest.fixture
def sum_of_tuple() -> Iterator[Op]:
    """An operator whose first size is the sum of the values of a tuple of tensors."""

    @register_shape_func("test.sum_of_tuple", data_dependent=[True, False])
    def body(inputs: Any, attrs: Any) -> Any:
        parts, other = inputs
        return (sum((v for p in parts for v in p.values), dim(0)), *other.shape)

    kernel = Kernel(name="sum", body=lambda *a: 0)
    yield Op(
        name="test.sum_of_tuple",
        doc="x",
        inputs=("parts*", "other"),
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: dtypes[1],
        kernels=(kernel,),
    )
    del REGISTRY["test.sum_of_tuple"], SHAPE_FUNCS["test.sum_of_tuple"]


N, M = sym("n"), sym("m")
D0, D1 = sym("d0"), sym("d1")


def attrs_of(name: str, **given: Any) -> Any:
    return get(name).attrs(**given)


def t(*shape: Any, dtype: str = "float32") -> TensorType:
    return TensorType.of(shape, dtype)


def result(name: str, types: list[Any], constants: Any = None, **attrs: Any) -> Any:
    return relate(get(name), types, attrs_of(name, **attrs), constants)[0]


# ---- result types ----------------------------------------------------------------------------------------------------


def test_dims_that_are_known_equal_stay_the_same_object() -> None:
    out = result("add", [t(N, 4), t(N, 1)])
    assert out == t(N, 4)
    assert result("concatenate", [(t(N, 4), t(M, 4))], axis=0) == t(N + M, 4)


def test_a_call_that_was_seen_before_has_its_own_result() -> None:
    """Attributes that are equal in Python are not the same: 1 is no bool."""
    assert result("sum", [t(N, 4)], axis=(1,), keepdims=True) == t(N, 1)
    with pytest.raises(TypeRelError, match="attribute keepdims must be bool, not 1"):
        result("sum", [t(N, 4)], axis=(1,), keepdims=1)
    assert result("sum", [t(N, 4)], axis=(1,), keepdims=False) == t(N)


def test_a_replaced_shape_function_is_asked() -> None:
    assert result("exp", [t(N, 4)]) == t(N, 4)
    replace_shape_func(ShapeFunc("exp", lambda inputs, attrs: inputs[0].shape[:1], InputFlags(False)))
    try:
        assert result("exp", [t(N, 4)]) == t(N)
    finally:
        restore_shape_func("exp")
    assert result("exp", [t(N, 4)]) == t(N, 4)


def test_checks_are_left_for_run_time() -> None:
    ty, checks = relate(get("add"), [t(N), t(5)], NoAttrs())
    assert ty == t(5)
    assert [c.message for c in checks] == ["add: sizes {} and {} do not broadcast (axis 0 of argument 2)"]


def test_several_results_are_a_tuple() -> None:
    out = result("split", [t(N, 6)], indices_or_sections=3, axis=1)
    assert out == TupleType((t(N, 2),) * 3)


def test_run_time_values_become_sizes() -> None:
    out = result("dyn.reshape", [t(N, 4), t(2, dtype="int64")])
    assert out.rank == 2
    assert all(is_nonneg(d) for d in out.shape)
    assert out.shape[0] is not out.shape[1]
    other = result("dyn.reshape", [t(N, 4), t(2, dtype="int64")])
    assert out.shape[0] is not other.shape[0]


def test_values_that_are_constants_are_known() -> None:
    assert result("dyn.reshape", [t(N, 4), t(2, dtype="int64")], [None, np.array([2, -1])]) == t(2, N * 2)
    begin, end, strides = np.array([1]), np.array([3]), np.array([1])
    types = [t(9, 4), *[t(1, dtype="int64")] * 3]
    assert result("dyn.strided_slice", types, [None, begin, end, strides]) == t(2, 4)
    scalars = [t(dtype="float32")] * 3
    assert result("arange", scalars, [np.float32(0), np.float32(1), np.float32(0.25)], dtype="float32") == t(4)


def test_counts_of_the_kernel_are_names() -> None:
    ty = result("argwhere", [t(N, 4)])
    (found, rank) = ty.shape
    assert found.op == "sym" and rank is dim(2)
    unique = result("unique", [t(N)], return_counts=True)
    first, second, inverse, number, counts = unique.fields
    assert first.shape == second.shape == counts.shape
    assert inverse.shape == (N,) and number.shape == (dim(1),)
    assert result("unique", [t(N)]).fields[0].shape != first.shape


def test_very_large_expressions_get_a_name() -> None:
    d: Dim = N
    for _ in range(200):
        (d,) = result("strided_slice", [t(d)], begin=(1,), end=(-1,), strides=(2,)).shape
        assert d.depth < 40
        assert is_nonneg(d)
    assert result("strided_slice", [t(d)], begin=(1,), end=(-1,), strides=(2,)) == result(
        "strided_slice", [t(d)], begin=(1,), end=(-1,), strides=(2,)
    )


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "types", "attrs", "text"),
    [
        ("add", [t(2)], {}, "add: takes 2 arguments (lhs, rhs), got 1"),
        ("add", [t(2), (t(2),)], {}, "add: argument 2 (rhs) must be a tensor, not a tuple"),
        ("concatenate", [t(2)], {}, "concatenate: argument 1 (data) must be a tuple of tensors, not Tensor[(2), float32]"),
        ("concatenate", [()], {}, "concatenate: the tuple is empty; it needs at least one tensor"),
        ("add", [t(2), t(3)], {}, "add: sizes 2 and 3 do not broadcast (axis 0 of argument 2)"),
        ("nn.dense", [t(N, 4), t(8, 5)], {}, "nn.dense: the inner sizes of the product differ: 4 and 5"),
        ("reshape", [t(2, 3)], {"newshape": (4, -1)}, "reshape: cannot view 6 elements as (4, -1)"),
        ("reshape", [t(2, 3)], {"newshape": (7,)}, "reshape: cannot view 6 elements as (7,)"),
        ("reshape", [t(2)], {"newshape": (-1, -1)}, "reshape: newshape (-1, -1) has more than one -1"),
        ("reshape", [t(2)], {"newshape": (-5,)}, "reshape: newshape (-5,) has -5; valid are sizes, 0, -1, -2, -3 and -4"),
        (
            "reshape",
            [t(2)],
            {"newshape": (1, 0)},
            "reshape: newshape (1, 0) wants axis 1 of the data for its entry 1, but the data has 1 dimension",
        ),
        ("squeeze", [t(N, 1)], {}, "squeeze: without axis, every size must be known, and that of axis 0 is not"),
        ("squeeze", [t(N, 3)], {"axis": 1}, "squeeze: axis 1 has size 3, not 1"),
        ("transpose", [t(2, 3)], {"axes": (0, 2)}, "transpose: axes 2 is out of range for 2 dimensions (valid: -2 to 1)"),
        ("transpose", [t(2, 3)], {"axes": (0, 0)}, "transpose: axes (0, 0) names an axis twice"),
        ("sum", [t(2, 3)], {"axis": (1, 2)}, "sum: axis 2 is out of range for 2 dimensions (valid: -2 to 1)"),
        ("sum", [t()], {"axis": 0}, "sum: axis 0 is out of range for 0 dimensions (a scalar has none)"),
        ("split", [t(7)], {"indices_or_sections": 2}, "split: cannot split axis 0 of size 7 into 2 equal parts"),
        ("topk", [t(3)], {"k": 5}, "topk: k is 5, but axis 0 has only 3 elements"),
        (
            "strided_slice",
            [t(3)],
            {"begin": (0, 0), "end": (1,)},
            "strided_slice: begin, end, strides and axes differ in length: begin 2, end 1, strides 2, axes 2",
        ),
        ("strided_slice", [t(3)], {"begin": (0,), "end": (1,), "strides": (0,)}, "strided_slice: the stride of axis 0 is 0"),
        (
            "expand_dims",
            [t(3)],
            {"axis": 0, "num_newaxis": 8},
            "expand_dims: num_newaxis is 8; valid: 0 to 7, for a tensor has at most 8 dimensions",
        ),
        ("zeros", [], {"shape": (-1,)}, "zeros: a size of shape is negative: -1"),
        ("zeros", [], {"shape": (2**63,)}, "zeros: axis 0 of the result would have the size 9223372036854775808"),
        (
            "nn.depth_to_space",
            [t(N, N, N, N)],
            {"block_size": 2**62},
            f"nn.depth_to_space: its shapes are computed with {2**124}, which does not fit into 64 bits",
        ),
        (
            "image.resize2d",
            [t(N, 0, 3, 3)],
            {"size": (2**62, 2**62)},
            f"image.resize2d: the known sizes of the result already make {2**124} elements",
        ),
        ("take", [t(3), t(2, dtype="int32")], {"axis": "x"}, "take: attribute axis must be int or None, not 'x'"),
        ("take", [t(3), t(2, dtype="int32")], {"axis": True}, "take: attribute axis must be int or None, not True"),
        (
            "dyn.reshape",
            [t(3), t(N, dtype="int64")],
            {},
            "dyn.reshape: argument 2 (newshape) decides a shape, so how many elements it has must be known at compile time; "
            "its size is unknown",
        ),
        (
            "dyn.reshape",
            [t(3), t(5000, dtype="int64")],
            {},
            "dyn.reshape: argument 2 (newshape) decides a shape, so it can have at most 4096 elements; it has 5000",
        ),
        (
            "gather_nd",
            [t(3), t(N, 2, dtype="int64")],
            {},
            "gather_nd: the size of axis 0 of the indices (how many coordinates) must be known at compile time, "
            "or said by index_rank",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_errors_that_name_the_operator(name: str, types: list[Any], attrs: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeRelError) as error:
        result(name, types, **attrs)
    assert error.value.message == text


def test_the_argument_at_fault_is_named() -> None:
    with pytest.raises(TypeRelError) as error:
        result("nn.dense", [t(N, 4), t(8)])
    assert error.value.input == 1


def test_attributes_of_another_operator() -> None:
    with pytest.raises(TypeRelError, match=r"cast: the attributes must be .*, not NoAttrs"):
        relate(get("cast"), [t(2)], NoAttrs())


# ---- groups ----------------------------------------------------------------------------------------------------------


def node(name: str, *args: Any, **attrs: Any) -> Node:
    return Node(name, attrs_of(name, **attrs), args, ())


def group(params: list[Tensor], nodes: list[Node], results: list[int], literals: Any = ()) -> Group:
    out = build_group(params, literals, nodes, results)
    assert group_from_json(json.loads(json.dumps(out.to_json()))) == out
    assert group_from_json(out.to_json()).key() == out.key()
    return out


def f(*shape: Any, dtype: str = "float32") -> Tensor:
    return Tensor(dtype, tuple(map(dim, shape)))


def test_a_fused_group() -> None:
    g = group([f(D0, 4), f(4)], [node("exp", 0), node("add", 2, 1), node("sum", 3, axis=(1,))], [4])
    assert [o.shape for n in g.nodes for o in n.outputs] == [(D0, dim(4)), (D0, dim(4)), (D0,)]
    shape = shape_program(g)
    assert shape.states == (Need.SHAPE, Need.NONE)
    assert shape.program.run([np.zeros((3, 4)), np.zeros(4)]) == [(3,)]
    assert shape.counts == () and shape.host_reads == ((), ())


def test_a_pickled_group_has_its_fields_only() -> None:
    g = group([f(D0, 4), f(4)], [node("exp", 0), node("add", 2, 1)], [3])
    before = pickle.dumps(g)
    read = pickle.loads(before)
    assert read == g and read.key() == g.key() and read.values() == g.values()
    assert vars(pickle.loads(pickle.dumps(g))).keys() == {field.name for field in dataclasses.fields(Group)}
    assert pickle.dumps(g) == before


def test_a_shared_dim_is_read_from_the_first_parameter() -> None:
    shape = shape_program(group([f(D0), f(D0, D1)], [node("add", 0, 1)], [2]))
    assert shape.program.loads == ((0, 0, 0), (1, 0, 1))


def test_states_with_flags_per_input_and_per_operator() -> None:
    params = [f(D0, D1), *[f(2, dtype="int64")] * 3]
    g = group(params, [node("dyn.strided_slice", 0, 1, 2, 3)], [4])
    per_input, per_op = shape_program(g), shape_program(g, dependence="op")
    assert per_input.states == (Need.SHAPE, Need.DATA, Need.DATA, Need.DATA)
    assert per_op.states == (Need.BOTH, Need.DATA, Need.DATA, Need.DATA)
    assert per_input.host_reads == (
        (),
        *[(CopyReason(CopyKind.FLAGGED, "dyn.strided_slice", n),) for n in ("begin", "end", "strides")],
    )
    assert per_op.host_reads[0] == (CopyReason(CopyKind.PER_OP, "dyn.strided_slice", "data"),)
    assert per_op.program == per_input.program
    data = np.zeros((9, 7))
    assert per_input.program.run([data, np.array([1, -3]), np.array([8, 9]), np.array([2, 1])]) == [data[1:8:2, -3:9].shape]


def test_only_what_is_read_is_asked_for() -> None:
    """The axis of a scalar's only place is not needed."""
    g = group([f(4, D0), f(dtype="int64")], [node("dyn.expand_dims", 0, 1, num_newaxis=0)], [2])
    assert shape_program(g).states[0] == Need.SHAPE
    axis = CopyReason(CopyKind.FLAGGED, "dyn.expand_dims", "axis")
    assert host_reads(get("dyn.expand_dims")) == (None, axis)
    assert host_reads(get("dyn.expand_dims"), "op") == (CopyReason(CopyKind.PER_OP, "dyn.expand_dims", "data"), axis)
    assert host_reads(get("dyn.expand_dims"), "relay") == (CopyReason(CopyKind.RELAY, "dyn.expand_dims", "data"), axis)
    assert host_reads(get("add"), "op") == host_reads(get("add"), "relay") == (None, None)


def test_one_value_as_data_and_as_shape() -> None:
    """Relay rejected this program: ``dyn.reshape(%s, %s)``."""
    g = group([f(3, dtype="int64")], [node("dyn.reshape", 0, 0)], [1])
    shape = shape_program(g)
    assert shape.states == (Need.DATA,)  # its own size is known, so nothing but data is read
    assert shape.program.run([np.array([1, 3, 1])]) == [(1, 3, 1)]
    assert shape.program.describe_failure([np.array([1, 3, 2])]) == "dyn.reshape: cannot view 3 elements as (1, 3, 2)"


def test_a_value_needed_both_ways(sum_of_tuple: Op) -> None:
    """A size that is read from a tensor whose data is read, too."""
    g = group([f(0, D0, dtype="int64"), f(D0)], [node("test.sum_of_tuple", (0,), 0)], [2])
    assert shape_program(g).states == (Need.SHAPE, Need.NONE)
    both = group([f(D0), f(2, dtype="int64")], [node("dyn.tile", 0, 1)], [2])
    assert shape_program(both, dependence="op").states == (Need.BOTH, Need.DATA)


def test_a_tuple_whose_data_decides(sum_of_tuple: Op) -> None:
    g = group([f(2, dtype="int32"), f(dtype="int64"), f(D0)], [node("test.sum_of_tuple", (0, 1), 2)], [3])
    shape = shape_program(g)
    assert shape.states == (Need.DATA, Need.DATA, Need.SHAPE)
    assert shape.host_reads[1] == (CopyReason(CopyKind.FLAGGED, "test.sum_of_tuple", "parts"),)
    assert shape.program.run([np.array([2, 3]), np.array(4), np.zeros(5)]) == [(9, 5)]
    types = [(t(2, dtype="int32"), t(dtype="int64")), t(N)]
    assert relate(sum_of_tuple, types, NoAttrs(), [(np.array([2, 3]), np.array(4)), None])[0] == t(9, N)
    assert relate(sum_of_tuple, [TupleType(types[0]), t(N)], NoAttrs())[0].rank == 2  # type: ignore[arg-type]


def test_a_literal_that_decides() -> None:
    g = group([f(D0), f()], [node("dyn.topk", 0, 2, ret_type="values")], [3], literals=[Literal("int64", 3)])
    assert shape_program(g).program.run([np.zeros(4), np.zeros(())]) == [(3,)]
    g = group([], [node("arange", 0, 1, 2, dtype="float32")], [3], [Literal("float32", x) for x in (0.0, 1.0, 0.25)])
    assert g.nodes[0].outputs[0].shape == (dim(4),)


def test_an_upper_bound_is_trimmed_to_the_kernels_count() -> None:
    g = group([f(D0)], [node("unique", 0, return_counts=True)], [1, 2, 3, 4, 5])
    shape = shape_program(g)
    assert shape.counts == ((0, 0), (1, 0), (4, 0))
    assert shape.program.run([np.zeros(7)]) == [(7,), (7,), (7,), (1,), (7,)]
    only_inverse = build_group([f(D0)], [], [node("unique", 0)], [3])
    assert shape_program(only_inverse).counts == ()


def test_a_static_result_may_still_have_a_check() -> None:
    shape = shape_program(group([f(D0), f(5)], [node("add", 0, 1)], [2]))
    assert (
        shape.program.describe_failure([np.zeros(3), np.zeros(5)]) == "add: sizes 3 and 5 do not broadcast (axis 0 of argument 2)"
    )
    assert shape.program.run([np.zeros(1), np.zeros(5)]) == [(5,)]


def test_a_fused_value_feeds_no_input_that_decides() -> None:
    with pytest.raises(TypeRelError, match=r"dyn\.tile: a fused value feeds an input whose data decides the shape"):
        build_group([f(D0), f(1, dtype="int64")], [], [node("negative", 1), node("dyn.tile", 0, 2)], [3])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_type_and_the_program_agree(data: Any) -> None:
    """Chains of operators over one tensor: each dim of the type, evaluated, is the size the program gives."""
    n, m = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))
    array, nodes, value = np.zeros((n, m), np.float32), [], 1
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["transpose", "slice", "tile", "concatenate", "sum"]))
        if kind == "transpose":
            nodes.append(node("transpose", value - 1))
            array = array.T
        elif kind == "slice":
            b, e, s = data.draw(st.integers(-7, 7)), data.draw(st.integers(-7, 7)), data.draw(st.sampled_from([1, 2, -1]))
            nodes.append(node("strided_slice", value - 1, begin=(b,), end=(e,), strides=(s,)))
            array = array[b:e:s]
        elif kind == "tile":
            nodes.append(node("tile", value - 1, reps=(2, 1)))
            array = np.tile(array, (2, 1))
        elif kind == "concatenate":
            nodes.append(node("concatenate", (value - 1, value - 1), axis=1))
            array = np.concatenate([array, array], 1)
        else:
            nodes.append(node("sum", value - 1, axis=0, keepdims=True))
            array = array.sum(0, keepdims=True)
        value += 1
    shape = shape_program(build_group([f(D0, D1)], [], nodes, [value - 1]))
    assert shape.program.run([np.zeros((n, m))]) == [array.shape]


# ---- groups from a file ----------------------------------------------------------------------------------------------

SLICE = build_group([f(D0, 4), *[f(1, dtype="int64")] * 3], [], [node("dyn.strided_slice", 0, 1, 2, 3)], [4]).to_json()
FUSED = build_group([f(D0), f(4)], [Literal("float32", 2.0)], [node("add", 0, 1), node("multiply", 3, 2)], [4]).to_json()


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("nodes", 0, "op"), "nope", "unknown operator 'nope'"),
        (("nodes", 0, "op"), "vm.assert_shape", "vm.assert_shape is an instruction, not an operator with a kernel"),
        (("nodes", 0, "attrs"), {"x": 1}, "unexpected keyword argument 'x'"),
        (("nodes", 0, "args"), [0, 5], "value 5 does not exist here"),
        (("nodes", 0, "args"), [0, 3], "value 3 does not exist here"),
        (("nodes", 0, "args"), [0, -1], "value -1 does not exist here"),
        (("nodes", 0, "args"), [0], "add: takes 2 arguments (lhs, rhs), got 1"),
        (("nodes", 0, "args"), [0, [1]], "add: argument 2 (rhs) must be a tensor, not a tuple"),
        (("nodes",), [], "value 4 does not exist here"),
        (("nodes",), {}, "value 4 does not exist here"),
        (("results",), {}, "it has no operator or no result"),
        (("results",), [], "it has no operator or no result"),
        (("results",), [5], "value 5 does not exist here"),
        (("results",), [True], "value True does not exist here"),
        (("params", 0), ["float128", [3]], "unknown dtype 'float128'"),
        (("params", 0), ["float32", [1] * 9], "a parameter has the shape"),
        (("params", 0), ["float32", [-1]], "a parameter has the dimension -1"),
        (("params", 0), ["float32", ["n"]], "a parameter has the dimension 'n'"),
        (("params", 0), ["float32", [3]], "add: sizes 3 and 4 do not broadcast (axis 0 of argument 2)"),
        (("literals", 0), ["bool", 1], "a bool literal has the value 1"),
        (("literals", 0), ["int8", 128], "a int8 literal has the value 128"),
        (("literals", 0), ["float32", "x"], "a float32 literal has the value 'x'"),
        (("literals",), 3, "TypeError"),
    ],
)
def test_a_damaged_group_is_refused(path: tuple[Any, ...], value: Any, text: str) -> None:
    damaged = copy.deepcopy(FUSED)
    at: Any = damaged
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(ValueError, match=r"^not a primitive: ") as error:
        group_from_json(damaged)
    assert text in str(error.value)


def test_nothing_follows_a_counting_operator() -> None:
    g = build_group([f(D0)], [], [node("argwhere", 0)], [1]).to_json()
    g["nodes"].append({"op": "abs", "attrs": {}, "args": [1]})
    with pytest.raises(ValueError, match="an operator whose kernel counts its results is the last"):
        group_from_json(g)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_of_a_group_is_refused_or_makes_a_valid_one(data: Any) -> None:
    junk: Any = st.integers(-3, 9) | st.sampled_from(
        [2**70, None, "x", "add", 1.5, True, [], {}, [0], "d7", "float32", "argwhere"]
    )
    damaged = copy.deepcopy(data.draw(st.sampled_from([SLICE, FUSED])))
    at, key = damaged, data.draw(st.sampled_from(sorted(damaged)))
    while isinstance(at[key], (list, dict)) and at[key] and data.draw(st.integers(0, 5)):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
    at[key] = data.draw(junk)
    try:
        g = group_from_json(damaged)
    except ValueError:
        return
    shape_program(g).program.verify(len(g.params))
    assert all(d.op != RESULT for x in g.values() for d in postorder(x.shape)) or len(g.nodes) == 1
