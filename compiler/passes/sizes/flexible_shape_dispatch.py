"""Choose at run time, by the sizes of some axes, a version of ``main`` whose sizes are static.

    def @main(%x: Tensor[(?n, 4), float32]) {         def @main(%x: Tensor[(?n, 4), float32]) -> Tensor[(?n, 4), float32] {
      exp(%x)                                           let %n = take(shape_of(%x), 0i64);
    }                                                   if (less_equal(%n, 8i64)) {
                                                          if (equal(%n, 8i64)) { @main_8(%x) }
                                                          else { the rows [0, n) of @main_8(%x padded to 8 rows) }
                                               ->       } else { @main_any(%x) }
                                                      }
                                                      def @main_8(%x: Tensor[(8, 4), float32]) { exp(%x) }
                                                      def @main_any(%x: Tensor[(?n, 4), float32]) { exp(%x) }

Without padding, a version is called only with its own sizes.  Sizes that no bucket holds go to ``@main_any``, the program for
every size.  The choice is made of ordinary branches on sizes.  Versions of a kernel (``multi_version``) are chosen after the
result is allocated, so they could not have types of their own.

Requires: typed A-normal form.
Ensures: the same.  Raises ArgumentError for buckets that do not fit ``main``, TypeCheckError if ``main`` does not take the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType, TupleType, Type, int_range, is_float, numpy_dtype
from ....ops.defs.movement.transform import CONCATENATE, AxisAttrs, ShapeOfAttrs
from ....shape_funcs.symbolic.dim import ANY, Dim, const, dim, name_of, sym, symbols
from ....shape_funcs.symbolic.dim_operations import substitute
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...ir.anf import Names, with_annotations
from ...ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    Tuple,
    TupleGetItem,
    Var,
    replace,
    tensor_type,
    type_of,
)
from ...ir.pass_declaration import declare_pass
from ...rules.rewriting import operator_call
from ...type_inference.type_match import dims_of, map_dims, symbols_of
from ..infer_type import infer_type
from ..to_a_normal_form import to_a_normal_form
from .dynamic_to_static import dynamic_to_static

PASS = "FlexibleShapeDispatch"


@frozen
class ShapeBuckets:
    """The sizes that get a version of their own.

    ``sizes``: the buckets, smallest first, each with a size for each flexible dim.  ``axes``, ``inputs``: per dim, its axis and
    the numbers of the parameters that have it there.  ``outputs``: per dim, the numbers of the results that have it; None for all
    whose types say so.  ``pad_value``: the value of added elements; None if nothing is padded.  ``slices``: whether results of
    padded inputs lose the added part.
    """

    sizes: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...] | None
    pad_value: float | None
    slices: bool


@declare_pass(PASS, "monomorphize", "infer_type")
def flexible_shape_dispatch(mod: IRModule, buckets: ShapeBuckets) -> IRModule:
    """The module whose ``main`` chooses among versions of itself."""
    if "main" not in mod.functions:
        raise ArgumentError(f"{PASS}: the module has no function @main", here())
    flexible = _flexible(mod["main"], buckets)
    names = Names(set(mod.functions))
    fallback = names("main_any")
    # more results have the flexible size by their types
    mod = dynamic_to_static(infer_type(replace(mod, functions={**mod.functions, fallback: flexible})))
    dims = [_FlexibleDim.of(mod[fallback], buckets, k) for k in range(len(buckets.axes))]
    _check_apart(dims)
    versions = {names(f"main_{'_'.join(map(str, sizes))}"): sizes for sizes in buckets.sizes}
    functions = {name: _version(mod[fallback], dims, sizes) for name, sizes in versions.items()}
    main = _Dispatcher(mod[fallback], buckets, dims).function(versions, fallback)
    return infer_type(to_a_normal_form(replace(mod, functions={**mod.functions, "main": main, **functions})))


# ---- flexible dims ---------------------------------------------------------------------------------------------------


@frozen
class _FlexibleDim:
    """A dim with buckets: ``symbols`` stand for its size, ``open_axes`` are its axes ``(parameter, axis)``, the first decides."""

    symbols: tuple[Dim, ...]
    open_axes: tuple[tuple[int, int], ...]

    @staticmethod
    def of(main: Function, buckets: ShapeBuckets, number: int) -> _FlexibleDim:
        """The dim of the typed ``main``.  A parameter has it on each axis of an equal size."""
        given = [(i, _axis(main.params[i], buckets.axes[number])) for i in buckets.inputs[number]]
        found = tuple(dict.fromkeys(tensor_type(main.params[i]).shape[axis] for i, axis in given))
        open_axes = list(given)
        for i, p in enumerate(main.params):
            if isinstance(p.ty, TensorType):
                open_axes += [(i, axis) for axis, d in enumerate(p.ty.shape) if d in found and (i, axis) not in given]
            elif buckets.pad_value is not None and symbols_of(type_of(p)) & set(found):
                raise ArgumentError(
                    f"{PASS}: %{p.name} has the flexible size inside of {p.ty}; only a tensor can be padded", here()
                )
        return _FlexibleDim(found, tuple(open_axes))


def _axis(param: Var, axis: int) -> int:
    """The axis of a parameter from 0.  Raises ArgumentError if there is none."""
    ty = param.ty if param.ty is not None else param.annotation
    if not isinstance(ty, TensorType):
        raise ArgumentError(f"{PASS}: %{param.name} is {ty}; only a tensor has a flexible axis", here())
    if not -ty.rank <= axis < ty.rank:
        valid = f"its axes are {-ty.rank} to {ty.rank - 1}" if ty.rank else "it is a scalar"
        raise ArgumentError(f"{PASS}: %{param.name}, a {ty}, has no axis {axis}", here(), help=valid)
    return axis % ty.rank


def _check_apart(dims: Sequence[_FlexibleDim]) -> None:
    seen: set[Dim] = set()
    for number, d in enumerate(dims):
        if seen & set(d.symbols):
            message = f"{PASS}: the flexible axis {number} has the size of another one"
            raise ArgumentError(message, here(), help="one size needs one axis: all axes of that size are flexible with it")
        seen |= set(d.symbols)


def _flexible(main: Function, buckets: ShapeBuckets) -> Function:
    """``main`` with a name for each flexible axis whose size was a number."""
    annotations = [p.annotation for p in main.params]
    names = Names({n for t in annotations if t is not None for d in dims_of(t) if (n := name_of(d)) is not None})
    fixed: set[int] = set()
    for axis, inputs in zip(buckets.axes, buckets.inputs, strict=True):
        name = sym(names("n"))
        for i in inputs:
            if i >= len(main.params):
                count = len(main.params)
                raise ArgumentError(f"{PASS}: there is no input {i}; @main has {count} parameter{'s' * (count != 1)}", here())
            at, ty = _axis(main.params[i], axis), annotations[i]
            assert isinstance(ty, TensorType)
            if const(ty.shape[at]) is not None:
                annotations[i] = _resized(ty, at, name)
                fixed.add(axis)
    ret_type = main.ret_type
    if ret_type is not None and buckets.slices:
        ret_type = _any_at(ret_type, fixed)
    return with_annotations(main, annotations, ret_type)


def _any_at(ty: Type, axes: set[int]) -> Type:
    """A result type with ``?`` on the axes."""
    if isinstance(ty, TupleType):
        return TupleType(tuple(_any_at(f, axes) for f in ty.fields))
    for axis in axes:
        if isinstance(ty, TensorType) and -ty.rank <= axis < ty.rank:
            ty = _resized(ty, axis % ty.rank, ANY)
    return ty


def _resized(ty: TensorType, axis: int, size: Dim) -> TensorType:
    return TensorType((*ty.shape[:axis], size, *ty.shape[axis + 1 :]), ty.dtype)


def _version(main: Function, dims: Sequence[_FlexibleDim], sizes: Sequence[int]) -> Function:
    """``main`` for these sizes."""
    annotations = [p.annotation for p in main.params]
    known: dict[Dim, Dim] = {}
    for d, size in zip(dims, sizes, strict=True):
        known.update(dict.fromkeys(d.symbols, dim(size)))
        for i, axis in d.open_axes:
            ty = annotations[i]
            assert isinstance(ty, TensorType)
            annotations[i] = _resized(ty, axis, dim(size))

    def named(ty: Type | None) -> Type | None:
        return None if ty is None else map_dims(ty, lambda d: d if d is ANY else substitute(d, known))

    return with_annotations(main, list(map(named, annotations)), named(main.ret_type))


# ---- the choice ------------------------------------------------------------------------------------------------------


class _Dispatcher:
    """The maker of the new ``main`` from the typed function for any size."""

    def __init__(self, main: Function, buckets: ShapeBuckets, dims: Sequence[_FlexibleDim]) -> None:
        self.main, self.buckets, self.dims = main, buckets, dims
        self.params = tuple(replace(p, ty=None) for p in main.params)
        self.sizes = [self._size(*d.open_axes[0]) for d in dims]
        pads = buckets.pad_value is not None and buckets.slices
        results = _results(type_of(main.body)) if pads else []
        others = symbols_of(*map(type_of, main.params)).difference(*(d.symbols for d in dims))
        count = len(_results(type_of(main.body)))
        for output in sorted({o for listed in buckets.outputs or () for o in listed}):
            if output >= count:
                raise ArgumentError(f"{PASS}: there is no result {output}; @main has {count} result{'s' * (count != 1)}", here())
        self.cuts = [_cuts(buckets, dims, others, o, ty) for o, ty in enumerate(results)]

    def function(self, versions: Mapping[str, tuple[int, ...]], fallback: str) -> Function:
        """The function that chooses among the versions, which are ordered by size."""
        body: Expr = Call(GlobalVar(fallback), self.params)
        for name, sizes in reversed(list(versions.items())):
            exact: Expr = Call(GlobalVar(name), self.params)
            if self.buckets.pad_value is None:
                body = If(self._holds("equal", sizes), exact, body)
            else:
                body = If(
                    self._holds("less_equal", sizes), If(self._holds("equal", sizes), exact, self._padded(name, sizes)), body
                )
        return replace(self.main, params=self.params, body=body, ret_type=self._result_type(), ty=None)

    def _result_type(self) -> Type | None:
        """The declared type of the result: the sizes that callers knew before."""
        buckets, declared = self.buckets, self.main.ret_type
        flexible = {s for d in self.dims for s in d.symbols}
        if buckets.pad_value is not None and not (buckets.slices and buckets.outputs is None):
            # some results keep the added part
            return declared and map_dims(declared, lambda d: ANY if flexible & set(symbols(d).values()) else d)
        found = type_of(self.main.body)
        if declared is not None or not all(isinstance(t, TensorType) for t in _results(found)):
            return declared
        named = {s for s in symbols_of(*map(type_of, self.main.params)) if name_of(s) is not None}
        return map_dims(found, lambda d: d if const(d) is not None or d in named else ANY)

    def _size(self, param: int, axis: int) -> Expr:
        """The size of an axis of a parameter."""
        shape = operator_call(get("shape_of"), (self.params[param],), ShapeOfAttrs("int64"))
        return _call("take", shape, _number(axis))

    def _holds(self, relation: str, sizes: Sequence[int]) -> Expr:
        """Whether the sizes at run time are in the relation to ``sizes``, and sizes that are to be equal are equal."""
        conditions = []
        for d, size, limit in zip(self.dims, self.sizes, sizes, strict=True):
            conditions.append(_call(relation, size, _number(limit)))
            if relation == "equal" and self.buckets.pad_value is not None:
                continue  # inside of the other condition
            for unknown in d.symbols[1:]:
                place = next(p for p in d.open_axes if tensor_type(self.main.params[p[0]]).shape[p[1]] is unknown)
                conditions.append(_call("equal", self._size(*place), size))
        whole = conditions[0]
        for condition in conditions[1:]:
            whole = _call("logical_and", whole, condition)
        return whole

    def _padded(self, name: str, sizes: Sequence[int]) -> Expr:
        """The call of a version with padded arguments, without the added part of its results."""
        args = [self._padded_argument(i, sizes) for i in range(len(self.params))]
        result = Call(GlobalVar(name), tuple(args))
        if not any(self.cuts):
            return result
        return self._cut(result, type_of(self.main.body), iter(self.cuts))

    def _padded_argument(self, number: int, sizes: Sequence[int]) -> Expr:
        param = self.params[number]
        added = {axis: k for k, d in enumerate(self.dims) for i, axis in d.open_axes if i == number}
        if not added:
            return param
        ty = tensor_type(self.main.params[number])
        value = Constant(_pad_value(self.buckets.pad_value, ty.dtype, param.name))
        shape: list[Expr] = [_number(n) if (n := const(d)) is not None else self._size(number, a) for a, d in enumerate(ty.shape)]
        whole: Expr = param
        for axis, k in added.items():
            # nn.pad would compare the indices of each element
            shape[axis] = _call("subtract", _number(sizes[k]), self.sizes[k])
            rest = _call("dyn.full", value, _call("stack", Tuple(tuple(shape))))
            whole = operator_call(CONCATENATE, (Tuple((whole, rest)),), AxisAttrs(axis))
            shape[axis] = _number(sizes[k])
        return whole

    def _cut(self, result: Expr, ty: Type, cuts: Iterator[dict[int, int]]) -> Expr:
        """The result of type ``ty`` without its added part."""
        if isinstance(ty, TupleType):
            return Tuple(tuple(self._cut(TupleGetItem(result, i), f, cuts) for i, f in enumerate(ty.fields)))
        cut = next(cuts)
        if not cut:
            return result
        count = max(cut) + 1
        ends = Tuple(tuple(self.sizes[cut[a]] if a in cut else _number(INT64_MAX) for a in range(count)))
        begin, strides = (Constant(np.full(count, n, np.int64)) for n in (0, 1))
        return _call("dyn.strided_slice", result, begin, _call("stack", ends), strides)


def _results(ty: Type) -> list[Type]:
    """The parts of a result that are no tuples, in order."""
    return [part for f in ty.fields for part in _results(f)] if isinstance(ty, TupleType) else [ty]


def _cuts(buckets: ShapeBuckets, dims: Sequence[_FlexibleDim], others: set[Dim], output: int, ty: Type) -> dict[int, int]:
    """The axes of a result that are cut, each with the number of its flexible dim.

    ``others``: the sizes of parameters that are not flexible.  Raises ArgumentError.
    """
    if not isinstance(ty, TensorType):
        return {}
    found: dict[int, int] = {}
    for k, d in enumerate(dims):
        if buckets.outputs is None or output in buckets.outputs[k]:
            found.update({axis: k for axis, size in enumerate(ty.shape) if size in d.symbols})
        if buckets.outputs is not None and output in buckets.outputs[k]:
            axis = buckets.axes[k] + (ty.rank if buckets.axes[k] < 0 else 0)
            if not 0 <= axis < ty.rank or const(ty.shape[axis]) is not None:
                message = f"{PASS}: result {output}, {ty}, has no flexible size on axis {buckets.axes[k]}"
                raise ArgumentError(message, here(), help="output_indices lists results that have the size of the flexible axis")
            found[axis] = k
    left = [size for axis, size in enumerate(ty.shape) if axis not in found]
    if buckets.outputs is None and not others.issuperset(symbols(*left).values()):
        message = f"{PASS}: result {output}, {ty}, has a size that may depend on the flexible size and is not that size"
        help = "output_indices lists the results that have it on the axis; affects_output=False: no result has it"
        raise ArgumentError(message, here(), help=help)
    return found


def _call(name: str, *args: Expr) -> Call:
    return operator_call(get(name), args)


def _number(value: int) -> Constant:
    return Constant(np.array(value, np.int64))


def _pad_value(value: float | None, dtype: str, name: str) -> np.ndarray:
    """The value as a scalar of ``dtype``.  Raises ArgumentError."""
    assert value is not None
    wanted = numpy_dtype(dtype)
    with np.errstate(over="ignore"):
        try:
            if is_float(dtype):
                kept = np.array(float(value), wanted)
                fits = bool(np.isfinite(kept.astype(np.float64))) or not np.isfinite(float(value))
            else:
                kept = np.array(int(value), object)
                low, high = (0, 1) if dtype == "bool" else int_range(dtype)
                fits = int(value) == value and low <= int(value) <= high
        except (OverflowError, ValueError):  # a number beyond float64; int() of inf and nan
            fits = False
    if not fits:
        raise ArgumentError(f"{PASS}: the pad_value {value} is no {dtype}, the dtype of %{name}", here())
    return kept.astype(wanted)
